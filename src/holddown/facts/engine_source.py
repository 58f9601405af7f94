"""Reads what an engine takes from the text of its own Python files, by `ast`, without running any of it.

Importing vLLM takes ten seconds and `--help=all` sixteen; reading takes a fifth of one.
Source: vLLM 0.32.0 `engine/arg_utils.py`, `entrypoints/*/cli_args.py`, `config/*.py`,
`model_executor/models/registry.py`; 0.16 to 0.33 differ in where files lie, not in how they are written.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holddown.base.errors import EngineError
from holddown.facts.engine import Flag

SWITCH = ("true",)
"""Choices of an option that can only be turned on (argparse `store_true`)."""
ON_OFF = ("true", "false")
"""Choices of an option that has a `--no-` twin."""

_FRONTEND_CLASSES = ("BaseFrontendArgs", "FrontendArgs")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the engine. path: for messages."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class _Types:
    """Names that stand for a `Literal[...]`, and the annotated fields of every class, over several files."""

    aliases: Mapping[str, ast.expr]
    fields: Mapping[str, Mapping[str, ast.expr]]


def read_flags(argument_files: Sequence[SourceFile], config_files: Sequence[SourceFile]) -> tuple[Flag, ...]:
    """Every long option of the server's parser, sorted by name, with choices where they are literal.

    argument_files: those that build the parser. config_files: those whose dataclass fields its options take
    their types from. Raises: EngineError naming a file that is not Python.
    """
    argument_trees = [_tree(file) for file in argument_files]
    types = _types([*argument_trees, *(_tree(file) for file in config_files)])
    choices: dict[str, tuple[str, ...]] = {}
    for tree in argument_trees:
        groups = _config_of_variable(tree)
        for call in _add_argument_calls(tree):
            for name in _long_names(call):
                choices.setdefault(name, _choices(call, groups, types))
        for name, annotation in _frontend_fields(tree):
            choices.setdefault(name, _choices_of_type(annotation, types))
    return tuple(Flag(name, choices[name]) for name in sorted(choices))


def read_architectures(registry: SourceFile) -> tuple[str, ...]:
    """Names from config.json that the registry maps to a (module, class) pair, sorted.

    Tables of removed or plugin-only models map to a version or an address, not to a pair, and so do not count.
    Raises: EngineError when the file is not Python.
    """
    names = set()
    for node in _tree(registry).body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(item, ast.Tuple):
                    names.add(key.value)
    return tuple(sorted(names))


def read_literal(file: SourceFile, name: str) -> tuple[str, ...]:
    """The words of `name = Literal[...]`, in their order; none where the module has no such name.

    Raises: EngineError when the file is not Python.
    """
    types = _types([_tree(file)])
    return _choices_of_type(types.aliases[name], types) if name in types.aliases else ()


def read_field_default(file: SourceFile, class_name: str, field: str) -> float | None:
    """The number that a config class gives a field: `field: float = 0.9` or `= Field(default=0.92, ...)`.

    Raises: EngineError when the file is not Python.
    """
    for node in ast.walk(_tree(file)):
        if not isinstance(node, ast.ClassDef) or node.name != class_name:
            continue
        for item in node.body:
            match item:
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if name == field:
                    return _number(value)
                case _:
                    pass
    return None


def _number(value: ast.expr | None) -> float | None:
    match value:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Call(keywords=keywords):
            return next((_number(each.value) for each in keywords if each.arg == "default"), None)
        case _:
            return None


def read_string(file: SourceFile, name: str) -> str | None:
    """The text that the module assigns to `name`; None where it assigns none (`cuda = None`) or does not name it.

    Raises: EngineError when the file is not Python.
    """
    for node in _tree(file).body:
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=str(text))):
                pass
            case ast.AnnAssign(target=target, value=ast.Constant(value=str(text))):
                targets = [target]
            case _:
                continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return text
    return None


def _tree(file: SourceFile) -> ast.Module:
    try:
        return ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EngineError(
            "a file of the engine cannot be read as Python",
            code="engine.source",
            seen=f"{file.path}: {error}",
            do="install this engine again, or run holddown under the Python that the engine uses",
        ) from error


def _types(trees: Sequence[ast.Module]) -> _Types:
    aliases: dict[str, ast.expr] = {}
    fields: dict[str, dict[str, ast.expr]] = {}
    for tree in trees:
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    aliases[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    aliases[name] = value
                case ast.ClassDef(name=name):
                    fields[name] = {
                        item.target.id: item.annotation
                        for item in node.body
                        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                    }
                case _:
                    pass
    return _Types(aliases, fields)


def _config_of_variable(tree: ast.Module) -> dict[str, str]:
    """`model_kwargs = get_kwargs(ModelConfig)` -> {"model_kwargs": "ModelConfig"}."""
    found = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=variable)],
                value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=config), *_]),
            ):
                found[variable] = config
            case _:
                pass
    return found


def _add_argument_calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            yield node


def _long_names(call: ast.Call) -> list[str]:
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return [text for text in texts if text.startswith("--")]


def _frontend_fields(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The server's own options are fields of a dataclass; the parser adds one option for each in a loop."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name not in _FRONTEND_CLASSES:
            continue
        for item in node.body:
            match item:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    if "ClassVar" not in ast.unparse(annotation):
                        yield "--" + name.replace("_", "-"), annotation
                case _:
                    pass


def _choices(call: ast.Call, groups: Mapping[str, str], types: _Types) -> tuple[str, ...]:
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="choices", value=ast.List(elts=items) | ast.Tuple(elts=items)):
                return tuple(str(item.value) for item in items if isinstance(item, ast.Constant))
            case ast.keyword(arg="action", value=ast.Constant(value="store_true" | "store_false")):
                return SWITCH
            case ast.keyword(arg="action", value=value) if ast.unparse(value).endswith("BooleanOptionalAction"):
                return ON_OFF
            case ast.keyword(arg=None, value=value) if len(call.keywords) == 1:
                # another keyword (`type=`) may take more than the field's type says
                return _choices_of_spread(value, groups, types)
            case _:
                pass
    return ()


def _choices_of_spread(value: ast.expr, groups: Mapping[str, str], types: _Types) -> tuple[str, ...]:
    """`**cache_kwargs["cache_dtype"]`, or the same inside a dict display that overrides the default."""
    match value:
        case ast.Subscript(ast.Name(id=variable), ast.Constant(value=str(field))):
            annotation = types.fields.get(groups.get(variable, ""), {}).get(field)
            return _choices_of_type(annotation, types) if annotation is not None else ()
        case ast.Dict(keys=keys, values=values) if not any(_names(key, "type", "choices") for key in keys):
            spread = [item for key, item in zip(keys, values, strict=True) if key is None]
            return _choices_of_spread(spread[0], groups, types) if len(spread) == 1 else ()
        case _:
            return ()


def _names(key: ast.expr | None, *words: str) -> bool:
    return isinstance(key, ast.Constant) and key.value in words


def _choices_of_type(annotation: ast.expr, types: _Types) -> tuple[str, ...]:
    """Choices of `Literal["a", "b"] | None` or `bool`; empty as soon as one arm takes more than listed words."""
    found: list[str] = []
    nullable = False
    for arm in _arms(annotation, types, depth=0):
        match arm:
            case ast.Name(id="bool"):
                found.extend(ON_OFF)
            case ast.Constant(value=None):
                nullable = True
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                words = _words(inner, types)
                if not words:
                    return ()
                found.extend(words)
            case _:
                return ()
    if nullable and found and "true" not in found:
        found.append("None")  # vLLM's parser lists it among the choices
    return tuple(dict.fromkeys(found))


def _words(inner: ast.expr, types: _Types) -> list[str]:
    """The words of a `Literal`, which may name another one; empty when a member cannot be read."""
    words: list[str] = []
    for item in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
        match item:
            case ast.Constant(value=value):
                words.append(str(value))
            case ast.Name(id=name) if name in types.aliases:
                nested = _choices_of_type(types.aliases[name], types)
                if not nested:
                    return []
                words.extend(nested)
            case _:
                return []
    return words


def _arms(annotation: ast.expr, types: _Types, depth: int) -> Iterator[ast.expr]:
    """The members of a union, with aliases looked up. depth guards against an alias that names itself."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _arms(left, types, depth)
            yield from _arms(right, types, depth)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            yield from _arms(inner, types, depth)
        case ast.Subscript(value=ast.Name(id="SkipValidation"), slice=inner):
            yield from _arms(inner, types, depth)
        case ast.Name(id=name) if name in types.aliases and depth < 5:
            yield from _arms(types.aliases[name], types, depth + 1)
        case _:
            yield annotation
