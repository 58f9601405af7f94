"""A command, a build, a machine and a checkpoint in; the whole answer as text out.

After a wanted change: `HOLDDOWN_REWRITE_GOLDEN=1 pytest tests/golden`, and read the difference.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.captured import captured_model
from fakes.checkpoint_bytes import gguf_head
from fakes.lint import codes, command, judge_recorded, site
from holddown.app.lint import Asked, Doors, lint
from holddown.cli.lint import lint_text
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.gguf import GgufHeader, read_header
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.model import Inspection, ModelFacts
from holddown.facts.weights import ShardSeen, Tail
from holddown.lint.judge import Ground, Judged

_FOLDER = Path(__file__).parent / "lint"
_CARD = "--trust-remote-code --tool-call-parser kimi_k2 --enable-auto-tool-choice --reasoning-parser kimi_k2"
_STORY_1 = f"vllm serve nvidia/Kimi-K2.5-NVFP4 --tensor-parallel-size 4 {_CARD} --disable-log-requests"
_STORY_2 = f"""vllm serve moonshotai/Kimi-K2.5 --tensor-parallel-size 8 {_CARD} --max-model-len 131072
  --gpu-memory-utilization 0.95 --disable-log-requests"""


def glm5_gguf() -> ModelFacts:
    """The GGUF of story 5, as the plans' golden tests have it."""
    story = Path(__file__).parent / "plans" / "story_05_glm5_gguf_016" / "story.json"
    named = json.loads(story.read_text(encoding="utf-8"))["model"]
    head, size = gguf_head(named["metadata"], named["tensors"])
    header = read_header("model.gguf", size, head)
    assert isinstance(header, GgufHeader)
    return gguf_facts(
        f"/models/{named['name']}.gguf", (ShardSeen("model.gguf", size, "0", header, Tail.DATA),), ()
    ).model


_SGLANG = """SGL_ENABLE_JIT_DEEPGEMM=0 python3 -m sglang.launch_server --model-path m --tensor-parallel-size 4
  --cuda-graph-max-bs 32 --nsa-prefill-backend trtllm --tool-call-parser deepseekv3"""
_CONTAINER = """docker run --gpus all --privileged -e HF_TOKEN=hf_secret -e VLLM_ATTENTION_BACKEND=FLASHINFER
  vllm/vllm-openai:v0.16.0 --model org/m -tp 4 --api-key sk-secret --swap-space 4"""


class Nothing:
    """No engine was asked of, no checkpoint is here but the one given."""

    def __init__(self, model: ModelFacts | None) -> None:
        self.model = model

    def read(self, engine: Engine) -> EngineFacts:
        raise AssertionError("no engine is registered")

    def inspect(self, path: str) -> Inspection:
        assert self.model is not None
        return Inspection(self.model, ())


def said(text: str, engine: str, gpus: str, model: ModelFacts | None) -> str:
    here = Nothing(model)
    doors = Doors(tuple, here.read, lambda _: "", here.inspect, lambda _: "")
    asked = Asked(engine, "given" if model else "", site(gpus) if gpus else None)
    return "\n\n".join(lint_text(each) for each in lint([command(text.replace("\n", " "))], asked, doors)) + "\n"


_SM120 = "8x RTX PRO 6000 Server"
STORIES: dict[str, Callable[[], str]] = {
    "story_01_card_says_tp4": lambda: said(_STORY_1, "vllm@0.16.0", _SM120, captured_model("kimi-k2.5-nvfp4")),
    "story_04_glm5_016": lambda: said("vllm serve m -tp 8", "vllm@0.16.0", _SM120, captured_model("glm-5-nvfp4")),
    "story_04_glm5_033": lambda: said("vllm serve m -tp 8", "vllm@0.33.0", _SM120, captured_model("glm-5-nvfp4")),
    "story_05_gguf_016": lambda: said("vllm serve /models/GLM-5.gguf -tp 8", "vllm@0.16.0", _SM120, glm5_gguf()),
    "story_05_gguf_032": lambda: said("vllm serve /models/GLM-5.gguf -tp 8", "vllm@0.32.0", _SM120, glm5_gguf()),
    "sglang_names_of_058": lambda: said(_SGLANG, "sglang@0.5.23", "8x H200 SXM", captured_model("deepseek-v3")),
    "container": lambda: said(_CONTAINER, "", "", None),
    "story_08_first_on_0180": lambda: said(_STORY_1, "vllm@0.18.0", "", None),
    **{
        f"story_08_second_on_{version}": lambda version=version: said(_STORY_2, f"vllm@{version}", "", None)  # type: ignore[misc]
        for version in ("0.16.0", "0.19.1", "0.25.1", "0.32.0", "0.33.0")
    },
}


@pytest.mark.parametrize("name", STORIES)
def test_the_whole_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person is told, to the letter."""
    monkeypatch.setenv("NO_COLOR", "1")
    path = _FOLDER / f"{name}.txt"
    text = STORIES[name]()
    if os.environ.get("HOLDDOWN_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")


def on(text: str, gpus: str, model: str, version: str = "0.16.0") -> Judged:
    return judge_recorded(text, version, Ground(captured_model(model), "", site(gpus)))


def test_a_kv_cache_that_no_backend_takes_is_set_otherwise() -> None:
    """Story 1: the checkpoint asks for FP8, and 0.16.0 has no MLA backend on SM120 that takes it."""
    found = on("vllm serve m -tp 8", "8x RTX PRO 6000 Server", "kimi-k2.5-nvfp4")
    said = next(each for each in found.findings if each.code == "fit.kv-cache-dtype")

    assert said.blocks
    assert "--kv-cache-dtype bfloat16" in found.corrected.line
    assert "vllm@0.19.1 takes FP8 here" in said.seen


def test_a_split_that_does_not_fit_becomes_one_that_does() -> None:
    """Story 1: the card says TP4; one GPU cannot hold a quarter of it."""
    found = on("vllm serve m -tp 4 --kv-cache-dtype bfloat16", "8x RTX PRO 6000 Server", "kimi-k2.5-nvfp4")

    assert codes(found)["fit.memory"] == "block"
    assert "-tp 8" in found.corrected.line


def test_experts_that_cannot_be_cut_are_kept_whole() -> None:
    """Story 3: 1536 / 8 is no multiple of the FP8 block."""
    found = on("vllm serve m -tp 8", "8x RTX PRO 6000 Server", "minimax-m2.5")

    assert codes(found)["fit.split"] == "block"
    assert "--enable-expert-parallel" in found.corrected.line


def test_expert_parallelism_without_experts_is_dropped() -> None:
    """The engine refuses it for a dense model."""
    found = on("vllm serve m -tp 8 --enable-expert-parallel", "8x H200 SXM", "llama-3.1-70b-fp8")

    assert codes(found)["fit.split"] == "block"
    assert "expert" not in found.corrected.line


def test_sparse_attention_that_no_backend_runs_has_no_other_words() -> None:
    """Story 4: nothing in the command can help; another release can."""
    found = on("vllm serve m -tp 8", "8x RTX PRO 6000 Server", "glm-5-nvfp4")
    said = next(each for each in found.findings if each.code == "compat.attention")

    assert said.do == "holddown engine install vllm@0.25.1"
    assert not found.corrected.changed


def test_a_parser_of_another_model_is_named() -> None:
    """By the checkpoint's family."""
    text = "vllm serve m -tp 8 --enable-auto-tool-choice --tool-call-parser hermes"
    found = on(text, "8x H200 SXM", "kimi-k2.5")

    assert codes(found)["parser.model"] == "warn"
    assert "--tool-call-parser kimi_k2" in found.corrected.line
