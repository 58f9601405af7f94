"""What an exit says where the log says nothing."""

from dataclasses import dataclass

from holddown.tables.failure import Sure

_SIGNALS = {
    4: "an illegal instruction: this build uses CPU instructions that this machine lacks",
    6: "an abort: the engine or a library of it gave up by itself",
    7: "a bus error: most often /dev/shm is full or too small",
    8: "an arithmetic error in compiled code",
    11: "a segmentation fault in compiled code",
}
_SIGKILL, _SIGTERM = 9, 15


@dataclass(frozen=True, slots=True)
class Ending:
    """An end without words. id: as of a failure."""

    id: str
    cause: str
    remedy: str
    sure: Sure


def signal_of(exit_code: int | None) -> int | None:
    """A shell between us and the engine reports signal n as status 128 + n."""
    if exit_code is None:
        return None
    if exit_code < 0:
        return -exit_code
    return exit_code - 128 if 128 < exit_code < 160 else None


def ending(exit_code: int | None, *, stopped: bool) -> Ending | None:
    """stopped: its log tells of an orderly stop. None where neither tells anything."""
    signal = signal_of(exit_code)
    if signal == _SIGKILL:
        return Ending(
            "killed",
            "the engine was killed by signal 9 and its log names no error: most often the kernel did it for want "
            "of memory, but anybody allowed to may have",
            "dmesg | grep -i 'killed process' tells; holddown node shows what memory is free",
            Sure.POSSIBLE,
        )
    if signal in _SIGNALS:
        return Ending(
            f"signal-{signal}",
            f"the engine ended by signal {signal}, {_SIGNALS[signal]}",
            "dmesg may say more; try another engine version, or without CUDA graphs (enforce-eager)",
            Sure.LIKELY,
        )
    if stopped or signal == _SIGTERM:
        return Ending(
            "told-to-stop",
            "the engine was told from outside to stop (SIGTERM or SIGINT); nothing in its log would have ended it",
            "holddown up starts it again",
            Sure.LIKELY,
        )
    return None
