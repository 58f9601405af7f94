"""Asks an interpreter which engine it has, without importing the engine."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from holddown.base.errors import EngineError
from holddown.facts.engine_locate import LOCATE_SCRIPT, Located, located
from holddown.facts.python_source import SourceFile, read_string
from holddown.launch.environment import NOT_INHERITED

_TIMEOUT_S = 60


def find_engine(python: Path, pythonpath: str, packages: Sequence[str]) -> Located:
    """Where the first of `packages` lies for this interpreter, with the engine's version.

    Raises: EngineError saying which of the steps to it failed.
    """
    _check_file(python)
    if pythonpath and not Path(pythonpath).is_dir():
        raise EngineError(f"{pythonpath} is not a folder", code="engine.pythonpath", do="give --pythonpath a folder")
    found = _ask(python, pythonpath, packages)
    if not found.package_dir:
        raise EngineError(
            f"no engine in the environment of {python}",
            code="engine.not-found",
            seen=f"Python {found.python_version} finds no package {' or '.join(packages)} "
            f"in {', '.join(found.site_dirs[-2:]) or 'its folders'}",
            do=f"give the Python of the environment that has it, add --pythonpath DIR, "
            f"or install it there: {python} -m pip install {packages[0]}",
        )
    return found


def version_of(found: Located) -> str:
    """The distribution's version; of a source checkout, which has none, the one its build wrote into the package.

    Raises: EngineError when there is neither.
    """
    if found.distribution_version:
        return found.distribution_version
    path = Path(found.package_dir) / "_version.py"
    version = read_string(SourceFile(str(path), _text(path)), "__version__") if path.is_file() else None
    if version is None:
        raise EngineError(
            f"the {found.package} in {found.package_dir} tells no version",
            code="engine.no-version",
            seen=f"no dist-info names it, and {path} gives none",
            do="install it with pip, or build it, so that its version is written down",
        )
    return version


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise EngineError("a file of the engine cannot be read", code="engine.source", seen=str(error)) from error


def _check_file(python: Path) -> None:
    do = "give the path of an interpreter, for instance /path/to/venv/bin/python"
    if python.is_dir():
        inside = python / "bin" / "python"
        raise EngineError(
            f"{python} is a folder, not an interpreter",
            code="engine.not-a-file",
            do=f"holddown engine add {inside}" if inside.exists() else do,
        )
    if not python.exists():
        seen = f"a link to {python.readlink()}, which is gone" if python.is_symlink() else ""
        raise EngineError(f"there is no file {python}", code="engine.not-a-file", seen=seen, do=do)
    if not os.access(python, os.X_OK):
        raise EngineError(f"{python} is not executable by you", code="engine.not-executable", do=do)


def _ask(python: Path, pythonpath: str, packages: Sequence[str]) -> Located:
    env = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    if pythonpath:
        env["PYTHONPATH"] = pythonpath
    try:
        done = subprocess.run(
            [python, "-c", LOCATE_SCRIPT, *packages],
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{python} cannot be run", code="engine.not-a-python", seen=str(error)) from error
    found = located(done.stdout)
    if found is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise EngineError(
            f"{python} did not answer like a Python interpreter",
            code="engine.not-a-python",
            seen=said[-1][:200] if said else f"exit code {done.returncode}, no output",
            do="give the path of an interpreter, for instance /path/to/venv/bin/python",
        )
    return found
