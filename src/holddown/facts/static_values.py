"""What evaluating an engine's source can give: Python's own values, and these for what is not known or is code."""

import ast
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias


class Capability(NamedTuple):
    """A compute capability, ordered as its numbers are."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that cannot be worked out, and the code that it comes from."""

    text: str


@dataclass(frozen=True, slots=True)
class ConfigField:
    """A value of the model's or the deployment's config, not known here. default: what `getattr` gives without it."""

    name: str
    default: object = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a config field with constants: true when `field relation values`."""

    field: str
    relation: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when one of the tests is."""

    tests: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """The engine's config object or a part of it; `model` where its attributes are keys of config.json."""

    is_model: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """`if condition: return reason`, where the condition is not known here."""

    condition: Comparison | AnyOf | Opaque
    reason: str


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the source, in its module."""

    module: str
    node: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the source; owner: the class whose method it is, for `super()`. bound: what `cls` is."""

    module: str
    node: ast.FunctionDef
    owner: Class | None = None
    bound: Class | None = None


@dataclass(frozen=True, slots=True)
class Module:
    name: str


@dataclass(frozen=True, slots=True)
class Names:
    """An enumeration of which only the members' names matter."""


@dataclass(frozen=True, slots=True)
class Super:
    owner: Class
    bound: Class


Value: TypeAlias = Any
"""A Python constant, a tuple or list of values, or one of the classes above."""


def unknown(value: Value) -> bool:
    """Whether it is none of Python's own values."""
    return isinstance(value, Opaque | ConfigField | Comparison | AnyOf)
