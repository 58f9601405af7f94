"""Every option of a vLLM's server, with what it takes, from the text of its files.

Importing vLLM takes ten seconds and `--help=all` sixteen; reading takes a fifth of one.
Source: vLLM 0.11.0 to 0.33.0 engine/arg_utils.py, entrypoints/**/cli_args.py, config/*.py: they differ in where files
lie, not in how they are written.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holddown.facts.config_types import (
    ON_OFF,
    SWITCH,
    Field,
    Types,
    Value,
    choices_of,
    default_text,
    types_of,
    value_of,
)
from holddown.facts.engine import Flag, Takes
from holddown.facts.python_source import ReadModule

_FRONTEND_CLASSES = ("BaseFrontendArgs", "FrontendArgs")
_TYPES = {
    "int": Takes.INTEGER,
    "float": Takes.NUMBER,
    "str": Takes.TEXT,
    "json.loads": Takes.JSON,
    "human_readable_int": Takes.SIZE,
    "human_readable_int_or_auto": Takes.SIZE,
}
_SIZES = "human_readable_int"
# not "whether to allow deprecated methods", not "will be deprecated when"
_DEPRECATED = re.compile(r"\b(?:is|are|been|was) (?:now )?deprecated\b|^\W*deprecated\b|DEPRECATED|\(deprecated")


def read_flags(
    argument_trees: Sequence[ast.Module], config_trees: Iterable[ast.Module], module: ReadModule
) -> tuple[Flag, ...]:
    """Every long option of the server's parser, sorted by name.

    argument_trees: of the files that build the parser. config_trees: of those whose dataclass fields its options take
    their types from. module: any other of the engine's modules, by its dotted name.
    """
    types = types_of([*argument_trees, *config_trees])
    types = types_of([*_imported(argument_trees, types, module), *argument_trees, *config_trees])
    trees = [(tree, list(ast.walk(tree))) for tree in argument_trees]
    sizes = frozenset(name for _, nodes in trees for name in _sizes(nodes))
    found: dict[str, Flag] = {}
    for tree, nodes in trees:
        parser = _Parser(types, sizes, _changes(nodes, types))
        for flag in (*parser.added(nodes), *parser.looped(nodes), *parser.frontend(tree)):
            found.setdefault(flag.name, flag)
    return tuple(found[name] for name in sorted(found))


def _imported(trees: Sequence[ast.Module], types: Types, module: ReadModule) -> Iterator[ast.Module]:
    """The modules that the server's own options take the names of their types from."""
    fields = (each for name in _FRONTEND_CLASSES for each in types.fields.get(name, {}).values())
    names = {node.id for each in fields for node in ast.walk(each.annotation) if isinstance(node, ast.Name)}
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.ImportFrom)):
        if any(alias.name in names and alias.name not in types.fields for alias in node.names):
            found = module(node.module or "") if (node.module or "").startswith("vllm") else None
            if found is not None:
                yield found


def _sizes(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Fields whose numbers may be written `8k`: those that `human_readable_int` is chosen for."""
    named: dict[str, ast.expr] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Set() | ast.List() | ast.Tuple() as words):
                named[name] = words
            case ast.If(test=ast.Compare(comparators=[right]), body=[first, *_]) if _SIZES in ast.unparse(first):
                yield from _texts(named.get(right.id, right) if isinstance(right, ast.Name) else right)
            case _:
                pass


def _texts(words: ast.expr) -> Iterator[str]:
    for node in ast.walk(words):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


_Whose = tuple[str, str]
"""The variable that holds a config's keywords, and the field."""


@dataclass(frozen=True, slots=True)
class _Changes:
    """What a file does to a field's keywords before it adds the option.

    configs: `model_kwargs = get_kwargs(ModelConfig)`. named: `moe_kwargs = kernel_kwargs["moe_backend"]`.
    kinds: `x_kwargs["field"]["type"] = json.loads`. single: one value although the field is a list, by
    `del x_kwargs["field"]["nargs"]` or `x_kwargs["field"]["action"] = "append"`. without: choices that are taken out.
    """

    configs: Mapping[str, str]
    named: Mapping[str, _Whose]
    kinds: Mapping[_Whose, ast.expr]
    single: frozenset[_Whose]
    without: frozenset[tuple[_Whose, str | None]]


def _changes(nodes: Iterable[ast.AST], types: Types) -> _Changes:
    configs: dict[str, str] = {}
    named: dict[str, _Whose] = {}
    kinds: dict[_Whose, ast.expr] = {}
    single: set[_Whose] = set()
    without: set[tuple[_Whose, str | None]] = set()
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=variable)], value=ast.Call(func=ast.Name(id="get_kwargs"), args=[config, *_])
            ):
                configs[variable] = ast.unparse(config)
            case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Subscript() as whole) if whose := _whose(whole):
                named[variable] = whose
            case ast.Assign(targets=[ast.Subscript(whole, ast.Constant(value="type"))], value=value):
                kinds[_whose(whole, named)] = value
            case ast.Assign(targets=[ast.Subscript(whole, ast.Constant(value="action"))], value=ast.Constant("append")):
                single.add(_whose(whole, named))
            case ast.Delete(targets=[ast.Subscript(whole, ast.Constant(value="nargs"))]):
                single.add(_whose(whole, named))
            case ast.Call(
                func=ast.Attribute(value=ast.Subscript(whole, ast.Constant(value="choices")), attr="remove"),
                args=[word],
            ):
                without.add((_whose(whole, named), default_text(word, types)))
            case _:
                pass
    return _Changes(configs, named, kinds, frozenset(single), frozenset(without))


