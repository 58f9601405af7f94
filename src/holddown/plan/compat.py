"""Whether an engine build can run a model's attention on a compute capability, and with which KV cache.

`kv_choices(model, facts, compute_capability, wish, split)` answers for one split; it asks tables in memory only, so it
may be called for every candidate. Beside it: `plan/build_fit.py` `build_findings` (architecture, GGUF, quantisation),
`plan/limits.py` `parallel_limits`, `plan/parsers.py` `parser_settings`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from holddown.base.evidence import Known, Source, SourceKind, Unknown, known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.attention_backends import CPU, AttentionBackends, AttentionQuery, BackendAnswer
from holddown.facts.engine import EngineFacts, version_key
from holddown.facts.kv_cache import BF16, FP8, KvDtype, kv_bytes_per_token
from holddown.facts.model import ModelFacts
from holddown.plan.attention_query import attention_layers
from holddown.plan.backend_answers import backend_answers, differing, selector_name, was_asked
from holddown.plan.kv_layouts import stored
from holddown.plan.kv_values import KvValues
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Setting
from holddown.tables.load import engine_table, recorded_build, recorded_versions


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user set; empty where nothing."""

    kv_cache_dtype: str = ""
    attention_backend: str = ""


@dataclass(frozen=True, slots=True)
class KvChoice:
    """A value of `--kv-cache-dtype` that works. stored: what the cache then holds.

    backends: the one that the build takes, for each kind of attention layer. refused: what the ones tried before them
    say. by_selector: the build's own selector said so; else its source was read.
    """

    dtype: str
    stored: KvDtype
    backends: tuple[str, ...]
    refused: tuple[BackendAnswer, ...]
    by_selector: bool = False


@dataclass(frozen=True, slots=True)
class KvRefusal:
    """A value that does not work, with what every backend says to it. kind: of layers. by_selector: as `KvChoice` has
    it."""

    dtype: str
    kind: str
    answers: tuple[BackendAnswer, ...]
    by_selector: bool = False


@dataclass(frozen=True, slots=True)
class KvAnswer:
    """chosen: what the plan should rest on, None where nothing works. setting: what must be set for it, None where
    `auto` does it. choices: all that work, `auto` first. findings: block where nothing works."""

    chosen: KvChoice | None
    setting: Setting | None
    choices: tuple[KvChoice, ...]
    refusals: tuple[KvRefusal, ...]
    findings: tuple[Finding, ...]

    def choice(self, dtype: str) -> KvChoice | None:
        return next((each for each in self.choices if each.dtype == dtype), None)

    @property
    def narrower(self) -> KvChoice | None:
        """The first that stores fewer bytes than the chosen one: to be offered, never taken by itself."""
        width = self.chosen.stored.element_bytes if self.chosen else 0
        return next((each for each in self.choices if each.stored.element_bytes < width), None)


_KV_DTYPE = "kv_cache_dtype not supported"


def kv_choices(
    model: ModelFacts, facts: EngineFacts, compute_capability: str, wish: Wish, split: Parallelism
) -> KvAnswer:
    """The KV cache dtypes that at least one attention backend of this build takes for every kind of this model's
    layers, and which of them the plan must set.

    compute_capability: `12.0`, or `cpu`. The precision is never lowered by itself: FP8 for a checkpoint that does not
    ask for it is among the choices and not chosen.
    """
    return _Question(model, facts, compute_capability, wish, split).answer()


def attention_queries(
    model: ModelFacts, facts: EngineFacts, compute_capability: str, split: Parallelism
) -> tuple[AttentionQuery, ...]:
    """All that `kv_choices` would ask the build's backends for this split, whatever the user wishes."""
    return _Question(model, facts, compute_capability, Wish(), split).queries()


