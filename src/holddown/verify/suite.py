"""The whole suite of `verify`, chosen by what a server claims. The checks of `up`, in `expect`, come first; the
comparison of `quality` is made beside it, since it needs a reference."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from holddown.verify import abuse, degeneration, images, long_context, quality, reasoning, sampling, structured, tools
from holddown.verify.claims import Claims
from holddown.verify.expect import CHECK_NAMES, Check, quick_checks
from holddown.verify.script import Script, Scripted
from holddown.verify.verdict import Outcome, Verdict
from holddown.verify.verdicts import not_applicable


class Need(StrEnum):
    NOTHING = ""
    TOOLS = "no tool parser runs here"
    REASONING = "no reasoning parser runs here"
    IMAGES = "the model takes no pictures"


@dataclass(frozen=True, slots=True)
class Entry:
    """needs: what must be claimed. quick: takes seconds on a small machine. loads: it loads or abuses the server."""

    name: str
    script: Callable[[Claims], Script]
    needs: Need = Need.NOTHING
    quick: bool = True
    loads: bool = False


ENTRIES: tuple[Entry, ...] = (
    Entry("seed", sampling.seed),
    Entry("logprobs", sampling.logprobs),
    Entry("n", sampling.n_answers),
    Entry("json-schema", structured.json_schema),
    Entry("tool-call", tools.tool_call, Need.TOOLS, quick=False),
    Entry("tool-choice", tools.tool_choice, Need.TOOLS, quick=False),
    Entry("tool-parallel", tools.tool_parallel, Need.TOOLS, quick=False),
    Entry("tool-stream", tools.tool_stream, Need.TOOLS, quick=False),
    Entry("tool-result", tools.tool_result, Need.TOOLS, quick=False),
    Entry("reasoning", reasoning.reasoning, Need.REASONING, quick=False),
    Entry(reasoning.BUDGET, reasoning.reasoning_budget, Need.REASONING, quick=False),
    Entry("images", images.images, Need.IMAGES),
    Entry("prefix-cache", long_context.prefix_cache),
    Entry("over-long", long_context.over_long),
    Entry("needle", long_context.needle, quick=False),
    Entry("degeneration", degeneration.degeneration, quick=False),
    Entry("tool-crowd", tools.tool_crowd, Need.TOOLS, quick=False, loads=True),
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
    scripts = (Scripted(each.name, _script(each, claims, intrusive=intrusive), not each.quick) for each in entries)
    every = (*first, *scripts)
    return tuple(check for check in every if not only or check.name in only)


def _script(entry: Entry, claims: Claims, *, intrusive: bool) -> Callable[[], Script]:
    missing = _missing(entry.needs, claims)
    if missing:
        return partial(_unclaimed, entry.name, missing)
    if not entry.loads or claims.ours:
        return partial(entry.script, claims)
    return partial(_intruding, entry, claims) if intrusive else partial(_withheld, entry.name)


def _missing(need: Need, claims: Claims) -> str:
    """Why it cannot be asked; empty where it can, also where only asking can tell."""
    if need is not Need.NOTHING and not claims.chat:
        return "the model has no chat template"
    claimed = {Need.TOOLS: claims.tools, Need.REASONING: claims.reasoning, Need.IMAGES: claims.images}
    return need if claimed.get(need) is False else ""


def _unclaimed(name: str, why: str) -> Script:
    return not_applicable(name, why)
    yield  # a script, although it asks nothing


def _intruding(entry: Entry, claims: Claims) -> Script:
    verdict = yield from entry.script(claims)
    return replace(verdict, asked=f"{verdict.asked} (of a server that is not ours, by --intrusive)")


def _withheld(name: str) -> Script:
    return Verdict(name, Outcome.SKIPPED, "it loads or abuses a server, and this one is not ours: --intrusive")
    yield  # a script, although it asks nothing