def _whose(whole: ast.expr, named: Mapping[str, _Whose] | None = None) -> _Whose:
    match whole:
        case ast.Subscript(ast.Name(id=variable), ast.Constant(value=str(name))):
            return variable, name
        case ast.Name(id=variable) if named and variable in named:
            return named[variable]
        case _:
            return "", ""


@dataclass(frozen=True, slots=True)
class _Parser:
    """What one file adds to the server's parser."""

    types: Types
    sizes: frozenset[str]
    changes: _Changes

    def added(self, nodes: Iterable[ast.AST]) -> Iterator[Flag]:
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if any(name.startswith("--") for name in names):
                    yield self._option(names, node.keywords)

    def looped(self, nodes: Iterable[ast.AST]) -> Iterator[Flag]:
        """`for arg, type in [("--old-way", str)]: group.add_argument(arg, type=type, deprecated=True)` of 0.11.0."""
        for node in nodes:
            match node:
                case ast.For(
                    target=ast.Tuple(elts=targets),
                    iter=ast.List(elts=rows),
                    body=[ast.Expr(ast.Call(ast.Attribute(attr="add_argument"), [ast.Name(id=arg)], keywords))],
                ):
                    for row in rows:
                        given = {ast.unparse(name): value for name, value in _pairs(targets, row)}
                        if isinstance(name := given.get(arg), ast.Constant):
                            yield self._option([str(name.value)], [_put_in(each, given) for each in keywords])
                case _:
                    pass

    def frontend(self, tree: ast.Module) -> Iterator[Flag]:
        """The server's own options are fields of two classes; the parser adds one for each in a loop."""
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name in _FRONTEND_CLASSES:
                for name, each in self.types.fields[node.name].items():
                    yield self._of_field(each, ("frontend_kwargs", name), _flag_names(name))

    def _option(self, names: Sequence[str], keywords: Sequence[ast.keyword]) -> Flag:
        """Keywords beat the field that they stand beside."""
        explicit: dict[str, ast.expr] = {}
        flag = _named(names)
        for keyword in keywords:
            if keyword.arg is not None:
                explicit[keyword.arg] = keyword.value
                continue
            flag, more = self._spread(flag, keyword.value)
            explicit |= more
        return self._explicit(flag, explicit, spread=any(each.arg is None for each in keywords))

    def _spread(self, flag: Flag, value: ast.expr) -> tuple[Flag, dict[str, ast.expr]]:
        """`**cache_kwargs["cache_dtype"]`, or the same inside a dict display that overrides some of it."""
        match value:
            case ast.Dict(keys=keys, values=values):
                more = {}
                for key, item in zip(keys, values, strict=True):
                    if key is None:
                        flag, _ = self._spread(flag, item)
                    elif isinstance(key, ast.Constant):
                        more[str(key.value)] = item
                return flag, more
            case _:
                variable, name = whose = _whose(value, self.changes.named)
                each = self.types.fields.get(self.changes.configs.get(variable, ""), {}).get(name)
                return (self._of_field(each, whose, (flag.name, *flag.aliases)) if each else flag), {}

    def _of_field(self, each: Field, whose: _Whose, names: Sequence[str]) -> Flag:
        value = value_of(each.annotation, self.types)
        value = replace(value, choices=tuple(w for w in value.choices if (whose, w) not in self.changes.without))
        if value.takes is Takes.INTEGER and whose[1] in self.sizes:
            value = replace(value, takes=Takes.SIZE)
        if whose in self.changes.kinds:
            value = replace(value, takes=_kind(self.changes.kinds[whose]))
        if whose in self.changes.single:
            value = replace(value, several=False)
        default = default_text(each.default, self.types) if each.default is not None else None
        return _with(_named(names), value, default, _warning(each.doc))

    def _explicit(self, flag: Flag, given: Mapping[str, ast.expr], *, spread: bool) -> Flag:
        action = ast.unparse(given["action"]).strip("'") if "action" in given else ""
        if action in ("store_true", "store_false"):
            flag = replace(flag, takes=Takes.NOTHING, choices=SWITCH, default="false")
        elif action.endswith("BooleanOptionalAction"):
            flag = replace(flag, takes=Takes.NOTHING, choices=ON_OFF)
        elif "type" in given:
            flag = replace(flag, takes=_kind(given["type"]))
        elif not spread and not action:
            flag = replace(flag, takes=Takes.TEXT)
        if "choices" in given:
            flag = replace(flag, choices=self._choices(given["choices"]))
        if "nargs" in given:
            nargs = ast.unparse(given["nargs"]).strip("'")
            flag = replace(flag, several=nargs in ("+", "*"), optional=nargs == "?")
        if "default" in given:
            flag = replace(flag, default=default_text(given["default"], self.types))
        elif flag.default is None and not spread:
            flag = replace(flag, default="None")
        return replace(flag, deprecated=self._deprecated(flag, given))

    def _choices(self, value: ast.expr) -> tuple[str, ...]:
        """The words of a list or of `get_args(Words)`; none where it is put together at start."""
        match value:
            case ast.Call(func=ast.Name(id="get_args"), args=[ast.Name(id=name)]) if name in self.types.aliases:
                return choices_of(self.types.aliases[name], self.types)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                words = tuple(str(item.value) for item in items if isinstance(item, ast.Constant))
                return words if len(words) == len(items) else ()
            case _:
                return ()

    def _deprecated(self, flag: Flag, given: Mapping[str, ast.expr]) -> str:
        said = default_text(given.get("help"), self.types) or ""
        if "deprecated" in given:
            return _warning(said) or "deprecated"
        return _warning(said) or flag.deprecated


