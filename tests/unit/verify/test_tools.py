"""Tool calls, judged."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.claims import ABLE, SMALL, STRANGER, played
from fakes.client import FakeClient, answer
from holddown.facts.answers import Ask, Refusal, Reply, ToolCall
from holddown.verify import tools
from holddown.verify.claims import Claims
from holddown.verify.script import Script
from holddown.verify.verdict import Outcome

Check = Callable[[Claims], Script]


def call(city: str, id: str = "c1", name: str = "get_weather") -> ToolCall:
    unit = ', "unit": "celsius"' if name == "get_weather" else ""
    return ToolCall(id, name, f'{{"city": "{city}"{unit}}}')


def calling(*calls: ToolCall) -> Reply:
    return answer("", finish_reason="tool_calls", calls=calls)


def able(ask: Ask) -> Reply:
    """A sound model behind a sound server."""
    said = ask.messages[-1].content
    if ask.messages[-1].role == "tool":
        return answer("It is 31 degrees.", finish_reason="stop")
    if ask.tool_choice == "none":
        return answer("I cannot look.", finish_reason="stop")
    if ask.tool_choice == "get_time":
        return replace(calling(call("Paris", name="get_time")), finish_reason="stop")
    cities = [city for city in tools._CITIES if city in said] or ["Oslo"]
    return calling(*(call(city, f"c{number}") for number, city in enumerate(cities)))


CHECKS: tuple[Check, ...] = (
    tools.tool_call,
    tools.tool_choice,
    tools.tool_parallel,
    tools.tool_stream,
    tools.tool_result,
    tools.tool_crowd,
)


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_server_passes(check: Check) -> None:
    """Each of them."""
    assert played(check(ABLE), FakeClient(able)).outcome is Outcome.PASSED


@pytest.mark.parametrize("check", CHECKS)
def test_refused_tools_are_a_fault_only_where_they_were_claimed(check: Check) -> None:
    """A parser runs, and requests with tools are refused; of anybody's server a 400 says that it has none."""
    client = FakeClient(lambda ask: Refusal(400, '"auto" tool choice requires --enable-auto-tool-choice'))
    ours = played(check(ABLE), client)
    assert ours.outcome is Outcome.FAILED and ours.findings[0].code == f"{ours.check}.refused"
    assert played(check(replace(ABLE, tools=None)), client).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        '[TOOL_CALLS][{"name": "get_weather"}]',
        "<function=get_weather><parameter=city>Paris</parameter></function>",
        "<|tool_calls_section_begin|>functions.get_weather:0",
        "<｜tool▁calls▁begin｜>get_weather",
        'I will look: {"name": "get_weather", "parameters": {"city": "Paris"}}',
        '[get_weather(city="Paris", unit="celsius")]',
        "<|python_tag|>get_weather.call(city='Paris')",
        '<|tools_prefix|>[{"get_weather": {"city": "Paris"}}]<|tools_suffix|>',
        "functions.get_weather:0<|tool_call_argument_begin|>{}",
    ],
)
def test_a_call_that_comes_as_text_is_a_leak(text: str) -> None:
    """In the form of whichever family; the parser is to blame."""
    verdict = played(tools.tool_call(ABLE), FakeClient(lambda ask: answer(text, finish_reason="stop")))
    assert verdict.outcome is Outcome.FAILED and verdict.findings[0].code == "tool-call.as-text"
    assert "parser" in verdict.cause


@pytest.mark.parametrize(
    "text", ["I could use get_weather for that.", 'The tool "get_weather" would tell.', "It is <b>sunny</b> (I think)."]
)
def test_talk_of_a_tool_is_no_leak(text: str) -> None:
    """A model that says what it would do calls nothing."""
    verdict = played(tools.tool_call(ABLE), FakeClient(lambda ask: answer(text, finish_reason="stop")))
    assert verdict.findings[0].code == "tool-call.none"


@pytest.mark.parametrize(
    "broken",
    [
        ToolCall("c", "get_weather", '{"city": "Paris", "unit":'),
        ToolCall("c", "get_weather", '{"city": "Paris"}'),
        ToolCall("c", "get_weather", '{"city": "Paris", "unit": "kelvin"}'),
        ToolCall("c", "get_weather", '{"city": "Paris", "unit": "celsius", "days": 3}'),
        ToolCall("c", "get_weather", "not a string: {}"),
        ToolCall("c", "get_news", "{}"),
    ],
)
def test_arguments_are_held_against_the_schema(broken: ToolCall) -> None:
    """Cut, short of a field, with a value or a field that it does not have, of a tool that is not there."""
    verdict = played(tools.tool_call(ABLE), FakeClient(lambda ask: calling(broken)))
    assert verdict.findings[0].code == "tool-call.arguments"


