"""Reads what SGLang's server takes on its command line from the text of its own Python files.

Three layouts. Up to 0.5.8 `srt/server_args.py` has a dataclass `ServerArgs` with defaults, and its `add_cli_args`
names each option. In 0.5.16 the fields of that class are `name: A[type, Arg(...)] = default`, of which the parser is
made, and `add_cli_args` adds the few that need code. In 0.5.23 such fields stand in `srt/arg_groups/fields/*.py`.
Source: SGLang 0.5.8 and 0.5.16 srt/server_args.py; 0.5.23 srt/arg_groups/arg_utils.py add_cli_args_from_dataclass.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holddown.facts.config_types import ON_OFF, SWITCH
from holddown.facts.engine import Flag, Takes
from holddown.facts.static_constants import Scope, constant, scope_of, text, words
from holddown.facts.static_modules import Source
from holddown.facts.static_values import Opaque, Value

SERVER_ARGS = "sglang.srt.server_args"
_CLASS = "ServerArgs"
_PARSERS = {
    "str": Takes.TEXT,
    "nullable_str": Takes.TEXT,
    "int": Takes.INTEGER,
    "float": Takes.NUMBER,
    "human_readable_int": Takes.SIZE,
    "json.loads": Takes.JSON,
    "json_list_type": Takes.JSON,
}
_SAYS_DEPRECATED = re.compile(r"^\W*deprecated|^Note: \S+ is deprecated", re.IGNORECASE)
# `declare(args, page_size=64)`, `{"page_size": 64}`, `overrides["dtype"] = ...`: sooner one too many than one too few
_SETS = re.compile(r"\b([a-z]\w+) ?=(?!=)|\"([a-z]\w+)\"(?:\]\s*=|\s*:)(?!=)")
_NOT_READ = Opaque("not read")


@dataclass(frozen=True, slots=True)
class _Field:
    """A configuration field of the later layouts. arg: the keywords of its `Arg`. default: Opaque where it has none or
    it is computed."""

    name: str
    type_: ast.expr
    arg: Mapping[str, ast.expr]
    default: Value
    scope: Scope


def read_server_flags(
    source: Source, field_modules: Sequence[str], resolving_texts: Iterable[str] = ()
) -> tuple[Flag, ...]:
    """Every option of the server's parser, by name. field_modules: that declare fields beside `ServerArgs`.

    resolving_texts: the files whose code gives fields their values at start. A default of None that the engine replaces
    at start counts as worked out, and so is not given.
    """
    owner = _server_args(source)
    set_at_start = frozenset(name for each in resolving_texts for pair in _SETS.findall(each) for name in pair)
    set_at_start |= frozenset(_assigned(owner)) if owner is not None else frozenset()
    fields = [
        replace(each, default=_NOT_READ) if each.default is None and each.name in set_at_start else each
        for module in (SERVER_ARGS, *field_modules)
        for each in _fields(source, module)
    ]
    found: dict[str, Flag] = {}
    for each in fields:
        flag = _of_field(source, each)
        if flag is not None:
            found[flag.name] = flag
    defaults = {each.name: _settled(source, each) for each in fields}
    for flag in _of_calls(source, defaults):
        found[flag.name] = flag
    return tuple(found[name] for name in sorted(found))


# --- fields with annotations ----------------------------------------------------------------------------------------


def _fields(source: Source, module: str) -> Iterator[_Field]:
    for node in source.names(module).values():
        if isinstance(node, ast.ClassDef) and _is_namespace(node):
            scope = scope_of(module, node.body)
            for item in node.body:
                match item:
                    case ast.AnnAssign(
                        target=ast.Name(id=name),
                        annotation=ast.Subscript(value=ast.Name(id="A"), slice=ast.Tuple(elts=[type_, *metadata])),
                    ) if arg := next(filter(_is_arg, metadata), None):
                        yield _Field(name, type_, _keywords(arg), _default(source, item.value, scope), scope)
                    case _:
                        pass


def _is_namespace(node: ast.ClassDef) -> bool:
    """`ServerArgs`, and the classes with a path, which are part of it."""
    return node.name == _CLASS or any(
        isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "_NS_PATH" for item in node.body
    )


def _default(source: Source, value: ast.expr | None, scope: Scope) -> Value:
    match value:
        case None:
            return _NOT_READ
        case ast.Call(keywords=[ast.keyword(arg="default_factory", value=ast.Name(id="list" | "dict" | "set"))]):
            return ()
        case _:
            return constant(source, value, scope)


def _of_field(source: Source, field: _Field) -> Flag | None:
    """None for a field that is no option."""
    arg = field.arg
    if _truth(arg.get("no_cli")):
        return None
    own = constant(source, arg["cli_name"], field.scope) if "cli_name" in arg else None
    name = own if isinstance(own, str) else "--" + field.name.replace("_", "-")
    others = words(constant(source, arg["aliases"], field.scope)) if "aliases" in arg else ()
    flag = _taking(source, _named(Flag(name), (name, *others)), _unwrapped(field.type_), arg, field.scope)
    return replace(flag, default=_typed(_settled(source, field)), deprecated=_deprecated(arg))


def _is_arg(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="Arg")) | ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case _:
            return False


def _keywords(node: ast.expr) -> Mapping[str, ast.expr]:
    """Of `Arg(...)`; a bare text is its help."""
    if isinstance(node, ast.Call):
        return {each.arg: each.value for each in node.keywords if each.arg}
    return {"help": node}


def _truth(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _settled(source: Source, field: _Field) -> Value:
    """The default that holds if nobody changes it: a fallback in place of None, and nothing where code decides."""
    if field.default is not None:
        return field.default
    if _truth(field.arg.get("resolvable")):
        return _NOT_READ
    return constant(source, field.arg["fallback"], field.scope) if "fallback" in field.arg else None


def _unwrapped(type_: ast.expr) -> ast.expr:
    """`Optional[X]` and `X | None` -> X."""
    match type_:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return inner
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            return inner
        case _:
            return type_


def _taking(source: Source, flag: Flag, type_: ast.expr, arg: Mapping[str, ast.expr], scope: Scope) -> Flag:
    """With what the option takes, as the field's type and its `Arg` say."""
    if "action" in arg:
        return _by_action(flag, ast.unparse(arg["action"]), _action_words(arg))
    listed = words(constant(source, arg["choices"], scope)) if "choices" in arg else ()
    match type_:
        case ast.Name(id="bool") if "type_parser" not in arg:
            return replace(flag, choices=SWITCH, takes=Takes.NOTHING)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            literal = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            values = [constant(source, each, scope) for each in literal]
            takes = Takes.INTEGER if values and type(values[0]) is int else Takes.TEXT
            return replace(flag, choices=listed or words(tuple(values)), takes=takes)
        case ast.Subscript(value=ast.Name(id="List" | "list"), slice=inner) if "type_parser" not in arg:
            nargs = _nargs(arg) or "+"
            return _counted(replace(flag, choices=listed, takes=_PARSERS.get(ast.unparse(inner), Takes.TEXT)), nargs)
        case _:
            parser = ast.unparse(arg["type_parser"]) if "type_parser" in arg else ast.unparse(type_)
            otherwise = Takes.UNKNOWN if "type_parser" in arg else Takes.TEXT
            return _counted(replace(flag, choices=listed, takes=_PARSERS.get(parser, otherwise)), _nargs(arg))


