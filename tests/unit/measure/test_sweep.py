"""Which load comes next, and when enough is known."""

from holddown.measure.sweep import Enough, Step, next_rate, next_users


def users(throughputs: list[float]) -> list[int]:
    """The loads of a sweep over a server with these throughputs at 1, 2, 4, ... users."""
    steps: list[Step] = []
    while not isinstance(load := next_users(steps), Enough):
        steps.append(Step(load, throughputs[min(len(steps), len(throughputs) - 1)]))
    return [int(step.load) for step in steps]


def test_users_double_until_they_bring_nothing() -> None:
    """Twice in a row: one step may be bad luck."""
    assert users([10, 20, 38, 60, 61, 60]) == [1, 2, 4, 8, 16, 32]
    assert users([10, 10, 10]) == [1, 2, 4]
    assert users([10, 9.0, 30, 30, 30]) == [1, 2, 4, 8, 16]


def test_users_end_where_nothing_stops_them() -> None:
    """A server without a knee is not tried for ever."""
    assert users([2.0**number for number in range(20)])[-1] == 1024


def test_a_spoilt_step_ends_a_sweep() -> None:
    """The client's own limit, failures, limits that nobody meets: more load shows nothing."""
    for step in (Step(1, 5, limited=True), Step(1, 5, failed_share=0.5), Step(1, 5, slo_met=0.3)):
        assert isinstance(next_users([step]), Enough)


def rates(capacity: float, first: float) -> tuple[list[float], Enough]:
    steps: list[Step] = []
    while not isinstance(rate := next_rate(steps, first), Enough):
        steps.append(Step(rate, min(rate, capacity), behind=rate > capacity))
        assert len(steps) < 40
    return [step.load for step in steps], rate


def test_a_rate_is_found_between_two() -> None:
    """Doubled until it falls behind, then in between; the words name both sides of the knee."""
    loads, enough = rates(capacity=10.0, first=1.0)
    assert loads[:5] == [1, 2, 4, 8, 16]
    assert 8 < loads[5] < 16 and len(loads) <= 7
    assert "it keeps up with" in enough.why


def test_a_rate_without_a_knee_ends() -> None:
    """A server that keeps up with all of them is not tried for ever."""
    loads, enough = rates(capacity=1e9, first=1.0)
    assert loads[-1] == 4096 and "no more are tried" in enough.why


def test_a_first_rate_that_is_too_high_is_halved() -> None:
    """A guess from one request can be wrong."""
    loads, _ = rates(capacity=1.0, first=4.0)
    assert loads[:3] == [4, 2, 1]


def test_a_server_that_keeps_up_with_nothing() -> None:
    """It ends all the same."""
    steps = [Step(8.0, 0.0, behind=True)]
    while not isinstance(rate := next_rate(steps, 8.0), Enough):
        steps.append(Step(rate, 0.0, behind=True))
    assert len(steps) == 6
