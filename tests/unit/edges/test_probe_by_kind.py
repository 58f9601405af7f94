"""Each engine is asked through the probe of its kind."""

import pytest

from fakes.engine import FakeProbe, an_engine, engine_facts
from holddown.base.errors import EngineError
from holddown.edges.probes.by_kind import ProbeByKind
from holddown.facts.engine import Engine


def test_the_kind_decides_and_a_probe_is_made_once() -> None:
    """Probes of other kinds are not even made."""
    made: list[str] = []

    def maker() -> FakeProbe:
        made.append("vllm")
        return FakeProbe(engine_facts(version="0.32.0"))

    def other() -> FakeProbe:
        raise AssertionError("no engine of that kind was asked")

    probe = ProbeByKind({"vllm": maker, "llamacpp": other})

    assert probe.facts(an_engine(), str).version == "0.32.0"
    assert probe.facts(an_engine(), str).version == "0.32.0"
    assert made == ["vllm"]


def test_a_kind_of_a_newer_holddown_is_an_obstacle_of_that_engine_alone() -> None:
    """With the kinds that are known."""
    newer = Engine("x", "1", "xgine", "/p", "", False, 0.0)

    with pytest.raises(EngineError, match="kind that this holddown does not know"):
        ProbeByKind({}).facts(newer, str)
