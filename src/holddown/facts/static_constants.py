"""Works out constants in an engine's source: lists of words, their sums, the keys of a table, a default.

For engines whose options are written as data, where no rule has to be evaluated. What cannot be worked out is Opaque.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from holddown.facts.static_compare import ARITHMETIC
from holddown.facts.static_modules import Source, import_origin, imported_name
from holddown.facts.static_values import Class, Function, Opaque, Value

_DEPTH = 24
_COLLECTING = ("list", "tuple", "set", "sorted", "frozenset")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an expression stands. local: names bound in the function or class around it, to their expressions."""

    module: str
    local: Mapping[str, ast.expr]


def scope_of(module: str, body: list[ast.stmt]) -> Scope:
    """With the assignments of a function's or class's own body."""
    local: dict[str, ast.expr] = {}
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                local[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                local[name] = value
            case _:
                pass
    return Scope(module, local)


def constant(source: Source, node: ast.expr, scope: Scope, depth: int = 0) -> Value:
    """A Python constant, a tuple of them (of a dict: its keys), or Opaque."""
    if depth > _DEPTH:
        return Opaque(ast.unparse(node)[:80])
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return _items(source, items, scope, depth)
        case ast.Dict(keys=keys):
            return _items(source, [key for key in keys if key is not None], scope, depth)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = constant(source, operand, scope, depth + 1)
            return -value if isinstance(value, int | float) else Opaque(ast.unparse(node))
        case ast.BinOp():
            return _sum(source, node, scope, depth)
        case ast.Name(id=name):
            return _named(source, name, scope, depth)
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            return _member(source, name, attr, scope, depth)
        case ast.Call():
            return _call(source, node, scope, depth)
        case ast.Subscript(value=inner, slice=ast.Constant(value=int(at))):
            whole = constant(source, inner, scope, depth + 1)
            inside = isinstance(whole, tuple) and -len(whole) <= at < len(whole)
            return whole[at] if inside else Opaque(ast.unparse(node)[:80])
        case _:
            return Opaque(ast.unparse(node)[:80])


def _items(source: Source, items: list[ast.expr], scope: Scope, depth: int) -> Value:
    found: list[Value] = []
    for item in items:
        starred = isinstance(item, ast.Starred)
        value = constant(source, item.value if isinstance(item, ast.Starred) else item, scope, depth + 1)
        if isinstance(value, Opaque) or (starred and not isinstance(value, tuple)):
            return Opaque(ast.unparse(item)[:80])
        found.extend(value if starred else (value,))
    return tuple(found)


def _sum(source: Source, node: ast.BinOp, scope: Scope, depth: int) -> Value:
    first, second = (constant(source, each, scope, depth + 1) for each in (node.left, node.right))
    if isinstance(first, tuple) and isinstance(second, tuple) and isinstance(node.op, ast.Add):
        return first + second
    numbers = isinstance(first, int) and isinstance(second, int)
    if numbers and type(node.op) in ARITHMETIC and second:
        return ARITHMETIC[type(node.op)](first, second)
    if numbers and isinstance(node.op, ast.Pow | ast.LShift) and 0 <= second < 64:
        return first**second if isinstance(node.op, ast.Pow) else first << second
    return Opaque(ast.unparse(node)[:80])


def _named(source: Source, name: str, scope: Scope, depth: int) -> Value:
    if name in scope.local:
        # a name may be bound by itself (`choices = set(choices)`), then the module's is meant
        inner = Scope(scope.module, {key: value for key, value in scope.local.items() if key != name})
        return constant(source, scope.local[name], inner, depth + 1)
    module, real = origin_of(source, name, scope.module)
    found = source.find(module, real)
    return constant(source, found, Scope(module, {}), depth + 1) if isinstance(found, ast.expr) else Opaque(name)


def origin_of(source: Source, name: str, module: str) -> tuple[str, str]:
    """The module in which `name` is bound, and what it is called there."""
    for _ in range(8):
        node = source.names(module).get(name)
        if not isinstance(node, ast.ImportFrom):
            break
        module, name = import_origin(node, module), imported_name(node, name)
    return module, name


def _member(source: Source, name: str, attr: str, scope: Scope, depth: int) -> Value:
    """`Phase.ALL`, `ServerArgs.host`, `ReasoningParser.DetectorMap`."""
    owner = source.find(scope.module, name)
    if not isinstance(owner, Class):
        return Opaque(f"{name}.{attr}")
    inside = scope_of(owner.module, owner.node.body)
    value = inside.local.get(attr)
    return constant(source, value, inside, depth + 1) if value is not None else Opaque(f"{name}.{attr}")


def _call(source: Source, node: ast.Call, scope: Scope, depth: int) -> Value:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _COLLECTING:
            return ()
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in _COLLECTING:
            value = constant(source, inner, scope, depth + 1)
            if not isinstance(value, tuple):
                return Opaque(ast.unparse(node)[:80])
            return tuple(sorted(value, key=str)) if name in ("set", "frozenset", "sorted") else value
        case ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[]):
            return constant(source, inner, scope, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
            return _returned(source, name, scope, depth)
        case _:
            return Opaque(ast.unparse(node)[:80])


def _returned(source: Source, name: str, scope: Scope, depth: int) -> Value:
    """What a function without arguments gives at its end; imports inside of it are followed."""
    function = source.find(scope.module, name)
    if not isinstance(function, Function):
        return Opaque(f"{name}()")
    body = function.node.body
    imported = {
        (alias.asname or alias.name): (import_origin(node, function.module), alias.name)
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    match body[-1]:
        case ast.Return(value=ast.Call(func=ast.Name(id=collecting), args=[ast.Name(id=inner)])) if (
            collecting in _COLLECTING and inner in imported
        ):
            module, real = imported[inner]
            return _named(source, real, Scope(module, {}), depth + 1)
        case ast.Return(value=ast.expr() as value):
            return constant(source, value, scope_of(function.module, body), depth + 1)
        case _:
            return Opaque(f"{name}()")


def words(value: Value) -> tuple[str, ...]:
    """The choices that a tuple of constants is; none where it is no such thing."""
    return tuple(text(each) for each in value) if isinstance(value, tuple) else ()


def text(value: Value) -> str:
    """As it would be typed."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(text(each) for each in value) if isinstance(value, tuple) else str(value)
