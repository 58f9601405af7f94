"""Asks an engine that is an installed Python package what it is and takes: reads its files, and tries its import once.

What differs between engines is their `Package`; where it lies, what torch it has, whether it can be imported and when
an answer may be used again is the same.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holddown.base.errors import EngineError
from holddown.base.evidence import Fact, Unknown, from_file
from holddown.edges.probes.facts_cache import FactsCache, Imported
from holddown.edges.probes.python_package import source_file, without_collector
from holddown.edges.probes.whereabouts import Whereabouts
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.engine_locate import LOCATE_SCRIPT, Located, located
from holddown.facts.python_source import read_string
from holddown.launch.environment import NOT_INHERITED
from holddown.ports import Progress

_LOCATE_TIMEOUT_S = 60
# 10 s on two idle cores with warm files; a cold network disk under load takes minutes
_IMPORT_TIMEOUT_S = 600
_TRACEBACK_LINES = 5


@dataclass(frozen=True, slots=True)
class Package:
    """One engine's. name: as Python imports it. called: for a person (`vLLM`).

    reader: grows when the facts' meaning or the reader changes, so that what an older holddown cached is read anew.
    watched: files, relative to the package, whose times tell that it changed under one version. device: what the
    build is for, from where it lies and what torch is for. read: the facts with what its files say. modules: to be
    imported as a trial. environment: for that trial, by the device.
    """

    name: str
    called: str
    reader: str
    watched: Sequence[str]
    device: Callable[[Located, Fact[str]], Fact[str]]
    read: Callable[[EngineFacts, Located], EngineFacts]
    modules: Callable[[Path], Sequence[str]]
    environment: Callable[[Fact[str]], Mapping[str, str]]


class InstalledProbe:
    """Facts are cached by a fingerprint of the installation; a failed import is never cached, so a repair is seen."""

    def __init__(self, cache_dir: Path, package: Package) -> None:
        self._cache = FactsCache(cache_dir)
        self._whereabouts = Whereabouts(cache_dir)
        self._imported = Imported(cache_dir)
        self._package = package

    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        found = self.read(engine)
        if self._imported.get(engine) == found.fingerprint:
            return found
        progress(f"trying to import {engine.ref} (once per installation; it takes 10 to 60 s) ...")
        error = _import_error(engine, found, self._package)
        if not error:
            self._imported.keep(engine, found.fingerprint)
        return replace(found, import_error=error)

    def read(self, engine: Engine) -> EngineFacts:
        where = self._where(engine)
        fingerprint = _fingerprint(engine, where, self._package)
        found = self._cache.get(engine, fingerprint)
        if found is None:
            found = _read(engine, where, fingerprint, self._package)
            self._cache.keep(engine, found)
        return found

    def _where(self, engine: Engine) -> Located:
        known = self._whereabouts.get(engine)
        if known is not None:
            return known
        where = _locate(engine, self._package)
        self._whereabouts.keep(engine, where)
        return where


def _locate(engine: Engine, package: Package) -> Located:
    if not os.access(engine.python, os.X_OK):
        raise EngineError(
            f"the Python of {engine.ref} is gone",
            code="engine.python-missing",
            seen=engine.python,
            do=f"holddown engine remove {engine.ref}",
        )
    try:
        done = _run(engine, ["-c", LOCATE_SCRIPT, package.name], {}, _LOCATE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(
            f"the Python of {engine.ref} does not run", code="engine.python-broken", seen=f"{engine.python}: {error}"
        ) from error
    where = located(done.stdout)
    if where is None or not where.package_dir:
        raise EngineError(
            f"there is no {package.called} in {engine.ref} any more",
            code="engine.package-missing",
            seen=f"{engine.python} finds no package {package.name}; {_tail(done.stderr, 1)}",
            do=f"holddown engine remove {engine.ref}",
        )
    return where


def _run(
    engine: Engine, arguments: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """As the engine will be started. From `/`: a folder called like its package in the user's directory would be
    imported instead of the installed one."""
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    extra = {"PYTHONPATH": engine.pythonpath} if engine.pythonpath else {}
    return subprocess.run(
        [engine.python, *arguments],
        cwd="/",
        env={**inherited, **extra, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def _fingerprint(engine: Engine, where: Located, package: Package) -> str:
    """Cheap: no file of the engine is read. A source checkout changes under one version, hence its files' times; not
    its folder's, which the first import changes by writing __pycache__ into it."""
    touched = [Path(where.package_dir) / name for name in package.watched]
    parts = (
        *(package.reader, engine.version, engine.python, str(Path(engine.python).resolve()), engine.pythonpath),
        *(f"{path} {path.stat().st_mtime_ns}" for path in touched if path.exists()),
        *where.installed,
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read(engine: Engine, where: Located, fingerprint: str, package: Package) -> EngineFacts:
    torch_version, torch_device = _torch(where)
    device = package.device(where, torch_device)
    bare = EngineFacts(
        version=engine.version,
        kind=engine.kind,
        python=engine.python,
        pythonpath=engine.pythonpath,
        package_dir=where.package_dir,
        fingerprint=fingerprint,
        device=device,
        torch_version=torch_version,
        import_error="",
        flags=(),
        architectures=(),
        distribution=where.name,
    )
    with without_collector():
        return package.read(bare, where)


def _torch(where: Located) -> tuple[Fact[str], Fact[str]]:
    """torch's version, and the device it was built for, from its version file."""
    path = Path(where.torch_dir) / "version.py"
    if not where.torch_dir or not path.is_file():
        why = Unknown("no torch in this environment")
        return why, why
    file = source_file(path)
    version = read_string(file, "__version__")
    if version is None:
        why = Unknown(f"{path} names no version")
        return why, why
    for name, device in (("cuda", "cuda"), ("hip", "rocm"), ("xpu", "xpu")):
        if read_string(file, name):
            return from_file(version, str(path)), from_file(device, f"{path}: {name}")
    return from_file(version, str(path)), from_file("cpu", f"{path}: {version}, no accelerator named")


def _import_error(engine: Engine, facts: EngineFacts, package: Package) -> str:
    """Empty when the engine can be imported, else the end of its traceback."""
    modules = list(package.modules(Path(facts.package_dir)))
    script = f"import importlib\nfor name in {json.dumps(modules)}: importlib.import_module(name)"
    trial = f"import {package.name}"
    try:
        done = _run(engine, ["-c", script], package.environment(facts.device), _IMPORT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"{trial} did not end within {_IMPORT_TIMEOUT_S} s"
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"{trial} was ended by signal {-done.returncode}; {_tail(done.stderr, _TRACEBACK_LINES)}"
    return _tail(done.stderr, _TRACEBACK_LINES) or f"{trial} ended with exit code {done.returncode}, silently"


def _tail(text: str, lines: int) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
