"""Whole plans on GPUs that are not here, with a real vLLM's own word on its kernels."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fakes.captured import captured_model
from fakes.engine import FakeEngines, FakeProbe
from fakes.ground import FakeCheckpoints
from holddown.app.plan import Doors, Planned, plan
from holddown.base.evidence import Fact, from_file
from holddown.edges.engines import EngineFolders
from holddown.edges.probes.vllm_selector import VllmSelector
from holddown.facts.asked import Asked, Questions
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.model import Inspection
from holddown.plan.fabric import usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.site import Site
from holddown.plan.wishes import Wishes
from holddown.ports import Progress
from holddown.tables.load import recorded_engine


@dataclass
class AsIfForGpus:
    """Port `EngineSelector`: a build for the CPU that is asked as what it would be if it were one for CUDA."""

    selector: VllmSelector

    def ask(self, engine: Engine, facts: EngineFacts, questions: Questions, progress: Progress) -> Fact[Asked]:
        return self.selector.ask(engine, replace(facts, device=from_file("cpu", "test")), questions, progress)


def asked(vllm_python: str, folder: Path, checkpoint: str, gpus: str) -> Planned:
    """The plan of a captured config with the recorded facts of 0.32.0 and what the real one says."""
    real = EngineFolders(folder / "engines").add(None, vllm_python, "")
    if real.version != "0.32.0":
        pytest.skip(f"the engine here is {real.ref}, the recorded facts are those of 0.32.0")
    recorded, facts = recorded_engine("vllm", "0.32.0")
    engine = replace(recorded, python=vllm_python, recorded=False)
    count, row = named_gpus(gpus)
    fabric = usual_fabric(row)
    site = Site(named_machine(count, row, fabric), {}, from_file(fabric, "tables"), here=False)
    doors = Doors(
        FakeCheckpoints(Inspection(captured_model(checkpoint), ())),
        FakeEngines([engine]),
        FakeProbe(facts),
        lambda line: None,
        AsIfForGpus(VllmSelector(folder / "cache")),
    )
    found = plan("/models/m", site, Wishes("m", engine=engine.ref), doors, ask=True)
    assert isinstance(found, Planned), found
    return found


@pytest.mark.live
@pytest.mark.parametrize(
    ("checkpoint", "gpus", "attention", "experts"),
    [
        ("kimi-k2.5-nvfp4", "8x RTX PRO 6000 Server", "TRITON_MLA", "FLASHINFER_CUTLASS"),
        ("kimi-k2.5", "8x RTX PRO 6000 Server", "TRITON_MLA", "MARLIN"),
        ("minimax-m2.5", "8x RTX PRO 6000 Server", "FLASH_ATTN", "TRITON"),
    ],
)
def test_a_plan_rests_on_the_builds_own_word(
    vllm_python: str, tmp_path: Path, checkpoint: str, gpus: str, attention: str, experts: str
) -> None:
    """Stories 1 to 3 on 0.32.0: the kernels that it would take, and nothing that was read otherwise."""
    found = asked(vllm_python, tmp_path, checkpoint, gpus)

    assert found.plan.selector == "asked vllm 0.32.0's own selector"
    assert found.plan.attention_backends == (attention,)
    assert found.plan.experts_backend == experts
    assert not [each for each in found.findings if each.code.startswith("compat.selector")]
