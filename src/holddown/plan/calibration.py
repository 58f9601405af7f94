"""What measurements of a configuration say about the next prediction of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log2

from holddown.plan.estimate import Estimate, Speed
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Hardware

_TRUSTED, _FORGOTTEN, _LEAST_TRUSTED = 0.9, 0.16, 0.1
"""The power of the ratio by which the next prediction is scaled: one run's figures carry noise of their own; how much
of it is lost with each doubling between the numbers of requests at once, where other kernels count; what is left.

Source: bench/prediction.py, after one measurement: median 6.7 % so, 7.1 % with 0.8 throughout, 7.4 % with 1.
"""
_LEAST, _MOST = 0.85, 1.15
"""Four of five other points of a configuration lie within these of its prediction, once one point has scaled it.

Source: bench/prediction.py, after one measurement.
"""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One checkpoint, so split, on this hardware. factors: requests at once -> measured speed over predicted; at least
    one. because: for a person."""

    model_digest: str
    hardware: Hardware
    split: Parallelism
    factors: Mapping[int, float]
    because: str

    def factor(self, concurrency: float) -> float:
        """By which a prediction for so many requests at once is scaled: by the nearest that was measured."""
        near = min(self.factors, key=lambda each: abs(log2(each / concurrency)))
        return float(self.factors[near] ** trust(near, concurrency))


def calibration_of(
    calibrations: Iterable[Calibration], model_digest: str, hardware: Hardware, split: Parallelism
) -> Calibration | None:
    """The one of the same configuration, if it was measured."""
    wanted = (model_digest, hardware, split)
    return next((each for each in calibrations if (each.model_digest, each.hardware, each.split) == wanted), None)


def trust(measured_at: float, concurrency: float) -> float:
    """How much of a ratio measured at one number of requests at once holds at another: a power, 0.1 to 0.9."""
    return max(_LEAST_TRUSTED, _TRUSTED - _FORGOTTEN * abs(log2(measured_at / concurrency)))


def calibrated(speed: Speed, by: Calibration, concurrency: float) -> Speed:
    """Scaled, with the narrower band. Times are those of decoding; the first token is scaled alike."""
    factor = by.factor(concurrency)
    first = speed.ttft_ms
    return Speed(
        single_stream_tok_s=_scaled(speed.single_stream_tok_s, by.factor(1)),
        throughput_tok_s=_scaled(speed.throughput_tok_s, factor),
        tpot_ms=_scaled(speed.tpot_ms, 1 / factor),
        ttft_ms=Estimate(first.value / factor, first.low / factor, first.high / factor),
        dominated_by=speed.dominated_by,
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    value = estimate.value * factor
    return Estimate(value, value * _LEAST, value * _MOST)
