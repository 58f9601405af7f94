"""JSON that fits a schema. The types here are both: what is asked for, and what judges the answer."""

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from holddown.facts.answers import Refusal
from holddown.verify.claims import Claims
from holddown.verify.script import Script, ask
from holddown.verify.verdicts import PARSER, SERVER, failed, inconclusive, not_applicable, passed, refusal_text, shown

_QUESTION = "Describe a horse as JSON."
_TOKENS = 96


class Animal(msgspec.Struct, forbid_unknown_fields=True):
    """Bounded in all parts, so that a grammar leads any model to its end."""

    kind: Literal["mammal", "bird", "fish"]
    legs: Annotated[int, msgspec.Meta(ge=0, le=8)]
    can_swim: bool
    size: Literal["small", "large"]


def schema_of(kind: type[msgspec.Struct]) -> str:
    """As JSON text, with nothing referred to elsewhere: not every grammar follows `$ref`."""
    _, components = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = components[kind.__name__]
    schema.pop("description", None)
    return json.dumps(schema)


def fault(text: str, kind: type[msgspec.Struct]) -> str:
    """Why it does not fit; empty where it does."""
    try:
        msgspec.json.decode(text.encode(), type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        return str(error) or type(error).__name__
    return ""


def json_schema(claims: Claims) -> Script:
    """An answer that is asked for by a JSON schema fits it."""
    question = claims.asks(_QUESTION, _TOKENS)
    reply = yield from ask(replace(question, schema=schema_of(Animal)))
    asked = f"{shown(_QUESTION)} with response_format json_schema of 4 fields"
    if isinstance(reply, Refusal):
        return not_applicable("json-schema", f"no schema is taken: {refusal_text(reply)}")
    wrong = fault(reply.text, Animal)
    seen = shown(reply.text)
    if not wrong:
        return passed("json-schema", seen, asked)
    if reply.finish_reason == "length" and reply.text.lstrip().startswith("{"):
        return inconclusive("json-schema", f"{seen} was cut at {_TOKENS} tokens", asked)
    if not reply.text and reply.reasoning:
        return inconclusive("json-schema", f"it thought through all {_TOKENS} tokens", asked)
    return failed(
        "json-schema",
        code="json-schema.ignored",
        what="the answer does not fit the JSON schema that was asked for",
        seen=f"{wrong}: {seen}",
        do="programs that read it break; look for the engine's structured-output backend in its log",
        asked=asked,
        # the grammar holds only once the parser has seen the reasoning end
        cause=PARSER if claims.reasoning else SERVER,
    )
