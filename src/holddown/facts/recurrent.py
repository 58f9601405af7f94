"""The recurrent state that a layer keeps in place of a KV cache, from config.json."""

from holddown.facts.attention import LinearAttention
from holddown.facts.hf_keys import Keys

GATED_DELTA_NET, KIMI_DELTA, MAMBA2 = "gated_delta_net", "kimi_delta_attention", "mamba2"


def mamba2(keys: Keys) -> LinearAttention:
    """State of one head: (head_dim, ssm_state_size); beside it, the last inputs of the convolution.

    Source: vLLM's MambaStateShapeCalculator.mamba2_state_shape; the state's dtype is `mamba_ssm_cache_dtype`.
    """
    heads, dim, state = keys.size("mamba_num_heads"), keys.size("mamba_head_dim"), keys.size("ssm_state_size")
    convolved = heads * dim + 2 * keys.size("n_groups") * state
    kept = (keys.size("conv_kernel") - 1) * convolved * 2
    wide = 2 if keys.text("mamba_ssm_cache_dtype") in ("bfloat16", "float16") else 4
    return LinearAttention(1, MAMBA2, heads, heads * dim * state * wide + kept)


def delta_net(keys: Keys) -> LinearAttention:
    """Gated delta net of Qwen3-Next and 3.5: a matrix (key_dim, value_dim) for each value head, and the convolution.

    Source: vLLM's MambaStateShapeCalculator.gated_delta_net_state_shape; `mamba_ssm_dtype` is the matrix's dtype.
    """
    key_heads, key_dim = keys.size("linear_num_key_heads"), keys.size("linear_key_head_dim")
    heads, dim = keys.size("linear_num_value_heads"), keys.size("linear_value_head_dim")
    convolved = 2 * key_heads * key_dim + heads * dim
    kept = (keys.size("linear_conv_kernel_dim") - 1) * convolved * 2
    wide = 4 if keys.text("mamba_ssm_dtype") == "float32" else 2
    return LinearAttention(1, GATED_DELTA_NET, heads, heads * key_dim * dim * wide + kept)


def kimi_delta(linear: Keys) -> LinearAttention:
    """Kimi delta attention: a float32 matrix (head_dim, head_dim) a head, and the convolutions of q, k and v.

    Source: vLLM's MambaStateShapeCalculator.kda_state_shape and kda_state_dtype.
    """
    heads, dim = linear.size("num_heads"), linear.size("head_dim")
    kept = (linear.size("short_conv_kernel_size") - 1) * 3 * heads * dim * 2
    return LinearAttention(1, KIMI_DELTA, heads, heads * dim * dim * 4 + kept)
