"""Asks an installed SGLang what it is and takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from holddown.base.evidence import Fact
from holddown.edges.probes.installed import InstalledProbe, Package
from holddown.edges.probes.sglang_package import ARGUMENTS, with_package
from holddown.facts.engine import EngineFacts
from holddown.facts.engine_locate import Located

_WATCHED = (
    *("__init__.py", "_version.py", "version.py", ARGUMENTS, "srt/environ.py", "srt/models/registry.py"),
    *("srt/arg_groups/choices.py", "srt/function_call/function_call_parser.py", "srt/function_call/parser_names.py"),
)


class SglangProbe(InstalledProbe):
    def __init__(self, cache_dir: Path) -> None:
        super().__init__(
            cache_dir,
            Package(
                name="sglang",
                called="SGLang",
                reader="2",
                watched=_WATCHED,
                device=_device,
                read=_read,
                modules=_modules,
                environment=_environment,
            ),
        )


def _read(bare: EngineFacts, where: Located) -> EngineFacts:
    return with_package(bare, Path(where.package_dir))


def _device(where: Located, torch_device: Fact[str]) -> Fact[str]:
    """There is one distribution for all: it runs on what its torch is for."""
    return torch_device


def _modules(package: Path) -> Sequence[str]:
    """The server's own module brings in nearly everything that it needs."""
    return ["sglang", "sglang.srt.server_args", "sglang.srt.entrypoints.http_server"]


def _environment(device: Fact[str]) -> Mapping[str, str]:
    return {}
