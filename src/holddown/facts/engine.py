"""What an installed engine is and takes, read from its own files."""

import re
from dataclasses import dataclass

from holddown.base.evidence import Fact


@dataclass(frozen=True, slots=True)
class Engine:
    """A registered engine environment. Named `name@version`.

    name: what the user calls it (`vllm-cpu`). kind: which adapter speaks to it (`vllm`).
    python: absolute path of the interpreter. pythonpath: extra import folder, or empty.
    managed: holddown made the environment, so `engine remove` may delete its folder.
    """

    name: str
    version: str
    kind: str
    python: str
    pythonpath: str
    managed: bool
    registered_at: float

    @property
    def ref(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line option as the engine's own parser names it, with its choices where they are literal."""

    name: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One installed build.

    device: `cuda`, `cpu` or another platform this build was made for. package_dir: where its package lies.
    import_error: empty when importing works, else the last lines of the traceback.
    architectures: names from config.json that it has code for. fingerprint: changes when the installation does.
    """

    version: str
    kind: str
    python: str
    pythonpath: str
    package_dir: str
    fingerprint: str
    device: Fact[str]
    torch_version: Fact[str]
    import_error: str
    flags: tuple[Flag, ...]
    architectures: tuple[str, ...]
    quantization_methods: tuple[str, ...] = ()

    def knows_flag(self, name: str) -> bool:
        """`--max-model-len` and `max_model_len` are one flag to vLLM's parser, so they are to us."""
        wanted = name.lstrip("-").replace("_", "-")
        return any(flag.name.lstrip("-").replace("_", "-") == wanted for flag in self.flags)


def version_key(version: str) -> tuple[tuple[int, ...], int, str]:
    """Orders versions by age: 0.9.2 < 0.16.0.dev5 < 0.16.0rc1 < 0.16.0 = 0.16.0+cpu < 0.32.0.

    Source: the order of PEP 440, without epochs, and local labels (`+cu129`) not compared.
    """
    public = version.split("+", 1)[0]
    match = re.match(r"v?(\d+(?:\.\d+)*)(.*)", public)
    if match is None:
        return (), 0, public
    release, rest = [int(part) for part in match[1].split(".")], match[2].lstrip(".-_")
    while release and release[-1] == 0:
        release.pop()
    rank = 0 if rest.startswith("dev") else 3 if rest.startswith("post") else 1 if rest else 2
    return tuple(release), rank, rest