def _action_words(arg: Mapping[str, ast.expr]) -> Mapping[str, ast.expr]:
    match arg.get("action_kwargs"):
        case ast.Dict(keys=keys, values=values):
            return {
                key.value: value
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
        case _:
            return {}


# --- calls of add_argument ------------------------------------------------------------------------------------------


def _of_calls(source: Source, defaults: Mapping[str, Value]) -> Iterator[Flag]:
    owner = _server_args(source)
    method = next((each for each in _methods(owner) if each.name == "add_cli_args"), None)
    if owner is None or method is None:
        return
    changed = frozenset(_assigned(owner))
    scope = scope_of(SERVER_ARGS, method.body)
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = tuple(str(each.value) for each in node.args if isinstance(each, ast.Constant))
            if any(name.startswith("--") for name in names):
                yield _of_call(source, names, {each.arg: each.value for each in node.keywords if each.arg}, scope,
                               defaults, changed)  # fmt: skip


def _server_args(source: Source) -> ast.ClassDef | None:
    """By its statement, not its name: later releases bind the name anew to the class that is made of the fields."""
    return next((each for each in _classes(source.read(SERVER_ARGS)) if each.name == _CLASS), None)


def _classes(tree: ast.Module | None) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef)] if tree is not None else []


def _methods(owner: ast.ClassDef | None) -> list[ast.FunctionDef]:
    return [node for node in owner.body if isinstance(node, ast.FunctionDef)] if owner is not None else []


