"""What measurements of a configuration say about the next prediction of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from holddown.plan.estimate import Estimate, Speed
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Hardware

_TRUSTED = 0.8
"""The power of the ratio by which the next prediction is scaled: one run's figures carry noise of their own.

Source: bench/prediction.py, after one measurement: median 7.1 % with it, 7.4 % with the whole ratio.
"""
_LEAST, _MOST = 0.85, 1.16
"""Four of five other points of a configuration lie within these of its prediction, once one point has scaled it.

Source: bench/prediction.py, after one measurement.
"""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured speed over predicted speed of one checkpoint, so split, on this hardware. because: for a person."""

    model_digest: str
    hardware: Hardware
    split: Parallelism
    factor: float
    because: str


def calibration_of(
    calibrations: Iterable[Calibration], model_digest: str, hardware: Hardware, split: Parallelism
) -> Calibration | None:
    """The one of the same configuration, if it was measured."""
    wanted = (model_digest, hardware, split)
    return next((each for each in calibrations if (each.model_digest, each.hardware, each.split) == wanted), None)


def calibrated(speed: Speed, by: Calibration) -> Speed:
    """Scaled, with the narrower band. Times are those of decoding; the first token is scaled alike."""
    factor = by.factor**_TRUSTED
    first = speed.ttft_ms
    return Speed(
        single_stream_tok_s=_scaled(speed.single_stream_tok_s, factor),
        throughput_tok_s=_scaled(speed.throughput_tok_s, factor),
        tpot_ms=_scaled(speed.tpot_ms, 1 / factor),
        ttft_ms=Estimate(first.value / factor, first.low / factor, first.high / factor),
        dominated_by=speed.dominated_by,
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    value = estimate.value * factor
    return Estimate(value, value * _LEAST, value * _MOST)
