"""The options that say what will be asked of a deployment, on every verb that plans one."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from holddown.base.errors import UsageError
from holddown.facts.workload import WORKLOADS, Slo, Workload

Command = TypeVar("Command", bound="Callable[..., Any]")


class _Positive(click.FloatRange):
    """Above zero, and a number: `nan` and `inf` are floats too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


POSITIVE = _Positive(0, min_open=True)


def _named(workload: Workload) -> str:
    users = f"{workload.concurrency} at once" if workload.concurrency else "as many as fit"
    return f"{workload.name} ({workload.input_tokens} tokens in, {workload.output_tokens} out, {users})"


_OPTIONS = (
    click.option(
        "--workload",
        default="chat",
        show_default=True,
        metavar="NAME",
        help=f"What will be asked of it: {', '.join(_named(each) for each in WORKLOADS.values())}.",
    ),
    click.option("--input-tokens", type=click.IntRange(1), help="Tokens of a prompt, in place of the workload's."),
    click.option("--output-tokens", type=click.IntRange(1), help="Tokens of an answer, in place of the workload's."),
    click.option("--concurrency", type=click.IntRange(0), help="Requests at once; 0 for as many as fit."),
    click.option("--rate", type=POSITIVE, help="Requests per second, in place of a number at once."),
    click.option("--ttft-ms", type=POSITIVE, help="Wanted: at most so long to the first token."),
    click.option("--tpot-ms", type=POSITIVE, help="Wanted: at most so long for each token after it."),
)


def workload_options(command: Command) -> Command:
    """`--workload` and what changes a part of it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def workload_of(words: dict[str, Any]) -> Workload:
    """Takes the options out of `words`. Raises: UsageError."""
    name = words.pop("workload")
    given = {key: words.pop(key) for key in ("input_tokens", "output_tokens", "concurrency", "rate")}
    slo = Slo(words.pop("ttft_ms") or 0, words.pop("tpot_ms") or 0)
    if name not in WORKLOADS:
        do = f"--workload {' | '.join(WORKLOADS)}, and --input-tokens, --output-tokens, --concurrency change it"
        raise UsageError(f"no workload is called {name}", code="usage.workload", do=do)
    if given["rate"] and given["concurrency"] is not None:
        raise UsageError("--rate and --concurrency exclude each other", code="usage.workload", do="leave one out")
    parts = {key: value for key, value in given.items() if value is not None}
    if not parts and slo == Slo():
        return WORKLOADS[name]
    return replace(WORKLOADS[name], name=f"{name}, changed" if parts else name, slo=slo, **parts)
