"""Facts of models that people serve, as far as an engine's rules ask for them."""

from dataclasses import replace

from fakes.facts import model
from holddown.base.evidence import Unknown, from_file
from holddown.facts.attention import Attention, FullAttention, Mla, SlidingWindow, SparseMla
from holddown.facts.model import CheckpointFormat, ModelFacts, Moe

NO_TEMPLATE = Unknown("no chat template")


def of_family(
    architecture: str, model_type: str, *attention: Attention, quantization: str = "none", kv_cache: str = "none"
) -> ModelFacts:
    """A checkpoint of this architecture without a chat template."""
    return replace(
        model(),
        architectures=from_file((architecture,), "config.json architectures"),
        model_type=from_file(model_type, "config.json model_type"),
        attention=from_file(attention, "config.json"),
        num_attention_heads=from_file(attention[0].num_attention_heads, "config.json"),  # type: ignore[union-attr]
        quantization=from_file(quantization, "config.json quantization_config"),
        kv_cache_quantization=from_file(kv_cache, "config.json kv_cache_scheme"),
        chat_template=NO_TEMPLATE,
    )


def kimi_k25_nvfp4() -> ModelFacts:
    """Its config asks for an FP8 KV cache."""
    found = of_family(
        "KimiK25ForConditionalGeneration",
        "kimi_k25",
        Mla(61, 64, 512, 128, 64, 128),
        quantization="modelopt_fp4",
        kv_cache="fp8",
    )
    return replace(found, moe=Moe(60, 384, 8, 2048, 2048), group_size=16)


def kimi_k25_int4() -> ModelFacts:
    """Asks for nothing."""
    found = of_family(
        "KimiK25ForConditionalGeneration",
        "kimi_k25",
        Mla(61, 64, 512, 128, 64, 128),
        quantization="compressed-tensors",
    )
    return replace(found, moe=Moe(60, 384, 8, 2048, 2048), group_size=32)


def glm5_nvfp4() -> ModelFacts:
    """MLA with sparse attention; its config asks for an FP8 KV cache."""
    sparse = SparseMla(78, 64, 512, 192, 64, 256, 78, 32, 128, 2048)
    return of_family("GlmMoeDsaForCausalLM", "glm_moe_dsa", sparse, quantization="modelopt_fp4", kv_cache="fp8")


def glm5_gguf() -> ModelFacts:
    return replace(
        glm5_nvfp4(),
        format=CheckpointFormat.GGUF,
        architectures=Unknown("a GGUF names none"),
        model_type=from_file("glm-dsa", "general.architecture"),
    )


def minimax_m25() -> ModelFacts:
    """FP8 in blocks of 128; experts 1536 wide."""
    found = of_family("MiniMaxM2ForCausalLM", "minimax_m2", FullAttention(62, 48, 8, 128, 128), quantization="fp8")
    return replace(found, moe=Moe(62, 256, 8, 1536, 0), weight_block=(128, 128))


def gpt_oss() -> ModelFacts:
    """Attention sinks, and a sliding window in every other layer."""
    return of_family(
        "GptOssForCausalLM",
        "gpt_oss",
        FullAttention(18, 64, 8, 64, 64),
        SlidingWindow(18, 64, 8, 64, 64, 128),
        quantization="mxfp4",
    )


def llama_fp8_kv() -> ModelFacts:
    """compressed-tensors with a kv_cache_scheme, no MLA."""
    full = FullAttention(32, 32, 8, 128, 128)
    return of_family("LlamaForCausalLM", "llama", full, quantization="compressed-tensors", kv_cache="fp8")
