"""Tool calls: made when they should be, whole, as calls and not as text, alone and sixteen at once."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from holddown.facts.answers import Answer, Ask, Message, Refusal, Reply, Tool, ToolCall
from holddown.verify.claims import Claims
from holddown.verify.script import Script, ask, ask_all, stream
from holddown.verify.structured import fault, schema_of
from holddown.verify.verdict import Verdict
from holddown.verify.verdicts import (
    PARSER,
    SCHEDULER,
    TEMPLATE,
    failed,
    inconclusive,
    not_applicable,
    passed,
    refusal_text,
    reply_text,
    shown,
)

CROWD = 16
_TOKENS = 512
_CITIES = (
    "Paris", "Tokyo", "Cairo", "Lima", "Oslo", "Rome", "Delhi", "Quito",
    "Accra", "Perth", "Seoul", "Dakar", "Vienna", "Boston", "Madrid", "Sofia",
)  # fmt: skip
_TEMPERATURE = "31"
_LEAK = re.compile(
    r"get_(?:weather|time)\s*[({<\[]|get_(?:weather|time)\"\s*[,:]\s*[{\"]|[=.>\[]get_(?:weather|time)|"
    r"<[|｜]?tools?[_▁]|\[TOOL_CALLS\]|<\|python_tag\|>"
)
"""A tool's name as a call has it and prose does not, and what families of models write before one.

Source: the forms that vLLM 0.32.0 tool_parsers/ reads: hermes, deepseekv3, mistral, llama, pythonic, kimi_k2, ...
"""
_READ_PARSER = "compare the model card's --tool-call-parser with the one that runs"


class GetWeather(msgspec.Struct, forbid_unknown_fields=True):
    city: str
    unit: Literal["celsius", "fahrenheit"]


class GetTime(msgspec.Struct, forbid_unknown_fields=True):
    city: str


_KINDS: dict[str, type[msgspec.Struct]] = {"get_weather": GetWeather, "get_time": GetTime}
TOOLS = (
    Tool("get_weather", "The weather in a city now.", schema_of(GetWeather)),
    Tool("get_time", "The local time in a city now.", schema_of(GetTime)),
)


def call_fault(call: ToolCall) -> str:
    """What is wrong with it; empty for nothing."""
    if call.name not in _KINDS:
        return f"there is no tool {call.name!r}"
    wrong = fault(call.arguments, _KINDS[call.name])
    return f"{call.name}({shown(call.arguments)}): {wrong}" if wrong else ""


def leak(answer: Answer) -> str:
    """The piece of the text that is a call; empty where there is none."""
    found = _LEAK.search(answer.text)
    return shown(answer.text[found.start() :]) if found else ""


def tool_call(claims: Claims) -> Script:
    """Asked for the weather, the model calls the tool; its arguments fit; nothing of the call is in the text."""
    replies = yield from ask_all(tuple(_weather(claims, city) for city in _CITIES[:3]))
    asked = f"{shown(_question(_CITIES[0]))} and of two more cities, tool_choice=auto"
    refused = _refused("tool-call", claims, replies, asked)
    if refused:
        return refused
    answers = [reply for reply in replies if isinstance(reply, Answer)]
    wrong = next((verdict for answer in answers if (verdict := _wrong_call(answer, asked))), None)
    if wrong:
        return claims.unless_small(wrong)
    called = [answer for answer in answers if answer.tool_calls]
    if called:
        return passed("tool-call", f"{len(called)} of {len(answers)} called: {reply_text(called[0])}", asked)
    return claims.if_able(
        failed(
            "tool-call",
            code="tool-call.none",
            what="asked what only a tool can tell, the model calls none",
            seen=reply_text(answers[0]),
            do="see in the engine's log whether the chat template takes tools; " + _READ_PARSER,
            asked=asked,
            cause=TEMPLATE,
        )
    )


def _wrong_call(answer: Answer, asked: str) -> Verdict | None:
    if text := leak(answer):
        return failed(
            "tool-call",
            code="tool-call.as-text",
            what="a tool call came as text, so that no client sees that it is one",
            seen=text,
            do=_READ_PARSER,
            asked=asked,
            cause=PARSER,
        )
    if wrong := next(filter(None, map(call_fault, answer.tool_calls)), ""):
        return failed(
            "tool-call",
            code="tool-call.arguments",
            what="the arguments of a tool call do not fit its schema",
            seen=wrong,
            do=_READ_PARSER,
            asked=asked,
            cause=PARSER,
        )
    if answer.tool_calls and answer.finish_reason != "tool_calls":
        return failed(
            "tool-call",
            code="tool-call.finish-reason",
            what="an answer with tool calls does not say that it ended for them, so that agents go past it",
            seen=reply_text(answer),
            do=_READ_PARSER,
            asked=asked,
            cause=PARSER,
        )
    return None


def tool_choice(claims: Claims) -> Script:
    """none: no call. required: one, although none is needed. A tool's name: that one."""
    weather = _weather(claims, _CITIES[0])
    hello = replace(weather, messages=(Message("user", "Say hello."),))
    asks = (
        replace(weather, tool_choice="none"),
        replace(hello, tool_choice="required"),
        replace(weather, tool_choice="get_time"),
    )
    none, required, named = yield from ask_all(asks)
    asked = f"{shown(_question(_CITIES[0]))} with tool_choice none and get_time, 'Say hello.' with required"
    refused = _refused("tool-choice", claims, (none,), asked)
    if refused:
        return refused
    faults, unsaid = [], []
    if isinstance(none, Answer) and none.tool_calls:
        faults.append(f"none: {reply_text(none)}")
    for word, reply in (("required", required), ("get_time", named)):
        if isinstance(reply, Refusal):
            unsaid.append(f"{word} is refused: {refusal_text(reply)}")
        elif reply.finish_reason == "length":
            unsaid.append(f"{word}: cut at {_TOKENS} tokens")
        elif not reply.tool_calls or (word in _KINDS and reply.tool_calls[0].name != word):
            faults.append(f"{word}: {reply_text(reply)}")
        else:
            faults += [f"{word}: {wrong}" for wrong in map(call_fault, reply.tool_calls) if wrong]
    if faults:
        return failed(
            "tool-choice",
            code="tool-choice.ignored",
            what="tool_choice is not followed",
            seen="; ".join(faults),
            do="agents that force or forbid a call cannot rely on it; another engine version may do it",
            asked=asked,
            cause=PARSER,
        )
    if len(unsaid) == 2:
        return inconclusive("tool-choice", "; ".join(unsaid), asked)
    return passed("tool-choice", "; ".join(["none, required and named are followed", *unsaid]), asked)


