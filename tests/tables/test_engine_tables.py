"""Our tables about engines, and the log lines in them against real logs."""

import re
from pathlib import Path

import pytest

from holddown.launch.engines import adapter
from holddown.launch.phases import Phase
from holddown.tables.engine import EngineTable
from holddown.tables.load import engine_tables

HERE = Path(__file__).resolve().parents[1] / "captures"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "captures"
ORDER = list(Phase)
KINDS = ("vllm", "llamacpp")
LOGS = [log for kind in KINDS for folder in (HERE, SHARED) for log in sorted((folder / kind).rglob("*.log"))]
TABLES = pytest.mark.parametrize("table", engine_tables(), ids=lambda table: table.kind)


def kind_of(log: Path) -> str:
    return next(kind for kind in KINDS if kind in log.parts)


def phases_of(log: Path) -> list[Phase]:
    """The phases in the order in which the log tells them, without repeats of the same."""
    found: list[Phase] = []
    for line in re.split(r"[\r\n]", log.read_text(encoding="utf-8", errors="replace")):
        seen = adapter(kind_of(log)).phase(line)
        if seen is not None and found[-1:] != [seen.phase]:
            found.append(seen.phase)
    return found


@TABLES
def test_every_row_names_its_source(table: EngineTable) -> None:
    """What we know and did not ask says where it is from."""
    rows = (
        *table.recipes,
        *table.gone_flags,
        *table.owned_flags,
        *table.phases,
        *table.parser_names,
        *table.kv_rewrites,
    )

    assert [row for row in rows if not row.source.strip()] == []
    assert bool(table.cpu_kv_bytes_since) == bool(table.cpu_kv_bytes_source)
    assert bool(table.twins_since) == bool(table.twins_source)


@TABLES
def test_no_two_rows_speak_of_one_thing(table: EngineTable) -> None:
    """A second row for one name would never be reached."""
    for names in (
        [row.name for row in table.recipes],
        [row.name for row in table.gone_flags],
        [row.name for row in table.owned_flags],
        [row.fragment for row in table.phases],
        [(row.of, row.name) for row in table.parser_names],
    ):
        assert len(names) == len(set(names))


@TABLES
def test_phase_rows_stand_in_the_order_of_the_start(table: EngineTable) -> None:
    """Each names a phase of ours, and a reader finds them in the order of the log."""
    phases = [ORDER.index(Phase(row.phase)) for row in table.phases]

    assert phases == sorted(phases)


def test_there_are_logs_to_test_on() -> None:
    """The excerpts of this repository are there: without them the tests below would test nothing."""
    assert all(len([log for log in LOGS if kind_of(log) == kind and HERE in log.parents]) >= 2 for kind in KINDS)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}/{log.stem}")
def test_phases_of_a_real_log_never_go_back(log: Path) -> None:
    """In no log, ready or failed, does a line tell a phase that is over."""
    phases = phases_of(log)

    assert phases == sorted(phases, key=ORDER.index)


@pytest.mark.parametrize(
    "log", [log for log in LOGS if log.name.startswith("ready-")], ids=lambda log: f"{log.parent.name}/{log.stem}"
)
def test_a_log_that_got_ready_tells_the_way_there(log: Path) -> None:
    """From the process to the server, with weights and KV cache on the way, whatever was compiled or captured;
    llama.cpp names no configuration before its weights."""
    config = {Phase.CONFIG} if kind_of(log) == "vllm" else set()

    assert {Phase.PROCESS, Phase.WEIGHTS, Phase.KV_CACHE, Phase.SERVER} | config <= set(phases_of(log))


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}/{log.stem}")
def test_a_line_matches_one_row_at_most(log: Path) -> None:
    """The order of the rows decides nothing."""
    (table,) = [table for table in engine_tables() if table.kind == kind_of(log)]
    for line in re.split(r"[\r\n]", log.read_text(encoding="utf-8", errors="replace")):
        message = re.sub(r"^\([^)]*\) |^[A-Z]+ \d\d-\d\d \S+ \[\S+\] ", "", re.sub(r"^\([^)]*\) ", "", line))
        matches = [row.fragment for row in table.phases if re.search(row.fragment, message)]
        assert len(matches) <= 1, line
