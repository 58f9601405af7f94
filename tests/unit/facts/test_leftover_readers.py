"""Readers of /proc/PID/maps and /proc/net/unix, and the names that engines leave."""

import pytest

from holddown.facts.leftovers import SHM_NAMES, SOCKET_NAMES, FileId, read_bound_sockets, read_maps

MAPS = """7f1c00000000-7f1c09600000 rw-s 00000000 00:1a 4021                       /dev/shm/psm_ab12cd
7f1c09600000-7f1c09700000 rw-s 00100000 00:1a 4021                       /dev/shm/psm_ab12cd
7f1c10000000-7f1c10001000 r--p 00000000 103:02 99                        /a folder/with blanks (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
7f1c20000000-7f1c20021000 rw-p 00000000 00:00 0
broken
"""
UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
ffff8880: 00000002 00000000 00010000 0001 01 20401 /tmp/3d08bad5-199b-407a-ad9b-a67d0fc77452
ffff8881: 00000002 00000000 00010000 0001 01 20402 @/tmp/.X11-unix/X0
ffff8882: 00000003 00000000 00000000 0001 03 20403
ffff8883: 00000002 00000000 00010000 0001 01 20404 /run/a b
"""


def test_maps_name_each_file_once() -> None:
    """Device numbers are hexadecimal; anonymous memory is no file; several mappings of one file are one."""
    assert read_maps(MAPS) == (
        (FileId(0, 0x1A, 4021), "/dev/shm/psm_ab12cd"),
        (FileId(0x103, 2, 99), "/a folder/with blanks (deleted)"),
    )


@pytest.mark.parametrize("character", ["\r", "\x0b", "\x85", "\u2028"])
def test_a_strange_path_ends_no_line(character: str) -> None:
    """Only a line feed does, and the kernel writes that one escaped: a path cannot break the reading of others."""
    line = f"7f1c-7f1d rw-s 00000000 00:1a 5 /tmp/a{character}b c d:z e f g\n"
    assert read_maps(line + MAPS)[0] == (FileId(0, 0x1A, 5), f"/tmp/a{character}b c d:z e f g")
    assert len(read_maps(line + MAPS)) == 3


def test_bound_sockets_are_those_with_a_file() -> None:
    """Abstract and unnamed sockets have no file that could be left."""
    assert read_bound_sockets(UNIX) == ("/tmp/3d08bad5-199b-407a-ad9b-a67d0fc77452", "/run/a b")


@pytest.mark.parametrize("name", ["psm_1a2b", "sem.mp-x8k2", "vllm_offload_7.mmap", "nccl-AbC123"])
def test_names_in_shared_memory(name: str) -> None:
    """What engines leave in /dev/shm."""
    assert SHM_NAMES.fullmatch(name)


@pytest.mark.parametrize("name", ["psm_", "sem.other", "my_psm_1", "pulse-shm-1", "xpsm_1"])
def test_names_of_others_in_shared_memory(name: str) -> None:
    """What programs that are no engines leave is not looked at."""
    assert not SHM_NAMES.fullmatch(name)


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("3d08bad5-199b-407a-ad9b-a67d0fc77452", True),
        ("vllm_dist_863800dcd1384d54", True),
        ("3d08bad5-199b-407a-ad9b-a67d0fc77452.sock", False),
        ("3d08bad5", False),
        ("ssh-XXXX", False),
    ],
)
def test_names_of_sockets(name: str, matches: bool) -> None:
    """A bare UUID, or torch's meeting point."""
    assert bool(SOCKET_NAMES.fullmatch(name)) is matches