def _pairs(targets: Sequence[ast.expr], row: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(row, ast.Tuple) and len(row.elts) == len(targets):
        yield from zip(targets, row.elts, strict=True)


def _put_in(keyword: ast.keyword, given: Mapping[str, ast.expr]) -> ast.keyword:
    """`type=type` of a loop, with what the loop's variable is this time."""
    return ast.keyword(keyword.arg, given.get(ast.unparse(keyword.value), keyword.value))


def _flag_names(field: str) -> tuple[str, ...]:
    return ("--" + field.replace("_", "-"),)


def _named(names: Sequence[str]) -> Flag:
    first = next(name for name in names if name.startswith("--"))
    return Flag(first, aliases=tuple(name for name in names if name != first))


def _with(flag: Flag, value: Value, default: str | None, deprecated: str) -> Flag:
    return replace(
        flag,
        takes=value.takes,
        choices=value.choices,
        several=value.several,
        optional=value.optional,
        default=default,
        deprecated=deprecated,
    )


def _kind(type_: ast.expr) -> Takes:
    """`optional_type(json.loads)` takes what `json.loads` does. A function of their own may take anything."""
    match type_:
        case ast.Call(func=ast.Name(id="optional_type" | "parse_type"), args=[inner]):
            return _kind(inner)
        case _:
            return _TYPES.get(ast.unparse(type_), Takes.UNKNOWN)


def _warning(text: str) -> str:
    """The sentence that calls it deprecated; empty where there is none."""
    for sentence in re.split(r"(?<=[.!])\s+", " ".join(text.split())):
        if _DEPRECATED.search(sentence):
            return sentence
    return ""