def tool_parallel(claims: Claims) -> Script:
    """Several calls in one turn are several calls, each whole and with an id of its own."""
    question = f"What is the weather in {', '.join(_CITIES[:2])} and {_CITIES[2]} in celsius? Call the tool for each."
    reply = yield from ask(replace(_weather(claims, ""), messages=(Message("user", question),)))
    refused = _refused("tool-parallel", claims, (reply,), question)
    if refused or isinstance(reply, Refusal):
        return refused or inconclusive("tool-parallel", reply_text(reply), question)
    calls = reply.tool_calls
    merged = [call for call in calls if _is_several(call.arguments)]
    ids = {call.id for call in calls}
    if merged or len(ids) < len(calls):
        return failed(
            "tool-parallel",
            code="tool-parallel.merged",
            what="several tool calls of one turn are not told apart",
            seen=f"two calls in one: {shown(merged[0].arguments)}" if merged else f"{len(calls)} calls, {len(ids)} ids",
            do=_READ_PARSER,
            asked=question,
            cause=PARSER,
        )
    if len(calls) > 1:
        return passed("tool-parallel", f"{len(calls)} calls with an id each: {reply_text(reply)}", question)
    return inconclusive("tool-parallel", f"the model made {len(calls)} calls: {reply_text(reply)}", question)


def tool_stream(claims: Claims) -> Script:
    """The deltas of a streamed call, put together, are the call that comes whole."""
    question = _weather(claims, _CITIES[0])
    whole = yield from ask(question)
    asked = f"{shown(_question(_CITIES[0]))}, whole and streamed"
    refused = _refused("tool-stream", claims, (whole,), asked)
    if refused or isinstance(whole, Refusal):
        return refused or inconclusive("tool-stream", reply_text(whole), asked)
    if not whole.tool_calls:
        return inconclusive("tool-stream", f"no call came that could be compared: {reply_text(whole)}", asked)
    streamed = yield from stream(question)
    if isinstance(streamed, Answer) and _same_calls(whole, streamed):
        return passed("tool-stream", f"equal, {len(streamed.arrivals)} deltas: {reply_text(whole)}", asked)
    again = yield from ask(question)
    seen = f"whole {reply_text(whole)}; streamed {reply_text(streamed)}"
    broken = isinstance(streamed, Refusal) or not streamed.tool_calls or any(map(call_fault, streamed.tool_calls))
    if not broken and not (isinstance(again, Answer) and _same_calls(whole, again)):
        return inconclusive("tool-stream", f"{seen}; whole it differs from time to time, too", asked)
    return failed(
        "tool-stream",
        code="tool-stream.differs",
        what="the deltas of a streamed tool call do not make the call that comes whole",
        seen=seen,
        do=f"let agents ask without a stream until it is mended; {_READ_PARSER}",
        asked=asked,
        cause=PARSER,
    )


