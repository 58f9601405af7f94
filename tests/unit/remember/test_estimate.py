"""How long a start will take."""

from dataclasses import replace

from fakes.records import a_birth, a_plan
from holddown.base.evidence import Known, SourceKind, Unknown
from holddown.base.units import GIB
from holddown.launch.lifecycle import State
from holddown.launch.phases import Phase
from holddown.plan.plan import Plan
from holddown.remember.estimate import start_seconds, usual_seconds
from holddown.remember.record import Deployment, PhaseTime, Status


def started(plan: Plan, **at_s: float) -> Deployment:
    times = tuple(PhaseTime(Phase(name.replace("_", "-")), at) for name, at in at_s.items())
    return Deployment(a_birth(plan=plan), Status(State.RELEASED, 0.0, phases=times))


def test_the_same_checkpoint_takes_its_median_again() -> None:
    """One slow start is an outlier."""
    past = [started(a_plan(), server=at) for at in (10.0, 12.0, 90.0)]
    estimate = start_seconds(past, a_plan())
    assert isinstance(estimate, Known) and estimate.value == 12.0
    assert estimate.source.kind is SourceKind.MEASURED and "3 earlier starts" in estimate.source.where


def test_another_checkpoint_is_scaled_by_its_bytes() -> None:
    """Only the loading of weights grows with them: 10 s of 30 become 40."""
    past = [started(a_plan(load_bytes=GIB), weights=5.0, profile=15.0, server=30.0)]
    estimate = start_seconds(past, a_plan(digest="d2", load_bytes=4 * GIB))
    assert isinstance(estimate, Known) and estimate.value == 60.0
    assert estimate.source.kind is SourceKind.DERIVED


def test_a_tiny_checkpoint_says_nothing_about_the_disk() -> None:
    """A few KB in one second would make 600 GB take years."""
    past = [started(a_plan(load_bytes=1000), weights=5.0, profile=6.0, server=30.0)]
    estimate = start_seconds(past, a_plan(digest="d2", load_bytes=600 * GIB))
    assert isinstance(estimate, Known) and estimate.value == 30.0


def test_another_engine_tells_nothing() -> None:
    """It is unknown, and not zero."""
    past = [started(a_plan(engine="vllm@0.16.0"), server=10.0)]
    assert isinstance(start_seconds(past, a_plan()), Unknown)


def test_a_start_that_never_served_does_not_count() -> None:
    """It would make the next one look short."""
    past = [started(a_plan(), weights=3.0), started(a_plan(), server=20.0)]
    estimate = start_seconds(past, a_plan())
    assert isinstance(estimate, Known) and estimate.value == 20.0


def test_without_its_weights_phase_the_whole_start_is_taken() -> None:
    """An engine that says nothing of its loading."""
    past = [started(a_plan(load_bytes=1000), server=30.0)]
    estimate = start_seconds(past, replace(a_plan(), model_digest="d2", load_bytes=9000))
    assert isinstance(estimate, Known) and estimate.value == 30.0


def test_what_a_phase_usually_takes_is_the_longest_that_it_took() -> None:
    """Of this checkpoint by this engine; from its begin to the next phase, and only of starts that served."""
    past = [
        started(a_plan(), weights=5.0, profile=15.0, server=30.0),
        started(a_plan(), weights=5.0, profile=45.0, server=60.0),
        started(a_plan(), weights=5.0, profile=900.0),
        started(a_plan(digest="d2"), weights=5.0, profile=500.0, server=600.0),
        started(a_plan(engine="vllm@0.16.0"), weights=5.0, profile=500.0, server=600.0),
    ]
    usual = usual_seconds(past, a_plan(), Phase.WEIGHTS)
    assert isinstance(usual, Known) and usual.value == 40.0 and "2 earlier starts" in usual.source.where


def test_a_phase_without_an_end_or_an_earlier_start_tells_nothing() -> None:
    """The last one, and one that this engine does not have."""
    past = [started(a_plan(), weights=5.0, server=30.0)]
    for phase in (Phase.SERVER, Phase.GRAPHS):
        assert isinstance(usual_seconds(past, a_plan(), phase), Unknown)
