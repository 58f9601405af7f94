"""Reads from a vLLM's source what it has registered: parsers, quantisation methods, models that are gone.

Source: vLLM 0.11.0 to 0.33.0 `tool_parsers/__init__.py`, `reasoning/__init__.py`, before 0.12 the decorators in
`entrypoints/openai/tool_parsers` and `reasoning`; `model_executor/layers/quantization/__init__.py`;
`model_executor/models/registry.py`.
"""

import ast
import re
from collections.abc import Iterable, Mapping

from holddown.facts.config_types import choices_of, types_of
from holddown.facts.engine import GoneArchitecture, MinimumCapability
from holddown.facts.static_modules import Source
from holddown.facts.static_python import Evaluator
from holddown.facts.static_values import Capability, Class, Function

_QUANTIZATION = "vllm.model_executor.layers.quantization"


def read_architectures(registry: ast.Module) -> tuple[str, ...]:
    """Names from config.json that the registry maps to a (module, class) pair, sorted.

    Tables of removed or plugin-only models map to a version or an address, not to a pair, and so do not count.
    """
    return tuple(sorted({name for name, _ in _registry(registry)}))


def read_words(tree: ast.Module, name: str) -> tuple[str, ...]:
    """The words of `name = Literal[...]`, in their order; none where the module has no such name."""
    types = types_of([tree])
    words = types.aliases.get(name)
    return choices_of(words, types) if words is not None else ()


def read_dict_keys(tree: ast.Module, name: str) -> tuple[str, ...]:
    """The keys of the dict that the module calls `name`, sorted; none where there is no such dict."""
    return tuple(sorted(key for key, _ in _items(tree, name)))


def read_registered(trees: Iterable[ast.Module]) -> tuple[str, ...]:
    """The names in `@...Manager.register_module("name")` and `(["name", "other"])` over several files, sorted."""
    names = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.ClassDef(decorator_list=decorators):
                for decorator in decorators:
                    names.update(_registered(decorator))
            case _:
                pass
    return tuple(sorted(names))


def _registered(decorator: ast.expr) -> list[str]:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="register_module"), args=[first, *_]):
            given = first.elts if isinstance(first, ast.List) else [first]
            return [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        case _:
            return []


def read_gone_architectures(registry: ast.Module) -> tuple[GoneArchitecture, ...]:
    """Those that the registry names as removed, with the last version that had them, or as moved to a plug-in."""
    removed, moved = _items(registry, "_PREVIOUSLY_SUPPORTED_MODELS"), _items(registry, "_OOT_SUPPORTED_MODELS")
    return (
        *(GoneArchitecture(name, version, "") for name, version in removed),
        *(GoneArchitecture(name, "", plugin) for name, plugin in moved),
    )


def _items(tree: ast.Module, name: str) -> Iterable[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Dict() as table) if found == name:
                yield from _pairs(table)
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.Dict() as table) if found == name:
                yield from _pairs(table)
            case _:
                pass


def _pairs(table: ast.Dict) -> Iterable[tuple[str, str]]:
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, str(value.value) if isinstance(value, ast.Constant) else ""


def read_minimum_capabilities(source: Source) -> tuple[MinimumCapability, ...]:
    """What `get_min_capability` of each quantisation method's class gives; without those that cannot be read."""
    lookup = source.find(_QUANTIZATION, "get_quantization_config")
    if not isinstance(lookup, Function):
        return ()
    found = []
    for method, class_name in _classes_of_methods(lookup.node).items():
        owner = _class(source, lookup.node, class_name)
        if owner is None:
            continue
        minimum = Evaluator(source, Capability(9, 0), {}).ask(owner, "get_min_capability")
        if isinstance(minimum, int) and minimum > 0:
            found.append(MinimumCapability(method, f"{minimum // 10}.{minimum % 10}"))
    return tuple(found)


def _classes_of_methods(lookup: ast.FunctionDef) -> Mapping[str, str]:
    """The largest dict of the function maps a method's name to its class."""
    tables = [node for node in ast.walk(lookup) if isinstance(node, ast.Dict)]
    found: dict[str, str] = {}
    for table in tables:
        for key, value in zip(table.keys, table.values, strict=True):
            match key, value:
                case ast.Constant(value=str(method)), ast.Name(id=name):
                    found[method] = name
                case _:
                    pass
    return found


def _class(source: Source, lookup: ast.FunctionDef, name: str) -> Class | None:
    for node in ast.walk(lookup):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    origin = node.module or ""
                    module = f"{_QUANTIZATION}.{origin}".rstrip(".") if node.level else origin
                    found = source.find(module, alias.name)
                    return found if isinstance(found, Class) else None
    found = source.find(_QUANTIZATION, name)
    return found if isinstance(found, Class) else None


_CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)
_PIPELINE = "SupportsPP"


def read_without_pipeline(registry: ast.Module, model_texts: Iterable[str]) -> tuple[str, ...]:
    """The registry's architectures whose class does not inherit `SupportsPP`, sorted.

    model_texts: the files with the models' classes; class names are taken to be one of a kind. Only their heads are
    read: parsing a quarter of a thousand files would take seconds.
    """
    bases: dict[str, set[str]] = {}
    for text in model_texts:
        for name, listed in _CLASS.findall(text):
            bases.setdefault(name, set()).update(re.findall(r"\w+", listed))
    return tuple(
        sorted(
            architecture
            for architecture, class_name in _registry(registry)
            if class_name in bases and not _inherits(class_name, bases, frozenset())
        )
    )


def _registry(tree: ast.Module) -> Iterable[tuple[str, str]]:
    for table in (node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)):
        if isinstance(table.value, ast.Dict):
            for key, value in zip(table.value.keys, table.value.values, strict=True):
                match key, value:
                    case ast.Constant(value=str(name)), ast.Tuple(elts=[_, ast.Constant(value=str(class_name))]):
                        yield name, class_name
                    case _:
                        pass


def _inherits(name: str, bases: Mapping[str, set[str]], seen: frozenset[str]) -> bool:
    if name == _PIPELINE:
        return True
    return any(_inherits(base, bases, seen | {name}) for base in bases.get(name, ()) if base not in seen)


def reads_modelopt_kv(torch_utils: ast.Module) -> bool:
    """Whether `--kv-cache-dtype auto` becomes what a ModelOpt checkpoint asks for.

    Source: vLLM 0.16.0 to 0.33.0 utils/torch_utils.py get_kv_cache_quant_algo_string; 0.11.0 has no such function.
    """
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "get_kv_cache_quant_algo_string" for node in torch_utils.body
    )


def kv_flag_wins(attention: ast.Module) -> bool:
    """Whether the layer's `kv_cache_dtype = "fp8"` for a checkpoint's kv_cache_scheme is only done under `auto`.

    Source: vLLM model_executor/layers/attention/attention.py: unconditional in 0.16.0 and 0.19.1.
    """
    for node in ast.walk(attention):
        if isinstance(node, ast.If) and "kv_cache_scheme" in ast.unparse(node.test) and _sets_fp8(node.body):
            return "kv_cache_dtype == 'auto'" in ast.unparse(node.test)
    return True


def _sets_fp8(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Assign) and ast.unparse(node) == "kv_cache_dtype = 'fp8'" for node in body)
