"""Facts in, the whole plan as text out. Machines and checkpoints are captures; `about` says of what.

After a wanted change: `HOLDDOWN_REWRITE_GOLDEN=1 pytest tests/golden`, and read the difference.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest

from fakes.captured import captured_model
from fakes.checkpoint_bytes import gguf_head
from holddown.base.codec import load
from holddown.base.evidence import from_file
from holddown.base.finding import Finding
from holddown.cli.output import findings_text
from holddown.explain.plan_text import no_plan_text, plan_text
from holddown.facts.engine import Engine
from holddown.facts.gguf import GgufHeader, read_header
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.machine import Disk, MachineFacts
from holddown.facts.model import ModelFacts
from holddown.facts.weights import ShardSeen, Tail
from holddown.launch.engines import adapter
from holddown.launch.spec import Binding
from holddown.plan.choose import plan
from holddown.plan.fabric import usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.plan import NoPlan
from holddown.plan.preflight import Ground, preflight
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.tables.load import recorded_engine

_FOLDER = Path(__file__).parent / "plans"
STORIES = sorted(path.parent for path in _FOLDER.glob("*/story.json"))


@dataclass(frozen=True)
class Story:
    """The parts are shared between stories."""

    about: str
    site: Site
    model: ModelFacts
    candidates: tuple[Candidate, ...]
    wishes: Wishes


def part(name: str) -> Any:
    return json.loads((_FOLDER / name).read_text(encoding="utf-8"))


def site(named: str) -> Site:
    """A captured machine, or GPUs as `--gpus` names them."""
    if named.endswith(".json"):
        return Site(load(MachineFacts, part(named)))
    count, row = named_gpus(named)
    fabric = usual_fabric(row)
    return Site(named_machine(count, row, fabric), {}, from_file(fabric, "tables"), here=False)


def model(named: Any) -> ModelFacts:
    """A config of the captures, or a GGUF of this metadata and these tensors."""
    if isinstance(named, dict):
        head, size = gguf_head(named["metadata"], named["tensors"])
        header = read_header("model.gguf", size, head)
        assert isinstance(header, GgufHeader)
        parts = (ShardSeen("model.gguf", size, "0", header, Tail.DATA),)
        return gguf_facts(f"/models/{named['name']}.gguf", parts, ()).model
    # as if its weights were there: the plan is the same, and what is missing is another test's matter
    return replace(captured_model(named), from_shapes=False)


def candidate(named: str) -> Candidate:
    """A captured build, or one that is recorded: `vllm@0.16.0`."""
    if named.endswith(".json"):
        captured: Candidate = load(Candidate, part(named))
        return captured
    return Candidate(*recorded_engine(*named.split("@")))


def story(folder: Path) -> Story:
    told = json.loads((folder / "story.json").read_text(encoding="utf-8"))
    wishes = {"served_model_name": "m", "settings": [], **told.get("wishes", {})}
    return Story(
        about=told["about"],
        site=site(told["machine"]),
        model=model(told["model"]),
        candidates=tuple(candidate(name) for name in told["engines"]),
        wishes=load(Wishes, wishes),
    )


def told(of: Story) -> str:
    planned = plan(of.model, of.site, of.candidates, of.wishes)
    if isinstance(planned, NoPlan):
        return no_plan_text(planned) + "\n"
    chosen: Candidate = next(each for each in of.candidates if each.engine.ref == planned.engine)
    engine: Engine = chosen.engine
    spec = adapter(engine.kind).command(planned, engine, chosen.facts, Binding())
    ground = Ground(
        machine=of.site.machine,
        engine=chosen.facts,
        host="127.0.0.1",
        port=8000,
        port_holder=None,
        log_disk=Disk("/state", "/", "ext4", 10**12, 10**12),
        log_bytes=10**8,
        gpus_by_user=of.wishes.gpus is not None,
    )
    findings: tuple[Finding, ...] = (
        *planned.findings,
        *adapter(engine.kind).unknown_flags(planned, chosen.facts),
        *(preflight(planned, ground) if of.site.here else ()),
    )
    return "\n".join(filter(None, [plan_text(planned, spec), click.unstyle(findings_text(findings))])) + "\n"


@pytest.mark.parametrize("folder", STORIES, ids=lambda folder: folder.name)
def test_the_plan_of_a_story_is_as_it_was(folder: Path) -> None:
    """Engine, split, memory, every flag with its because, what was rejected, command, findings: compared whole."""
    text = told(story(folder))
    expected = folder / "expected.txt"
    if os.environ.get("HOLDDOWN_REWRITE_GOLDEN"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")
