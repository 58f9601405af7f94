"""What the source can say: every code with its severities and sentences, read from the syntax trees of src/holddown.

A code that cannot be told from the source is an error here, so that the reference never leaves one out.
"""

import ast
import importlib
import itertools
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "holddown"
GAP = "…"
_GAPS = re.compile(f"{GAP}{GAP}+")
_MOST_SENTENCES = 4
_DEEPEST = 5
_COPIES = {
    "first.code": "a finding that stands for several of its kind",
    "error.code": "an error on record as a finding",
    "failure.code": "a row of the table of failures, read by itself",
}
"""Codes that are handed on from elsewhere in the source, where they are read."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file. parents: every node's parent."""

    name: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]
    words: dict[str, object]

    @property
    def stage(self) -> str:
        return self.name.split(".")[1]


@dataclass(frozen=True)
class Option:
    """One text that an expression can be. made_by: the statement that it stands in, to pair texts of one branch."""

    text: str
    made_by: ast.AST | None = None


@dataclass(frozen=True)
class Said:
    code: str
    severity: str
    what: str
    stage: str


@dataclass(frozen=True)
class Shape:
    """A constructor: its name, and its parameters in order."""

    name: str
    parameters: tuple[str, ...]


def modules() -> tuple[Module, ...]:
    """Of the package; a folder that is none holds what the engine's own Python runs."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "__main__.py" or not (path.parent / "__init__.py").exists():
            continue
        parts = ("holddown", *path.relative_to(SOURCE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        found.append(Module(name, tree, parents, vars(importlib.import_module(name))))
    return tuple(found)


class Reader:
    def __init__(self) -> None:
        self._calls_by_name: dict[str, list[tuple[Module, ast.Call]]] = {}
        for module in modules():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Call):
                    self._calls_by_name.setdefault(_called(node), []).append((module, node))

    def all(self, shape: Shape, severity: str = "severity") -> list[Said]:
        """Everything that calls of this constructor can say, by code."""
        said: dict[Said, None] = {}
        for module, call in self._calls(shape.name):
            arguments = _arguments(call, shape.parameters)
            if ast.unparse(arguments["code"]) in _COPIES:
                continue
            codes = self._options(arguments["code"], module, call, gap="<{}>")
            whats = self._options(arguments["what"], module, call)
            grades = [Option("")]
            if severity in arguments:
                grades = self._options(arguments[severity], module, call)
            grade = " or ".join(dict.fromkeys(option.text for option in grades))
            for code in codes:
                if code.text in ("", GAP, "<code>"):
                    raise ValueError(f"{module.name} line {call.lineno}: the code cannot be told")
                same = [what for what in whats if code.made_by is not None and what.made_by is code.made_by]
                for what in same or whats:
                    said[Said(code.text, grade, what.text, module.stage)] = None
        return sorted(said, key=lambda one: one.code)

    def _calls(self, name: str) -> Sequence[tuple[Module, ast.Call]]:
        return self._calls_by_name.get(name, ())

    def _options(self, node: ast.expr, module: Module, at: ast.AST, *, gap: str = GAP, depth: int = 0) -> list[Option]:
        """The texts that an expression can be; what only a run knows is a gap."""
        if depth > _DEEPEST:
            return [Option(GAP)]
        match node:
            case ast.Constant():
                return [Option(str(node.value))]
            case ast.IfExp():
                both = (self._options(arm, module, at, gap=gap, depth=depth + 1) for arm in (node.body, node.orelse))
                return [*itertools.chain(*both)]
            case ast.JoinedStr():
                return self._joined(node.values, module, at, gap, depth)
            case ast.BinOp(op=ast.Add()):
                return self._joined([node.left, node.right], module, at, gap, depth)
            case ast.FormattedValue():
                return self._options(node.value, module, at, gap=gap, depth=depth + 1)
            case ast.Name() if (function := _function(at, module)) is not None and node.id in _locals(function):
                return self._local(node, function, module, at, gap, depth)
            case ast.Attribute() if (arms := _arms(node, module, at)) is not None:
                return [Option(arm) for arm in arms]
            case _:
                pass
        return [Option(_value(node, module, at) or gap.format(ast.unparse(node)))]

    def _joined(self, parts: Sequence[ast.expr], module: Module, at: ast.AST, gap: str, depth: int) -> list[Option]:
        every = []
        for part in parts:
            options = self._options(part, module, at, gap=gap, depth=depth + 1)
            every.append(options if gap != GAP or len(options) <= _MOST_SENTENCES else [Option(GAP)])
        rows = itertools.product(*every)
        return [Option(_GAPS.sub(GAP, "".join(option.text for option in row)), _one_maker(row)) for row in rows]

    def _local(
        self, node: ast.Name, function: Function, module: Module, at: ast.AST, gap: str, depth: int
    ) -> list[Option]:
        found = []
        for statement, value in _assigned(node.id, function, module, at):
            for option in self._options(value, module, statement, gap=gap, depth=depth + 1):
                found.append(Option(option.text, statement))
        parameters = _parameters(function)
        if not found and node.id in parameters:
            for caller, call in self._calls(function.name):
                given = _arguments(call, parameters).get(node.id)
                if given is None or not _same(function, module, call, caller):
                    continue
                texts = self._options(given, caller, call, gap=gap, depth=depth + 1)
                found += [Option(option.text, call) for option in texts]
            default = _default(node.id, function)
            if default is not None:
                found += self._options(default, module, function, gap=gap, depth=depth + 1)
        return found or [Option(gap.format(node.id))]


def _one_maker(row: Sequence[Option]) -> ast.AST | None:
    makers = {option.made_by for option in row if option.made_by is not None}
    return makers.pop() if len(makers) == 1 else None


def _same(function: Function, module: Module, call: ast.Call, caller: Module) -> bool:
    """Whether a call by that name means this function: two modules may each have one of the name."""
    if isinstance(call.func, ast.Attribute):
        return caller is module and ast.unparse(call.func.value) == "self"
    return caller.words.get(function.name) is module.words.get(function.name) is not None


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _arguments(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return {**dict(zip(parameters, call.args, strict=False)), **named}


def _function(at: ast.AST, module: Module) -> Function | None:
    node: ast.AST | None = at
    while node is not None and not isinstance(node, Function):
        node = module.parents.get(node)
    return node


def _parameters(function: Function) -> tuple[str, ...]:
    names = (each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs))
    return tuple(name for name in names if name != "self")


def _default(name: str, function: Function) -> ast.expr | None:
    plain = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    pairs = [*zip(plain, function.args.defaults, strict=True)]
    pairs += [
        (each, value) for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value
    ]
    return next((value for each, value in pairs if each.arg == name), None)


@cache
def _locals(function: Function) -> set[str]:
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | set(_parameters(function))


def _assigned(name: str, function: Function, module: Module, at: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Assignments that `name` may have at that place, the nearest first, up to one that is always passed."""
    line = getattr(at, "lineno", 0)
    above = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and node.lineno < line]
    around = set(_ancestors(at, module))
    for statement in sorted(above, key=lambda node: -node.lineno):
        value = _value_for(name, statement)
        if value is None:
            continue
        yield statement, value
        if module.parents[statement] in around:
            return


