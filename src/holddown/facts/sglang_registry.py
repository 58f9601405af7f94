"""Reads from SGLang's source what it has registered: parsers, architectures, quantisation methods, variables.

Source: SGLang 0.5.8 and 0.5.23 srt/models/registry.py, srt/environ.py, srt/layers/quantization/__init__.py;
0.5.8 srt/function_call/function_call_parser.py and srt/parser/reasoning_parser.py; 0.5.23
srt/function_call/parser_names.py and srt/parser/reasoning_parser_names.py.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from holddown.facts.engine import EnvironmentVariable, MinimumCapability
from holddown.facts.static_constants import Scope, constant, scope_of, text, words
from holddown.facts.static_modules import Source
from holddown.facts.static_values import Class, Opaque

_ENTRY = re.compile(r"^EntryClass\s*=\s*(\[[^\]]*\]|\w+)", re.MULTILINE)
_COMMENT = re.compile(r"#.*")
ENVIRON = "sglang.srt.environ"
QUANTIZATION = "sglang.srt.layers.quantization"
_TOOL_PARSERS = (
    ("sglang.srt.function_call.parser_names", "TOOL_CALL_PARSER_NAMES"),
    ("sglang.srt.function_call.function_call_parser", "FunctionCallParser.ToolCallParserEnum"),
)
_REASONING_PARSERS = (
    ("sglang.srt.parser.reasoning_parser_names", "REASONING_PARSER_NAMES"),
    ("sglang.srt.parser.reasoning_parser", "ReasoningParser.DetectorMap"),
)


def read_entry_classes(model_texts: Iterable[str]) -> tuple[str, ...]:
    """The architectures, sorted: the class names that each model's file gives as its `EntryClass`.

    Only that statement is looked at: parsing a quarter of a thousand files would take seconds.
    """
    names = set()
    for each in model_texts:
        for statement in _ENTRY.findall(each):
            names.update(re.findall(r"\w+", _COMMENT.sub("", statement)))
    return tuple(sorted(names))


def read_tool_parsers(source: Source) -> tuple[str, ...]:
    """Sorted, without `auto`; none where neither layout is found."""
    return _first(source, _TOOL_PARSERS)


def read_reasoning_parsers(source: Source) -> tuple[str, ...]:
    """As `read_tool_parsers`."""
    return _first(source, _REASONING_PARSERS)


def _first(source: Source, places: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    for module, path in places:
        if source.read(module) is not None:
            found = words(constant(source, ast.parse(path, mode="eval").body, Scope(module, {})))
            if found:
                return tuple(sorted(found))
    return ()


def read_quantization_methods(source: Source) -> tuple[str, ...]:
    """What `quant_method` of a checkpoint may be, on an NVIDIA GPU: the table, with what it is given for `is_cuda`.

    Some of what `--quantization` takes is not in it, since another method takes over (`gptq` by `gptq_marlin`).
    """
    scope = Scope(QUANTIZATION, {})
    tables = [words(constant(source, table, scope)) for table in _quantization_tables(source)]
    return tuple(sorted({name for table in tables for name in table}))


_METHOD_OF_CLASS = re.compile(
    r"^class (?P<name>\w+)(?:\((?P<bases>[^)]*)\))?:"
    r"|^    def get_min_capability\([^)]*\)[^:\n]*:\s*(?:#[^\n]*\s*)*return (?P<value>\d+|\w+\.get_min_capability\(\))"
    r"[ \t]*(?:#[^\n]*)?$"
    r"|^    def get_min_capability\b",
    re.MULTILINE,
)


def read_minimum_capabilities(source: Source, texts: Iterable[str]) -> tuple[MinimumCapability, ...]:
    """What each method's class demands of an NVIDIA GPU, where it says so in one line; by the methods' names.

    texts: the files with the classes, whose names are taken to be one of a kind. Only the heads of classes and that
    method are looked at: parsing them all would double the time that reading takes.
    """
    said: dict[str, str] = {}
    for each in texts:
        said.update(_said_by_classes(each))
    found = {}
    for table in _quantization_tables(source):
        for key, value in zip(table.keys, table.values, strict=True):
            match key, value:
                case ast.Constant(value=str(method)), ast.Name(id=name) if number := _number(said, name, 0):
                    found[method] = MinimumCapability(method, f"{number // 10}.{number % 10}")
                case _:
                    pass
    return tuple(found[method] for method in sorted(found))


def _said_by_classes(text: str) -> Iterator[tuple[str, str]]:
    """Class -> a number, `OTHER` where another class's answer holds, empty where its own cannot be read."""
    name = ""
    for match in _METHOD_OF_CLASS.finditer(text):
        if match["name"]:
            name = match["name"]
            yield name, (match["bases"] or "").partition(",")[0].strip()
        elif name:
            yield name, (match["value"] or "").partition(".")[0]


