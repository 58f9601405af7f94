"""Parsers that a model's chat format calls for, on recorded releases of vLLM."""

from dataclasses import replace

import pytest

from fakes.known_models import glm5_nvfp4, gpt_oss, kimi_k25_nvfp4, llama_fp8_kv, minimax_m25, of_family
from holddown.base.evidence import from_file
from holddown.facts.attention import FullAttention, Mla
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.plan.parsers import Parsers, parser_settings
from holddown.tables.load import recorded_engine


def vllm(version: str) -> EngineFacts:
    return recorded_engine("vllm", version)[1]


def set_to(parsers: Parsers) -> dict[str, str]:
    return {setting.name: setting.value for setting in parsers.settings}


def with_template(model: ModelFacts, template: str) -> ModelFacts:
    return replace(model, chat_template=from_file(template, "chat_template.jinja"))


@pytest.mark.parametrize(
    ("model", "tool", "reasoning"),
    [
        (kimi_k25_nvfp4(), "kimi_k2", "kimi_k2"),
        (glm5_nvfp4(), "glm47", "glm45"),
        (minimax_m25(), "minimax_m2", "minimax_m2"),
        (gpt_oss(), "openai", "openai_gptoss"),
    ],
)
@pytest.mark.parametrize("version", ["0.16.0", "0.33.0"])
def test_an_architecture_that_is_enough(model: ModelFacts, tool: str, reasoning: str, version: str) -> None:
    """Story 1 and others: both parsers, and the choice of tools that the first needs."""
    parsers = parser_settings(model, vllm(version))

    assert set_to(parsers) == {
        "tool-call-parser": tool,
        "enable-auto-tool-choice": "true",
        "reasoning-parser": reasoning,
    }
    assert parsers.findings == ()
    assert all(setting.because and setting.source.where for setting in parsers.settings)


def test_a_build_without_the_parser_gets_a_note() -> None:
    """The model runs; the release that has the parser is named."""
    parsers = parser_settings(glm5_nvfp4(), vllm("0.11.0"))

    assert set_to(parsers) == {"reasoning-parser": "glm45"}
    (finding,) = parsers.findings
    assert finding.code == "plan.tool-call-parser"
    assert not finding.blocks
    assert finding.do == "holddown engine install vllm@0.16.0"


QWEN3_MOE = of_family("Qwen3MoeForCausalLM", "qwen3_moe", FullAttention(48, 32, 4, 128, 128))
DEEPSEEK_V3 = of_family("DeepseekV3ForCausalLM", "deepseek_v3", Mla(61, 128, 512, 128, 64, 128))
GLM4_MOE = of_family("Glm4MoeForCausalLM", "glm4_moe", FullAttention(92, 96, 8, 128, 128))


@pytest.mark.parametrize(
    ("model", "template", "expected"),
    [
        (QWEN3_MOE, "... <function=example> ...", ("qwen3_coder", None)),
        (QWEN3_MOE, '<tool_call>\n{"name": ...} <think>', ("hermes", "qwen3")),
        (QWEN3_MOE, '<tool_call>\n{"name": ...}', ("hermes", None)),
        (DEEPSEEK_V3, "\n```json\n ... <think>", ("deepseek_v3", "deepseek_r1")),
        (DEEPSEEK_V3, "\n```json\n", ("deepseek_v3", None)),
        (DEEPSEEK_V3, "<｜tool▁calls▁begin｜>{args} <think>", ("deepseek_v31", "deepseek_v3")),
        (DEEPSEEK_V3, "<|im_start|>{{ message }}<|im_end|>", (None, None)),
        (GLM4_MOE, "<tool_call>{function-name}\n<arg_key>{arg-key-1}", ("glm45", "glm45")),
        (GLM4_MOE, "<tool_call>{function-name}<arg_key>{arg-key-1}", ("glm47", "glm45")),
        (llama_fp8_kv(), "Environment: ipython", ("llama3_json", None)),
        (llama_fp8_kv(), "{{ messages }}", (None, None)),
    ],
)
def test_the_chat_template_tells_releases_apart(
    model: ModelFacts, template: str, expected: tuple[str | None, str | None]
) -> None:
    """Of one architecture."""
    found = set_to(parser_settings(with_template(model, template), vllm("0.33.0")))

    assert (found.get("tool-call-parser"), found.get("reasoning-parser")) == expected


@pytest.mark.parametrize("model", [QWEN3_MOE, DEEPSEEK_V3, GLM4_MOE])
def test_without_a_template_it_is_not_guessed(model: ModelFacts) -> None:
    """A note lists what it may be."""
    parsers = parser_settings(model, vllm("0.33.0"))

    assert parsers.settings == ()
    (finding,) = parsers.findings
    assert finding.code == "plan.parsers"
    assert " or " in finding.seen


def test_without_a_template_thinking_is_not_guessed() -> None:
    """Kimi-K2-Instruct and K2-Thinking differ in nothing else: the tool parser is set, the other is a note."""
    model = of_family("DeepseekV3ForCausalLM", "kimi_k2", Mla(61, 64, 512, 128, 64, 128))
    parsers = parser_settings(model, vllm("0.33.0"))

    assert set_to(parsers) == {"tool-call-parser": "kimi_k2", "enable-auto-tool-choice": "true"}
    (finding,) = parsers.findings
    assert finding.do == "--set reasoning-parser=kimi_k2"


def test_a_family_that_is_not_known_gets_nothing() -> None:
    """Neither settings nor noise."""
    model = of_family("GPT2LMHeadModel", "gpt2", FullAttention(12, 12, 12, 64, 64))

    assert parser_settings(model, vllm("0.33.0")) == Parsers((), ())


@pytest.mark.parametrize(
    ("model", "template", "version", "expected"),
    [
        (kimi_k25_nvfp4(), "", "0.5.23", ("kimi_k2", "kimi_k2")),
        (minimax_m25(), "", "0.5.8", ("minimax-m2", "minimax")),
        (gpt_oss(), "", "0.5.8", ("gpt-oss", "gpt-oss")),
        (QWEN3_MOE, '<tool_call>\n{"name": ...} <think>', "0.5.23", ("hermes", "qwen3")),
        (QWEN3_MOE, '<tool_call>\n{"name": ...} <think>', "0.5.8", ("qwen", "qwen3")),
        (DEEPSEEK_V3, "\n```json\n ... <think>", "0.5.8", ("deepseekv3", "deepseek-r1")),
        (llama_fp8_kv(), "Environment: ipython", "0.5.23", ("llama3", None)),
    ],
)
def test_another_engine_has_names_of_its_own(
    model: ModelFacts, template: str, version: str, expected: tuple[str, str | None]
) -> None:
    """SGLang's, by the release; and no switch that only vLLM needs."""
    facts = recorded_engine("sglang", version)[1]
    found = set_to(parser_settings(with_template(model, template) if template else model, facts))

    assert (found["tool-call-parser"], found.get("reasoning-parser")) == expected
    assert "enable-auto-tool-choice" not in found
