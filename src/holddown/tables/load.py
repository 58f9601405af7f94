"""The one loader of our tables: TOML in, frozen rows out. An unknown or missing key, or a value of another type, is
an error, so that a misspelt row cannot silently do nothing."""

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holddown.base.codec import loads
from holddown.base.errors import UsageError
from holddown.facts.engine import Engine, EngineFacts, version_key
from holddown.tables.command import CommandTable, LibraryVariables
from holddown.tables.engine import EngineTable, RecordedBuild
from holddown.tables.failure import Consequence, Consequences, Failure, Failures
from holddown.tables.family import Families, Family
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.named import the_row
from holddown.tables.speed import SpeedTable

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

_FOLDER = Path(__file__).parent
_RECORDED = "engines/recorded"


def _exactly(type_: type[T]) -> Any:
    def structure(value: Any, wanted: Any) -> T:
        # `type(...) is`: TOML's true is not a number, although Python's is
        if type(value) is not type_:
            raise ValueError(f"{value!r} is not a {type_.__name__}")
        made: T = value if wanted is type_ else wanted(value)  # a StrEnum comes here as a str
        return made

    return structure


@cache
def _converter() -> "Converter":
    # a tenth of a second that `--help` need not wait for
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True)
    for type_ in (str, int, float, bool):
        converter.register_structure_hook(type_, _exactly(type_))
    return converter


def parse_table(type_: type[T], text: str, where: str) -> T:
    """The table in `text`. where: its file, for messages. Raises: ValueError naming each key that does not fit."""
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter().structure(tomllib.loads(text), type_)
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
def command_tables() -> tuple[CommandTable, ...]:
    """How each engine's command is written, by kind."""
    return tuple(
        load_table(CommandTable, f"commands/{path.name}") for path in sorted((_FOLDER / "commands").glob("*.toml"))
    )


def command_table(kind: str) -> CommandTable:
    """Raises: KeyError for a kind that has none."""
    return {table.grammar.kind: table for table in command_tables()}[kind]


@cache
def library_variables() -> tuple[LibraryVariables, ...]:
    """The variables of libraries that every engine stands on."""
    paths = sorted((_FOLDER / "libraries").glob("*.toml"))
    return tuple(load_table(LibraryVariables, f"libraries/{path.name}") for path in paths)


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


@cache
def failures() -> tuple[Failure, ...]:
    """Every way to fail that has a row, from all files of them."""
    paths = sorted((_FOLDER / "failures").glob("*.toml"))
    return tuple(row for path in paths for row in load_table(Failures, f"failures/{path.name}").failures)


@cache
def consequences() -> tuple[Consequence, ...]:
    """What only tells of another failure."""
    return load_table(Consequences, "consequences.toml").consequences


@cache
def families() -> tuple[Family, ...]:
    """Every family of models that has a row."""
    return load_table(Families, "families.toml").families


def families_of(architectures: Iterable[str], model_type: str) -> tuple[Family, ...]:
    """The rows that these models may be of: more than one where only the chat template tells."""
    names = set(architectures)
    return tuple(
        row
        for row in families()
        if names.intersection(row.architectures) and (not row.model_types or model_type in row.model_types)
    )


# --- builds that are recorded, not installed ---------------------------------------------------------------------


def recorded_versions(kind: str) -> tuple[str, ...]:
    """The versions of this engine whose facts are recorded, oldest first."""
    found = [path.stem.removeprefix(f"{kind}-") for path in (_FOLDER / _RECORDED).glob(f"{kind}-*.json")]
    return tuple(sorted(found, key=version_key))


@cache
def recorded_build(kind: str, version: str) -> RecordedBuild:
    """What was read from the published package. Raises: FileNotFoundError, ValueError."""
    path = _FOLDER / _RECORDED / f"{kind}-{version}.json"
    return loads(RecordedBuild, path.read_text(encoding="utf-8"))


def recorded_engines() -> tuple[Engine, ...]:
    """Every recorded build as an engine that is not installed here, oldest first; no file is read for it."""
    kinds = [table.kind for table in engine_tables()]
    return tuple(_recorded(kind, version) for kind in kinds for version in recorded_versions(kind))


def recorded_engine(name: str, version: str) -> tuple[Engine, EngineFacts]:
    """A recorded build with its facts. name: the engine's kind. Raises: UsageError naming those there are."""
    if version not in recorded_versions(name):
        there = ", ".join(engine.ref for engine in recorded_engines())
        raise UsageError(
            f"nothing is recorded of {name}@{version}",
            code="engine.not-recorded",
            seen=f"recorded: {there}",
            do=to_have(name, version),
        )
    return _recorded(name, version), recorded_build(name, version).facts


def to_have(kind: str, version: str) -> str:
    """The command that brings a build of this kind here, or what to do where there is no recipe for it."""
    path = _FOLDER / "engines" / f"{kind}.toml"
    if not path.is_file() or engine_table(kind).recipes:
        return f"holddown engine install {kind}@{version}"
    package = engine_table(kind).package
    return f"pip install {package}=={version} in an environment of its own, and holddown engine add ITS/bin/python"


def _recorded(kind: str, version: str) -> Engine:
    return Engine(kind, version, kind, "python", "", managed=False, registered_at=0.0, recorded=True)


@cache
def speed_table() -> SpeedTable:
    """The constants that predictions use."""
    return load_table(SpeedTable, "speed.toml")
