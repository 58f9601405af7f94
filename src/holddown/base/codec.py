"""Values to JSON and back. Every dataclass of the core travels through here: records, `--json`, caches.

Unions of dataclasses are tagged with the class name under "is", so a reader needs no guessing.
"""

import json
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from cattrs.preconf.json import JsonConverter

T = TypeVar("T")
Encoder = Callable[[Any], Any]


def dump(value: object, type_: Any = None) -> Any:
    """A JSON-ready value. Give `type_` where the value's own class is a union's arm and the tag must be kept."""
    declared: Any = type_ or value.__class__
    return _encoder(declared)(value)


def load(type_: type[T], data: Any) -> T:
    """The value that `dump` wrote. Raises: ValueError naming every field that does not fit."""
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter().structure(data, type_)
    except BaseValidationError as error:
        raise ValueError(f"not a {type_.__name__}: " + "; ".join(transform_error(error))) from error


def dumps(value: object, type_: Any = None) -> str:
    """`dump` as text, keys in field order."""
    return json.dumps(dump(value, type_), ensure_ascii=False)


def loads(type_: type[T], text: str) -> T:
    return load(type_, json.loads(text))


def _is_union(type_: Any) -> bool:
    return get_origin(type_) in (Union, types.UnionType)


def _tagged_arms(type_: Any) -> tuple[Any, ...]:
    """The arms of a union of dataclasses, beside which there may be None; empty for any other type."""
    arms = tuple(arm for arm in get_args(type_) if arm is not types.NoneType) if _is_union(type_) else ()
    return arms if len(arms) > 1 and all(is_dataclass(get_origin(arm) or arm) for arm in arms) else ()


def _tag(arm: Any) -> str:
    name: str = (get_origin(arm) or arm).__name__
    return name


# --- to JSON. cattrs does this too, but to import it and to let it write its functions takes 150 ms, more than reading
# the headers of most checkpoints.


@cache
def _encoder(type_: Any) -> Encoder:
    """How a value of this declared type is written; found once per type."""
    origin = get_origin(type_)
    if is_dataclass(origin or type_):
        return _dataclass_encoder(type_)
    if tagged := _tagged_arms(type_):
        return _tagged(tagged)
    if _is_union(type_):
        arms = [arm for arm in get_args(type_) if arm is not types.NoneType]
        one = _encoder(arms[0]) if len(arms) == 1 else dump
        return lambda value: None if value is None else one(value)
    if origin in (tuple, list, frozenset, set):
        return _many(get_args(type_))
    if origin is dict:
        key, item = map(_encoder, get_args(type_))
        return lambda value: {key(name): item(each) for name, each in value.items()}
    if isinstance(type_, type) and issubclass(type_, Enum):
        return lambda value: value.value
    if type_ in (tuple, list):
        return lambda value: [dump(item) for item in value]  # nothing is declared of its items: each by its own class
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _many(arguments: tuple[Any, ...]) -> Encoder:
    if (len(arguments) == 2 and arguments[1] is Ellipsis) or len(arguments) == 1:
        each = _encoder(arguments[0])
        return lambda value: [each(item) for item in value]
    encoders = [_encoder(argument) for argument in arguments]
    return lambda value: [encode(item) for encode, item in zip(encoders, value, strict=True)]


def _dataclass_encoder(type_: Any) -> Encoder:
    class_ = get_origin(type_) or type_
    known = dict(zip(getattr(class_, "__parameters__", ()), get_args(type_), strict=False))
    hints = get_type_hints(class_)
    # looked up when first used: a type may hold itself
    declared = [(field.name, _bound(hints[field.name], known)) for field in fields(class_)]
    encoders: list[tuple[str, Encoder]] = []

    def encode(value: Any) -> dict[str, Any]:
        if not encoders:
            encoders.extend((name, _encoder(hint)) for name, hint in declared)
        return {name: one(getattr(value, name)) for name, one in encoders}

    return encode


def _bound(hint: Any, known: dict[Any, Any]) -> Any:
    """The hint with type variables put in: `Known[int]` holds an int under `value: T`."""
    return known.get(hint, hint) if isinstance(hint, TypeVar) else hint


def _tagged(union: tuple[Any, ...]) -> Encoder:
    arms = {_tag(arm): _encoder(arm) for arm in union}

    def encode(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        tag = value.__class__.__name__
        return {"is": tag, **arms[tag](value)}

    return encode


# --- from JSON


@cache
def _converter() -> "JsonConverter":
    # cattrs' own tagged-union strategy looks arms up by exact class and so misses generic ones (`Known[int]`).
    from cattrs.preconf.json import make_converter

    converter = make_converter()

    def structure_factory(union: Any) -> Callable[[Any, Any], Any]:
        arms = {_tag(arm): arm for arm in _tagged_arms(union)}
        optional = types.NoneType in get_args(union)

        def structure(data: Any, _: Any) -> Any:
            if data is None and optional:
                return None
            if not isinstance(data, dict) or data.get("is") not in arms:
                raise ValueError(f'expected an object with "is" one of {", ".join(arms)}')
            return converter.structure(data, arms[data["is"]])

        return structure

    converter.register_structure_hook_factory(lambda type_: bool(_tagged_arms(type_)), structure_factory)
    return converter
