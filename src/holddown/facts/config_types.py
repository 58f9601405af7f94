"""What the fields of an engine's config classes take: from their annotations and defaults, by `ast`.

vLLM makes an option of each such field, so the rules here are those of its own function.
Source: vLLM 0.11.0 to 0.33.0 engine/arg_utils.py `_compute_kwargs`, `literal_to_kwargs`, `collection_to_kwargs`.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holddown.facts.engine import Takes

SWITCH = ("true",)
"""Choices of an option that can only be turned on (argparse `store_true`)."""
ON_OFF = ("true", "false")
"""Choices of an option that has a `--no-` twin."""

_DEPTH = 5
"""Of names that stand for names: an alias that names itself must end."""
_TRANSPARENT = ("Annotated", "InitVar", "Optional", "SkipValidation")
_SEQUENCES = ("list", "tuple", "set", "Sequence")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a config class. default: None where it has none. doc: the text that stands after it."""

    annotation: ast.expr
    default: ast.expr | None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Types:
    """Names over several files: what stands for another type or a constant, and the fields of every class."""

    aliases: Mapping[str, ast.expr]
    fields: Mapping[str, Mapping[str, Field]]


@dataclass(frozen=True, slots=True)
class Value:
    """What an option takes, as `facts.engine.Flag` has it."""

    takes: Takes
    choices: tuple[str, ...] = ()
    several: bool = False
    optional: bool = False


def types_of(trees: Iterable[ast.Module]) -> Types:
    """Every module-level name and class of these files."""
    aliases: dict[str, ast.expr] = {}
    fields: dict[str, Mapping[str, Field]] = {}
    for tree in trees:
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    aliases[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    aliases[name] = value
                case ast.ClassDef(name=name):
                    fields[name] = _fields(node)
                case _:
                    pass
    return Types(aliases, fields)


def _fields(node: ast.ClassDef) -> Mapping[str, Field]:
    found: dict[str, Field] = {}
    last = ""
    for item in node.body:
        match item:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if "ClassVar" not in ast.unparse(annotation):
                    found[name] = Field(annotation, value)
                    last = name
            case ast.Expr(value=ast.Constant(value=str(text))) if last:
                found[last] = replace(found[last], doc=text)
            case _:
                last = ""
    return found


def value_of(annotation: ast.expr, types: Types) -> Value:
    """What the option of a field with this type takes."""
    arms = list(_arms(annotation, types, 0))
    names = {_name(arm) for arm in arms}
    if any(name in types.fields for name in names):
        return Value(Takes.JSON)
    if names == {"bool", "str", "None"}:
        return Value(Takes.TEXT, optional=True)
    if "bool" in names:
        return Value(Takes.NOTHING, ON_OFF)
    literals = [arm for arm in arms if _name(arm) == "Literal"]
    if literals:
        words = [word for arm in literals for word in literal_words(arm, types)]
        listed = bool(words) and "str" not in names
        return Value(_of_words(literals[0]), _with_none(words, names) if listed else ())
    sequence = next((arm for arm in arms if _name(arm) in _SEQUENCES), None)
    if sequence is not None:
        return _several(sequence, names, types)
    return Value(_plain(names))


def _plain(names: set[str]) -> Takes:
    if "int" in names:
        return Takes.INTEGER
    if "float" in names:
        return Takes.NUMBER
    if "dict" in names or "Mapping" in names:
        others = names - {"dict", "Mapping", "None"}
        return Takes.TEXT if others else Takes.JSON  # a word, or the JSON of a mapping
    return Takes.TEXT


def _with_none(words: Sequence[str], names: set[str]) -> tuple[str, ...]:
    return (*words, "None") if words and "None" in names else tuple(words)


def _several(sequence: ast.expr, names: set[str], types: Types) -> Value:
    match sequence:
        case ast.Subscript(slice=ast.Tuple(elts=[first, *_])) | ast.Subscript(slice=first):
            inner = value_of(first, types)
            return Value(inner.takes, _with_none(inner.choices, names), several=True)
        case _:
            return Value(Takes.TEXT, several=True)


def _of_words(literal: ast.expr) -> Takes:
    """Numbers among a `Literal`'s words are told by its first member, as the engine does."""
    match literal:
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(value=int()), *_])):
            return Takes.INTEGER
        case _:
            return Takes.TEXT


def choices_of(annotation: ast.expr, types: Types) -> tuple[str, ...]:
    """All the words of a type; none where it takes more than listed words."""
    return value_of(annotation, types).choices


