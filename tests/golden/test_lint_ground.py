"""A command on its machine with its checkpoint: what the engine takes unasked, and what would do instead."""

import pytest

from fakes.captured import captured_model
from fakes.lint import codes, judge_recorded, site
from holddown.lint.judge import Ground, Judged

SM120 = "8x RTX PRO 6000 Server"


def on(text: str, gpus: str, model: str, version: str, kind: str = "vllm") -> Judged:
    return judge_recorded(text, version, Ground(captured_model(model), "", site(gpus)), kind)


def test_the_share_of_memory_that_the_engine_takes_unasked_counts() -> None:
    """0.90 in 0.16.0: the whole context would only fit with what nobody asked for."""
    unasked = on("vllm serve m -tp 8 --kv-cache-dtype bfloat16", SM120, "kimi-k2.5-nvfp4", "0.16.0")
    (said,) = (each for each in unasked.findings if each.code == "fit.context")

    assert said.blocks
    assert said.what.startswith("without --max-model-len it takes all that the model was made for: 262144 tokens")
    assert "--gpu-memory-utilization 0.95" in said.do
    assert "--gpu-memory-utilization 0.95" in unasked.corrected.line


def test_a_context_within_the_band_is_a_warning_and_stays() -> None:
    """The engine's profiling has the last word; what would surely fit is said."""
    text = "vllm serve m -tp 8 --kv-cache-dtype bfloat16 --gpu-memory-utilization 0.95 --max-num-seqs 256"
    found = on(f"{text} --max-model-len 262144", SM120, "kimi-k2.5-nvfp4", "0.16.0")
    (said,) = (each for each in found.findings if each.code == "fit.context")

    assert (str(said.severity), said.do) == ("warn", "--max-model-len 249856")
    assert not found.corrected.changed


def test_an_engine_that_takes_shorter_requests_instead_is_not_refused() -> None:
    """SGLang starts with less KV cache than one sequence of the whole context needs."""
    text = "python -m sglang.launch_server --model-path m --tp 4 --context-length 200000 --mem-fraction-static 0.93"
    found = on(text, "4x RTX PRO 6000 Server", "glm-4.6-fp8", "0.5.16", "sglang")

    assert codes(found)["fit.context"] == "warn"
    assert found.starts


@pytest.mark.parametrize(
    ("text", "gpus", "model", "instead"),
    [
        ("-tp 8 --max-model-len 8192", "4x H200 SXM", "llama-3.1-70b-fp8", "-tp 4"),
        ("-dp 8 --max-model-len 8192", "4x H200 SXM", "llama-3.1-70b-fp8", "-dp 4"),
        ("-tp 8 --max-model-len 8192", "8x H200 SXM", "smollm2-135m", "-tp 3"),
    ],
)
def test_sizes_that_cannot_be_are_the_next_smaller_that_can(text: str, gpus: str, model: str, instead: str) -> None:
    """For the GPUs that are there, and the heads that the model has."""
    found = on(f"vllm serve m {text}", gpus, model, "0.33.0")

    assert not found.starts
    assert instead in found.corrected.line
    assert found.mended


def test_too_many_gpus_and_too_little_memory_are_said_at_once() -> None:
    """Not one after the other was mended."""
    found = on("vllm serve m -tp 8", "2x RTX 5090", "kimi-k2.5-nvfp4", "0.33.0")

    assert codes(found) == {"machine.gpus": "block", "fit.memory": "block"}
    assert not found.mended


def test_expert_parallelism_without_experts_is_refused_on_one_gpu_too() -> None:
    """The engine asks for experts, not for ranks."""
    found = on("vllm serve m --enable-expert-parallel --max-model-len 8192", "1x H200 SXM", "smollm2-135m", "0.33.0")

    assert codes(found)["fit.split"] == "block"
    assert "expert" not in found.corrected.line


def test_what_is_on_record_of_another_package_judges_no_machine() -> None:
    """PyPI's wheels are for CUDA, and the command may be for the ROCm image."""
    found = on("vllm serve m -tp 4 --no-such", "4x MI300X", "qwen3-30b-a3b-fp8", "0.33.0")
    said = {each.code: str(each.severity) for each in found.findings}

    assert said["lint.other-package"] == "note"
    assert codes(found) == {"flag.unknown": "block"}
