"""Recorded traffic: when each request came, and how long it was.

Source: JSON lines as Mooncake publishes them (`timestamp` in ms, `input_length`, `output_length`; kvcache-ai/Mooncake,
mooncake_trace.jsonl); CSV as Azure does (`TIMESTAMP`, `ContextTokens`, `GeneratedTokens`; Azure/AzurePublicDataset) and
as BurstGPT does (`Timestamp` in s, `Request tokens`, `Response tokens`; HPMLL/BurstGPT).
"""

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import count

from holddown.base.errors import UsageError
from holddown.measure.drive import Shot

_TIMES = ("timestamp", "arrived_at", "due_s")
_INPUTS = ("input_length", "contexttokens", "request tokens", "input_tokens")
_OUTPUTS = ("output_length", "generatedtokens", "response tokens", "output_tokens")


def shots(text: str, where: str, first_session: int, seconds: float = 0.0) -> tuple[Shot, ...]:
    """In the order of their due times, the first at 0. seconds: what comes later is left out; 0 for all.

    Raises: UsageError.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    jsonl = bool(lines) and lines[0].lstrip().startswith("{")
    faults: list[str] = []
    found: list[tuple[float, int, int]] = []
    for number, row in zip(count(1 if jsonl else 2), _jsonl(lines) if jsonl else csv.DictReader(lines), strict=False):
        try:
            found.append(_request(row, jsonl))
        except (KeyError, ValueError, TypeError) as error:
            faults.append(f"line {number}: {error}")
    if faults or not found:
        raise UsageError(
            f"{where} is no trace of requests",
            code="bench.trace",
            seen="; ".join(faults[:3]) or "it has no line with a request",
            do='JSON lines {"timestamp": ms, "input_length": N, "output_length": N}, or CSV with TIMESTAMP, '
            "ContextTokens, GeneratedTokens",
        )
    found.sort()
    begin = found[0][0]
    made = [
        Shot(first_session + number, 0, tokens_in, tokens_out, at - begin)
        for number, (at, tokens_in, tokens_out) in enumerate(found)
    ]
    return tuple(shot for shot in made if not seconds or shot.due_s < seconds)


def _jsonl(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            yield {}


def _request(row: dict[str, object], jsonl: bool) -> tuple[float, int, int]:
    """Seconds, tokens in, tokens out. Raises: KeyError, ValueError, TypeError."""
    named = {str(name).strip().lower(): value for name, value in row.items()}
    at = _seconds(_first(named, _TIMES), milliseconds=jsonl and "timestamp" in named)
    tokens = [int(float(str(_first(named, names)))) for names in (_INPUTS, _OUTPUTS)]
    if tokens[0] < 1 or tokens[1] < 1:
        raise ValueError(f"{tokens[0]} tokens in, {tokens[1]} out: a request has at least one of each")
    return at, tokens[0], tokens[1]


def _first(row: dict[str, object], names: tuple[str, ...]) -> object:
    for name in names:
        if name in row:
            return row[name]
    raise KeyError(f"none of {', '.join(names)}")


def _seconds(value: object, *, milliseconds: bool) -> float:
    try:
        number = float(str(value))
    except ValueError:
        return datetime.fromisoformat(str(value).strip()[:26]).timestamp()
    return number / 1000 if milliseconds else number
