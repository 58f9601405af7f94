"""Whatever happens, in whatever order, a life stays sane."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from holddown.launch.events import (
    EngineEnded,
    EngineGone,
    EngineStarted,
    Event,
    Exit,
    HealthAnswered,
    MeasurementEnded,
    Moved,
    StartHindered,
    StopAsked,
    Tick,
    VerificationEnded,
)
from holddown.launch.lifecycle import Effect, Life, Patience, State, begin, step
from holddown.launch.phases import Phase
from holddown.launch.restart import FAILURES, SERVED_S, Restart

PATIENCE = Patience(quiet_s=60, give_up_s=120, grace_s=30)

events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Moved, st.none() | st.sampled_from(Phase)),
    st.builds(HealthAnswered, st.booleans()),
    st.builds(VerificationEnded, st.sampled_from([(), ("usage",)]), st.booleans()),
    st.builds(MeasurementEnded, st.booleans()),
    st.builds(EngineEnded, st.builds(Exit, st.none() | st.integers(-15, 3))),
    st.builds(EngineGone, st.booleans()),
    st.just(EngineStarted()),
    st.just(StartHindered("its port is taken")),
    st.just(StopAsked("the user")),
    st.just(Tick()),
)
histories = st.lists(st.tuples(st.floats(0, 200), events), max_size=40)
# as engines live: mostly what brings them on (None), so that they are released, fail and come back in one history
_ROUND: tuple[Event, ...] = (
    HealthAnswered(True),
    VerificationEnded(()),
    MeasurementEnded(),
    EngineEnded(Exit(-9)),
    EngineGone(),
    EngineStarted(),
)
returning = st.lists(st.tuples(st.floats(0, 900), st.sampled_from([*[None] * 20, *_ROUND, Tick()])), max_size=60)
Lived = list[tuple[Life, Event, Life, tuple[Effect, ...], float]]


def lived(history: Iterable[tuple[float, Event]], restart: Restart = Restart.NEVER) -> Lived:
    """(before, event, after, effects, now) for each step."""
    now, life, steps = 0.0, begin(0.0, restart), []
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


def came_back(history: Iterable[tuple[float, Event | None]]) -> Lived:
    """Whole rounds of release and failure. None: what brings this life on, whatever it is."""
    brings_on: dict[State, Event] = {
        State.STARTING: HealthAnswered(True),
        State.READY: MeasurementEnded(),
        State.RELEASED: EngineEnded(Exit(-9)),
        State.STUCK: HealthAnswered(True),
        State.STOPPING: EngineGone(),
        State.WAITING: EngineStarted(),
    }
    now, life, steps = 0.0, begin(0.0, Restart.ON_FAILURE), []
    for pause, event in history:
        now += pause
        event = event or brings_on.get(life.state, Tick())
        after, effects = step(life, event, now, PATIENCE)
        steps.append((life, event, after, effects, now))
        life = after
    return steps


@given(returning)
def test_three_failures_without_service_between_are_the_end(history: list[tuple[float, Event | None]]) -> None:
    """Never a fourth start; and ten minutes at a stretch begin the count anew."""
    failures = 0
    for before, event, after, _, now in came_back(history):
        if before.state is State.RELEASED and isinstance(event, Tick) and now - before.since >= SERVED_S:
            failures = 0
        if isinstance(event, EngineGone) and before.state is State.STOPPING and after.state is not State.STOPPED:
            failures += 1
            assert (after.state is State.WAITING) == (before.served and failures < FAILURES)


@given(st.one_of(histories, returning.map(lambda each: [(pause, event or Tick()) for pause, event in each])))
def test_it_waits_only_for_what_was_released_and_has_the_policy(history: list[tuple[float, Event]]) -> None:
    """With nothing of the engine left; and nothing else starts one."""
    for before, _, after, effects, _ in lived(history, Restart.ON_FAILURE):
        if after.state is State.WAITING and before.state is not State.WAITING:
            assert before.state is State.STOPPING and before.served and not before.asked
        if Effect.START in effects:
            assert before.state is after.state is State.WAITING
    assert all(after.state is not State.WAITING for _, _, after, _, _ in lived(history))


@given(returning)
def test_each_start_is_checked_before_it_is_released_again(history: list[tuple[float, Event | None]]) -> None:
    """No release of the last start counts for the next."""
    checked = False
    for before, _, after, effects, _ in came_back(history):
        if before.state is State.WAITING and after.state is State.STARTING:
            checked = False
        checked |= Effect.VERIFY in effects
        if after.state is State.RELEASED:
            assert checked