def tool_result(claims: Claims) -> Script:
    """A tool's result is taken and answered from."""
    made = ToolCall("call_1", "get_weather", json.dumps({"city": _CITIES[0], "unit": "celsius"}))
    turns = (
        Message("user", _question(_CITIES[0])),
        Message("assistant", "", tool_calls=(made,)),
        Message("tool", json.dumps({"temperature": int(_TEMPERATURE), "unit": "celsius"}), tool_call_id=made.id),
    )
    reply = yield from ask(replace(_weather(claims, ""), messages=turns))
    asked = f"{shown(_question(_CITIES[0]))}, a call, and its result: {_TEMPERATURE} degrees"
    refused = _refused("tool-result", claims, (reply,), asked)
    if refused or isinstance(reply, Refusal):
        return refused or inconclusive("tool-result", reply_text(reply), asked)
    if _TEMPERATURE in reply.text:
        return passed("tool-result", shown(reply.text), asked)
    return claims.if_able(
        failed(
            "tool-result",
            code="tool-result.unread",
            what="a tool's result is not answered from",
            seen=reply_text(reply),
            do="see whether the chat template has a place for the role `tool`: --chat-template FILE",
            asked=asked,
            cause=TEMPLATE,
        )
    )


def tool_crowd(claims: Claims) -> Script:
    """Sixteen at once, each of another city: each gets its own call, as whole as alone."""
    alone = yield from ask(_weather(claims, _CITIES[0]))
    asked = f"{shown(_question('CITY'))} of {CROWD} cities at once, after one alone"
    refused = _refused("tool-crowd", claims, (alone,), asked)
    if refused or isinstance(alone, Refusal):
        return refused or inconclusive("tool-crowd", reply_text(alone), asked)
    if _crowd_fault(alone, _CITIES[0]):
        return inconclusive("tool-crowd", f"already alone it makes no whole call: {reply_text(alone)}", asked)
    replies = yield from ask_all(tuple(_weather(claims, city) for city in _CITIES))
    faults = [wrong for city, reply in zip(_CITIES, replies, strict=True) if (wrong := _crowd_fault(reply, city))]
    if not faults:
        return passed("tool-crowd", f"{CROWD} of {CROWD} whole, each of its own city", asked)
    return claims.unless_small(
        failed(
            "tool-crowd",
            code="tool-crowd.broken",
            what=f"{len(faults)} of {CROWD} tool calls at once are not what they are alone",
            seen=faults[0],
            do="try fewer at once (--max-num-seqs), without speculative decoding, or another engine version",
            asked=asked,
            cause=SCHEDULER,
        )
    )


def _question(city: str) -> str:
    return f"What is the weather in {city} in celsius? Use the tool."


def _weather(claims: Claims, city: str) -> Ask:
    turn = Message("user", _question(city))
    return Ask(claims.model, _TOKENS, messages=(turn,), tools=TOOLS, tool_choice="auto")


def _refused(check: str, claims: Claims, replies: Sequence[Reply], asked: str) -> Verdict | None:
    """Where it takes no tools: a fault only of a server that was started to."""
    refusal = next((reply for reply in replies if isinstance(reply, Refusal)), None)
    if refusal is None:
        return None
    if claims.tools is None and 400 <= refusal.status < 500:
        return not_applicable(check, f"tools are not taken: {refusal_text(refusal)}")
    return failed(
        check,
        code=f"{check}.refused",
        what="a request with tools is refused, although a tool parser runs",
        seen=refusal_text(refusal),
        do="see the engine's log: the chat template may not take tools",
        asked=asked,
        cause=TEMPLATE,
    )


def _same_calls(one: Answer, other: Answer) -> bool:
    return [(call.name, _value(call)) for call in one.tool_calls] == [
        (call.name, _value(call)) for call in other.tool_calls
    ]


def _value(call: ToolCall) -> object:
    """Its arguments without their white space; as they are where they are no JSON."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


def _is_several(arguments: str) -> bool:
    """`{...}{...}`: more than one JSON object."""
    try:
        _, end = json.JSONDecoder().raw_decode(arguments)
    except ValueError:
        return False
    return arguments[end:].lstrip(" ,\n").startswith("{")


def _crowd_fault(reply: Reply, city: str) -> str:
    if isinstance(reply, Refusal):
        return f"{city}: {refusal_text(reply)}"
    if not reply.tool_calls:
        return f"{city}: {reply_text(reply)}"
    call = reply.tool_calls[0]
    wrong = call_fault(call)
    return wrong or ("" if city in call.arguments else f"{city}: {reply_text(reply)}")
