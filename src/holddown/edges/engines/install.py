"""Makes an engine environment: a venv of its own, filled by pip from wherever pip is configured to look."""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holddown.base.errors import EngineError
from holddown.base.units import GIB, duration_text, size_text
from holddown.ports import Progress
from holddown.tables.engine import Recipe

_HEARTBEAT_S = 5.0
_SHOWN_LINES = 6
_LOG = "install.log"
_LOG_END_BYTES = 4096
_PERCENT = re.compile(r"^ *\[ *(\d{1,3})%\]", re.MULTILINE)

# Run by the new venv's Python with the wheel's path: prints the torch that this wheel pins on this machine.
# pip brings its own reader of requirements and their markers, so we need none.
_TORCH_PIN_SCRIPT = """
import email, sys, zipfile
from pip._vendor.packaging.requirements import Requirement
wheel = zipfile.ZipFile(sys.argv[1])
name = next(item for item in wheel.namelist() if item.endswith(".dist-info/METADATA"))
for line in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist", []):
    requirement = Requirement(line)
    if requirement.name == "torch" and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
        print("torch" + str(requirement.specifier))
"""


def install_recipe(recipe: Recipe, version: str, folder: Path, progress: Progress) -> Path:
    """The Python of a venv in `folder` that has the engine, or the server in it that is no Python package. What an
    earlier try left there is removed first.

    Raises: EngineError with the end of pip's output and the log's path, or with what is wrong with the disk.
    """
    try:
        return _install_alone(recipe, version, folder, progress)
    except OSError as error:
        raise EngineError(
            f"{folder.name} could not be installed",
            code="engine.write",
            seen=str(error),
            do=f"df -h {folder.parent}; or set XDG_DATA_HOME to a folder on another disk",
        ) from error


