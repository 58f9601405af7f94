"""Any text into a reader of the machine gives facts or its error, never another."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holddown.facts.cgroup import (
    MemoryLimit,
    bound_memory,
    groups,
    read_cfs_quota,
    read_cpu_max,
    read_limit,
    read_memberships,
    read_reclaimable,
)
from holddown.facts.proc import (
    Meminfo,
    read_cmdline,
    read_cpuinfo,
    read_meminfo,
    read_mountinfo,
    read_stat,
    read_uids,
)

TEXT = st.text(max_size=200) | st.from_regex(r"[\w:,/ .()-]{0,40}\n?[\w:,/ .()-]{0,40}", fullmatch=True)
SIZES = st.integers(min_value=0, max_value=2**45)


@given(TEXT)
def test_any_text_gives_facts_or_a_value_error(text: str) -> None:
    """Readers of what the kernel always writes raise ValueError; the others give what there is."""
    for reader in (read_stat, read_meminfo):
        with suppress(ValueError):
            reader(text)
    read_cpuinfo(text)
    read_limit(text)
    read_cpu_max(text)
    read_cfs_quota(text, text)
    read_reclaimable(text)
    groups(read_memberships(text), read_mountinfo(text), "memory")


@given(st.text(st.characters(blacklist_characters="\n\0"), max_size=15), st.integers(1, 2**22), SIZES)
def test_no_name_shifts_the_fields(name: str, pid: int, started_at: int) -> None:
    """Whatever a process calls itself, pid and start time are its own."""
    stat = read_stat(f"{pid} ({name}) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started_at} 0 5 0")
    assert (stat.pid, stat.name, stat.started_at) == (pid, name, started_at)


@given(st.binary(max_size=100))
def test_any_command_line_is_text(data: bytes) -> None:
    """A title is never empty, and always printable as text."""
    assert read_cmdline(data, "x").encode()


@given(SIZES, SIZES, st.lists(st.builds(MemoryLimit, st.just("/x"), SIZES, SIZES, SIZES), max_size=4))
def test_available_never_exceeds_any_bound(total: int, free: int, limits: list[MemoryLimit]) -> None:
    """Available is within the limit, and both within the machine and every group."""
    memory = bound_memory(Meminfo(total, min(free, total), 0), tuple(limits))
    assert 0 <= memory.available_bytes <= memory.limit_bytes <= total
    assert all(memory.limit_bytes <= limit.limit_bytes for limit in limits)
    assert all(memory.available_bytes <= limit.available_bytes for limit in limits)


@pytest.mark.parametrize("text", ["Uid:\t0\t0\t0\t0\n", ""])
def test_user_ids_are_four_or_none(text: str) -> None:
    """The kernel writes all four."""
    assert len(read_uids(text)) in (0, 4)
