"""Every option that a plan renders is one of the build's own, over all recorded builds."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fakes.captured import captured_model
from holddown.base.evidence import SourceKind, from_file
from holddown.facts.engine import EngineFacts, Flag, Takes
from holddown.launch.engines import adapter
from holddown.launch.spec import Binding
from holddown.plan.choose import plan
from holddown.plan.fabric import usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.plan import Plan
from holddown.plan.planners import PLANNERS
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.tables.load import recorded_engine, recorded_engines

MACHINES = ("8x RTX PRO 6000 Server", "8x H200 SXM", "1x RTX 4090")
MODELS = (
    "kimi-k2.5", "kimi-k2.5-nvfp4", "minimax-m2.5", "glm-5-nvfp4", "deepseek-v3.2", "gpt-oss-20b", "qwen3-30b-a3b-fp8",
    "qwen3-next-80b-a3b", "qwen2.5-72b-awq", "llama-3.3-70b", "gemma-3-27b", "smollm2-135m",
)  # fmt: skip
BUILDS = [engine.ref for engine in recorded_engines() if engine.kind in PLANNERS]


def plans(ref: str) -> Iterator[tuple[Plan, Candidate]]:
    candidate = Candidate(*recorded_engine(*ref.split("@")))
    for machine in MACHINES:
        count, row = named_gpus(machine)
        fabric = usual_fabric(row)
        site = Site(named_machine(count, row, fabric), {}, from_file(fabric, "tables"), here=False)
        for name in MODELS:
            model = replace(captured_model(name), from_shapes=False)
            planned = plan(model, site, (candidate,), Wishes("m"))
            if isinstance(planned, Plan):
                yield planned, candidate


@pytest.mark.parametrize("ref", BUILDS)
def test_no_command_holds_a_word_that_the_build_does_not_take(ref: str) -> None:
    """Each option is known to that version, each value is one that it takes, and none only restates its default."""
    seen = 0
    for planned, candidate in plans(ref):
        assert adapter(candidate.engine.kind).unknown_flags(planned, candidate.facts) == ()
        argv = adapter(candidate.engine.kind).command(planned, candidate.engine, candidate.facts, Binding()).argv
        faults = list(wrong(argv, candidate.facts))
        assert not faults, (planned.model_path, argv)
        assert not [each for each in planned.settings if restates(each.name, each.value, candidate.facts)]
        assert all(each.because and each.source.kind is not SourceKind.USER for each in planned.settings)
        seen += 1
    if not seen:
        pytest.skip(f"{ref} runs none of these checkpoints on these machines")


def restates(name: str, value: str, facts: EngineFacts) -> bool:
    flag = facts.flag(name)
    return flag is not None and flag.default == value


def wrong(argv: tuple[str, ...], facts: EngineFacts) -> Iterator[str]:
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("--"):
            continue
        flag = facts.flag(word) or facts.flag(word.replace("--no-", "--", 1))
        if flag is None:
            yield word
        elif flag.takes is not Takes.NOTHING and not takes(flag, value := next(words)):
            yield f"{word} {value}"


def takes(flag: Flag, value: str) -> bool:
    shapes = {
        Takes.INTEGER: r"-?\d+",
        Takes.SIZE: r"-?\d+|auto",
        Takes.NUMBER: r"-?[\d.]+",
        Takes.JSON: r"\{.*\}|\[.*\]",
    }
    return flag.allows(value) and re.fullmatch(shapes.get(flag.takes, ".+"), value) is not None


def test_a_word_that_the_build_does_not_take_would_be_found() -> None:
    """The test above can fail: by a name, by a value's type, by a choice."""
    _, facts = recorded_engine("vllm", "0.16.0")
    argv = ("python", "--max-model-len", "long", "--kv-cache-dtype", "fp3", "--no-such", "--enforce-eager")

    assert list(wrong(argv, facts)) == ["--max-model-len long", "--kv-cache-dtype fp3", "--no-such"]
    assert restates("gpu-memory-utilization", "0.9", facts) and not restates("gpu-memory-utilization", "0.8", facts)