def literal_words(literal: ast.expr, types: Types) -> list[str]:
    """The words of a `Literal`, which may name another one; none when a member cannot be read."""
    assert isinstance(literal, ast.Subscript)
    words: list[str] = []
    for item in literal.slice.elts if isinstance(literal.slice, ast.Tuple) else [literal.slice]:
        match item:
            case ast.Constant(value=value):
                words.append(str(value))
            case ast.Name(id=name) if name in types.aliases and name != _name(literal):
                inner = types.aliases[name]
                nested = literal_words(inner, types) if _name(inner) == "Literal" else []
                if not nested:
                    return []
                words.extend(nested)
            case _:
                return []
    return list(dict.fromkeys(words))


def _name(arm: ast.expr) -> str:
    """`list[int]` -> list; `torch.dtype` -> torch.dtype."""
    match arm:
        case ast.Constant(value=None):
            return "None"
        case ast.Subscript(value=value):
            return ast.unparse(value).removeprefix("typing.")
        case _:
            return ast.unparse(arm)


def _arms(annotation: ast.expr, types: Types, depth: int) -> Iterator[ast.expr]:
    """The members of a union, with aliases looked up."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _arms(left, types, depth)
            yield from _arms(right, types, depth)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=items)):
            for item in items:
                yield from _arms(item, types, depth)
        case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in _TRANSPARENT:
            yield from _arms(inner.elts[0] if isinstance(inner, ast.Tuple) else inner, types, depth)
            if name == "Optional":
                yield ast.Constant(None)
        case ast.Constant(value=str(text)):  # a forward reference
            yield from _arms(_parsed(text), types, depth + 1) if depth < _DEPTH else ()
        case ast.Name(id=name) if name in types.aliases and depth < _DEPTH:
            yield from _arms(types.aliases[name], types, depth + 1)
        case _:
            yield annotation


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Name(id="str")


def default_text(value: ast.expr | None, types: Types, depth: int = 0) -> str | None:
    """A default as it would be typed; None where it is not a constant, or worked out at start."""
    if depth > _DEPTH:
        return None
    match value:
        case ast.Constant(value=constant):
            return _typed(constant)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return str(-number)
        case ast.BinOp():
            return _product(value)
        case ast.List() | ast.Dict() | ast.Tuple():
            return _json(value)
        case ast.Name(id=name) if name in types.aliases:
            return default_text(types.aliases[name], types, depth + 1)
        case ast.Attribute(value=ast.Name(id=owner), attr=field):
            return _of_field(owner, field, types, depth)
        case ast.Call(func=ast.Name(id="get_field"), args=[ast.Name(id=owner), ast.Constant(value=str(field))]):
            return _of_field(owner, field, types, depth)
        case ast.Call(func=ast.Name(id="Field" | "field"), args=args, keywords=keywords):
            return _of_call(args, keywords, types, depth)
        case _:
            return None


def _of_field(owner: str, name: str, types: Types, depth: int) -> str | None:
    field = types.fields.get(owner, {}).get(name)
    return default_text(field.default, types, depth + 1) if field is not None else None


def _of_call(args: list[ast.expr], keywords: list[ast.keyword], types: Types, depth: int) -> str | None:
    """`Field(default=8, gt=0)`, `Field(8)`, `field(default_factory=list)`."""
    named = {each.arg: each.value for each in keywords}
    given = named.get("default", args[0] if args else None)
    if given is not None:
        return default_text(given, types, depth + 1)
    match named.get("default_factory"):
        case ast.Name(id="list" | "set"):
            return "[]"
        case ast.Name(id="dict"):
            return "{}"
        case ast.Lambda(body=body):
            return default_text(body, types, depth + 1)
        case _:
            return None


def _typed(constant: object) -> str | None:
    match constant:
        case True | False:
            return str(constant).lower()
        case None | int() | float() | str():
            return str(constant)
        case _:
            return None


def _product(value: ast.expr) -> str | None:
    """`1024 * 1024`: products and sums of whole numbers alone."""
    nodes = list(ast.walk(value))
    allowed = (ast.BinOp, ast.Mult, ast.Add, ast.Sub, ast.Constant)
    if not all(isinstance(node, allowed) for node in nodes) or len(nodes) > 20:
        return None
    total = _computed(value)
    return None if total is None else str(total)


def _computed(value: ast.expr) -> int | None:
    match value:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _computed(left), _computed(right)
            if first is None or second is None:
                return None
            return (
                first * second if isinstance(op, ast.Mult) else first + second * (-1 if isinstance(op, ast.Sub) else 1)
            )
        case _:
            return None


def _json(value: ast.expr) -> str | None:
    try:
        return json.dumps(ast.literal_eval(value))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
