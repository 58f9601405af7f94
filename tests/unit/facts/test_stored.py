"""The tensors that quantisers write for one weight."""

from math import prod

import pytest

from holddown.facts.stored import Layout, Scheme, stored_tensors

_CT, _MO, _FP8, _V4 = Layout.COMPRESSED_TENSORS, Layout.MODELOPT, Layout.FP8, Layout.DEEPSEEK_V4


def written(scheme: Scheme, *shape: int) -> list[str]:
    return [f"{t.part} {t.dtype} {list(t.shape)}" for t in stored_tensors(scheme, shape, "BF16")]


@pytest.mark.parametrize(
    ("scheme", "tensors"),
    [
        (
            Scheme("int4", _CT, 4, 32, packed=True),
            ["weight_packed I32 [256, 64]", "weight_scale BF16 [256, 16]", "weight_shape I64 [2]"],
        ),
        (
            Scheme("int4", _CT, 4, 128, symmetric=False, act_order=True, packed=True),
            ["weight_packed I32 [256, 64]", "weight_scale BF16 [256, 4]", "weight_zero_point I32 [32, 4]",
             "weight_g_idx I32 [512]", "weight_shape I64 [2]"],
        ),
        (Scheme("int8", _CT, 8, per_channel=True), ["weight I8 [256, 512]", "weight_scale BF16 [256, 1]"]),
        (Scheme("fp8", _CT, 8, per_channel=True), ["weight F8_E4M3 [256, 512]", "weight_scale BF16 [256, 1]"]),
        (
            Scheme("nvfp4", _CT, 4, 16, input_scale=True),
            ["weight_packed U8 [256, 256]", "weight_scale F8_E4M3 [256, 32]", "weight_global_scale F32 [1]",
             "input_global_scale F32 [1]"],
        ),
        (Scheme("mxfp4", _CT, 4, 32), ["weight_packed U8 [256, 256]", "weight_scale U8 [256, 16]"]),
        (
            Scheme("nvfp4", _MO, 4, 16, input_scale=True),
            ["weight U8 [256, 256]", "weight_scale F8_E4M3 [256, 32]", "weight_scale_2 F32 []", "input_scale F32 []"],
        ),
        (Scheme("fp8", _MO, 8, input_scale=True),
         ["weight F8_E4M3 [256, 512]", "weight_scale F32 []", "input_scale F32 []"]),
        (Scheme("mxfp8", _MO, 8, 32), ["weight F8_E4M3 [256, 512]", "weight_scale U8 [256, 16]"]),
        (Scheme("fp8-block", _FP8, 8, block=(128, 128)), ["weight F8_E4M3 [256, 512]", "weight_scale_inv F32 [2, 4]"]),
        (Scheme("fp8-block", _V4, 8, block=(128, 128)), ["weight F8_E4M3 [256, 512]", "scale F8_E8M0 [2, 4]"]),
        (Scheme("mxfp4", _V4, 4, 32), ["weight I8 [256, 256]", "scale F8_E8M0 [256, 16]"]),
        (Scheme("int4", Layout.AWQ, 4, 128),
         ["qweight I32 [512, 32]", "qzeros I32 [4, 32]", "scales F16 [4, 256]"]),
        (Scheme("int4", Layout.GPTQ, 4, 128),
         ["qweight I32 [64, 256]", "qzeros I32 [4, 32]", "scales F16 [4, 256]", "g_idx I32 [512]"]),
        (Scheme("int8", Layout.GPTQ, 8, 128),
         ["qweight I32 [128, 256]", "qzeros I32 [4, 64]", "scales F16 [4, 256]", "g_idx I32 [512]"]),
        (Scheme("int8", Layout.BITSANDBYTES, 8), ["weight I8 [256, 512]", "SCB F32 [256]", "weight_format U8 []"]),
    ],
)  # fmt: skip
def test_tensors_of_a_weight(scheme: Scheme, tensors: list[str]) -> None:
    """Names, dtypes and shapes of 256 x 512 features as each tool writes them."""
    assert written(scheme, 256, 512) == tensors


def test_gpt_oss_experts() -> None:
    """32 experts of 5760 x 2880: 90 groups of 32 inputs, 16 bytes and a scale each."""
    scheme = Scheme("mxfp4", Layout.GPT_OSS, 4, 32)
    assert written(scheme, 32, 5760, 2880) == ["blocks U8 [32, 5760, 90, 16]", "scales U8 [32, 5760, 90]"]
    with pytest.raises(ValueError, match="apart"):
        stored_tensors(scheme, (5760, 2880), "BF16")


def test_nested_scales_of_bitsandbytes() -> None:
    """Double quantisation keeps the scales of 64 weights in a byte, with a scale of 256 of those."""
    tensors = {
        t.part: t for t in stored_tensors(Scheme("nf4", Layout.BITSANDBYTES, 4, 64, nested=True), (256, 512), "F16")
    }
    assert tensors["weight"].shape == (256 * 512 // 2, 1)
    assert tensors["weight.absmax"].size_bytes == 256 * 512 // 64
    assert tensors["weight.nested_absmax"].shape == (8,)


def test_blocks_that_do_not_divide() -> None:
    """A last block of fewer features has a scale of its own: 1856 / 128 is 14.5."""
    assert written(Scheme("fp8-block", _FP8, 8, block=(128, 128)), 1856, 100)[1] == "weight_scale_inv F32 [15, 1]"


def test_bytes_are_the_sum() -> None:
    """NVFP4 takes 9 bits for a weight, and eight bytes of scales for all of them together."""
    scheme = Scheme("nvfp4", _MO, 4, 16, input_scale=True)
    tensors = stored_tensors(scheme, (256, 512), "BF16")
    assert sum(tensor.size_bytes for tensor in tensors) == prod((256, 512)) * 9 // 16 + 8