def _install_alone(recipe: Recipe, version: str, folder: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("ensurepip") is None:
        raise EngineError(
            "this Python cannot make virtual environments: it has no ensurepip",
            code="engine.no-ensurepip",
            seen=f"{sys.executable}, Python {sys.version.split()[0]}",
            do=f"apt install python{sys.version_info.major}.{sys.version_info.minor}-venv",
        )
    _check_programs(recipe)
    with _alone(folder) as lock:
        _check_room(recipe, folder)
        if folder.exists():
            progress(f"removing what an unfinished installation left in {folder}")
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        steps = _Steps(folder, progress, lock, _environment(recipe, version))
        steps.run("making a virtual environment", [sys.executable, "-m", "venv", str(folder / "venv")])
        python = folder / "venv" / "bin" / "python"
        if recipe.program:
            return _build(recipe, version, python, steps)
        _install(recipe, version, python, steps)
        return python


def _build(recipe: Recipe, version: str, python: Path, steps: "_Steps") -> Path:
    """From its source: pip tells in its log how far the compiler is."""
    for variable in recipe.variables:
        missing = [name for name in variable.where if not shutil.which(name)]
        if missing and missing[0] != variable.where[0]:
            steps.say(f"{variable.where[0]} is here, {missing[0]} is not: built without {variable.value}")
    wanted = f"{recipe.distribution}=={version.removeprefix(recipe.version_prefix)}"
    # what pip keeps of an earlier build was made for another CPU, or with other options
    pip = [str(python), "-m", "pip", "--no-input", "--disable-pip-version-check", "--verbose", "--no-cache-dir"]
    steps.run(f"building {recipe.name} {version} from its source", [*pip, "install", "--no-deps", wanted])
    if recipe.import_once:
        steps.run("putting its libraries' links in place", [str(python), "-c", f"import {recipe.import_once}"])
    program = next((path for path in sorted(steps.folder.rglob(recipe.program)) if os.access(path, os.X_OK)), None)
    if program is None:
        raise EngineError(
            f"{wanted} was installed, and has no {recipe.program}",
            code="engine.install",
            seen=str(steps.folder),
            do=f"build it yourself: holddown engine add /path/to/{recipe.program}",
        )
    return program


def _install(recipe: Recipe, version: str, python: Path, steps: "_Steps") -> None:
    pip = [str(python), "-m", "pip", "--no-input", "--disable-pip-version-check"]
    wanted = f"{recipe.distribution}=={version}"
    if recipe.torch_index:
        wheels = steps.folder / "wheels"
        steps.run(f"downloading {wanted}", [*pip, "download", "--no-deps", "--dest", str(wheels), wanted])
        wheel = next(iter(sorted(wheels.glob("*.whl"))), None)
        pin = steps.ask([str(python), "-c", _TORCH_PIN_SCRIPT, str(wheel)]) if wheel is not None else ""
        if pin:
            _install_torch(pin, recipe.torch_index, pip, steps)
        wanted = str(wheel) if wheel is not None else wanted
    steps.run(f"installing {recipe.distribution} {version} and what it needs", [*pip, "install", wanted])
    shutil.rmtree(steps.folder / "wheels", ignore_errors=True)
    if recipe.unusable_unless_imports and not steps.imports(python, recipe.unusable_unless_imports):
        names = ", ".join(recipe.unusable)
        steps.run(
            f"removing {names}: importing {recipe.unusable_unless_imports} fails beside this torch",
            [*pip, "uninstall", "--yes", *recipe.unusable],
        )


def _install_torch(pin: str, index: str, pip: Sequence[str], steps: "_Steps") -> None:
    """From pip's own places first: a site's mirror is there for a reason. The public index is for torch alone."""
    if steps.tries(f"installing {pin} from pip's configured places", [*pip, "install", pin]):
        return
    steps.run(
        f"installing {pin} from {index}: pip's own places have none", [*pip, "install", "--index-url", index, pin]
    )


class _Steps:
    """Runs one command after another, with everything they print in one log, and a sign of life every few seconds."""

    def __init__(self, folder: Path, progress: Progress, lock: int, environment: dict[str, str]) -> None:
        self.folder = folder
        self.say = progress
        self._environment = environment
        self._lock = lock
        self._log = folder / _LOG
        self._progress = progress

    def run(self, what: str, command: Sequence[str]) -> None:
        """Raises: EngineError when the command fails."""
        if not self.tries(what, command):
            text = self._log.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("WARNING: Location")]
            raise EngineError(
                f"{what}: failed",
                code="engine.install",
                seen="\n        ".join(lines[-_SHOWN_LINES:]),
                do=f"read {self._log}, then run the same command again: it starts afresh",
            )

    def tries(self, what: str, command: Sequence[str]) -> bool:
        """Whether the command succeeded."""
        self._progress(f"{what} ...")
        began = time.monotonic()
        with open(self._log, "ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command,
                cwd="/",
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # when we are killed, pip works on: the lock must be held as long as it does
                pass_fds=(self._lock,),
            )
            try:
                code = self._wait(process, what, began)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        took = duration_text(time.monotonic() - began)
        self._progress(f"{what}: {'done' if code == 0 else 'failed'} after {took}")
        return code == 0

    def _wait(self, process: "subprocess.Popen[bytes]", what: str, began: float) -> int:
        while True:
            try:
                return process.wait(_HEARTBEAT_S)
            except subprocess.TimeoutExpired:
                elapsed = duration_text(time.monotonic() - began)
                done = self._built() or f"{size_text(_folder_bytes(self.folder))} so far"
                self._progress(f"{what}: {elapsed}, {done}")

    def _built(self) -> str:
        """`23% built`, where the end of the log is a build's that says so."""
        with open(self._log, "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_END_BYTES))
            told = _PERCENT.findall(log.read().decode("utf-8", "replace"))
        return f"{told[-1]}% built" if told else ""

    def imports(self, python: Path, module: str) -> bool:
        """Whether the module can be imported. What the import says is kept in the log."""
        self._progress(f"checking that {module} can be imported ...")
        with open(self._log, "ab") as log:
            command = [str(python), "-c", f"import {module}"]
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            done = subprocess.run(
                command, cwd="/", env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
        return done.returncode == 0

    def ask(self, command: Sequence[str]) -> str:
        """The first line that the command prints; empty when it fails."""
        done = subprocess.run(
            command,
            cwd="/",
            env=self._environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        lines = done.stdout.split("\n") if done.returncode == 0 else [""]
        return lines[0].strip()


def _environment(recipe: Recipe, version: str) -> dict[str, str]:
    """The user's, without a PYTHONPATH: pip would take packages there for installed ones and leave them out.

    With what the recipe wants of a build, in front of what the user wants of it: a compiler takes the last word.
    """
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    if recipe.jobs_variable:
        own.setdefault(recipe.jobs_variable, str(len(os.sched_getaffinity(0))))
    for variable in reversed(recipe.variables):
        if all(shutil.which(name) for name in variable.where):
            value = variable.value.replace("{number}", version.removeprefix(recipe.version_prefix))
            own[variable.name] = f"{value} {own.get(variable.name, '')}".strip()
    return own


def _check_programs(recipe: Recipe) -> None:
    for needed in recipe.needs_programs:
        program, _, package = needed.partition(" ")
        if not shutil.which(program):
            raise EngineError(
                f"{recipe.name} is built from its source, and {program} is not here",
                code="engine.no-compiler",
                seen=f"PATH={os.environ.get('PATH', '')}",
                do=f"apt install {package.strip('()')}   or register a server that is built: holddown engine add PATH",
            )


def _folder_bytes(folder: Path) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(where, name).lstat().st_size
            except FileNotFoundError:
                pass  # pip moves files while we look
    return total


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    """One installation into a folder at a time: the lock's descriptor. It goes with the last process that has it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f".{folder.name}.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EngineError(
                f"{folder.name} is being installed by another holddown just now",
                code="engine.install-running",
                seen=str(folder / _LOG),
                do=f"follow it: tail -f {folder / _LOG}",
            ) from error
        yield lock.fileno()


def _check_room(recipe: Recipe, folder: Path) -> None:
    free = shutil.disk_usage(folder.parent).free
    if free < recipe.needs_gib * GIB:
        raise EngineError(
            f"{recipe.name} needs about {recipe.needs_gib} GiB of disk; {size_text(free)} are free",
            code="engine.disk",
            seen=str(folder.parent),
            do="free some, or set XDG_DATA_HOME to a folder on another disk",
        )
