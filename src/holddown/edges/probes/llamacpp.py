"""Asks an installed llama.cpp server what it is and takes: its own `--help`, `--version` and `--list-devices`, and its
library for the architectures."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holddown.base.codec import load
from holddown.base.errors import EngineError
from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.edges.probes.facts_cache import FactsCache
from holddown.facts.engine import Engine, EngineFacts
from holddown.facts.llamacpp_help import ListedDevice, read_devices, read_help, read_version
from holddown.facts.llamacpp_source import (
    INSTRUCTION_QUESTIONS,
    built_for,
    missing_instructions,
    models,
    read_architectures,
)
from holddown.ports import Progress

KIND = "llamacpp"
_TIMEOUT_S = 60
_READER = "1"
_LIBRARIES = ("libllama.so", "libggml-cpu.so")
_SOURCE = "src/llama-arch.cpp"
_DEVICES = {"CUDA": "cuda", "ROCm": "rocm", "Vulkan": "vulkan", "MTL": "metal", "SYCL": "xpu"}
_NO_TORCH = Unknown("llama.cpp has no torch")
_BY_TEMPLATE = Unknown("nothing to choose: llama.cpp follows the chat template")
_ONE_ATTENTION = Unknown("nothing to choose but --flash-attn")

# Run by our own Python in a process of its own, since loading a library built for another CPU may end it: asks the
# functions that the server itself asks. argv[1]: the folder of the libraries, argv[2:]: questions to the CPU backend.
_LIBRARY_SCRIPT = """
import ctypes, json, sys
folder, questions = sys.argv[1], sys.argv[2:]
has, names = {}, []
try:
    cpu = ctypes.CDLL(folder + "/libggml-cpu.so")
    has = {name: bool(getattr(cpu, name)()) for name in questions if hasattr(cpu, name)}
except OSError:
    pass
print(json.dumps({"has": has, "names": names}), flush=True)
name_of = ctypes.CDLL(folder + "/libllama.so")._Z13llm_arch_name8llm_arch
name_of.restype = ctypes.c_char_p
while len(names) < 10000:
    name = name_of(len(names)).decode()
    if name.strip("()") == "unknown":
        break
    names.append(name)
print(json.dumps({"has": has, "names": names}))
"""


@dataclass(frozen=True, slots=True)
class _Library:
    """What the libraries beside the server answered. has: each instruction question with its answer."""

    has: dict[str, bool]
    names: tuple[str, ...]


class LlamaCppProbe:
    """Facts are cached by the path, the version, and the times of the server's and its libraries' files."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache = FactsCache(cache_dir)

    def facts(self, engine: Engine, progress: Progress) -> EngineFacts:
        """There is nothing to import: what the server says, it says when it is run."""
        return self.read(engine)

    def read(self, engine: Engine) -> EngineFacts:
        program = Path(engine.program)
        if not os.access(program, os.X_OK):
            raise EngineError(
                f"the server of {engine.ref} is gone",
                code="engine.program-missing",
                seen=engine.program,
                do=f"holddown engine remove {engine.ref}",
            )
        fingerprint = _fingerprint(engine)
        found = self._cache.get(engine, fingerprint)
        if found is None:
            try:
                found = _read(engine, fingerprint)
            except OSError as error:
                raise EngineError(f"{program} cannot be run", code="engine.program-broken", seen=str(error)) from error
            self._cache.keep(engine, found)
        return found


def program_version(program: Path) -> str | None:
    """Which llama.cpp this program is; None where it is none. Raises: EngineError when it is for another CPU."""
    try:
        done = _run(program, ["--version"])
    except OSError:
        return None
    build = read_version(f"{done.stdout}\n{done.stderr}") if done.returncode == 0 else None
    return build.version if build else None


def _run(program: Path, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Raises: EngineError when it does not end, or dies of an instruction that this CPU lacks; OSError."""
    try:
        done = subprocess.run(
            [program, *words],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{program} cannot be run", code="engine.program-broken", seen=str(error)) from error
    if done.returncode == -signal.SIGILL:
        what = _missing(_library(program.parent)) or ("instructions that this one lacks",)
        raise _other_cpu(program, what, f"SIGILL (illegal instruction) at {' '.join(words)}")
    return done


def _missing(library: _Library) -> tuple[str, ...]:
    return missing_instructions(built_for(library.has), _cpuinfo())


def _cpuinfo() -> str:
    return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")


def _other_cpu(program: Path, what: Sequence[str], seen: str) -> EngineError:
    return EngineError(
        f"{program} was built for another CPU: it needs {', '.join(what)}",
        code="engine.other-cpu",
        seen=seen,
        do="holddown engine install llamacpp   builds one for this CPU",
    )


def _read(engine: Engine, fingerprint: str) -> EngineFacts:
    program = Path(engine.program)
    library = _library(program.parent)
    # such a server starts, and dies of the first multiplication
    if missing := _missing(library):
        raise _other_cpu(program, missing, f"{program.parent}/libggml-cpu.so uses it; /proc/cpuinfo does not list it")
    version = program_version(program)
    if version is None:
        raise EngineError(
            f"{engine.program} does not answer like llama.cpp's server",
            code="engine.program-broken",
            seen=_last_line(_run(program, ["--version"])),
            do=f"holddown engine remove {engine.ref}",
        )
    help_text = read_help(_run(program, ["--help"]).stdout)
    devices = read_devices(_run(program, ["--list-devices"]).stdout)
    return EngineFacts(
        version=version,
        kind=KIND,
        python="",
        pythonpath="",
        package_dir=str(program.parent),
        fingerprint=fingerprint,
        device=_device(devices, program.parent),
        torch_version=_NO_TORCH,
        import_error="",
        flags=help_text.flags,
        architectures=models(library.names) or _architectures(program),
        attention_backends=_ONE_ATTENTION,
        tool_parsers=_BY_TEMPLATE,
        reasoning_parsers=_BY_TEMPLATE,
        kv_cache_dtypes=next((each.choices for each in help_text.flags if each.name == "--cache-type-k"), ()),
        environment=help_text.environment,
        distribution="llama.cpp",
    )


def _device(devices: Sequence[ListedDevice], folder: Path) -> Fact[str]:
    """What it offloads to. A build for GPUs lists none where the driver is missing: then its libraries tell."""
    for backend, device in _DEVICES.items():
        if any(each.backend == backend for each in devices):
            return from_probe(device, "--list-devices")
        if any(folder.glob(f"libggml-{backend.lower()}*")):
            return from_probe(device, f"libggml-{backend.lower()} beside the server")
    return from_probe("cpu", "--list-devices names no device")


def _architectures(program: Path) -> tuple[str, ...]:
    """Of the source tree that it was built in; else none, and then nothing is refused."""
    for folder in program.resolve().parents[:4]:
        try:
            return read_architectures((folder / _SOURCE).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return ()


def _library(folder: Path) -> _Library:
    """Everything empty where there are no such libraries, or they cannot be loaded."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LIBRARY_SCRIPT, str(folder), *INSTRUCTION_QUESTIONS],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        # ended early, it has answered the first question at least
        return load(_Library, json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return _Library({}, ())


def _fingerprint(engine: Engine) -> str:
    program = Path(engine.program)
    touched = [program, *(program.parent / name for name in _LIBRARIES)]
    parts = (
        *(_READER, engine.program, engine.version),
        # a home folder may be shared by machines with other CPUs
        *{line for line in _cpuinfo().splitlines() if line.startswith(("flags", "Features"))},
        *(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in touched if path.exists()),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.returncode}, no output"
