"""Deployments, runs and files beside each other: what differs, and whether it is more than chance."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holddown import ports
from holddown.app.import_bench import results
from holddown.base.codec import load
from holddown.base.errors import UsageError
from holddown.measure.compare import LoadDifference, compare
from holddown.remember.foretold import Foretold, foretold
from holddown.remember.record import Deployment
from holddown.remember.run import BenchRun, Run, VerifyRun
from holddown.remember.side import Change, Side, changes, unknown


@dataclass(frozen=True, slots=True)
class Beside:
    """One side, in short. deployment, bench: ids, empty for none. at: when its figures were measured, 0 where that is
    not known. foretold: predicted and measured."""

    word: str
    deployment: str
    bench: str
    at: float
    foretold: tuple[Foretold, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """b against a. loads: those that both had."""

    a: Beside
    b: Beside
    changes: tuple[Change, ...]
    unknown: tuple[str, ...]
    loads: tuple[LoadDifference, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The first side against each other one."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Doors:
    """store: None where nothing is on record yet. read: a path -> its text, None for no file."""

    store: ports.Store | None
    read: Callable[[str], str | None]


def compare_all(words: Sequence[str], doors: Doors) -> Compared:
    """Raises: UsageError where a word names nothing, or nothing that could be compared."""
    first, *others = (side(word, doors) for word in words)
    on_record = doors.store.all() if doors.store is not None else ()
    return Compared(tuple(_pair(first, other, on_record) for other in others))


def _pair(a: Side, b: Side, on_record: Iterable[Deployment]) -> Pair:
    sides = (_beside(a, on_record), _beside(b, on_record))
    return Pair(*sides, changes(a, b), unknown(a, b), compare(a.samples, b.samples))


def _beside(side: Side, on_record: Iterable[Deployment]) -> Beside:
    at = side.bench.at if side.bench else side.deployment.birth.created_at if side.deployment else 0.0
    deployment = side.deployment.birth.id if side.deployment else ""
    return Beside(side.word, deployment, side.bench.id if side.bench else "", at, foretold(side, on_record))


# --- what a word names ------------------------------------------------------------------------------------------------


def side(word: str, doors: Doors) -> Side:
    """A deployment by its name or id with its newest runs, a run by its id, or a file. Raises: UsageError."""
    found = _on_record(word, doors.store) if doors.store is not None else None
    if found is None:
        text = doors.read(word)
        found = _of_file(word, text, doors) if text is not None else None
    if found is None:
        raise UsageError(
            f"{word} is no deployment, no run and no file",
            code="compare.nothing",
            seen=f"on record: {_names(doors.store)}",
            do="holddown list names deployments; bench and verify print their run's id",
        )
    return found


def _names(store: ports.Store | None) -> str:
    names = sorted({each.birth.name for each in store.all()}) if store is not None else []
    return ", ".join(names) or "nothing"


def _on_record(word: str, store: ports.Store) -> Side | None:
    deployment = store.latest(word)
    if deployment is not None:
        runs = store.runs(deployment.birth.id)
        bench = next((run for run in runs if isinstance(run, BenchRun) and run.phases), None)
        return Side(word, deployment, bench, next((run for run in runs if isinstance(run, VerifyRun)), None))
    run = store.run(word)
    return _of_run(word, run, store.get(run.subject.deployment)) if run is not None else None


def _of_run(word: str, run: Run, deployment: Deployment | None) -> Side:
    """A run alone says nothing of its deployment's other runs."""
    return Side(word, deployment, run, None) if isinstance(run, BenchRun) else Side(word, deployment, None, run)


def _of_file(word: str, text: str, doors: Doors) -> Side:
    """Raises: UsageError."""
    try:
        said: Any = json.loads(text)
        each = said if isinstance(said, list) else [said]
        sides = [side for one in each if isinstance(one, dict) and (side := _of_json(word, one)) is not None]
        if not sides:
            return Side(word, bench=results(text, word))
    except (ValueError, RecursionError) as error:
        raise _unread(word, str(error)) from error
    if len(sides) != 1:
        raise _unread(word, f"{len(sides)} runs or deployments where one is wanted")
    found = sides[0]
    run = found.bench or found.verify
    known = doors.store.get(run.subject.deployment) if run is not None and doors.store is not None else None
    return replace(found, deployment=found.deployment or known)


def _of_json(word: str, said: dict[str, Any]) -> Side | None:
    """What `--json` of bench, verify, status or explain prints. Raises: ValueError."""
    if "birth" in said:
        return Side(word, load(Deployment, said))
    if "phases" in said:
        return Side(word, bench=load(BenchRun, said))
    return Side(word, verify=load(VerifyRun, said)) if "verdicts" in said else None


def _unread(word: str, seen: str) -> UsageError:
    return UsageError(
        f"{word} holds nothing that can be compared",
        code="compare.file",
        seen=seen,
        do="--json of bench, verify or status, or what bench --import reads",
    )
