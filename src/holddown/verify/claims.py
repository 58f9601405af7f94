"""What a model and the server that serves it claim to do: which checks fit, and how far they can judge."""

from collections.abc import Collection
from dataclasses import dataclass

from holddown.base.evidence import Fact, Known, Unknown, derived, known_or
from holddown.facts.answers import Ask, Message
from holddown.facts.engine import version_key
from holddown.facts.model import ModelFacts
from holddown.facts.served import Served
from holddown.facts.weight_groups import Component
from holddown.plan.plan import Plan
from holddown.tables.load import engine_table
from holddown.verify.verdict import Outcome, Verdict
from holddown.verify.verdicts import excused

SMALL_PARAMETERS = 2_000_000_000
"""Below it a model that calls no tool, finds no needle or goes round in circles shows nothing about the server.

Measured: SmolLM2-135M calls no tool on a sound one, and repeats its sentences. Where the border lies is a judgement.
"""


@dataclass(frozen=True, slots=True)
class Claims:
    """model: the name it is asked by. engine: as `Engine.kind`, empty where that is not known. ours: a deployment of
    holddown's. chat: it has a chat template. tools, reasoning, images: None where only asking can tell. prefix_cache:
    False where it was turned off. any_model: it answers under any name. no_budget: why it may pass over a budget for
    the thinking; empty where it claims to keep one.
    """

    model: str
    engine: str
    ours: bool
    chat: bool
    tools: bool | None
    reasoning: bool | None
    images: bool | None
    prefix_cache: bool
    context: Fact[int]
    parameters: Fact[int]
    vocab_size: Fact[int]
    any_model: bool = False
    no_budget: str = ""

    @property
    def small(self) -> bool:
        return isinstance(self.parameters, Known) and self.parameters.value < SMALL_PARAMETERS

    @property
    def able(self) -> bool:
        """Known to be large enough for what any model of its size does."""
        return isinstance(self.parameters, Known) and not self.small

    def unless_small(self, verdict: Verdict) -> Verdict:
        """For what a model of any use does on a sound server."""
        if self.small and verdict.outcome is Outcome.FAILED:
            count = known_or(self.parameters, 0) / 1e6
            return excused(verdict, f"a model of {count:.0f} million parameters is too small to judge by")
        return verdict

    def if_able(self, verdict: Verdict) -> Verdict:
        """For what only a model of some size does: where its size is not known, nothing is shown."""
        if not self.able and not self.small and verdict.outcome is Outcome.FAILED:
            return excused(verdict, "this may be the model's own doing: how large it is is not known")
        return self.unless_small(verdict)

    def asks(self, text: str, max_tokens: int) -> Ask:
        """A question in the form that it takes."""
        if self.chat:
            return Ask(self.model, max_tokens, messages=(Message("user", text),))
        return Ask(self.model, max_tokens, prompt=text)


def of_deployment(model: ModelFacts, plan: Plan, served: Served) -> Claims:
    """tools: a parser makes calls of what the model writes. llama.cpp needs none, but drops tools in silence where the
    chat template has no place for them. Source: https://github.com/ggml-org/llama.cpp/issues/27129"""
    vision = any(group.component is Component.VISION for group in model.weights)
    llamacpp = plan.engine_kind == "llamacpp"
    tools, reasoning = plan.setting("tool-call-parser"), plan.setting("reasoning-parser")
    cache = plan.setting("enable-prefix-caching")
    off = (plan.setting("no-enable-prefix-caching"), plan.setting("disable-radix-cache"))
    return Claims(
        model=plan.served_model_name,
        engine=plan.engine_kind,
        ours=True,
        chat=isinstance(model.chat_template, Known),
        tools="tools" in known_or(model.chat_template, "") if llamacpp else tools is not None,
        reasoning=None if llamacpp else reasoning is not None,
        images=vision if not llamacpp else None,
        prefix_cache=(cache is None or cache.value != "false") and off == (None, None),
        context=derived(plan.context, "its plan") if plan.context else served.max_model_len,
        parameters=model.parameters,
        vocab_size=model.vocab_size,
        any_model=bool(engine_table(plan.engine_kind).any_model_source),
        no_budget=_no_budget(plan.engine_kind, served.version, {setting.name for setting in plan.settings}),
    )


def of_server(model: str, served: Served, *, chat: bool) -> Claims:
    """Of anybody's: only asking can tell most of it."""
    engine = known_or(served.engine, "")
    return Claims(
        model=model,
        engine=engine,
        ours=False,
        chat=chat,
        tools=None,
        reasoning=None,
        images=None,
        prefix_cache=True,
        context=served.max_model_len,
        parameters=Unknown("a server does not tell how large its model is"),
        vocab_size=Unknown("a server does not tell it"),
        any_model=bool(engine and engine_table(engine).any_model_source),
        no_budget=_no_budget(engine, served.version, ()),
    )


def _no_budget(engine: str, version: Fact[str], options: Collection[str]) -> str:
    row = engine_table(engine) if engine else None
    if row is None or isinstance(version, Unknown):
        return "which engine and release it is, it does not tell"
    # llama.cpp's server says b11434-0123abc
    if version_key(version.value.partition("-")[0]) < version_key(row.thinking_budget_since):
        return f"{engine} is known to keep one from {row.thinking_budget_since} on, and this is {version.value}"
    if row.thinking_budget_needs and row.thinking_budget_needs not in options:
        return f"{engine} keeps one where it is started with --{row.thinking_budget_needs}"
    return ""
