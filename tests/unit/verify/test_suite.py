"""Which checks are asked of whom."""

from dataclasses import replace

import pytest

from fakes.claims import ABLE, STRANGER, played
from fakes.client import FakeClient
from fakes.facts import model
from fakes.records import a_plan
from holddown.base.evidence import Source, SourceKind, Unknown, derived, from_file, from_probe
from holddown.facts.served import Served
from holddown.plan.plan import Setting
from holddown.verify.claims import Claims, of_deployment, of_server
from holddown.verify.quality import NAME
from holddown.verify.script import Scripted
from holddown.verify.suite import ENTRIES, NAMES, suite
from holddown.verify.verdict import Outcome, Verdict

SERVED = Served(("m",), from_probe("vllm", "x"), Unknown("x"), from_probe(2048, "x"))


def names(claims: Claims, *, quick: bool = False) -> list[str]:
    return [check.name for check in suite(claims, (), quick=quick, intrusive=False)]


def verdict(claims: Claims, name: str, *, intrusive: bool = False) -> Verdict:
    (check,) = suite(claims, {name}, quick=False, intrusive=intrusive)
    assert isinstance(check, Scripted)
    return played(check.script(), FakeClient())


def test_all_have_names_that_can_be_named() -> None:
    """In the order in which they run, the comparison last."""
    assert (*names(ABLE), NAME) == NAMES


def test_the_quick_ones_are_fewer_and_one_can_be_named_besides() -> None:
    """A slow check that is asked for by name is run."""
    quick = names(ABLE, quick=True)
    assert set(quick) < set(names(ABLE)) and "needle" not in quick
    (needle,) = suite(ABLE, {"needle"}, quick=True, intrusive=False)
    assert isinstance(needle, Scripted) and needle.slow


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES if entry.loads])
def test_what_loads_a_server_is_not_asked_of_strangers(name: str) -> None:
    """Unless the user says so; then the verdict says it, too. Of ours it is asked."""
    withheld = verdict(STRANGER, name)
    assert withheld.outcome is Outcome.SKIPPED and "--intrusive" in withheld.seen
    assert "--intrusive" in verdict(STRANGER, name, intrusive=True).asked
    assert "--intrusive" not in verdict(ABLE, name).asked


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        (replace(ABLE, tools=False), "tool-call"),
        (replace(ABLE, tools=False), "tool-crowd"),
        (replace(ABLE, reasoning=False), "reasoning"),
        (replace(ABLE, reasoning=False), "reasoning-budget"),
        (replace(ABLE, images=False), "images"),
        (replace(ABLE, chat=False), "tool-stream"),
    ],
)
def test_what_is_not_claimed_is_not_asked(claims: Claims, name: str) -> None:
    """And it says what is missing."""
    given = verdict(claims, name)
    assert given.outcome is Outcome.NOT_APPLICABLE and given.seen


def set_to(**values: str) -> tuple[Setting, ...]:
    return tuple(
        Setting(name.replace("_", "-"), value, "x", Source(SourceKind.USER, "x")) for name, value in values.items()
    )


def test_a_deployment_claims_what_it_was_started_with() -> None:
    """Parsers of its plan, the template and size of its model, and its own context."""
    plan = replace(a_plan(), context=1024, settings=set_to(tool_call_parser="hermes"))
    claims = of_deployment(replace(model(), chat_template=from_file("{{ messages }}", "x")), plan, SERVED)
    assert (claims.ours, claims.chat, claims.tools, claims.reasoning, claims.images) == (True, True, True, False, False)
    assert claims.context == derived(1024, "its plan")


@pytest.mark.parametrize(
    "settings",
    [
        set_to(enable_prefix_caching="false"),
        set_to(no_enable_prefix_caching="true"),
        set_to(disable_radix_cache="true"),
    ],
)
def test_a_cache_that_is_off_is_not_claimed(settings: tuple[Setting, ...]) -> None:
    """By whichever engine's word for it."""
    assert not of_deployment(model(), replace(a_plan(), settings=settings), SERVED).prefix_cache
    assert of_deployment(model(), a_plan(), SERVED).prefix_cache


def test_llama_cpp_takes_tools_where_its_template_does() -> None:
    """It needs no parser, and drops them in silence where there is no place for them."""
    plan = replace(a_plan(), engine_kind="llamacpp")
    for template, takes in (("{% if tools %}", True), ("{{ messages }}", False)):
        facts = replace(model(), chat_template=from_file(template, "x"))
        assert of_deployment(facts, plan, SERVED).tools is takes


@pytest.mark.parametrize(
    ("engine", "version", "needed", "why"),
    [
        ("vllm", "0.18.0", "", "from 0.19.1 on, and this is 0.18.0"),
        ("vllm", "0.19.1", "", ""),
        ("vllm", "0.32.0+cpu", "", ""),
        ("llamacpp", "b9000-0123abc", "", "from b11434 on"),
        ("llamacpp", "b11434-0123abc", "", ""),
        ("sglang", "0.5.8", "true", "from 0.5.16 on"),
        ("sglang", "0.5.16", "", "--enable-strict-thinking"),
        ("sglang", "0.5.16", "true", ""),
    ],
)
def test_a_budget_for_the_thinking_is_claimed_by_release(engine: str, version: str, needed: str, why: str) -> None:
    """SGLang's by an option of its plan besides, which a stranger does not tell."""
    served = replace(SERVED, engine=from_probe(engine, "x"), version=from_probe(version, "x"))
    settings = set_to(enable_strict_thinking=needed) if needed else ()
    ours = of_deployment(model(), replace(a_plan(), engine_kind=engine, settings=settings), served).no_budget
    theirs = of_server("m", served, chat=True).no_budget
    assert why in ours and bool(why) == bool(ours)
    assert bool(theirs) == bool(why or needed)


def test_a_budget_is_not_claimed_by_who_tells_nothing() -> None:
    """Neither of a release nor of an engine."""
    for engine in (SERVED.engine, Unknown("x")):
        assert of_server("m", replace(SERVED, engine=engine), chat=True).no_budget


def test_a_stranger_claims_what_it_tells() -> None:
    """Engine and context; the rest only asking can tell."""
    claims = of_server("m", SERVED, chat=True)
    assert (claims.engine, claims.ours, claims.tools, claims.able, claims.small) == ("vllm", False, None, False, False)
    assert claims.context == SERVED.max_model_len
