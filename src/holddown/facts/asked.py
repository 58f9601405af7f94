"""What an installed build's own selectors were asked, and what they said."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from holddown.base.evidence import Fact, Known
from holddown.facts.attention_backends import AttentionQuery, BackendAnswer


@dataclass(frozen=True, slots=True)
class MoeQuery:
    """A model's routed experts on one compute capability, split in one way.

    method: as `quant_method` names it, or `none`. format: of the experts' weights, as `WeightGroup` has it. group_size:
    input features to one scale, 0 where there are no groups. intermediate_size: of one whole expert. expert_parallel:
    experts stay whole and are spread over the ranks. activation, routing, backend: vLLM's words; backend `auto`, or
    what the user wants.
    """

    compute_capability: str
    model_type: str
    method: str
    format: str
    group_size: int
    experts: int
    experts_per_token: int
    hidden_size: int
    intermediate_size: int
    tensor_parallel_size: int
    data_parallel_size: int
    expert_parallel: bool
    activation: str
    routing: str
    backend: str = "auto"


Query: TypeAlias = AttentionQuery | MoeQuery


@dataclass(frozen=True, slots=True)
class MoeRefusal:
    """A backend that was tried before the chosen one, and its reason against it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class MoeAnswer:
    """chosen: the backend's name, empty where none takes these experts; `A or B` where that depends on how the
    checkpoint's scales are made. what: the engine's own words where none takes them. path: of the file that decides."""

    chosen: str
    refused: tuple[MoeRefusal, ...]
    what: str
    path: str


@dataclass(frozen=True, slots=True)
class AttentionSaid:
    """backends: in the order in which they are tried. unsure: those that could not say without a GPU; their reasons
    here mean nothing."""

    backends: tuple[BackendAnswer, ...]
    unsure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Questions:
    """What one build is to be asked. environment: variables that the plan sets, which its selectors may look at."""

    queries: tuple[Query, ...]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AskedAttention:
    query: AttentionQuery
    said: Fact[AttentionSaid]


@dataclass(frozen=True, slots=True)
class AskedMoe:
    query: MoeQuery
    said: Fact[MoeAnswer]


@dataclass(frozen=True, slots=True)
class Asked:
    """All that one build was asked."""

    attention: tuple[AskedAttention, ...] = ()
    moe: tuple[AskedMoe, ...] = ()

    def attention_said(self, query: AttentionQuery) -> AttentionSaid | None:
        """None where it was not asked that, or could not say."""
        found = next((each.said for each in self.attention if each.query == query), None)
        return found.value if isinstance(found, Known) else None

    def moe_said(self, query: MoeQuery) -> Fact[MoeAnswer] | None:
        """None where it was not asked that."""
        return next((each.said for each in self.moe if each.query == query), None)

    def unknown(self, queries: tuple[Query, ...]) -> tuple[Query, ...]:
        """Those that it was not asked yet, each once."""
        known = {each.query for each in self.attention} | {each.query for each in self.moe}
        return tuple(each for each in dict.fromkeys(queries) if each not in known)

    def __add__(self, other: "Asked") -> "Asked":
        return replace(self, attention=self.attention + other.attention, moe=self.moe + other.moe)


NOT_ASKED = Asked()
