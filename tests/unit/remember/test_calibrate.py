"""Measurements of a configuration beside their prediction, and what they make of the next one."""

from dataclasses import replace

from fakes.facts import model
from fakes.records import a_birth
from holddown.base.evidence import from_file
from holddown.facts.attention import FullAttention
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.launch.lifecycle import State
from holddown.measure.metrics import Measurement
from holddown.plan.calibration import Calibration, calibrated, calibration_of
from holddown.plan.estimate import Estimate, Speed
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import KvCache, Plan
from holddown.plan.rig import Hardware
from holddown.remember.calibrate import calibrations, comparisons
from holddown.remember.record import Comparison, Deployment, Status

H200 = Hardware("H200 SXM", "", "vllm")


def _there() -> Deployment:
    birth = a_birth()
    return Deployment(replace(birth, model=model()), Status(State.RELEASED, since=0.0))


def _measured(tok_s: float, concurrency: int = 1) -> Measurement:
    return Measurement("output_throughput", tok_s, "tok/s", 0, 3, concurrency, 64, 128)


def _plan(of: Deployment) -> Plan:
    kv = KvCache("bfloat16", 2, from_file(1024, "config.json"), 100_000, 100_000, 100_000, 10)
    return replace(of.birth.plan, hardware=H200, kv_cache=kv, parallelism=Parallelism())


def _model(of: Deployment) -> ModelFacts:
    dense = WeightGroup(
        "model.layers.*.mlp.up_proj", Component.DENSE_MLP, Split.COLUMN, "bf16", 32, 7 * 10**9, 14 * 10**9
    )
    attention = from_file((FullAttention(32, 32, 8, 128, 128),), "config.json")
    hidden = from_file(4096, "config.json")
    return replace(of.birth.model, weights=(dense,), attention=attention, hidden_size=hidden, vocab_size=hidden)


def test_what_was_measured_stands_beside_what_is_predicted_for_the_same_load() -> None:
    """One row for each concurrency; other metrics have no prediction."""
    there = _there()
    other = Measurement("ttft", 20.0, "ms", 50, 3, 1, 64, 128)
    rows = comparisons(_plan(there), _model(there), (_measured(200), other, _measured(1200, 8)))
    assert [(row.concurrency, row.measured) for row in rows] == [(1, 200), (8, 1200)]
    assert 0 < rows[0].predicted.low < rows[0].predicted.value < rows[1].predicted.value


def test_without_a_prediction_there_is_nothing_to_compare() -> None:
    """A CPU: no row of hardware stands in the plan."""
    there = _there()
    assert comparisons(replace(_plan(there), hardware=None), _model(there), (_measured(20),)) == ()


def _of(there: Deployment, *ratios: float) -> Deployment:
    rows = tuple(Comparison(1, 64, 128, Estimate(100, 60, 150), 100 * ratio) for ratio in ratios)
    return replace(there, birth=replace(there.birth, plan=_plan(there)), status=replace(there.status, comparisons=rows))


def test_deployments_of_one_configuration_give_one_factor() -> None:
    """The geometric mean: half as fast and twice as fast cancel out."""
    there = _there()
    found = calibrations((_of(there, 0.5), _of(there, 2.0)))
    assert len(found) == 1
    assert round(found[0].factors[1], 6) == 1
    assert found[0].because == "measured here, so split, against predicted: 1.00 times with one request"


def test_each_number_of_requests_at_once_has_its_own_factor() -> None:
    """Slow alone and fast together are two facts, and the nearest counts, the less the further it is."""
    there = _of(_there(), 0.5)
    eight = Comparison(8, 64, 128, Estimate(100, 60, 150), 200)
    rows = (*there.status.comparisons, eight)
    (found,) = calibrations((replace(there, status=replace(there.status, comparisons=rows)),))

    assert found.factor(1) < 0.6
    assert found.factor(8) > found.factor(32) > found.factor(512) > 1


def test_a_deployment_that_was_not_measured_says_nothing() -> None:
    """It failed, or runs on a CPU."""
    assert calibrations((_of(_there()),)) == ()


def test_a_calibration_is_for_its_configuration_only() -> None:
    """Another split of the same checkpoint was not measured."""
    one = Calibration("d1", H200, Parallelism(), {1: 0.8}, "measured")
    assert calibration_of((one,), "d1", H200, Parallelism()) is one
    assert calibration_of((one,), "d1", H200, Parallelism(2)) is None
    assert calibration_of((one,), "d2", H200, Parallelism()) is None


def test_a_calibrated_prediction_is_scaled_and_its_band_is_narrower() -> None:
    """Slower than predicted: fewer tokens per second, longer times."""
    speed = Speed(Estimate(100, 60, 150), Estimate(1000, 600, 1500), Estimate(10, 7, 17), Estimate(50, 25, 100), ())
    now = calibrated(speed, Calibration("d1", H200, Parallelism(), {1: 0.8}, "measured"), 8)
    assert 80 < now.single_stream_tok_s.value < 90, "one run is trusted, and not to the last percent"
    assert now.throughput_tok_s.high - now.throughput_tok_s.low < 900 * 0.5
    assert now.tpot_ms.value > 10
    assert now.ttft_ms.value > 50
