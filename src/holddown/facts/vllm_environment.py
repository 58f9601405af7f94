"""The environment variables that a vLLM reads: the keys of one dict in its `envs.py`.

Source: vLLM 0.11.0 to 0.33.0 envs.py `environment_variables`.
"""

import ast

from holddown.facts.config_types import Types, default_text
from holddown.facts.engine import EnvironmentVariable

_TABLE = "environment_variables"
_NO_NAMES = Types({}, {})


def read_environment(envs: ast.Module) -> tuple[EnvironmentVariable, ...]:
    """Each with the default that its reader names, sorted; none where the module has no such dict."""
    for node in envs.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() as table) if name == _TABLE:
                return _variables(table)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if name == _TABLE:
                return _variables(table)
            case _:
                pass
    return ()


def _variables(table: ast.Dict) -> tuple[EnvironmentVariable, ...]:
    found = {
        key.value: EnvironmentVariable(key.value, _default(key.value, value))
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    return tuple(found[name] for name in sorted(found))


def _default(name: str, reader: ast.expr) -> str:
    """The second argument of `os.getenv(name, default)` and of what else takes a name with its default."""
    for node in ast.walk(reader):
        match node:
            case ast.Call(args=[ast.Constant(value=asked), default, *_]) if asked == name:
                text = default_text(default, _NO_NAMES)
                return "" if text in (None, "None") else text
            case _:
                pass
    return ""
