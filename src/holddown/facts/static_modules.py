"""Finding classes, functions and constants in the modules of an engine's source, imports and inheritance followed."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holddown.facts.static_values import Class, Function, Module, Opaque, Value

_DEPTH = 8


@dataclass
class Source:
    """The modules of one engine. read: the syntax tree of a module by its dotted name, None where there is none."""

    read: Callable[[str], ast.Module | None]
    _names: dict[str, dict[str, ast.stmt]] = field(default_factory=dict)
    _found: dict[tuple[str, str], Value] = field(default_factory=dict)
    _lines: dict[tuple[str, str], tuple[Class, ...]] = field(default_factory=dict)
    _members: dict[tuple[str, str], Mapping[str, ast.FunctionDef | ast.expr]] = field(default_factory=dict)

    def names(self, module: str) -> Mapping[str, ast.stmt]:
        """What each name of a module is bound by, last one first served; also inside of `if` and `try`."""
        if module not in self._names:
            tree = self.read(module)
            self._names[module] = dict(_bindings(tree.body)) if tree is not None else {}
        return self._names[module]

    def find(self, module: str, name: str) -> Value:
        """The class, function, module or constant node that `name` is in `module`, imports followed."""
        if (module, name) not in self._found:
            self._found[module, name] = self._looked_up(module, name, 0)
        return self._found[module, name]

    def _looked_up(self, module: str, name: str, depth: int) -> Value:
        node = self.names(module).get(name)
        match node:
            case ast.ClassDef():
                return Class(module, node)
            case ast.FunctionDef():
                return Function(module, node)
            case ast.ImportFrom() if depth < _DEPTH:
                origin, real = import_origin(node, module), imported_name(node, name)
                if self.read(f"{origin}.{real}") is not None:
                    return Module(f"{origin}.{real}")
                return self._looked_up(origin, real, depth + 1)
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return value
            case _:
                return Opaque(name)

    def bases(self, owner: Class) -> tuple[Class, ...]:
        """The class and those it inherits from, nearest first; without Python's care for diamonds."""
        key = (owner.module, owner.node.name)
        if key not in self._lines:
            self._lines[key] = tuple(self._line(owner))
        return self._lines[key]

    def _line(self, owner: Class) -> Iterator[Class]:
        waiting, seen = [owner], set()
        while waiting:
            each = waiting.pop(0)
            if (each.module, each.node.name) in seen:
                continue
            seen.add((each.module, each.node.name))
            yield each
            for base in each.node.bases:
                found = self.find(each.module, base.id) if isinstance(base, ast.Name) else None
                if isinstance(found, Class):
                    waiting.append(found)

    def member(self, owner: Class, name: str, bound: Class) -> Value:
        """A method (bound) or the expression that a class attribute is set to; Opaque where there is none."""
        for each in self.bases(owner):
            match self._members_of(each).get(name):
                case ast.FunctionDef() as function:
                    return Function(each.module, function, each, bound)
                case ast.expr() as value:
                    return each.module, value
                case _:
                    pass
        return Opaque(f"{owner.node.name}.{name}")

    def _members_of(self, owner: Class) -> Mapping[str, ast.FunctionDef | ast.expr]:
        key = (owner.module, owner.node.name)
        if key not in self._members:
            self._members[key] = dict(_members(owner.node))
        return self._members[key]


def _members(owner: ast.ClassDef) -> Iterator[tuple[str, ast.FunctionDef | ast.expr]]:
    for item in reversed(owner.body):  # the first of a name is the one that counts: overloads and setters follow it
        match item:
            case ast.FunctionDef(name=name):
                yield name, item
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case _:
                pass


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, node
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                yield from ((alias.asname or alias.name, node) for alias in aliases)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.If(body=inner, orelse=other):
                yield from _bindings(other)
                yield from _bindings(inner)  # the arm for CUDA and for type checkers comes first in vLLM
            case ast.Try(body=inner):
                yield from _bindings(inner)
            case _:
                pass


def import_origin(node: ast.ImportFrom, module: str) -> str:
    """The module that an import names, also where it is relative to its own."""
    if not node.level:
        return node.module or ""
    package = module.split(".")[: -node.level]
    return ".".join([*package, node.module] if node.module else package)


def imported_name(node: ast.ImportFrom, name: str) -> str:
    return next((alias.name for alias in node.names if (alias.asname or alias.name) == name), name)
