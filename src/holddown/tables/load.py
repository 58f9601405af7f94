"""The one loader of our tables: TOML in, frozen rows out. An unknown or missing key, or a value of another type, is
an error, so that a misspelt row cannot silently do nothing."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cattrs import BaseValidationError, Converter, transform_error

from holddown.tables.engine import EngineTable
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.named import the_row

T = TypeVar("T")

_FOLDER = Path(__file__).parent


def _exactly(type_: type[T]) -> Any:
    def structure(value: Any, _: Any) -> T:
        # `type(...) is`: TOML's true is not a number, although Python's is
        if type(value) is not type_:
            raise ValueError(f"{value!r} is not a {type_.__name__}")
        return value

    return structure


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    for type_ in (str, int, float, bool):
        converter.register_structure_hook(type_, _exactly(type_))
    return converter


_CONVERTER = _converter()


def parse_table(type_: type[T], text: str, where: str) -> T:
    """The table in `text`. where: its file, for messages. Raises: ValueError naming each key that does not fit."""
    try:
        return _CONVERTER.structure(tomllib.loads(text), type_)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where} is not TOML: {error}") from error
    except BaseValidationError as error:
        raise ValueError(f"{where}: " + "; ".join(transform_error(error))) from error


def load_table(type_: type[T], relative: str) -> T:
    """The table in the file `relative` to this folder. Raises: ValueError as `parse_table`; FileNotFoundError."""
    path = _FOLDER / relative
    return parse_table(type_, path.read_text(encoding="utf-8"), f"tables/{relative}")


@cache
def engine_table(kind: str) -> EngineTable:
    """What we know about one kind of engine. Raises: ValueError, FileNotFoundError."""
    return load_table(EngineTable, f"engines/{kind}.toml")


@cache
def engine_tables() -> tuple[EngineTable, ...]:
    """Every kind of engine that has a table, by name."""
    return tuple(engine_table(path.stem) for path in sorted((_FOLDER / "engines").glob("*.toml")))


@cache
def gpu_rows() -> tuple[GpuRow, ...]:
    """Every GPU model that we know, by file name."""
    return tuple(load_table(GpuRow, f"gpus/{path.name}") for path in sorted((_FOLDER / "gpus").glob("*.toml")))


@cache
def fabric_rows() -> tuple[FabricRow, ...]:
    """Every way in which the GPUs of one machine reach each other, by file name."""
    return tuple(load_table(FabricRow, f"fabrics/{path.name}") for path in sorted((_FOLDER / "fabrics").glob("*.toml")))


def gpu_row(name: str) -> GpuRow:
    """The GPU that `name` is: its name, an alias, or words that fit it alone. Raises: UsageError with near names."""
    return the_row(gpu_rows(), name, "GPU")


def fabric_row(name: str) -> FabricRow:
    """The fabric of this name, or of these words. Raises: UsageError with near names."""
    return the_row(fabric_rows(), name, "fabric")
