"""The words of a plan. Deployment terms are vLLM's; each engine's adapter translates them into its own flags."""

from dataclasses import dataclass

from holddown.base.evidence import Fact, Source, Unknown
from holddown.base.finding import Finding
from holddown.facts.workload import CHAT, Workload
from holddown.plan.estimate import Speed
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Hardware


@dataclass(frozen=True, slots=True)
class Setting:
    """One decision. name: the engine's option name without dashes (`max-model-len`); a name in capitals is an
    environment variable.

    value: as on a command line; `true` / `false` for switches. because: one sentence. alternative: what else
    could be said, empty where there is none. A user's setting has source.kind USER.
    """

    name: str
    value: str
    because: str
    source: Source
    alternative: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a way to split the model would give at the workload. weights_bytes: of the fullest GPU. Speeds are those of
    all replicas together, None where they cannot be predicted."""

    weights_bytes: int
    context: int
    kv_cache_tokens: int
    single_stream_tok_s: float | None
    throughput_tok_s: float | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that was not taken (an engine build, a way to split the model), and the limit that bound it.

    code: dotted and stable. parallelism: None where an engine build as a whole was not taken. figures: of what fits.
    do: what would change it, empty where nothing is known.
    """

    candidate: str
    why: str
    code: str = "engine"
    parallelism: Parallelism | None = None
    figures: Figures | None = None
    do: str = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The next best way of another kind. replicas: that many deployments side by side, each split so. drafts: with
    speculative decoding by the checkpoint's own draft layer."""

    parallelism: Parallelism
    replicas: int
    figures: Figures
    drafts: bool = False

    @property
    def text(self) -> str:
        """`TP8 + EP`, `2 x TP4`, `TP8 + MTP`."""
        text = self.parallelism.text + (" + MTP" if self.drafts else "")
        return text if self.replicas == 1 else f"{self.replicas} x {text}"


@dataclass(frozen=True, slots=True)
class KvCache:
    """Of the fullest rank. dtype: as `--kv-cache-dtype` names it. tokens: that the cache holds, between low and high;
    0 where it is not known. sequences: of the workload's length at once, all replicas together."""

    dtype: str
    element_bytes: float
    bytes_per_token: Fact[int]
    tokens: int
    tokens_low: int
    tokens_high: int
    sequences: int


_NOT_PREDICTED = Unknown("no prediction was asked for")


@dataclass(frozen=True, slots=True)
class Plan:
    """What will run. engine: its ref, `name@version`. gpus: indices, empty on a CPU build.

    hardware: what the prediction rests on, None where there is none. attention_backends: that the build will take, by
    its own order; empty where it was not asked. experts_backend: the kernel of its routed experts, as the build's own
    selector said; empty where that was not asked. selector: who said which attention backends; empty where that was
    read from the build's source. budget: of the fullest device; per_gpu: of each,
    in the order of `gpus`. load_bytes: what must be read from disk before the first token; deadlines and estimates
    rest on it. context: tokens that one request may have, 0 where that is the engine's to say.
    """

    model_path: str
    model_digest: str
    served_model_name: str
    engine: str
    engine_kind: str
    engine_because: str
    gpus: tuple[int, ...]
    parallelism: Parallelism
    settings: tuple[Setting, ...]
    budget: MemoryBudget
    load_bytes: int
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    per_gpu: tuple[MemoryBudget, ...] = ()
    kv_cache: KvCache | None = None
    parallelism_because: str = ""
    speed: Fact[Speed] = _NOT_PREDICTED
    hardware: Hardware | None = None
    attention_backends: tuple[str, ...] = ()
    experts_backend: str = ""
    selector: str = ""
    workload: Workload = CHAT
    alternatives: tuple[Alternative, ...] = ()
    context: int = 0

    def setting(self, name: str) -> Setting | None:
        return next((setting for setting in self.settings if setting.name == name), None)


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Nothing that is registered here can run it; `rejected` has each candidate with the limit that bound it.

    do: what would do, one remedy per line.
    """

    what: str
    rejected: tuple[Rejected, ...]
    do: str
