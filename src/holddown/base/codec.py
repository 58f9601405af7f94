"""Values to JSON and back. Every dataclass of the core travels through here: records, `--json`, caches.

Unions of dataclasses are tagged with the class name under "is", so a reader needs no guessing.
"""

import json
import types
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin

from cattrs import BaseValidationError, transform_error
from cattrs.preconf.json import JsonConverter, make_converter

T = TypeVar("T")


def _is_dataclass_union(type_: Any) -> bool:
    if get_origin(type_) not in (Union, types.UnionType):
        return False
    return all(is_dataclass(get_origin(arm) or arm) for arm in get_args(type_))


def _tag(arm: Any) -> str:
    name: str = (get_origin(arm) or arm).__name__
    return name


def _converter() -> JsonConverter:
    # cattrs' own tagged-union strategy looks arms up by exact class and so misses generic ones (`Known[int]`).
    converter = make_converter()

    def unstructure_factory(union: Any) -> Callable[[Any], Any]:
        arms = {_tag(arm): arm for arm in get_args(union)}

        def unstructure(value: Any) -> Any:
            tag = value.__class__.__name__
            return {"is": tag, **converter.unstructure(value, unstructure_as=arms[tag])}

        return unstructure

    def structure_factory(union: Any) -> Callable[[Any, Any], Any]:
        arms = {_tag(arm): arm for arm in get_args(union)}

        def structure(data: Any, _: Any) -> Any:
            if not isinstance(data, dict) or data.get("is") not in arms:
                raise ValueError(f'expected an object with "is" one of {", ".join(arms)}')
            return converter.structure(data, arms[data["is"]])

        return structure

    converter.register_unstructure_hook_factory(_is_dataclass_union, unstructure_factory)
    converter.register_structure_hook_factory(_is_dataclass_union, structure_factory)
    return converter


_CONVERTER = _converter()


def dump(value: object, type_: Any = None) -> Any:
    """A JSON-ready value. Give `type_` where the value's own class is a union's arm and the tag must be kept."""
    return _CONVERTER.unstructure(value, unstructure_as=type_ or value.__class__)


def load(type_: type[T], data: Any) -> T:
    """The value that `dump` wrote. Raises: ValueError naming every field that does not fit."""
    try:
        return _CONVERTER.structure(data, type_)
    except BaseValidationError as error:
        raise ValueError(f"not a {type_.__name__}: " + "; ".join(transform_error(error))) from error


def dumps(value: object, type_: Any = None) -> str:
    """`dump` as text, keys in field order."""
    return json.dumps(dump(value, type_), ensure_ascii=False)


def loads(type_: type[T], text: str) -> T:
    return load(type_, json.loads(text))
