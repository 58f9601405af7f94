"""model.safetensors.index.json: which shard holds which tensor, and whether the shards' own headers say the same."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from holddown.base.finding import Finding, Severity, some_text
from holddown.facts.safetensors import ShardHeader, TensorKind, get_again, kind_name
from holddown.facts.weights import numbered_parts

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class WeightMap:
    """The tensors, and beside each the shard that should hold it."""

    tensors: tuple[str, ...]
    shards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Agreed:
    """The index says exactly what the headers of these shards say."""

    shards: tuple[str, ...]


Index = WeightMap | Agreed | Finding | None
"""None: there is no index."""


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """present: what to read. missing: named by the index or by the numbering. ignored: there, but named by nothing."""

    present: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    named_by: str


class _Document(msgspec.Struct, gc=False):
    weight_map: dict[str, str]


_DOCUMENT = msgspec.json.Decoder(_Document)


def read_index(text: str | bytes | None, fault: str = "") -> WeightMap | Finding | None:
    """What the index says, or why it cannot be read. fault: why it could not even be read as text."""
    if text is None and not fault:
        return None
    try:
        if fault:
            raise ValueError(fault)
        placed = _DOCUMENT.decode(text or "").weight_map
    except msgspec.ValidationError as error:
        return _unreadable(f"it has no weight_map from tensor names to file names: {error}")
    except RecursionError:
        return _unreadable("it is nested too deeply")
    except ValueError as error:
        return _unreadable(str(error))
    return WeightMap(tuple(placed), tuple(placed.values()))


def _unreadable(why: str) -> Finding:
    return Finding("index.unreadable", Severity.BLOCK, INDEX, f"{INDEX} cannot be read", why, get_again(INDEX))


def weight_files(file_names: tuple[str, ...], index: Index) -> WeightFiles:
    """Which safetensors files make up the checkpoint.

    With an index, those that it names: engines load no others. Without one, all there are; Mistral's own
    `consolidated*.safetensors` beside a Hugging Face set hold the same weights once more and are left out.
    """
    there = tuple(sorted(name for name in file_names if name.endswith(".safetensors")))
    if isinstance(index, WeightMap | Agreed) and index.shards:
        named = set(index.shards)
        present = tuple(name for name in there if name in named)
        ignored = tuple(name for name in there if name not in named)
        return WeightFiles(present, tuple(sorted(named - set(present))), ignored, INDEX)
    ignored = tuple(name for name in there if name.startswith("consolidated"))
    if len(ignored) == len(there):
        ignored = ()
    present = tuple(name for name in there if name not in ignored)
    expected = {part for name in present for part in numbered_parts(name)}
    return WeightFiles(present, tuple(sorted(expected - set(present))), ignored, "the numbering of the others")


def index_findings(index: Index, headers: list[ShardHeader]) -> tuple[Finding, ...]:
    """Where the index and the headers disagree about the tensors, and tensors that stand twice."""
    if isinstance(index, Agreed):
        return ()
    owners: dict[str, str] = {}
    for header in headers:
        owners.update(dict.fromkeys(header.tensor_names, header.name))
    findings = []
    if sum(len(header.tensor_names) for header in headers) > len(owners):
        counted = Counter(name for header in headers for name in header.tensor_names)
        twice = [name for name, count in counted.items() if count > 1]
        what = f"{_tensors(twice)} in more than one file: which of them is loaded depends on the engine"
        findings.append(Finding("tensor.duplicate", Severity.WARN, twice[0], what, some_text(twice)))
    if index is None:
        return tuple(findings)
    if isinstance(index, Finding):
        return (*findings, index)
    placed = dict(zip(index.tensors, index.shards, strict=True))
    if placed == owners:
        return tuple(findings)
    readable = {header.name for header in headers}
    gone = [name for name, shard in placed.items() if name not in owners and shard in readable]
    if gone:
        what = f"{_tensors(gone)} listed in {INDEX} and in no weight file"
        findings.append(
            Finding("tensor.missing", Severity.BLOCK, gone[0], what, some_text(gone), get_again(placed[gone[0]]))
        )
    moved = [name for name, shard in placed.items() if shard in readable and owners.get(name, shard) != shard]
    if moved:
        what = f"{_tensors(moved)} in another file than {INDEX} says"
        findings.append(Finding("tensor.misplaced", Severity.WARN, moved[0], what, some_text(moved)))
    unlisted = [name for name in owners if name not in placed]
    if unlisted:
        what = f"{_tensors(unlisted)} in the weight files but not in {INDEX}"
        findings.append(Finding("tensor.not-in-index", Severity.WARN, unlisted[0], what, some_text(unlisted)))
    return tuple(findings)


def kinds_once(headers: Iterable[ShardHeader]) -> tuple[TensorKind, ...]:
    """The kinds of all tensors, those that stand in two files counted once."""
    headers = tuple(headers)
    seen: set[str] = set().union(*(header.tensor_names for header in headers))
    if sum(len(header.tensor_names) for header in headers) <= len(seen):
        return tuple(kind for header in headers for kind in header.kinds)
    seen = set()
    kinds: list[TensorKind] = []
    for header in headers:
        again = Counter(kind_name(name) for name in header.tensor_names if name in seen)
        seen.update(header.tensor_names)
        for kind in header.kinds:
            less = min(again.pop(kind.name, 0), kind.tensors)
            if less < kind.tensors:
                kinds.append(replace(kind, tensors=kind.tensors - less))
    return tuple(kinds)


def _tensors(names: list[str]) -> str:
    return "1 tensor is" if len(names) == 1 else f"{len(names)} tensors are"
