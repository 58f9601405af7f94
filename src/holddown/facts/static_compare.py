"""Comparing, negating and built-in functions over values of which some are not known."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from holddown.facts.static_values import (
    AnyOf,
    Class,
    Comparison,
    Config,
    ConfigField,
    Function,
    Module,
    Opaque,
    Value,
    unknown,
)

_COMPARE: Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Is: ("==", operator.is_),
    ast.IsNot: ("!=", operator.is_not),
    ast.In: ("in", lambda left, right: left in right),
    ast.NotIn: ("not in", lambda left, right: left not in right),
}
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}
ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


def config_attribute(value: Config, attr: str) -> Value:
    if attr in ("hf_config", "hf_text_config"):
        return Config(is_model=True)
    if value.is_model or attr.endswith("_size"):
        return ConfigField(attr)
    return Config(is_model=False) if attr.endswith("_config") else Opaque(attr)


def comparison(op: type[ast.cmpop], left: Value, right: Value, node: ast.Compare) -> Value:
    relation, compute = _COMPARE[op]
    if isinstance(left, ConfigField):
        if right is None:
            return Comparison(left.name, "missing" if relation == "==" else "there", ())
        values = tuple(right) if isinstance(right, list | tuple) else (right,)
        if any(isinstance(each, Opaque | ConfigField) for each in values):
            return Opaque(ast.unparse(node))
        return Comparison(left.name, relation, values)
    if isinstance(left, tuple) and isinstance(right, tuple) and relation == "!=" and any(map(unknown, left)):
        parts = [comparison(op, *pair, node) for pair in zip(left, right, strict=False)]
        tests = [part for part in parts if isinstance(part, Comparison)]
        return AnyOf(tuple(tests)) if len(tests) == len(left) == len(right) else Opaque(ast.unparse(node))
    if isinstance(left, Config | Class | Function | Module) and right is None:
        return relation == "!="
    if unknown(left) or unknown(right) or (isinstance(right, list | tuple) and any(map(unknown, right))):
        return Opaque(ast.unparse(node))
    try:
        return compute(left, right)
    except TypeError:
        return Opaque(ast.unparse(node))


def negated(value: Value, node: ast.expr) -> Value:
    match value:
        case Comparison(field=name, relation="missing"):
            return Comparison(name, "there", ())
        case Comparison(field=name, relation="there"):
            return Comparison(name, "missing", ())
        case Comparison(field=name, relation=relation, values=values):
            return Comparison(name, _NEGATED[relation], values)
        case Opaque() | ConfigField() | AnyOf():
            return Opaque(ast.unparse(node))
        case _:
            return not value


def _getattr(arguments: list[Value], node: ast.Call) -> Value:
    match arguments:
        case [Config(is_model=True), str(name), *rest]:
            return ConfigField(name, rest[0] if rest else None)
        case [Config() as config, str(name), *_]:
            return config_attribute(config, name)
        case _:
            return Opaque(ast.unparse(node)[:80])


def _hasattr(arguments: list[Value], node: ast.Call) -> Value:
    match arguments:
        case [Config(is_model=True), str(name)]:
            return Comparison(name, "there", ())
        case _:
            return Opaque(ast.unparse(node)[:80])


def _same(arguments: list[Value], node: ast.Call) -> Value:
    """`int(x)`, `list(x)`, `bool(x)`: near enough for comparing and listing."""
    if len(arguments) != 1:
        return Opaque(ast.unparse(node)[:80])
    value = arguments[0]
    is_list = isinstance(node.func, ast.Name) and node.func.id == "list"
    return list(value) if is_list and isinstance(value, tuple | list) else value


def _cast(arguments: list[Value], node: ast.Call) -> Value:
    return arguments[1] if len(arguments) == 2 else Opaque(ast.unparse(node)[:80])


BUILTINS: Mapping[str, Callable[[list[Value], ast.Call], Value]] = {
    "getattr": _getattr,
    "hasattr": _hasattr,
    "int": _same,
    "bool": _same,
    "list": _same,
    "tuple": _same,
    "frozenset": _same,
    "cast": _cast,
}
