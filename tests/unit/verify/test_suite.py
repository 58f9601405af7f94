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


def test_a_stranger_claims_what_it_tells() -> None:
    """Engine and context; the rest only asking can tell."""
    claims = of_server("m", SERVED, chat=True)
    assert (claims.engine, claims.ours, claims.tools, claims.able, claims.small) == ("vllm", False, None, False, False)
    assert claims.context == SERVED.max_model_len
