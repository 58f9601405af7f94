"""Whatever happens, in whatever order, a life stays sane."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from holddown.launch.lifecycle import (
    Effect,
    EngineEnded,
    EngineGone,
    Event,
    Exit,
    HealthAnswered,
    Life,
    MeasurementEnded,
    Moved,
    Patience,
    State,
    StopAsked,
    Tick,
    VerificationEnded,
    begin,
    step,
)
from holddown.launch.phases import Phase

PATIENCE = Patience(quiet_s=60, give_up_s=120, grace_s=30)

events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Moved, st.none() | st.sampled_from(Phase)),
    st.builds(HealthAnswered, st.booleans()),
    st.builds(VerificationEnded, st.sampled_from([(), ("usage",)]), st.booleans()),
    st.builds(MeasurementEnded, st.booleans()),
    st.builds(EngineEnded, st.builds(Exit, st.none() | st.integers(-15, 3))),
    st.just(EngineGone()),
    st.just(StopAsked("the user")),
    st.just(Tick()),
)
histories = st.lists(st.tuples(st.floats(0, 200), events), max_size=40)
Lived = list[tuple[Life, Event, Life, tuple[Effect, ...], float]]


def lived(history: Iterable[tuple[float, Event]]) -> Lived:
    """(before, event, after, effects, now) for each step."""
    now, life, steps = 0.0, begin(0.0), []
    for pause, event in history:
        now += pause
        after, effects = step(life, event, now, PATIENCE)
        steps.append((life, event, after, effects, now))
        life = after
    return steps


@given(histories)
def test_over_absorbs(history: list[tuple[float, Event]]) -> None:
    """What is over changes no more, and nothing is done to it."""
    for before, _, after, effects, _ in lived(history):
        if before.state.over:
            assert after == before and effects == ()


@given(histories)
def test_each_arrival_in_ready_out_of_starting_verifies_once(history: list[tuple[float, Event]]) -> None:
    """No release without a check, and no two runs of them at once."""
    verifying = 0
    for before, _, after, effects, _ in lived(history):
        arrives = before.within(State.STARTING) and after.state is State.READY
        assert effects.count(Effect.VERIFY) == arrives
        verifying += arrives
    assert verifying <= 1


@given(histories)
def test_released_comes_after_passed_and_measured_alone(history: list[tuple[float, Event]]) -> None:
    """Ready means proven."""
    measuring = False
    for before, event, after, effects, _ in lived(history):
        measuring = measuring or Effect.MEASURE in effects
        if Effect.MEASURE in effects:
            assert event == VerificationEnded((), True)
        if after.state is State.RELEASED and not before.within(State.RELEASED):
            assert measuring or before.within(State.READY)
            assert event == MeasurementEnded(True)


@given(histories)
def test_what_does_not_end_is_killed_after_the_grace(history: list[tuple[float, Event]]) -> None:
    """A SIGTERM that is not obeyed is followed by SIGKILL at the first tick after the grace."""
    steps = lived(history)
    if not steps or steps[-1][2].state is not State.STOPPING:
        return
    life, now = steps[-1][2], steps[-1][4]
    killed, effects = step(life, Tick(), now + PATIENCE.grace_s + 1, PATIENCE)
    assert effects == (Effect.KILL,)
    assert step(killed, EngineGone(), now, PATIENCE)[0].state.over


@given(histories)
def test_stopping_leads_nowhere_but_to_the_end(history: list[tuple[float, Event]]) -> None:
    """Nothing that an engine says brings it back, and the reason it was stopped for is kept."""
    for before, _, after, _, _ in lived(history):
        if before.state is State.STOPPING:
            assert after.state is State.STOPPING or after.state.over
            assert after.why == before.why


@given(histories)
def test_only_a_person_makes_it_stopped(history: list[tuple[float, Event]]) -> None:
    """Every other end is a failure."""
    steps = lived(history)
    asked = any(isinstance(event, StopAsked) for _, event, _, _, _ in steps)
    if steps and steps[-1][2].state is State.STOPPED:
        assert asked