@dataclass(frozen=True, slots=True)
class _Question:
    model: ModelFacts
    facts: EngineFacts
    compute_capability: str
    wish: Wish
    split: Parallelism

    @property
    def _values(self) -> KvValues:
        return KvValues(self.model, self.facts, self.compute_capability)

    def answer(self) -> KvAnswer:
        """With a note where the selector contradicts what was read."""
        found = self._answer()
        if not self.facts.asked.attention:
            return found
        return replace(found, findings=(*found.findings, *differing(self.facts, self.queries())))

    def queries(self) -> tuple[AttentionQuery, ...]:
        """All that the answer rests on."""
        if self._cannot_ask() is not None:
            return ()
        asked = dict.fromkeys(self._values.asked(dtype) for dtype in ("auto", *self._values.words()))
        layers = (attention_layers(self.model, self.compute_capability, each, self.split) for each in asked)
        return tuple(each.query for kinds in layers for each in known_or(kinds, ()))

    def _answer(self) -> KvAnswer:
        early = self._cannot_ask()
        if early is not None:
            return early
        results = [self.ask(dtype) for dtype in ("auto", *self._values.words())]
        choices = tuple(each for each in results if isinstance(each, KvChoice))
        refusals = tuple(each for each in results if isinstance(each, KvRefusal))
        if self.wish.kv_cache_dtype:
            return self._wished(choices, refusals)
        chosen, setting = self._decided(choices, refusals)
        findings = (self._none(refusals),) if chosen is None else self._narrowed(chosen)
        return KvAnswer(chosen, setting, choices, refusals, findings)

    def _cannot_ask(self) -> KvAnswer | None:
        """The answer where this build's backends, or what the model asks of them, are not known."""
        backends = self.facts.attention_backends
        layers = attention_layers(self.model, self.compute_capability, "auto", self.split)
        if isinstance(backends, Unknown):
            return self._unasked(backends.why)
        if isinstance(layers, Unknown):
            return self._unasked(layers.why)
        if not any(self.compute_capability in order.compute_capabilities for order in backends.value.orders):
            return self._unasked(f"its backends were not read for {self._where}")
        wished = self.wish.attention_backend.upper()
        if wished in backends.value.others:
            return self._unasked(f"{wished} does not say on which GPUs it runs")
        if wished and backends.value.named(wished) is None:
            return KvAnswer(None, None, (), (), (self._no_such_backend(backends.value),))
        return None

    def _decided(
        self, choices: tuple[KvChoice, ...], refusals: tuple[KvRefusal, ...]
    ) -> tuple[KvChoice | None, Setting | None]:
        """`auto` where it works; else FP8 under another name where the checkpoint asks for it; else a wider cache."""
        auto = next((each for each in choices if each.dtype == "auto"), None)
        if auto is not None or not self._values.flag_wins():
            return auto, None
        for choice in choices:
            if self._values.asks_fp8() and choice.stored.element_bytes == FP8.element_bytes:
                return choice, self._other_layout(choice, refusals[0])
        for choice in choices:
            if choice.stored.element_bytes >= BF16.element_bytes:
                return choice, self._raised(choice, refusals[0])
        return None, None

    def ask(self, dtype: str) -> KvChoice | KvRefusal:
        """What the build does with this value of `--kv-cache-dtype`."""
        asked = self._values.asked(dtype)
        layers = attention_layers(self.model, self.compute_capability, asked, self.split)
        chosen: list[str] = []
        refused: list[BackendAnswer] = []
        kept, by_selector = stored(asked, self.model), True
        for each in known_or(layers, ()):
            by_selector &= was_asked(self.facts, each.query)
            answers = backend_answers(self.facts, each.query, self.wish.attention_backend)
            answers = tuple(self._limited(answer, asked) for answer in answers)
            taken = next((index for index, answer in enumerate(answers) if not answer.reasons), None)
            if taken is None:
                return KvRefusal(dtype, each.kind, answers, by_selector)
            chosen.append(answers[taken].name)
            refused += answers[:taken]
            kept = self._values.after(asked, answers[taken].name)
        return KvChoice(dtype, kept, tuple(chosen), tuple(refused), by_selector and bool(chosen))

    def _limited(self, answer: BackendAnswer, dtype: str) -> BackendAnswer:
        """With what the backend would only say when it is built."""
        more = tuple(
            row.reason
            for row in engine_table(self.facts.kind).backend_limits
            if row.backend == answer.name
            and dtype in row.kv_cache_dtypes
            and self.compute_capability in row.compute_capabilities
        )
        return BackendAnswer(answer.name, answer.path, (*answer.reasons, *more))

    # --- what to say -------------------------------------------------------------------------------------------

    @property
    def _build(self) -> str:
        return f"{self.facts.kind} {self.facts.version}"

    @property
    def _where(self) -> str:
        return "the CPU" if self.compute_capability == CPU else f"compute capability {self.compute_capability}"

    def _unasked(self, why: str) -> KvAnswer:
        """What its backends take is not known: the plan rests on what `auto` stores, and says that it is not sure."""
        dtype = self.wish.kv_cache_dtype or "auto"
        kept = stored(self._values.asked(dtype), self.model)
        finding = Finding(
            "compat.attention-unknown",
            Severity.NOTE,
            "attention backend",
            f"whether {self._build} has an attention backend for this model on {self._where} was not asked",
            why,
        )
        return KvAnswer(KvChoice(dtype, kept, (), ()), None, (), (), (finding,))

    def _no_such_backend(self, backends: AttentionBackends) -> Finding:
        what = f"{self._build} has no attention backend {self.wish.attention_backend}"
        names = ", ".join((*(each.name for each in backends.backends), *backends.others))
        return Finding("compat.attention-backend", Severity.BLOCK, "attention-backend", what, f"it has {names}")

    def _wished(self, choices: tuple[KvChoice, ...], refusals: tuple[KvRefusal, ...]) -> KvAnswer:
        dtype = self.wish.kv_cache_dtype
        taken = next((each for each in choices if each.dtype == dtype), None)
        if taken is not None:
            return KvAnswer(taken, None, choices, refusals, ())
        refused = next((each for each in refusals if each.dtype == dtype), None)
        if refused is None and self.facts.kv_cache_dtypes and dtype not in self.facts.kv_cache_dtypes:
            return KvAnswer(None, None, choices, refusals, (self._no_such(dtype),))
        if refused is None:
            return self._unasked(f"how many bytes a KV cache of {dtype} takes is not known")
        works = [each.dtype for each in choices]
        more, command = ("", f"--set kv-cache-dtype={works[0]}") if works else self._remedy()
        finding = Finding(
            "compat.kv-cache-dtype",
            Severity.BLOCK,
            "kv-cache-dtype",
            f"no attention backend of {self._build} takes a KV cache of {dtype} for this model's {refused.kind} on "
            f"{self._where}{more}",
            self._refusal_text(refused),
            command,
        )
        return KvAnswer(None, None, choices, refusals, (finding,))

    def _no_such(self, dtype: str) -> Finding:
        known = self.facts.kv_cache_dtypes
        near = get_close_matches(dtype, known, n=1) or ["auto"]
        what = f"{self._build} has no KV cache dtype {dtype}"
        command = f"--set kv-cache-dtype={near[0]}"
        return Finding(
            "compat.kv-cache-dtype", Severity.BLOCK, "kv-cache-dtype", what, f"it has {', '.join(known)}", command
        )

    def _asked_where(self) -> str:
        asked = self.model.kv_cache_quantization
        return f"the checkpoint asks for an FP8 KV cache ({asked.source.where if isinstance(asked, Known) else '-'})"

    def _raised(self, choice: KvChoice, refusal: KvRefusal) -> Setting:
        """The checkpoint asks for FP8 and no backend here takes it: a wider cache instead of an edited checkpoint."""
        near = [each.name for each in refusal.answers if each.reasons == (_KV_DTYPE,)]
        run = f"only {' and '.join(near)} can run {refusal.kind}" if near else f"no backend runs {refusal.kind} so"
        because = (
            f"{self._asked_where()}; in {self._build} on {self._where} {run}, "
            f"and {'they do' if len(near) > 1 else 'it does'} not take FP8"
        )
        return Setting("kv-cache-dtype", choice.dtype, because, self._source(choice), self._newer_text())

    def _other_layout(self, choice: KvChoice, refusal: KvRefusal) -> Setting:
        """The wish can be met, under another name than the engine would make of it."""
        because = (
            f"{self._asked_where()}; {self._build} runs {refusal.kind} on {self._where} "
            f"with {_joined(choice)}, which takes FP8 by this name"
        )
        return Setting("kv-cache-dtype", choice.dtype, because, self._source(choice))

    def _source(self, choice: KvChoice) -> Source:
        backends = known_or(self.facts.attention_backends, AttentionBackends((), ()))
        found = backends.named(choice.backends[0]) if choice.backends else None
        path = found.path if found else "platforms/cuda.py"
        return Source(
            SourceKind.PROBE,
            f"{selector_name(self.facts)}: {path}" if choice.by_selector else f"{self._build} {path}",
        )

    def _narrowed(self, chosen: KvChoice) -> tuple[Finding, ...]:
        """What is worth knowing where the build itself stores less than the checkpoint asks for."""
        if self._values.asks_fp8() or chosen.stored.element_bytes >= BF16.element_bytes:
            return ()
        what = (
            f"{self._build} keeps this model's KV cache as {chosen.stored.name} on {self._where}; nothing asks for it"
        )
        return (Finding("compat.kv-narrowed", Severity.NOTE, "kv-cache-dtype", what, _joined(chosen)),)

    def _none(self, refusals: tuple[KvRefusal, ...]) -> Finding:
        """No value of the KV cache dtype makes any backend take this model here."""
        first = refusals[0]
        if not self._values.flag_wins():
            what = (
                f"the checkpoint's kv_cache_scheme makes {self._build} keep the KV cache in FP8 whatever "
                f"--kv-cache-dtype says, and no attention backend takes that on {self._where}"
            )
        else:
            divided = self.split.decode_context_parallel_size > 1
            how = f"{first.kind} with decode context parallelism" if divided else first.kind
            what = f"no attention backend of {self._build} takes {how} on {self._where}"
        more, command = self._remedy()
        seen = self._refusal_text(first)
        return Finding("compat.attention", Severity.BLOCK, "attention backend", what + more, seen, command)

    def _refusal_text(self, refusal: KvRefusal) -> str:
        said = f" ({selector_name(self.facts)})" if refusal.by_selector else ""
        return _answers_text(refusal.answers) + said

    def _newer(self) -> tuple[str, KvChoice] | None:
        """The first recorded release after this one that takes what the checkpoint asks for."""
        for version in recorded_versions(self.facts.kind):
            if version_key(version) <= version_key(self.facts.version):
                continue
            facts = recorded_build(self.facts.kind, version).facts
            asked = _Question(self.model, facts, self.compute_capability, Wish(), self.split)
            if isinstance(facts.attention_backends, Known) and isinstance(choice := asked.ask("auto"), KvChoice):
                return f"{self.facts.kind}@{version}", choice
        return None

    def _newer_text(self) -> str:
        """`vllm@0.19.1 takes FP8 here (TRITON_MLA): twice the KV tokens`; empty where no release does."""
        newer = self._newer()
        return f"{newer[0]} takes FP8 here ({_joined(newer[1])}){self._gain(newer[1].stored)}" if newer else ""

    def _remedy(self) -> tuple[str, str]:
        """What to add to what is the case, and the command that changes it."""
        newer = self._newer()
        if newer is None:
            return f"; no recorded release up to {recorded_versions(self.facts.kind)[-1]} has one", ""
        ref, choice = newer
        return f"; {ref} has {_joined(choice)}", f"holddown engine install {ref}"

    def _gain(self, stored: KvDtype) -> str:
        attention = known_or(self.model.attention, ())
        narrow = kv_bytes_per_token(attention, stored)
        ratio = kv_bytes_per_token(attention, BF16) / narrow if narrow else 1.0
        if ratio < 1.05:
            return ""
        return ": twice the KV tokens" if ratio == 2 else f": {ratio:.2g} times the KV tokens"


def _answers_text(answers: Sequence[BackendAnswer]) -> str:
    """`TRITON_MLA (kv_cache_dtype not supported), FLASHMLA (...)`."""
    return ", ".join(f"{each.name} ({', '.join(each.reasons)})" for each in answers if each.reasons)


def _joined(choice: KvChoice) -> str:
    return " and ".join(dict.fromkeys(choice.backends))