def _of_call(
    source: Source,
    names: tuple[str, ...],
    arg: Mapping[str, ast.expr],
    scope: Scope,
    defaults: Mapping[str, Value],
    changed: frozenset[str],
) -> Flag:
    flag = _named(Flag(names[0]), names)
    default = _default_of_call(source, arg, scope, defaults)
    if "action" in arg:
        flag = _by_action(flag, ast.unparse(arg["action"]), arg)
        if flag.takes is Takes.NOTHING and "default" not in arg:
            default = False
    else:
        listed = words(constant(source, arg["choices"], scope)) if "choices" in arg else ()
        parser = ast.unparse(arg["type"]) if "type" in arg else "str"
        takes = _PARSERS.get(parser, Takes.UNKNOWN)
        flag = _counted(replace(flag, choices=listed, takes=takes), _nargs(arg))
    if default is None and _dest(flag.name, arg) in changed:
        default = _NOT_READ
    return replace(flag, default=_typed(default), deprecated=_deprecated(arg))


def _default_of_call(source: Source, arg: Mapping[str, ast.expr], scope: Scope, defaults: Mapping[str, Value]) -> Value:
    match arg.get("default"):
        case None:
            return _NOT_READ if _truth(arg.get("required")) else None
        case ast.Call(func=ast.Name(id="_declared_default"), args=[ast.Constant(value=str(field))]):
            return defaults.get(field, _NOT_READ)
        case value:
            return constant(source, value, scope)


def _dest(name: str, arg: Mapping[str, ast.expr]) -> str:
    """The field that the option fills."""
    match arg:
        case {"dest": ast.Constant(value=str(dest))}:
            return dest
        case {"default": ast.Attribute(value=ast.Name(id="ServerArgs"), attr=attr)}:
            return attr
        case _:
            return name.lstrip("-").replace("-", "_")


def _assigned(owner: ast.ClassDef) -> Iterator[str]:
    """Fields that the class's methods set: their defaults are not the last word."""
    for node in ast.walk(owner):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Store()):
                yield attr
            case _:
                pass


# --- both -----------------------------------------------------------------------------------------------------------


def _named(flag: Flag, names: tuple[str, ...]) -> Flag:
    """Under its first long name."""
    first = next(name for name in names if name.startswith("--"))
    return replace(flag, name=first, aliases=tuple(name for name in names if name != first))


def _by_action(flag: Flag, action: str, arg: Mapping[str, ast.expr]) -> Flag:
    match action.removeprefix("argparse."):
        case "'store_true'":
            return replace(flag, choices=SWITCH, takes=Takes.NOTHING)
        case "BooleanOptionalAction":
            return replace(flag, choices=ON_OFF, takes=Takes.NOTHING)
        case "DeprecatedAction" | "DeprecatedStoreTrueAction" | "DeprecatedStoreConstAction" if "nargs" not in arg:
            return replace(flag, choices=SWITCH, takes=Takes.NOTHING)
        case _:
            choices = arg.get("choices")
            listed = words(tuple(ast.literal_eval(choices))) if isinstance(choices, ast.List) else ()
            return _counted(replace(flag, choices=listed, takes=Takes.TEXT), _nargs(arg))


def _nargs(arg: Mapping[str, ast.expr]) -> str:
    match arg.get("nargs"):
        case ast.Constant(value=str(nargs)):
            return nargs
        case _:
            return ""


def _counted(flag: Flag, nargs: str) -> Flag:
    return replace(flag, several=nargs in ("+", "*"), optional=nargs in ("?", "*"))


def _typed(value: Value) -> str | None:
    return None if isinstance(value, Opaque) else text(value)


def _deprecated(arg: Mapping[str, ast.expr]) -> str:
    """What the engine says of an option that it will drop: what to use instead, where it names that."""
    instead = arg.get("new_flag")
    if isinstance(instead, ast.Constant) and isinstance(instead.value, str):
        return f"use {instead.value}"
    help_ = arg.get("help")
    said = help_.value if isinstance(help_, ast.Constant) and isinstance(help_.value, str) else ""
    if _SAYS_DEPRECATED.search(said):
        return said
    return "deprecated" if "Deprecated" in ast.unparse(arg.get("action", ast.Constant(""))) else ""