def test_a_call_whose_answer_does_not_say_so() -> None:
    """Agents look at finish_reason."""
    verdict = played(
        tools.tool_call(ABLE), FakeClient(lambda ask: answer("", finish_reason="stop", calls=(call("x"),)))
    )
    assert verdict.findings[0].code == "tool-call.finish-reason"


@pytest.mark.parametrize(("claims", "outcome"), [(ABLE, "failed"), (SMALL, "inconclusive"), (STRANGER, "inconclusive")])
def test_no_call_blames_the_server_only_of_a_model_that_is_able(claims: Claims, outcome: str) -> None:
    """A model too small, or of unknown size, may be the one that cannot."""
    client = FakeClient(lambda ask: answer("It is sunny.", finish_reason="stop"))
    for check in (tools.tool_call, tools.tool_result):
        verdict = played(check(claims), client)
        assert verdict.outcome == outcome
        assert bool(verdict.findings) == (outcome == "failed")


@pytest.mark.parametrize(
    "says",
    [
        lambda ask: calling(call("Paris")) if ask.tool_choice == "none" else able(ask),
        lambda ask: answer("Hello!", finish_reason="stop") if ask.tool_choice == "required" else able(ask),
        lambda ask: calling(call("Paris")) if ask.tool_choice == "get_time" else able(ask),
        lambda ask: calling(ToolCall("c", "get_time", "{")) if ask.tool_choice == "get_time" else able(ask),
    ],
    ids=["none", "required", "named", "arguments"],
)
def test_each_tool_choice_is_looked_at(says: Callable[[Ask], Reply]) -> None:
    """One that is not followed is enough."""
    assert played(tools.tool_choice(ABLE), FakeClient(says)).findings[0].code == "tool-choice.ignored"


def test_a_choice_that_is_refused_is_said() -> None:
    """Not every engine takes `required`; the others are still looked at."""
    verdict = played(
        tools.tool_choice(ABLE),
        FakeClient(lambda ask: Refusal(400, "no") if ask.tool_choice == "required" else able(ask)),
    )
    assert verdict.outcome is Outcome.PASSED and "required is refused" in verdict.seen


@pytest.mark.parametrize(
    "calls",
    [
        (ToolCall("c", "get_weather", '{"city": "Paris", "unit": "celsius"}{"city": "Tokyo", "unit": "celsius"}'),),
        (call("Paris", "same"), call("Tokyo", "same")),
    ],
    ids=["in one", "one id"],
)
def test_calls_of_one_turn_that_are_not_told_apart(calls: tuple[ToolCall, ...]) -> None:
    """Two in one, or two of one id."""
    verdict = played(tools.tool_parallel(ABLE), FakeClient(lambda ask: calling(*calls)))
    assert verdict.findings[0].code == "tool-parallel.merged"


def test_one_call_at_a_time_shows_nothing() -> None:
    """Many models make one, and that is theirs to do."""
    verdict = played(tools.tool_parallel(ABLE), FakeClient(lambda ask: calling(call("Paris"))))
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_deltas_that_make_another_call() -> None:
    """Cut arguments, another city, or nothing at all; white space between is no difference."""
    spaced = ToolCall("other", "get_weather", '{ "city":"Paris","unit":"celsius" }')
    for streamed, outcome in (
        (calling(ToolCall("c", "get_weather", '{"city": "Paris", "unit"')), Outcome.FAILED),
        (calling(call("Rome")), Outcome.FAILED),
        (answer("", finish_reason="stop"), Outcome.FAILED),
        (calling(spaced), Outcome.PASSED),
    ):
        client = FakeClient(able, streams=lambda ask, streamed=streamed: streamed)  # type: ignore[misc]
        assert played(tools.tool_stream(ABLE), client).outcome is outcome


def test_a_call_that_differs_from_time_to_time_shows_nothing_of_streams() -> None:
    """The model takes another city each time it is asked."""
    cities = iter(("Paris", "Rome"))
    client = FakeClient(lambda ask: calling(call(next(cities))), streams=lambda ask: calling(call("Oslo")))
    assert played(tools.tool_stream(ABLE), client).outcome is Outcome.INCONCLUSIVE


def test_sixteen_at_once_that_get_each_others_calls() -> None:
    """Each call is whole, and of another's city."""
    client = FakeClient(lambda ask: calling(call("Paris")))
    verdict = played(tools.tool_crowd(ABLE), client)
    assert verdict.findings[0].code == "tool-crowd.broken" and "15 of 16" in verdict.findings[0].what


def test_what_fails_alone_is_not_asked_of_a_crowd() -> None:
    """It would say nothing about the crowd."""
    client = FakeClient(lambda ask: answer("no", finish_reason="stop"))
    assert played(tools.tool_crowd(ABLE), client).outcome is Outcome.INCONCLUSIVE
    assert len(client.asked) == 1
