"""The engine's log: carried by a program of its own, rotated by size, read while it grows."""

import subprocess
import sys
from pathlib import Path

import pytest

from holddown.edges.process import pump
from holddown.edges.process.log import LogFile


def lines(count: int, begin: int = 0) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(begin, begin + count))


def texts(*paths: Path) -> list[str]:
    return [line for path in paths for line in path.read_text().splitlines()]


def test_what_goes_in_comes_out_rotated(tmp_path: Path) -> None:
    """All of it, in order, in files of the size asked for, none of which begins within a line."""
    log = tmp_path / "engine.log"
    argv = [sys.executable, "-I", "-S", pump.__file__, str(log), "100000", "4"]
    subprocess.run(argv, input=lines(30_000), check=True)
    files = [log.with_name(f"engine.log.{number}") for number in (4, 3, 2, 1)]
    files = [file for file in files if file.exists()] + [log]
    assert len(files) > 3
    assert texts(*files) == lines(30_000).decode().splitlines()
    assert all(file.stat().st_size <= 100_000 + 12 for file in files)


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    """A log that grows for a year does not fill the disk."""
    log = pump.RotatingLog(str(tmp_path / "engine.log"), 1000, 2)
    for number in range(100):
        log.write(lines(50, number * 50))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine.log", "engine.log.1", "engine.log.2"]
    assert (tmp_path / "engine.log").read_text().endswith("line 004999\n")


def test_a_log_that_cannot_be_written_says_so_when_it_can_again(tmp_path: Path) -> None:
    """The folder is not there at first: nothing is raised, and what was lost is counted."""
    folder = tmp_path / "gone"
    log = pump.RotatingLog(str(folder / "engine.log"), 1000, 2)
    log.write(lines(2))
    folder.mkdir()
    log.write(b"after\n")
    text = (folder / "engine.log").read_text()
    assert "24 bytes of output were lost here: No such file or directory" in text
    assert text.endswith("after\n")


def test_a_reader_follows_across_rotations(tmp_path: Path) -> None:
    """Each line once, in order, whenever it looks."""
    path = tmp_path / "engine.log"
    log, reader = pump.RotatingLog(str(path), 1000, 4), LogFile(str(path))
    read: list[str] = []
    for number in range(40):
        log.write(lines(30, number * 30))
        read += reader.new()
    assert path.with_name("engine.log.4").exists()
    assert read == lines(1200).decode().splitlines()


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    """A line is not judged before it is whole; a progress bar's redraws are lines."""
    path = tmp_path / "engine.log"
    log, reader = pump.RotatingLog(str(path), 1000, 4), LogFile(str(path))
    assert list(reader.new()) == []
    log.write(b"half a ")
    assert list(reader.new()) == []
    log.write(b"line\n 10%\r 20%\r")
    assert list(reader.new()) == ["half a line", " 10%", " 20%"]


@pytest.mark.parametrize(
    ("count", "given"), [(3, ["b 1", "b 2", "b 3"]), (5, ["a 3", "a 4", "b 1", "b 2", "b 3"]), (0, [])]
)
def test_the_last_lines_reach_back_into_the_rotated_file(tmp_path: Path, count: int, given: list[str]) -> None:
    """A diagnosis right after a rotation must not see three lines only."""
    (tmp_path / "engine.log.1").write_text("a 1\na 2\na 3\na 4\n")
    (tmp_path / "engine.log").write_text("b 1\nb 2\nb 3\n")
    assert list(LogFile(str(tmp_path / "engine.log")).tail(count)) == given


def test_a_reader_from_the_end_sees_only_what_is_new(tmp_path: Path) -> None:
    """`logs -f` shows the last lines itself."""
    path = tmp_path / "engine.log"
    log = pump.RotatingLog(str(path), 1000, 4)
    log.write(lines(10))
    reader = LogFile(str(path), from_end=True)
    log.write(b"new\n")
    assert list(reader.new()) == ["new"]


def test_what_is_written_just_before_a_rotation_is_read(tmp_path: Path) -> None:
    """The reader had come to the end of the old file, and finds it rotated when it looks for it."""
    path = tmp_path / "engine.log"
    log = pump.RotatingLog(str(path), 1000, 4)

    class Overtaken(LogFile):
        def _rotated(self) -> bool:
            if self._fd >= 0 and not path.with_name("engine.log.1").exists():
                log.write(b"x" * 990 + b"\n")
                log.write(b"last of the old\nfirst of the new\n")
            return super()._rotated()

    log.write(b"first\n")
    read = list(Overtaken(str(path)).new())
    assert read == ["first", "x" * 990, "last of the old", "first of the new"]


def test_a_secret_never_reaches_the_log(tmp_path: Path) -> None:
    """SGLang prints its own API key; also where a write ends within it, and more than once."""
    veil = pump.Veil([b"s3cret-key", b"other"])
    pieces = [b"api_key='s3cr", b"et-key', x=s3cret-key", b" s3cret", b"-ke", b"n oth", b"er end s3"]

    assert b"".join(map(veil.over, pieces)) + veil.rest == b"api_key='***', x=*** s3cret-ken *** end s3"


def test_the_program_hides_what_its_environment_names(tmp_path: Path) -> None:
    """Which only its own user can read."""
    log = tmp_path / "engine.log"
    argv = [sys.executable, "-I", "-S", pump.__file__, str(log), "100000", "4"]
    subprocess.run(argv, input=b"key is abcdefgh\n", env={"HOLDDOWN_HIDDEN": "abcdefgh"}, check=True)

    assert log.read_text() == "key is ***\n"