def _number(said: Mapping[str, str], name: str, depth: int) -> int:
    answer = said.get(name, "")
    if answer.isdecimal():
        return int(answer)
    return _number(said, answer, depth + 1) if answer and depth < 5 else 0


def _quantization_tables(source: Source) -> Iterator[ast.Dict]:
    """The table, and what it is given under `is_cuda()`."""
    tree = source.read(QUANTIZATION)
    for node in tree.body if tree is not None else ():
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="BASE_QUANTIZATION_METHODS"), value=ast.Dict() as table)
                | ast.Assign(targets=[ast.Name(id="BASE_QUANTIZATION_METHODS")], value=ast.Dict() as table)
            ):
                yield table
            case ast.If(test=test, body=body) if "is_cuda()" in ast.unparse(test):
                for inner in body:
                    match inner:
                        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update"), args=[ast.Dict() as table])):
                            yield table
                        case _:
                            pass
            case _:
                pass


# --- environment variables ------------------------------------------------------------------------------------------


# a literal comes first, which makes the search over 36 MB of source twice as fast
_NAME = re.compile(r"\"(SGL(?:ANG)?_\w+)\"(?:,\s*(?:default=)?(\"[^\"\\]*\"|-?\d+(?:\.\d+)?)\s*\))?")
_READER = re.compile(r"(?:getenv|environ\.get|get_bool_env_var|get_int_env_var)\(\s*$")


def read_environment(source: Source, texts: Iterable[str]) -> tuple[EnvironmentVariable, ...]:
    """Its own variables, by name, with those that it takes note of only to say that they are gone.

    texts: the files in which some are read outside of the table of variables.
    """
    found: dict[str, EnvironmentVariable] = {}
    for each in texts:
        for match in _NAME.finditer(each):
            if _READER.search(each, max(0, match.start() - 60), match.start()):
                found.setdefault(match[1], EnvironmentVariable(match[1], (match[2] or "").strip('"')))
    table = source.find(ENVIRON, "Envs")
    if isinstance(table, Class):
        found.update((each.name, each) for each in _declared(source, table))
    found.update((each.name, each) for each in _deprecated(source))
    return tuple(found[name] for name in sorted(found))


def _declared(source: Source, table: Class) -> Iterator[EnvironmentVariable]:
    scope = scope_of(table.module, table.node.body)
    for name, value in scope.local.items():
        match value:
            case ast.Call(func=ast.Name(), args=[default, *_], keywords=keywords):
                yield EnvironmentVariable(name, _typed(source, default, scope))
                for each in keywords:
                    match each:
                        case ast.keyword(arg="deprecated_name", value=ast.Constant(value=str(old))):
                            yield EnvironmentVariable(old, "", f"use {name}")
                        case _:
                            pass
            case _:
                pass


def _typed(source: Source, default: ast.expr, scope: Scope) -> str:
    value = constant(source, default, scope)
    return "" if value is None or isinstance(value, Opaque) else text(value)


def _deprecated(source: Source) -> Iterator[EnvironmentVariable]:
    """A table of names in 0.5.23; calls that name old and new, or a suggestion, in 0.5.8."""
    tree = source.read(ENVIRON)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id="_DEPRECATED_ENVS"), value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Call):
                        yield EnvironmentVariable(str(key.value), "", _said(value))
            case ast.Call(func=ast.Name(id="_print_deprecated_env"), args=[ast.Constant(), ast.Constant()] as pair):
                new, old = (str(each.value) for each in pair if isinstance(each, ast.Constant))
                yield EnvironmentVariable(old, "", f"use {new}")
            case ast.Call(
                func=ast.Name(id="_warn_deprecated_env_to_cli_flag"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(suggestion))],
            ):
                yield EnvironmentVariable(name, "", suggestion)
            case _:
                pass


def _said(call: ast.Call) -> str:
    given: Mapping[str, ast.expr] = {each.arg: each.value for each in call.keywords if each.arg}
    replacement = given.get("replacement", call.args[0] if call.args else None)
    parts = []
    if isinstance(replacement, ast.Constant) and isinstance(replacement.value, str):
        parts.append(f"use {replacement.value}")
    note = given.get("note")
    if isinstance(note, ast.Constant) and isinstance(note.value, str):
        parts.append(note.value)
    return "; ".join(parts) or "deprecated"


# --- KV cache -------------------------------------------------------------------------------------------------------


def follows_modelopt_kv(text: str) -> bool:
    """Whether `--kv-cache-dtype auto` becomes what a ModelOpt checkpoint asks for.

    text: the file that decides the cache's dtype: 0.5.8 srt/model_executor/model_runner.py, 0.5.23
    srt/mem_cache/kv_cache_dtype.py.
    """
    return "kv_cache_quant_algo" in text
