"""What of a checkpoint a build cannot run."""

from dataclasses import replace

import pytest

from fakes.known_models import glm5_gguf, glm5_nvfp4, gpt_oss, kimi_k25_int4, kimi_k25_nvfp4, minimax_m25
from holddown.base.evidence import Unknown, from_file
from holddown.base.finding import Finding
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.build_fit import build_findings
from holddown.tables.load import recorded_engine


def vllm(version: str) -> EngineFacts:
    return recorded_engine("vllm", version)[1]


def the_finding(model: ModelFacts, version: str, capability: str = "12.0") -> Finding:
    (finding,) = build_findings(model, vllm(version), capability)
    return finding


def of(architecture: str) -> ModelFacts:
    return replace(minimax_m25(), architectures=from_file((architecture,), "config.json architectures"))


@pytest.mark.parametrize("model", [kimi_k25_nvfp4(), kimi_k25_int4(), minimax_m25(), glm5_nvfp4(), gpt_oss()])
@pytest.mark.parametrize("version", ["0.16.0", "0.33.0"])
def test_what_runs_has_no_findings(model: ModelFacts, version: str) -> None:
    """The stories' checkpoints on their GPUs."""
    assert build_findings(model, vllm(version), "12.0") == ()


def test_an_architecture_that_came_later_names_the_release() -> None:
    """The nearest recorded one after this."""
    finding = the_finding(of("KimiK3ForConditionalGeneration"), "0.16.0")

    assert finding.blocks
    assert finding.code == "compat.architecture"
    assert finding.do == "holddown engine install vllm@0.32.0"


def test_an_architecture_that_is_gone_names_the_last_release() -> None:
    """From the engine's own list."""
    finding = the_finding(of("Grok1ForCausalLM"), "0.33.0")

    assert "0.24.0 was the last" in finding.what
    assert finding.do == "holddown engine install vllm@0.24.0"


def test_an_architecture_that_moved_names_its_plugin() -> None:
    """Where the plug-in is."""
    finding = the_finding(of("BartForConditionalGeneration"), "0.33.0")

    assert "plug-in" in finding.what
    assert "bart-plugin" in finding.seen


def test_an_architecture_that_nothing_has_says_so() -> None:
    """No command is offered that would not help."""
    finding = the_finding(of("NobodyForCausalLM"), "0.16.0")

    assert finding.what.endswith("nor has any recorded release up to 0.33.0")
    assert finding.do == ""


def test_architectures_that_are_not_known_do_not_block() -> None:
    """The engine will say."""
    assert build_findings(replace(minimax_m25(), architectures=Unknown("no config")), vllm("0.16.0"), "12.0") == ()


def test_a_gguf_of_an_architecture_that_the_loader_does_not_take() -> None:
    """Story 5: vLLM 0.16 has a GGUF loader, but not for glm-dsa."""
    finding = the_finding(glm5_gguf(), "0.16.0")

    assert finding.code == "compat.gguf-architecture"
    assert finding.what == "vllm 0.16.0 reads GGUF, but none of the architecture glm-dsa"
    assert "engine install llamacpp" in finding.do


def test_a_gguf_where_the_loader_is_a_plugin() -> None:
    """Story 5: 0.32 and later."""
    finding = the_finding(glm5_gguf(), "0.32.0")

    assert finding.code == "compat.gguf"
    assert "vllm-gguf-plugin" in finding.what


def test_a_gguf_that_the_loader_takes() -> None:
    """Built in: by its architecture. By a plug-in: that is not known, and does not block."""
    llama = replace(glm5_gguf(), model_type=from_file("llama", "general.architecture"))
    plugged = vllm("0.33.0")
    plugged = replace(plugged, quantization_methods=(*plugged.quantization_methods, "gguf"))

    assert build_findings(llama, vllm("0.16.0"), "12.0") == ()
    assert build_findings(glm5_gguf(), plugged, "12.0") == ()


def test_a_quantisation_that_is_not_known_names_a_release() -> None:
    """The first that has it."""
    model = replace(minimax_m25(), quantization=from_file("humming", "config.json quant_method"))

    finding = the_finding(model, "0.16.0")

    assert finding.code == "compat.quantization"
    assert finding.do == "holddown engine install vllm@0.25.1"


@pytest.mark.parametrize(("version", "capability", "blocks"), [("0.16.0", "8.6", True), ("0.33.0", "8.6", False)])
def test_a_quantisation_has_a_least_capability(version: str, capability: str, blocks: bool) -> None:
    """ModelOpt FP8 needs 8.9 in 0.16.0 and 8.0 in 0.33.0."""
    model = replace(minimax_m25(), quantization=from_file("modelopt", "config.json quant_method"))

    assert bool(build_findings(model, vllm(version), capability)) is blocks


def test_capabilities_are_compared_as_numbers() -> None:
    """10.0 is above 8.9; the CPU has none to compare."""
    model = replace(minimax_m25(), quantization=from_file("modelopt", "config.json quant_method"))

    assert build_findings(model, vllm("0.16.0"), "10.0") == ()
    assert build_findings(model, vllm("0.16.0"), "cpu") == ()
