"""The starts that led to a deployment: what each failed of, and what the next did otherwise; and its restarts."""

from collections.abc import Callable, Sequence
from datetime import datetime

from holddown.explain.drawing import wrapped
from holddown.remember.record import Deployment, FailedStart, Status


def starts_of(deployment: Deployment, get: Callable[[str], Deployment | None]) -> tuple[Deployment, ...]:
    """The first one first, this one last; those that are on record no more are left out. get: by id."""
    found = [deployment]
    while found[-1].birth.after and (before := get(found[-1].birth.after)) is not None:
        found.append(before)
    return tuple(reversed(found))


def restart_lines(status: Status, most: int) -> list[str]:
    """After what it was started again: the last ones, oldest first."""
    return [line for each in status.failures[-most:] for line in wrapped("  failed    ", failed_text(each), hang=12)]


def failed_text(failed: FailedStart) -> str:
    """When, how and of what, in one line."""
    when = datetime.fromtimestamp(failed.at).strftime("%Y-%m-%d %H:%M:%S")
    cause = f": {failed.cause.what}" if failed.cause is not None else ""
    return f"{when} {failed.why}{cause}"


def starts_text(starts: Sequence[Deployment]) -> str:
    """Empty for a single one."""
    if len(starts) < 2:
        return ""
    lines: list[str] = ["starts"]
    for number, (each, after) in enumerate(zip(starts, [*starts[1:], None], strict=True), 1):
        edits = " ".join(f"{name}={value}" for name, value in each.status.edits) if after is not None else ""
        cause = f": {each.status.cause.what}" if each.status.cause is not None else ""
        said = f"{each.label}{cause}" + (f"; then {edits}" if edits else "")
        lines += wrapped(f"  start {number} ({each.birth.id}) ", said, hang=10)
    return "\n".join(lines)
