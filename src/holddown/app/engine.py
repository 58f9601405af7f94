"""`engine`: the registered environments and how each is."""

from collections.abc import Sequence
from dataclasses import dataclass

from holddown.base.errors import EngineError, UsageError
from holddown.base.evidence import Fact, Unknown
from holddown.facts.engine import Engine, EngineFacts
from holddown.ports import EngineProbe, Engines, Progress
from holddown.tables.load import recorded_engine, recorded_engines


@dataclass(frozen=True, slots=True)
class EngineState:
    """One environment. trouble: empty when it can be used, else what is wrong with it."""

    engine: Engine
    device: Fact[str]
    torch_version: Fact[str]
    flags: int
    architectures: int
    trouble: str


@dataclass(frozen=True, slots=True)
class EngineList:
    engines: tuple[EngineState, ...]


def state_of(engine: Engine, probe: EngineProbe, progress: Progress) -> EngineState:
    """How an environment is now. One that cannot be asked has trouble; it is no obstacle to the others."""
    try:
        facts = probe.facts(engine, progress)
    except EngineError as error:
        nothing = Unknown(error.what)
        return EngineState(engine, nothing, nothing, 0, 0, _sentence(error))
    return EngineState(
        engine, facts.device, facts.torch_version, len(facts.flags), len(facts.architectures), _import_trouble(facts)
    )


def listing(engines: Engines, probe: EngineProbe, progress: Progress) -> EngineList:
    return EngineList(tuple(state_of(engine, probe, progress) for engine in engines.all()))


def add(
    engines: Engines, probe: EngineProbe, name: str | None, python: str, pythonpath: str, progress: Progress
) -> EngineState:
    """Registers it and asks it at once, so that a broken one is known before it is needed. Raises: EngineError."""
    return state_of(engines.add(name, python, pythonpath), probe, progress)


def install(engines: Engines, probe: EngineProbe, ref: str, progress: Progress) -> EngineState:
    """ref: `NAME` or `NAME@VERSION`. Raises: UsageError, EngineError."""
    name, _, version = ref.partition("@")
    return state_of(engines.install(name, version or None, progress), probe, progress)


def find(engines: Engines, ref: str) -> Engine:
    """The one environment that `NAME@VERSION`, or `NAME` where it has one version, means. Raises: UsageError."""
    known = engines.all()
    matches = [engine for engine in known if ref in (engine.ref, engine.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"{ref} has {len(matches)} versions; say which",
            code="engine.ambiguous",
            seen=", ".join(engine.ref for engine in matches),
        )
    raise UsageError(
        f"there is no engine {ref}",
        code="engine.unknown",
        seen="registered: " + (", ".join(engine.ref for engine in known) or "none"),
        do="holddown engine list",
    )


def known(engines: Engines, probe: EngineProbe, ref: str) -> EngineFacts:
    """What is known of a build without importing it: installed, as its files are now; else as it was recorded.

    ref: `NAME`, of which the newest counts, or `NAME@VERSION`; empty for the newest that is installed.
    Raises: UsageError, EngineError.
    """
    installed = [engine for engine in engines.all() if ref in ("", engine.name, engine.ref)]
    if installed:
        return probe.read(installed[-1])
    recorded = [engine for engine in recorded_engines() if ref in ("", engine.name, engine.ref)]
    if not recorded:
        _, facts = recorded_engine(*_named(ref))  # says which there are
        return facts
    return recorded_engine(recorded[-1].name, recorded[-1].version)[1]


def _named(ref: str) -> tuple[str, str]:
    name, _, version = ref.partition("@")
    return name, version


def remove(engines: Engines, ref: str, in_use: Sequence[str]) -> Engine:
    """in_use: names of the deployments that run on it now. Raises: UsageError, EngineError."""
    engine = find(engines, ref)
    if in_use:
        raise UsageError(
            f"{engine.ref} is in use",
            code="usage.engine-in-use",
            seen="deployments: " + ", ".join(in_use),
            do="; ".join(f"holddown down {name}" for name in in_use),
        )
    return engines.remove(engine.ref)


def _import_trouble(facts: EngineFacts) -> str:
    return f"import error: {facts.import_error}" if facts.import_error else ""


def _sentence(error: EngineError) -> str:
    return f"{error.what} ({error.seen})" if error.seen else error.what
