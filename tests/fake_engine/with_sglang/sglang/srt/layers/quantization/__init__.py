"""The methods that checkpoints may name."""

BASE_QUANTIZATION_METHODS = {"fp8": "Fp8Config", "compressed-tensors": "CompressedTensorsConfig"}
