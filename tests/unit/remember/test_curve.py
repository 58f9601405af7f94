"""The predicted curve that measured loads are laid upon."""

from dataclasses import replace

from fakes.records import a_plan
from fakes.reports import a_gpu_plan, a_load, a_predictable_model, a_sweep
from holddown.base.evidence import Known, Unknown
from holddown.measure.metrics import Measurement
from holddown.measure.run import Closed
from holddown.remember.calibrate import comparisons
from holddown.remember.curve import curve, lengths


def test_the_curve_goes_through_what_is_compared_after_a_release() -> None:
    """One model of speed, not two: the same load gives the same prediction."""
    points = curve(a_gpu_plan(), a_predictable_model(), 64, 128, (1, 8))
    assert isinstance(points, Known)
    measured = [Measurement("output_throughput", 1.0, "tok/s", 0, 3, load, 64, 128) for load in (1, 8)]
    rows = comparisons(a_gpu_plan(), a_predictable_model(), measured)
    assert [each.speed.throughput_tok_s for each in points.value] == [row.predicted for row in rows]


def test_more_requests_at_once_give_more_and_each_waits_longer() -> None:
    """And the parts of a step are all of it."""
    points = curve(a_gpu_plan(), a_predictable_model(), 512, 64, (1, 4, 16, 64))
    assert isinstance(points, Known)
    speeds = [each.speed.throughput_tok_s.value for each in points.value]
    assert speeds == sorted(speeds)
    assert [each.step.total for each in points.value] == sorted(each.step.total for each in points.value)
    assert all(each.step.collectives > 0 and each.step.dense_weights > 0 for each in points.value)


def test_where_nothing_can_be_predicted_it_says_why() -> None:
    """By the plan's own word, or for want of a GPU that is known."""
    plan = replace(a_plan(), speed=Unknown("no prediction for a CPU"))
    assert curve(plan, a_predictable_model(), 64, 128, (1,)) == Unknown("no prediction for a CPU")
    model = replace(a_predictable_model(), attention=Unknown("of a kind that is not known"))
    assert isinstance(curve(a_gpu_plan(), model, 64, 128, (1,)), Unknown)


def test_a_runs_lengths_are_those_of_the_requests_that_succeeded() -> None:
    """In the mean; none where none did."""
    load = a_load(Closed(1), n=2)
    other = replace(load.traces[0], input_tokens=100, output_tokens=32)
    failed = replace(other, input_tokens=9_000, fault="cut")
    assert lengths(a_sweep(loads=(replace(load, traces=(load.traces[0], other, failed)),))) == (306, 48)
    assert lengths(a_sweep(loads=(replace(load, traces=(failed,)),))) is None
