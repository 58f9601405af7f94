"""Facts in, the whole plan as text out. Machines and checkpoints are captures; `about` says of what.

After a wanted change: `HOLDDOWN_REWRITE_GOLDEN=1 pytest tests/golden`, and read the difference.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from holddown.base.codec import load
from holddown.base.finding import Finding
from holddown.cli.output import findings_text
from holddown.explain.plan_text import no_plan_text, plan_text
from holddown.facts.engine import Engine
from holddown.facts.machine import Disk, MachineFacts
from holddown.facts.model import ModelFacts
from holddown.launch.engines import adapter
from holddown.launch.spec import Binding
from holddown.plan.choose import plan
from holddown.plan.plan import NoPlan
from holddown.plan.preflight import Ground, preflight
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes

_FOLDER = Path(__file__).parent / "plans"
STORIES = sorted(path.parent for path in _FOLDER.glob("*/story.json"))


@dataclass(frozen=True)
class Story:
    """The parts are shared between stories: names of files in `plans`."""

    about: str
    machine: MachineFacts
    model: ModelFacts
    candidates: tuple[Candidate, ...]
    wishes: Wishes


def part(name: str) -> object:
    return json.loads((_FOLDER / name).read_text(encoding="utf-8"))


def story(folder: Path) -> Story:
    told = json.loads((folder / "story.json").read_text(encoding="utf-8"))
    return Story(
        about=told["about"],
        machine=load(MachineFacts, part(told["machine"])),
        model=load(ModelFacts, part(told["model"])),
        candidates=tuple(load(Candidate, part(name)) for name in told["engines"]),
        wishes=load(Wishes, told["wishes"]),
    )


def told(of: Story) -> str:
    planned = plan(of.model, Site(of.machine), of.candidates, of.wishes)
    if isinstance(planned, NoPlan):
        return no_plan_text(planned) + "\n"
    chosen: Candidate = next(each for each in of.candidates if each.engine.ref == planned.engine)
    engine: Engine = chosen.engine
    spec = adapter(engine.kind).command(planned, engine, chosen.facts, Binding())
    ground = Ground(
        machine=of.machine,
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
        *preflight(planned, ground),
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
