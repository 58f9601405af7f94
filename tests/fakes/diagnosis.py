"""A log in, one finding out, as the supervisor records it."""

from collections.abc import Sequence

from holddown.base.finding import Finding
from holddown.verify.diagnose import as_finding, read_log


def root_cause(log_lines: Sequence[str], exit_code: int | None, engine: str = "") -> Finding:
    return as_finding(read_log(log_lines, engine).report(exit_code), exit_code)