def _value_for(name: str, statement: ast.Assign) -> ast.expr | None:
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name) and target.id == name:
        return value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, given in zip(target.elts, value.elts, strict=True):
            if isinstance(one, ast.Name) and one.id == name:
                return given
    return None


def _ancestors(node: ast.AST, module: Module) -> Iterator[ast.AST]:
    above = module.parents.get(node)
    while above is not None:
        yield above
        above = module.parents.get(above)


def _arms(node: ast.Attribute, module: Module, at: ast.AST) -> list[str] | None:
    """`check.name` where `check` is a parameter of a union type: the name of every arm."""
    function = _function(at, module)
    if function is None or not isinstance(node.value, ast.Name):
        return None
    annotation = next((each.annotation for each in function.args.args if each.arg == node.value.id), None)
    if annotation is None:
        return None
    kind = eval(ast.unparse(annotation), dict(module.words))
    names = [getattr(arm, node.attr, None) for arm in typing.get_args(kind)]
    return [name for name in names if isinstance(name, str)] or None


def _value(node: ast.expr, module: Module, at: ast.AST) -> str:
    """A constant of the module, or of a class that it knows; empty for what only a run knows."""
    function = _function(at, module)
    inside = _locals(function) if function else set()
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if names & inside or not names or any(isinstance(each, ast.Call) for each in ast.walk(node)):
        return ""
    try:
        value = eval(ast.unparse(node), dict(module.words))
    except (NameError, AttributeError):
        return ""
    return str(value) if isinstance(value, str | int | float) else ""
