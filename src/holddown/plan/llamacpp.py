"""llama.cpp's planner: a GGUF on the CPU or split by layers over GPUs, with one KV cache that all slots share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from holddown.base.evidence import Fact, Known, Source, SourceKind, Unknown, derived, known_or
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB, MIB, size_text
from holddown.facts.kv_cache import KvDtype
from holddown.facts.machine import Gpu
from holddown.facts.model import CheckpointFormat, ModelFacts
from holddown.plan.estimate import Speed
from holddown.plan.fit import Fit
from holddown.plan.llamacpp_memory import (
    DEFAULT_KV,
    Pool,
    compute_bytes,
    kv_dtype,
    layer_bytes,
    output_bytes,
    placed,
    pool_of,
)
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import KvCache, Rejected, Setting
from holddown.plan.room import SHORTEST_CONTEXT
from holddown.plan.settings import with_wishes
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes, wished, wished_number
from holddown.tables.load import engine_table

_CPU_SLOTS, _GPU_SLOTS = 8, 32
"""Requests computed side by side, at most: more wait. llama.cpp's own choice is 4."""
_NO_CONTEXT = 4096
"""Tokens, where the checkpoint names no context. Source: the default of llama.cpp's own `--fit-ctx`."""
_STEP = 256
"""The cache is made in such steps. Source: src/llama-context.cpp GGML_PAD(n_ctx, 256)."""
_PROGRAM_BYTES = 128 * MIB
"""The server beside its weights, cache and compute buffer. Source: tests/captures/llamacpp/README.md."""
_CUDA_CONTEXT_BYTES = 600 * MIB
_MARGIN_BYTES = GIB
"""Left on each GPU. Source: the default of llama.cpp's own `--fit-target`."""
_PROMPT_CACHE_BYTES = 8 * GIB
"""RAM for prompts of idle slots. Source: common/common.h cache_ram_mib = 8192."""
_NO_SPEED: Fact[Speed] = Unknown("the speed model was fitted to other engines; no llama.cpp was measured for it")
_DECISIVE = frozenset({"ctx-size", "parallel", "cache-type-k", "cache-type-v", "tensor-split"})
_OWN = (
    *_DECISIVE,
    *("kv-unified", "fit", "threads", "cache-ram", "n-gpu-layers", "split-mode"),
)
"""Every setting of ours, by the name that the plan says."""
_CALCULATED = Source(SourceKind.DERIVED, "memory budget")


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """See `plan/planners`. wishes: with settings called as we call them."""

    model: ModelFacts
    site: Site
    candidate: Candidate
    wishes: Wishes

    def on_cpu(self) -> Fit | tuple[Rejected, ...]:
        refused = tuple(self._refused())
        if refused:
            return refused
        memory = self.site.machine.memory
        slots = self._slots(_CPU_SLOTS)
        wanted, whose = self._wanted(slots)
        room = memory.available_bytes - self.model.weights_bytes - _PROGRAM_BYTES
        # half of what is left at most, since the machine has other work too, unless one request needs more
        whole = wanted if wished_number(self.wishes, "ctx-size") else min(wanted, self._own_context or wanted)
        tokens = self._fitting(wanted, lambda tokens: self._taken(tokens, slots) <= room // 2)
        if tokens < whole:
            tokens = self._fitting(whole, lambda tokens: self._taken(tokens, slots) <= room)
        if tokens < min(wanted, SHORTEST_CONTEXT):
            return (Rejected(self.candidate.engine.ref, self._no_ram(wanted), "memory.ram"),)
        compute = compute_bytes(self.model, tokens, slots, output=True)
        budget = MemoryBudget(
            capacity_bytes=memory.available_bytes,
            weights_bytes=self.model.weights_bytes,
            kv_cache_bytes=self._pool_bytes(tokens, slots),
            runtime_bytes=_PROGRAM_BYTES,
            activation_bytes=compute,
            device_bytes=memory.available_bytes,
        )
        left = budget.free_bytes
        settings = (*self._cache_settings(tokens, slots, whose, wanted), *self._threads(), *self._prompt_cache(left))
        return self._fit((), (budget,), tokens, slots, settings, "one process on all CPUs that it may use", whose)

    def on_gpus(self, gpus: tuple[Gpu, ...]) -> Fit | tuple[Rejected, ...]:
        """The fewest that hold it: an answer goes through one GPU after the other, so more add no speed to it."""
        refused = tuple(self._refused())
        if refused:
            return refused
        slots = self._slots(_GPU_SLOTS)
        wanted, whose = self._wanted(slots)
        best, tokens = gpus, 0
        for count in range(1, len(gpus) + 1):
            best = gpus[:count]
            tokens = self._fitting(wanted, partial(self._gpus_fit, best, slots))
            if tokens == _padded(wanted):
                break
        if tokens < min(wanted, SHORTEST_CONTEXT):
            return (self._no_room(gpus, slots),)
        budgets = self._budgets(best, tokens, slots)
        because = "one GPU holds weights and context"
        if len(best) > 1:
            because = f"split by layers: {len(best)} GPUs are the fewest that hold weights and context"
        because += "; more would add memory, and no speed to an answer"
        settings = (*self._cache_settings(tokens, slots, whose, wanted), *_offloading(best))
        return self._fit(best, budgets, tokens, slots, settings, because, whose)

    def settings(self, fit: Fit) -> tuple[Setting, ...]:
        return with_wishes(fit.settings, self.wishes, _DECISIVE)

    def findings(self, settings: Sequence[Setting], fit: Fit) -> tuple[Finding, ...]:
        return (*self._too_short(fit), self._any_model())

    # --- whether it can ------------------------------------------------------------------------------------------

    def _refused(self) -> Iterator[Rejected]:
        facts, ref = self.candidate.facts, self.candidate.engine.ref
        if self.model.format is not CheckpointFormat.GGUF:
            do = "convert it with llama.cpp's convert_hf_to_gguf.py, or serve it with vLLM"
            yield Rejected(ref, f"llama.cpp reads GGUF, and this is {self.model.format}", "compat.format", do=do)
            return
        architecture = self.model.model_type
        if not isinstance(architecture, Known) or not facts.architectures:
            return  # not known is no reason to refuse: the engine will say
        if architecture.value not in facts.architectures:
            what = f"llama.cpp {facts.version} has no code for {architecture.value}"
            seen = f"{architecture.source.where}; its library names {len(facts.architectures)} architectures"
            yield Rejected(ref, f"{what} ({seen})", "compat.architecture", do="holddown engine install llamacpp")

    # --- how much ------------------------------------------------------------------------------------------------

    def _wanted(self, slots: int) -> tuple[int, str]:
        """Tokens of cache for all slots together, and who wants them: the whole context for one request, or a request
        of the workload in each slot where that is more."""
        asked = wished_number(self.wishes, "ctx-size")
        if asked:
            return asked, "you set it"
        load, own = self.wishes.workload, self.model.max_position_embeddings
        in_flight = slots * (load.input_tokens + load.output_tokens)
        if in_flight > self._own_context:
            return in_flight, f"{slots} requests of {load.input_tokens} + {load.output_tokens} tokens at once"
        where = own.source.where if isinstance(own, Known) else own.why
        return self._own_context or _NO_CONTEXT, f"one request may have the checkpoint's whole context ({where})"

    @property
    def _own_context(self) -> int:
        """Of the checkpoint, 0 where it is not known."""
        return known_or(self.model.max_position_embeddings, 0)

    def _slots(self, most: int) -> int:
        return wished_number(self.wishes, "parallel") or min(self.wishes.workload.concurrency or most, most)

    def _kv(self) -> KvDtype:
        keys, values = (wished(self.wishes, f"cache-type-{each}") or DEFAULT_KV for each in "kv")
        return kv_dtype(keys, values)

    def _pool(self, tokens: int, slots: int) -> Pool | None:
        return pool_of(self.model, self._kv(), tokens, slots)

    def _pool_bytes(self, tokens: int, slots: int) -> int:
        pool = self._pool(tokens, slots)
        return pool.size_bytes if pool else 0

    def _taken(self, tokens: int, slots: int) -> int:
        """Of RAM, beside the weights and the program."""
        return self._pool_bytes(tokens, slots) + compute_bytes(self.model, tokens, slots, output=True)

    def _fitting(self, wanted: int, fits: Callable[[int], bool]) -> int:
        """The most tokens up to `wanted` that fit, in whole steps; 0 where not even one step does."""
        if wanted and fits(_padded(wanted)):
            return _padded(wanted)
        if wished_number(self.wishes, "ctx-size"):
            return 0
        low, high = 0, wanted // _STEP
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle * _STEP) else (low, middle - 1)
        return low * _STEP

    def _gpus_fit(self, gpus: tuple[Gpu, ...], slots: int, tokens: int) -> bool:
        return all(budget.free_bytes >= 0 for budget in self._budgets(gpus, tokens, slots))

    def _budgets(self, gpus: tuple[Gpu, ...], tokens: int, slots: int) -> tuple[MemoryBudget, ...]:
        layers = layer_bytes(self.model)
        where = placed(len(layers) + 1, _shares(gpus))
        kv_each = self._pool_bytes(tokens, slots) / len(layers)
        return tuple(
            MemoryBudget(
                capacity_bytes=gpu.free_bytes - _MARGIN_BYTES,
                weights_bytes=sum(size for size, at in zip(layers, where, strict=False) if at == device)
                + (output_bytes(self.model) if where[-1] == device else 0),
                kv_cache_bytes=int(kv_each * sum(at == device for at in where[:-1])),
                runtime_bytes=_CUDA_CONTEXT_BYTES,
                activation_bytes=compute_bytes(self.model, tokens, slots, output=where[-1] == device),
                device_bytes=gpu.total_bytes,
            )
            for device, gpu in enumerate(gpus)
        )

    def _no_ram(self, wanted: int) -> str:
        least = self._taken(min(wanted, SHORTEST_CONTEXT), 1)
        return (
            f"{size_text(self.model.weights_bytes)} of weights, {size_text(_PROGRAM_BYTES)} for the server and at "
            f"least {size_text(least)} of KV cache and compute buffer do not fit the "
            f"{size_text(self.site.machine.memory.available_bytes)} of RAM that are available"
        )

    def _no_room(self, gpus: tuple[Gpu, ...], slots: int) -> Rejected:
        split = Parallelism(pipeline_parallel_size=len(gpus))
        budgets = self._budgets(gpus, SHORTEST_CONTEXT, slots)
        worst = min(budgets, key=lambda budget: budget.free_bytes)
        what = (
            f"split by layers over {len(gpus)} GPUs, the fullest takes {size_text(worst.weights_bytes)} of weights and "
            f"{size_text(worst.used_bytes - worst.weights_bytes)} beside, of {size_text(worst.capacity_bytes)}"
        )
        return Rejected(f"{len(gpus)} GPUs", what, "memory.weights", split)

    # --- what to say ---------------------------------------------------------------------------------------------

    def _fit(
        self,
        gpus: tuple[Gpu, ...],
        budgets: tuple[MemoryBudget, ...],
        tokens: int,
        slots: int,
        settings: tuple[Setting, ...],
        because: str,
        whose: str,
    ) -> Fit:
        load, dtype, pool = self.wishes.workload, self._kv(), self._pool(tokens, slots)
        per_token: Fact[int] = Unknown("the shape of its attention is not known")
        if pool is not None:
            per_token = derived(pool.bytes_per_token, f"its attention in {dtype.name}")
        each = load.input_tokens + load.output_tokens
        return Fit(
            gpus=tuple(gpu.index for gpu in gpus),
            parallelism=Parallelism(pipeline_parallel_size=max(1, len(gpus))),
            budgets=budgets,
            kv_cache=KvCache(
                dtype.name, dtype.element_bytes, per_token, tokens, tokens, tokens, min(slots, tokens // each)
            ),
            context=min(tokens, self._own_context or tokens),
            why_context=whose,
            why_kv=f"{tokens} tokens that {slots} slots share",
            why_parallel=because,
            max_num_seqs=slots,
            speed=_NO_SPEED,
            settings=settings,
        )

    def _cache_settings(self, tokens: int, slots: int, whose: str, wanted: int) -> Iterator[Setting]:
        size = size_text(self._pool_bytes(tokens, slots))
        why = f"{whose}: {size} of KV cache, which all slots share"
        if tokens < wanted:
            why = f"{wanted} tokens are wanted ({whose}); {tokens} are what fits: {size} of KV cache"
        yield Setting("ctx-size", str(tokens), why, _CALCULATED)
        why = f"{self.wishes.workload.users_text} are expected; more than {slots} at once wait"
        yield Setting("parallel", str(slots), why, _CALCULATED, "left out: 4 slots")
        why = "each slot may use the whole cache; otherwise it is cut into equal parts"
        yield Setting("kv-unified", "true", why, _of("common/common.h kv_unified"), "false")
        why = "the plan has sized everything: what would not fit is to be said, not made smaller in silence"
        yield Setting("fit", "off", why, _of("common/fit.cpp"), "on: it moves layers to the CPU where memory is short")

    def _threads(self) -> Iterator[Setting]:
        """llama.cpp counts the machine's cores; a container may use fewer, and then its threads wait for each other."""
        cpu = self.site.machine.cpu
        usable = max(1, int(cpu.usable))
        if usable < known_or(cpu.physical, cpu.logical):
            source = Source(SourceKind.PROBE, cpu.usable_because)
            why = f"{usable} of the machine's {cpu.logical} CPUs may be used; it would start a thread for each core"
            yield Setting("threads", str(usable), why, source, "left out: as many as the machine has cores")

    def _prompt_cache(self, left_bytes: int) -> Iterator[Setting]:
        if left_bytes // 2 < _PROMPT_CACHE_BYTES:
            why = f"half of the {size_text(left_bytes)} of RAM that are left, for prompts that come again"
            mib = max(0, left_bytes // 2 // MIB)
            yield Setting("cache-ram", str(mib), why, _CALCULATED, "left out: 8192 MiB, which are not there")

    def _too_short(self, fit: Fit) -> Iterator[Finding]:
        load = self.wishes.workload
        asked = load.input_tokens + load.output_tokens
        if fit.context < asked:
            what = f"a request of the workload {load.name} has {asked} tokens, the context {fit.context}"
            do = "--input-tokens and --output-tokens of what will be asked, or a larger --set ctx-size=N"
            yield Finding("plan.workload", Severity.WARN, load.name, what, "--workload, ctx-size", do)

    def _any_model(self) -> Finding:
        what = "llama.cpp answers under any model name: a client that asks for another model is not told"
        seen = engine_table(self.candidate.engine.kind).any_model_source
        return Finding("endpoint.any-model", Severity.NOTE, self.wishes.served_model_name, what, seen)


def llamacpp_build(model: ModelFacts, site: Site, candidate: Candidate, wishes: Wishes) -> LlamaCpp:
    """Its planner: the user's settings may be called by any of their names, `c` as `ctx-size`."""
    ours = {flag.name: name for name in _OWN if (flag := candidate.facts.flag(name))}

    def called(name: str) -> str:
        flag = candidate.facts.flag(name)
        return ours.get(flag.name, name) if flag else name

    named = tuple((called(name), value) for name, value in wishes.settings)
    return LlamaCpp(model, site, candidate, replace(wishes, settings=named))


def _offloading(gpus: tuple[Gpu, ...]) -> Iterator[Setting]:
    why = "every layer is computed on a GPU: the plan found room for all of them"
    yield Setting("n-gpu-layers", "all", why, _CALCULATED, "auto: as many as its own estimate says")
    if len(gpus) > 1:
        why = "whole layers, one GPU after the other: what any architecture can do, with little traffic between GPUs"
        yield Setting("split-mode", "layer", why, _of("src/llama-model.cpp"), "row or tensor: for some architectures")
        why = "layers in proportion to each GPU's free memory, as the plan counts them"
        shares = ",".join(f"{share:g}" for share in _shares(gpus))
        yield Setting("tensor-split", shares, why, _CALCULATED, "left out: by the memory that is free when it loads")


def _shares(gpus: tuple[Gpu, ...]) -> tuple[float, ...]:
    """Whole GiB that are free; 1 each where all have the same."""
    free = [max(1, gpu.free_bytes // GIB) for gpu in gpus]
    return tuple(1.0 if len(set(free)) == 1 else float(each) for each in free)


def _padded(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP


def _of(file: str) -> Source:
    return Source(SourceKind.TABLE, f"llama.cpp b11434 {file}")
