"""What a KV cache holds for each value of `--kv-cache-dtype`, where its size is known."""

from holddown.base.evidence import known_or
from holddown.facts.attention import CompressedAttention
from holddown.facts.kv_cache import BF16, FP8, FP8_DS_MLA, KvDtype
from holddown.facts.model import ModelFacts

STORED = {
    "auto": BF16,
    "bfloat16": BF16,
    "bf16": BF16,
    "float16": KvDtype("float16", 2),
    "fp8": FP8,
    "fp8_e4m3": FP8,
    "fp8_e5m2": KvDtype("fp8_e5m2", 1),
    "fp8_ds_mla": FP8_DS_MLA,
    "nvfp4": KvDtype("nvfp4", 0.5625),
    "nvfp4_ds_mla": KvDtype("nvfp4_ds_mla", 0.5625, 352),
}
"""What the cache holds for each value whose size is known. Half a byte and one scale byte for 16 numbers of nvfp4.

Source: vLLM 0.33.0 v1/kv_cache_interface.py FullAttentionSpec, MLAAttentionSpec.
"""

_COMPRESSED = KvDtype("fp8_ds_mla", 584 / 512)
"""DeepSeek V4's entries of 512 numbers: 448 in FP8, 64 rotary ones in 16 bit, 8 bytes of scales.

Source: vLLM 0.33.0 models/deepseek_v4/amd/mono_decode.py RECORD, attention.py _resolve_dsv4_kv_cache_dtype.
"""


def stored(dtype: str, model: ModelFacts) -> KvDtype:
    """What this model's cache holds; bf16 for a value that is not known."""
    compressed = any(isinstance(kind, CompressedAttention) for kind in known_or(model.attention, ()))
    return _COMPRESSED if compressed and dtype == "fp8_ds_mla" else STORED.get(dtype, BF16)
