"""The whole suite of `verify`, chosen by what a server claims. The checks of `up`, in `expect`, come first; the
comparison of `quality` is made beside it, since it needs a reference."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial

from holddown.verify import abuse, degeneration, images, long_context, quality, reasoning, sampling, structured, tools
from holddown.verify.claims import Claims
from holddown.verify.expect import CHECK_NAMES, Check, quick_checks
from holddown.verify.script import Script, Scripted
from holddown.verify.verdict import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Entry:
    """quick: takes seconds on a small machine. loads: it loads or abuses the server."""

    name: str
    script: Callable[[Claims], Script]
    quick: bool = True
    loads: bool = False


ENTRIES: tuple[Entry, ...] = (
    Entry("seed", sampling.seed),
    Entry("logprobs", sampling.logprobs),
    Entry("n", sampling.n_answers),
    Entry("json-schema", structured.json_schema),
    Entry("tool-call", tools.tool_call, quick=False),
    Entry("tool-choice", tools.tool_choice, quick=False),
    Entry("tool-parallel", tools.tool_parallel, quick=False),
    Entry("tool-stream", tools.tool_stream, quick=False),
    Entry("tool-result", tools.tool_result, quick=False),
    Entry("reasoning", reasoning.reasoning, quick=False),
    Entry("images", images.images),
    Entry("prefix-cache", long_context.prefix_cache),
    Entry("over-long", long_context.over_long),
    Entry("needle", long_context.needle, quick=False),
    Entry("degeneration", degeneration.degeneration, quick=False),
    Entry("tool-crowd", tools.tool_crowd, quick=False, loads=True),
    Entry("cancellation", abuse.cancellation, loads=True),
    Entry("malformed", abuse.malformed, quick=False, loads=True),
)

NAMES: tuple[str, ...] = (*CHECK_NAMES, *(entry.name for entry in ENTRIES), quality.NAME)
"""What `--check` takes, in the order in which they run."""


def suite(claims: Claims, only: Collection[str], *, quick: bool, intrusive: bool) -> tuple[Check | Scripted, ...]:
    """only: those names; empty for all that fit. A check that loads a server is asked of ours, and of anybody else's
    only where the user says so."""
    first = quick_checks(claims.model, claims.vocab_size, chat=claims.chat, any_model=claims.any_model)
    entries = (entry for entry in ENTRIES if entry.quick or not quick or entry.name in only)
    every = (*first, *(Scripted(entry.name, _script(entry, claims, intrusive=intrusive)) for entry in entries))
    return tuple(check for check in every if not only or check.name in only)


def _script(entry: Entry, claims: Claims, *, intrusive: bool) -> Callable[[], Script]:
    if not entry.loads or claims.ours:
        return partial(entry.script, claims)
    return partial(_intruding, entry, claims) if intrusive else partial(_withheld, entry.name)


def _intruding(entry: Entry, claims: Claims) -> Script:
    verdict = yield from entry.script(claims)
    return replace(verdict, asked=f"{verdict.asked} (of a server that is not ours, by --intrusive)")


def _withheld(name: str) -> Script:
    return Verdict(name, Outcome.SKIPPED, "it loads or abuses a server, and this one is not ours: --intrusive")
    yield  # a script, although it asks nothing
