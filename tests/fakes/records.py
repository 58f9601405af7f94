"""A deployment on record, built to order."""

from fakes.engine import an_engine
from fakes.facts import model
from fakes.machine import BOOT, RUN_DIR
from holddown.base.evidence import Source, SourceKind
from holddown.launch.spec import EnvVar, LaunchSpec
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Plan, Setting
from holddown.remember.record import Birth


def a_plan(engine: str = "vllm@0.32.0", digest: str = "d1", load_bytes: int = 1_000_000) -> Plan:
    return Plan(
        model_path="/models/llama",
        model_digest=digest,
        served_model_name="m",
        engine=engine,
        engine_kind="vllm",
        engine_because="the only one",
        gpus=(),
        parallelism=Parallelism(),
        settings=(Setting("max-model-len", "2048", "it fits", Source(SourceKind.DERIVED, "memory")),),
        budget=MemoryBudget(100, 10, 20, 5),
        load_bytes=load_bytes,
        findings=(),
        rejected=(),
    )


def a_birth(
    id: str = "0123abcd",
    name: str = "m",
    *,
    plan: Plan | None = None,
    boot_id: str = BOOT,
    skip_checks: tuple[str, ...] = (),
    created_at: float = 10_000.0,
) -> Birth:
    return Birth(
        id=id,
        name=name,
        created_at=created_at,
        boot_id=boot_id,
        plan=plan or a_plan(),
        spec=LaunchSpec(("/e/python", "-m", "vllm"), (EnvVar("A", "1", "b"),), (), "127.0.0.1", 8000),
        model=model(),
        engine=an_engine(),
        environment=(("HOME", "/root"),),
        skip_checks=skip_checks,
        run_dir=RUN_DIR,
        log_path="/state/engine.log",
    )
