"""What an engine's environment is given, and what of the inherited one goes on record: the names of all, the values
only of those that bear on engines."""

from collections.abc import Iterable, Iterator, Mapping

from holddown.facts.engine import Engine
from holddown.launch.spec import EnvVar
from holddown.plan.plan import Plan

UNBUFFERED = EnvVar("PYTHONUNBUFFERED", "1", "log lines arrive when they are written")

_BEARING = (
    "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "VLLM_", "SGLANG_", "SGL_", "LLAMA_", "GGML_", "TORCH", "PYTORCH_", "TRITON_",
    "FLASHINFER_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "LD_", "RAY_", "UCX_",
    "XDG_", "PYTHON",
)  # fmt: skip
_EXACTLY = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "SHELL")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE")
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""An engine environment is complete in itself; what these point at belongs to the shell that called us."""
REDACTED = "(redacted)"
UNRECORDED = "(not recorded)"


def is_secret(name: str) -> bool:
    """By its name, and rather once too often; `TOKENIZERS_PARALLELISM` is none."""
    return not name.startswith("TOKENIZERS_") and any(word in name.upper() for word in _SECRET)


def recordable(environment: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Sorted by name. An allow-list, since a secret's name cannot be known: proxies carry passwords in their URLs."""
    return tuple((name, _value(name, value)) for name, value in sorted(environment))


def inherited(recorded: Iterable[tuple[str, str]], present: Mapping[str, str]) -> dict[str, str]:
    """What an engine inherited once, as far as the record tells it; of what it does not, the value of now. present: of
    this program, which may have been started from another shell than the one that asked for the engine."""
    known = {name: value for name, value in recorded if name not in NOT_INHERITED}
    told = {name: value for name, value in known.items() if value not in (REDACTED, UNRECORDED)}
    return {name: value for name, value in present.items() if name in known} | told


def _value(name: str, value: str) -> str:
    if is_secret(name):
        return REDACTED
    if name in _EXACTLY or name.startswith(_BEARING):
        return value
    return UNRECORDED


def python_environment(plan: Plan, engine: Engine) -> Iterator[EnvVar]:
    """What every engine that is a Python package is given."""
    if engine.pythonpath:
        yield EnvVar("PYTHONPATH", engine.pythonpath, f"registered with {engine.ref}")
    if plan.gpus:
        yield EnvVar("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "so that GPU indices mean the same as in nvidia-smi")
        yield EnvVar("CUDA_VISIBLE_DEVICES", ",".join(str(gpu) for gpu in plan.gpus), "the GPUs of the plan, no others")
    if plan.model_path.startswith("/"):
        yield EnvVar("HF_HUB_OFFLINE", "1", "the checkpoint is local: nothing is to be fetched")
