"""Evaluates small functions of an engine's source without running them: a subset of Python over syntax trees.

Rules such as `return capability.major in [9, 10]` are code, yet decide what an engine takes. What lies outside of the
subset becomes `Opaque`, which spreads to all that depends on it: a rule is either evaluated as Python would, or not
at all. Nothing is imported or called; loops are not followed and calls nest eight deep at most, so it ends.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from holddown.facts.static_compare import ARITHMETIC, BUILTINS, comparison, config_attribute, negated
from holddown.facts.static_modules import Source, import_origin, imported_name
from holddown.facts.static_values import (
    AnyOf,
    Capability,
    Class,
    Comparison,
    Config,
    ConfigField,
    Function,
    Guard,
    Module,
    Names,
    Opaque,
    Super,
    Value,
    unknown,
)

_DEPTH = 8
_STEPS = 20_000
"""Expressions that one question may take; vLLM's longest rule takes some hundred."""
_NOTHING = object()


@dataclass
class Evaluator:
    """Evaluates under one capability. assumed: what a name is, or what calling it gives, in place of its code.

    guards: what `if ...: return "reason"` of the outermost function could not be decided, filled by `call`.
    looked: whether the answer may depend on the capability: something that is told it was called.
    """

    source: Source
    capability: Capability
    assumed: Mapping[str, Value]
    guards: list[Guard] = field(default_factory=list)
    looked: bool = False
    _depth: int = 0
    _steps: int = 0

    def ask(self, owner: Class, method: str, *arguments: Value, **named: Value) -> Value:
        """What the class method gives for these arguments; a class attribute's value where it is no method."""
        member = self.source.member(owner, method, owner)
        if isinstance(member, tuple):
            module, node = member
            return self._expression(node, _Scope(module, {}))
        return self.call(member, list(arguments), named) if isinstance(member, Function) else member

    def call(self, function: Function, arguments: list[Value], named: Mapping[str, Value]) -> Value:
        """What the function returns; Opaque where that cannot be worked out."""
        if self._depth >= _DEPTH:
            return Opaque(f"{function.node.name}()")
        names = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)]
        decorators = {each.id for each in function.node.decorator_list if isinstance(each, ast.Name)}
        given = [function.bound, *arguments] if "classmethod" in decorators else arguments
        scope = _Scope(function.module, {}, function.owner, function.bound)
        defaults = function.node.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            scope.local[name] = self._expression(default, scope)
        for keyword, default_or_none in zip(function.node.args.kwonlyargs, function.node.args.kw_defaults, strict=True):
            if default_or_none is not None:
                scope.local[keyword.arg] = self._expression(default_or_none, scope)
        scope.local.update(zip(names, given, strict=False))
        scope.local.update(named)
        self._depth += 1
        try:
            result = self._body(function.node.body, scope)
        finally:
            self._depth -= 1
        return None if result is _NOTHING else result

    def _body(self, body: list[ast.stmt], scope: "_Scope") -> Value:
        for node in body:
            result = self._statement(node, scope)
            if result is not _NOTHING:
                return result
        return _NOTHING

    def _statement(self, node: ast.stmt, scope: "_Scope") -> Value:
        match node:
            case ast.Return(value=value):
                return self._expression(value, scope) if value is not None else None
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._expression(value, scope), scope)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                scope.local[name] = self._expression(value, scope)
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                for alias in aliases:
                    scope.imports[alias.asname or alias.name] = node
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branch(node, self._expression(test, scope), body, orelse, scope)
            case ast.Try(body=body, handlers=handlers):
                return self._try(body, handlers, scope)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "insert" | "extend")) as call):
                self._expression(call, scope)
            case ast.Expr() | ast.Pass() | ast.Assert():  # a log line, a docstring
                pass
            case _:
                return Opaque(ast.unparse(node)[:80])
        return _NOTHING

    def _try(self, body: list[ast.stmt], handlers: list[ast.ExceptHandler], scope: "_Scope") -> Value:
        """A package that the engine does not bring is taken as not installed, for a stock installation is described."""
        for node in body:
            if isinstance(node, ast.Import) and all(self.source.read(alias.name) is None for alias in node.names):
                return self._body(handlers[0].body, scope) if handlers else _NOTHING
        return self._body(body, scope)

    def _assign(self, target: ast.expr, value: Value, scope: "_Scope") -> None:
        match target:
            case ast.Name(id=name):
                scope.local[name] = value
            case ast.Tuple(elts=targets):
                parts = value if isinstance(value, tuple | list) and len(value) == len(targets) else None
                for index, each in enumerate(targets):
                    self._assign(each, parts[index] if parts else Opaque(ast.unparse(each)), scope)
            case _:
                pass

    def _branch(
        self, node: ast.If, decided: Value, body: list[ast.stmt], orelse: list[ast.stmt], scope: "_Scope"
    ) -> Value:
        if isinstance(decided, ConfigField):
            decided = Opaque(ast.unparse(node.test))
        if not unknown(decided):
            return self._body(body if decided else orelse, scope)
        inner = scope.copy()
        kept, self.guards = self.guards, []
        result = self._body(body, inner)
        inner_guards, self.guards = self.guards, kept
        if result is _NOTHING:
            for name in inner.local:
                if inner.local[name] is not scope.local.get(name, _NOTHING):
                    scope.local[name] = Opaque(name)
            if inner_guards:  # reasons that hold under a condition which is not known
                self.guards += [Guard(Opaque(ast.unparse(node.test)), each.reason) for each in inner_guards]
            return self._body(orelse, scope)
        if isinstance(result, str) and self._depth == 1:
            self.guards.append(Guard(decided, result))
            return self._body(orelse, scope)
        return Opaque(ast.unparse(node.test))

    # --- expressions -------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr, scope: "_Scope") -> Value:
        self._steps += 1
        if self._steps > _STEPS:
            return Opaque("too long to be followed")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                found = self._items(items, scope)
                return found if isinstance(node, ast.List) or isinstance(found, Opaque) else tuple(found)
            case ast.Attribute(value=value, attr=attr):
                return self._attribute(self._expression(value, scope), attr, node)
            case ast.Call():
                return self._call(node, scope)
            case ast.Compare():
                return self._compare(node, scope)
            case ast.BoolOp(op=op, values=values):
                return self._bool_op(isinstance(op, ast.And), values, node, scope)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return negated(self._expression(operand, scope), node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                decided = self._expression(test, scope)
                if unknown(decided):
                    return Opaque(ast.unparse(node))
                return self._expression(body if decided else orelse, scope)
            case _:
                return self._other(node, scope)

    def _other(self, node: ast.expr, scope: "_Scope") -> Value:
        match node:
            case ast.Subscript(value=value, slice=index):
                whole, at = self._expression(value, scope), self._expression(index, scope)
                inside = isinstance(whole, tuple | list) and isinstance(at, int) and at < len(whole)
                return whole[at] if inside else Opaque(ast.unparse(node))
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self._expression(left, scope), self._expression(right, scope)
                if isinstance(first, int) and isinstance(second, int) and second and type(op) in ARITHMETIC:
                    return ARITHMETIC[type(op)](first, second)
                return Opaque(ast.unparse(node))
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                scope.local[name] = self._expression(value, scope)
                return scope.local[name]
            case ast.JoinedStr(values=values):
                return "".join(self._piece(each, scope) for each in values)
            case _:
                return Opaque(ast.unparse(node)[:80])

    def _piece(self, node: ast.expr, scope: "_Scope") -> str:
        """A part of an f-string: the name of a config field in braces, where its value is not known."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        value = self._expression(node.value, scope) if isinstance(node, ast.FormattedValue) else node
        if isinstance(value, ConfigField):
            return f"{{{value.name}}}"
        return "?" if unknown(value) else str(value)

    def _items(self, items: list[ast.expr], scope: "_Scope") -> Value:
        found: list[Value] = []
        for item in items:
            if isinstance(item, ast.Starred):
                inner = self._expression(item.value, scope)
                if not isinstance(inner, tuple | list):
                    return Opaque(ast.unparse(item))
                found.extend(inner)
            else:
                found.append(self._expression(item, scope))
        return found

    def _name(self, name: str, scope: "_Scope") -> Value:
        if name in scope.local:
            return scope.local[name]
        if name in self.assumed:
            return self.assumed[name]
        imported = scope.imports.get(name)
        if isinstance(imported, ast.ImportFrom):
            origin = import_origin(imported, scope.module)
            return self._resolved(self.source.find(origin, imported_name(imported, name)), origin)
        found = self.source.find(scope.module, name)
        return self._resolved(found, scope.module)

    def _resolved(self, found: Value, module: str) -> Value:
        return self._expression(found, _Scope(module, {})) if isinstance(found, ast.expr) else found

    def _attribute(self, value: Value, attr: str, node: ast.Attribute) -> Value:
        match value:
            case Capability():
                return getattr(value, attr) if attr in ("major", "minor") else Opaque(ast.unparse(node))
            case Class():
                member = self.source.member(value, attr, value)
                if isinstance(member, tuple):
                    return self._expression(member[1], _Scope(member[0], {}))
                return member
            case Super(owner=owner, bound=bound):
                above = self.source.bases(bound)
                start = above.index(owner) + 1 if owner in above else 1
                return self.source.member(above[start], attr, bound) if start < len(above) else Opaque(attr)
            case Config():
                return self.assumed[attr] if attr in self.assumed else config_attribute(value, attr)
            case Names():
                return attr
            case Module(name=name):
                for assumed in (f"{name}.{attr}", attr):
                    if assumed in self.assumed:
                        return self.assumed[assumed]
                return self._resolved(self.source.find(name, attr), name)
            case _:
                known = attr in self.assumed and not callable(self.assumed[attr])
                return self.assumed[attr] if known else Opaque(ast.unparse(node))

    def _call(self, node: ast.Call, scope: "_Scope") -> Value:
        arguments = [self._expression(each, scope) for each in node.args]
        named = {each.arg: self._expression(each.value, scope) for each in node.keywords if each.arg}
        match node.func:
            case ast.Attribute(value=value, attr=attr):
                return self._method(node, self._expression(value, scope), attr, arguments, scope)
            case ast.Name(id="super"):
                both = scope.owner is not None and scope.bound is not None
                return Super(scope.owner, scope.bound) if both else Opaque("super()")  # type: ignore[arg-type]
            case ast.Name(id="any" | "all" as which) if isinstance(generator := _first(node), ast.GeneratorExp):
                return self._each(which == "all", generator, scope)
            case ast.Name(id=name) if name in BUILTINS and name not in scope.local:
                return BUILTINS[name](arguments, node)
            case _:
                return self._apply(self._expression(node.func, scope), arguments, named, node)

    def _each(self, is_all: bool, node: ast.GeneratorExp, scope: "_Scope") -> Value:
        """`any(test(item) for item in (1, 2))`, for a list that is known."""
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=items, ifs=[])]:
                found = self._expression(items, scope)
            case _:
                return Opaque(ast.unparse(node))
        if not isinstance(found, tuple | list):
            return Opaque(ast.unparse(node))
        inner = scope.copy()
        answers = []
        for item in found:
            inner.local[name] = item
            answers.append(self._expression(node.elt, inner))
        return self._bool(is_all, answers, node) if answers else is_all

    def _apply(self, function: Value, arguments: list[Value], named: Mapping[str, Value], node: ast.Call) -> Value:
        if isinstance(function, Function):
            return self.call(function, arguments, named)
        if callable(function) and not isinstance(function, Class):
            self.looked = True
            try:
                return function(self.capability, *arguments, **named)
            except (TypeError, ValueError, KeyError):  # called otherwise than was assumed
                return Opaque(ast.unparse(node)[:80])
        return Opaque(ast.unparse(node)[:80])

    def _method(self, node: ast.Call, value: Value, attr: str, arguments: list[Value], scope: "_Scope") -> Value:
        named = {each.arg: self._expression(each.value, scope) for each in node.keywords if each.arg}
        if isinstance(value, str) and attr in ("startswith", "endswith") and not any(map(unknown, arguments)):
            return getattr(value, attr)(*arguments)
        if isinstance(value, list) and attr in ("append", "insert", "extend"):
            return getattr(value, attr)(*arguments)
        if isinstance(value, Capability) and attr == "to_int":
            return value.major * 10 + value.minor
        if attr in self.assumed and not isinstance(value, Class | Super):
            return self._apply(self.assumed[attr], arguments, named, node)
        if isinstance(value, Class | Super | Module):
            return self._apply(self._attribute(value, attr, ast.Attribute(node.func, attr)), arguments, named, node)
        return Opaque(ast.unparse(node)[:80])

    def _compare(self, node: ast.Compare, scope: "_Scope") -> Value:
        left = self._expression(node.left, scope)
        answers = []
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._expression(right_node, scope)
            answers.append(comparison(type(op), left, right, node))
            left = right
        return answers[0] if len(answers) == 1 else self._bool(True, answers, node)

    def _bool_op(self, is_and: bool, nodes: list[ast.expr], node: ast.expr, scope: "_Scope") -> Value:
        """As Python does, later sides are left alone once one decides."""
        values = []
        for each in nodes:
            value = self._expression(each, scope)
            if not unknown(value) and bool(value) != is_and:
                return value
            values.append(value)
        return self._bool(is_and, values, node)

    def _bool(self, is_and: bool, values: list[Value], node: ast.expr) -> Value:
        rest = []
        for value in values:
            if not unknown(value):
                if bool(value) != is_and:
                    return value
                continue
            rest.append(value)
        if not rest:
            return values[-1]
        if len(rest) == 1 and isinstance(rest[0], Comparison | AnyOf):
            return rest[0]
        if not is_and and all(isinstance(each, Comparison) for each in rest):
            return AnyOf(tuple(rest))
        return Opaque(ast.unparse(node))


@dataclass
class _Scope:
    """Names inside of one function."""

    module: str
    local: dict[str, Value]
    owner: Class | None = None
    bound: Class | None = None
    imports: dict[str, ast.Import | ast.ImportFrom] = field(default_factory=dict)

    def copy(self) -> "_Scope":
        return _Scope(self.module, dict(self.local), self.owner, self.bound, dict(self.imports))


def _first(node: ast.Call) -> ast.expr | None:
    return node.args[0] if node.args else None
