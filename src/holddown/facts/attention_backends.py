"""What the attention backends of one engine build take, and which of them it would choose.

The words are vLLM's: a backend is a class that says which compute capabilities, KV cache dtypes and head sizes it
takes; the platform tries them in an order and takes the first whose list of reasons against it is empty.
Source: vLLM 0.16.0 to 0.33.0 `v1/attention/backend.py` validate_configuration, `platforms/cuda.py`
_get_backend_priorities and get_valid_backends.
"""

from collections.abc import Mapping
from dataclasses import dataclass

COMPUTE_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")
"""Of the GPUs that vLLM's wheels are built for; each rule that is code is asked for each of these."""
CPU = "cpu"
"""In place of a compute capability, for a build that runs on the CPU."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A value of the model's config (or of the deployment) without which the backend refuses.

    relation: `in`, `not in`, `<=`, `>=`, `<`, `>`, or `there` (the key must exist). reason: the engine's own words, in
    which `{field}` stands for the value. head_sizes: of the layers that it holds for, empty for all.
    """

    field: str
    relation: str
    values: tuple[int, ...]
    reason: str
    head_sizes: tuple[int, ...] = ()

    def refuses(self, fields: Mapping[str, int]) -> str:
        """The reason against it, empty where the value fits. A value that is not known counts as fitting."""
        if self.relation == "there":
            return "" if self.field in fields else self.reason
        if self.field not in fields:
            return ""
        value = fields[self.field]
        bound = self.values[0] if self.values else 0
        fits = {
            "in": value in self.values,
            "not in": value not in self.values,
            "<=": value <= bound,
            ">=": value >= bound,
            "<": value < bound,
            ">": value > bound,
        }[self.relation]
        return "" if fits else self.reason.replace(f"{{{self.field}}}", str(value))


@dataclass(frozen=True, slots=True)
class KvSupport:
    """The KV cache dtypes that it takes on these compute capabilities."""

    compute_capabilities: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What it refuses although each part alone is taken. sinks: only for models with attention sinks. head_sizes:
    empty for all."""

    compute_capabilities: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]
    sinks: bool
    reason: str
    head_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """One backend. path: its file in the engine's package and the line of its class, for sources.

    head_sizes: those taken, empty for any. block_sizes: the KV cache block must be a multiple of one of them, empty
    for any. sinks: the compute capabilities on which it takes attention sinks. sliding_window, decode_context_parallel:
    whether it takes them. unread: rules that are code which could not be read; they may refuse what this lists.
    """

    name: str
    path: str
    is_mla: bool
    is_sparse: bool
    compute_capabilities: tuple[str, ...]
    kv: tuple[KvSupport, ...]
    head_sizes: tuple[int, ...] = ()
    block_sizes: tuple[int, ...] = ()
    sinks: tuple[str, ...] = ()
    sliding_window: bool = True
    decode_context_parallel: bool = False
    refusals: tuple[Refusal, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    unread: tuple[str, ...] = ()

    def kv_cache_dtypes(self, compute_capability: str) -> tuple[str, ...]:
        """Those it takes there; none on a capability that is not its own."""
        return next((row.kv_cache_dtypes for row in self.kv if compute_capability in row.compute_capabilities), ())


@dataclass(frozen=True, slots=True)
class BackendOrder:
    """The backends that are tried, first to last. Conditions that are None hold for either.

    few_heads: 16 attention heads or fewer per GPU. latent_512: the latent vector with its rotary part has 512 elements.
    """

    is_mla: bool
    compute_capabilities: tuple[str, ...]
    quantized_kv: bool | None
    few_heads: bool | None
    latent_512: bool | None
    backends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """One kind of attention layer on one compute capability. head_size: elements of a head; of the latent vector with
    its rotary part for MLA. fields: config keys with whole numbers, for what backends require of them."""

    compute_capability: str
    kv_cache_dtype: str
    is_mla: bool
    is_sparse: bool
    head_size: int
    heads_per_gpu: int
    sinks: bool
    sliding_window: bool
    decode_context_parallel: bool
    fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BackendAnswer:
    """What one backend says to a query: no reasons means yes."""

    name: str
    path: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttentionBackends:
    """The backends of a build that run on the CPU or say on which GPUs, and the orders in which it tries them.

    others: names of those that are never tried by themselves and do not say.
    """

    backends: tuple[AttentionBackend, ...]
    orders: tuple[BackendOrder, ...]
    others: tuple[str, ...] = ()

    def named(self, name: str) -> AttentionBackend | None:
        return next((backend for backend in self.backends if backend.name == name), None)

    def order(self, query: AttentionQuery) -> tuple[str, ...]:
        """The names in the order in which this build tries them; none for a compute capability it does not know."""
        quantized = query.kv_cache_dtype not in ("auto", "bfloat16", "float16")
        for order in self.orders:
            if (
                order.is_mla == query.is_mla
                and query.compute_capability in order.compute_capabilities
                and order.quantized_kv in (None, quantized)
                and order.few_heads in (None, query.heads_per_gpu <= 16)
                and order.latent_512 in (None, query.head_size == 512)
            ):
                return order.backends
        return ()

    def answers(self, query: AttentionQuery) -> tuple[BackendAnswer, ...]:
        """What each backend that would be tried says, in order: the first without reasons is the one chosen."""
        found = [backend for name in self.order(query) if (backend := self.named(name)) is not None]
        return tuple(answer(backend, query) for backend in found)


def answer(backend: AttentionBackend, query: AttentionQuery) -> BackendAnswer:
    """The reasons of one backend against a query, in the engine's own words and order.

    Source: vLLM 0.32.0 v1/attention/backend.py validate_configuration.
    """
    capability = query.compute_capability
    on_capability = capability in backend.compute_capabilities
    reasons = []
    if backend.head_sizes and query.head_size not in backend.head_sizes:
        reasons.append("head_size not supported")
    if on_capability and query.kv_cache_dtype not in backend.kv_cache_dtypes(capability):
        reasons.append("kv_cache_dtype not supported")
    if query.is_mla != backend.is_mla:
        reasons.append("MLA not supported" if query.is_mla else "non-MLA not supported")
    if query.sinks and on_capability and capability not in backend.sinks:
        reasons.append("attention sinks not supported")
    if query.is_sparse != backend.is_sparse:
        reasons.append("sparse not supported" if query.is_sparse else "non-sparse not supported")
    if not on_capability:
        reasons.append("compute capability not supported")
    if query.sliding_window and not backend.sliding_window:
        reasons.append("sliding window not supported")
    if query.decode_context_parallel and not backend.decode_context_parallel:
        reasons.append("DCP not supported")
    if (query.is_mla, query.is_sparse) == (backend.is_mla, backend.is_sparse):
        reasons += _combined(backend, query)
    return BackendAnswer(backend.name, backend.path, tuple(dict.fromkeys(reasons)))


def _combined(backend: AttentionBackend, query: AttentionQuery) -> list[str]:
    """What it refuses of attention of its own kind although each part alone is taken."""
    fields = dict(query.fields)
    required = (each for each in backend.requirements if not each.head_sizes or query.head_size in each.head_sizes)
    wanting = [why for each in required if (why := each.refuses(fields))]
    refused = [
        each.reason
        for each in backend.refusals
        if query.compute_capability in each.compute_capabilities
        and query.kv_cache_dtype in each.kv_cache_dtypes
        and (query.sinks or not each.sinks)
        and (not each.head_sizes or query.head_size in each.head_sizes)
    ]
    return wanting + refused
