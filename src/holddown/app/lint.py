"""`lint`: what is wrong with launch commands, for a build, a machine and a checkpoint. Starts and imports nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holddown.base.errors import CheckpointError, EngineError, UsageError
from holddown.base.evidence import known_or
from holddown.facts.command.config_file import config_option, with_config
from holddown.facts.command.launch import LaunchCommand
from holddown.facts.engine import Engine, EngineFacts, version_key
from holddown.facts.model import Inspection, ModelFacts
from holddown.lint.case import case_of
from holddown.lint.judge import Ground, Judged, OnRelease, judged, on_releases
from holddown.lint.secrets import masked
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate
from holddown.tables.load import command_table, recorded_engine, recorded_versions


@dataclass(frozen=True, slots=True)
class Doors:
    """engines: those that are registered. read: as `ports.EngineProbe` has it: nothing of an engine is run. local:
    where what a command calls its model lies here, empty for nowhere. inspect: as `ports.Checkpoints` has it. text: of
    a file that a command names, empty where it cannot be read."""

    engines: Callable[[], Sequence[Engine]]
    read: Callable[[Engine], EngineFacts]
    local: Callable[[str], str]
    inspect: Callable[[str], Inspection]
    text: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Asked:
    """engine: `NAME` or `NAME@VERSION`, empty for the newest. model: a checkpoint in place of the command's. site: None
    where no machine with GPUs is named or here."""

    engine: str = ""
    model: str = ""
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Linted:
    """One command. title: its engine. judged: by the build, or by the nearest two where the asked version is not on
    record. rests_on: which build, and why that one. differs: what the two disagree in."""

    where: str
    kind: str
    title: str
    judged: tuple[Judged, ...]
    rests_on: str
    differs: tuple[str, ...]
    releases: tuple[OnRelease, ...]

    @property
    def starts(self) -> bool:
        """By all the builds that it was judged by."""
        return all(each.starts for each in self.judged)


@dataclass(frozen=True, slots=True)
class _Choice:
    candidates: tuple[Candidate, ...]
    rests_on: str


def lint(commands: Sequence[LaunchCommand], asked: Asked, doors: Doors) -> tuple[Linted, ...]:
    """Each command's answer. Raises: UsageError, FactError."""
    _known(commands, asked.engine, doors)
    return tuple(_linted(masked(_whole(command, doors)), asked, doors) for command in commands)


def _whole(command: LaunchCommand, doors: Doors) -> LaunchCommand:
    """With the options of the file that it names, where that is here."""
    grammar = command_table(command.kind).grammar
    named = config_option(command, grammar)
    text = doors.text(named[2]) if named is not None else ""
    return (with_config(command, grammar, text) if text else None) or command


def _linted(command: LaunchCommand, asked: Asked, doors: Doors) -> Linted:
    choice = _choose(command, asked, doors)
    ground = _ground(command, choice, asked, doors)
    found = tuple(judged(command, each, ground) for each in choice.candidates) or (judged(command, None, ground),)
    return Linted(
        where=command.where,
        kind=command.kind,
        title=command_table(command.kind).grammar.title,
        judged=found,
        rests_on=choice.rests_on,
        differs=_differences(found),
        releases=on_releases(command),
    )


# --- which build -----------------------------------------------------------------------------------------------------


def _known(commands: Sequence[LaunchCommand], wanted: str, doors: Doors) -> None:
    """Raises: UsageError where no command is of the engine that was asked for."""
    name = wanted.partition("@")[0]
    registered = doors.engines()
    kinds = {engine.kind for engine in registered if name in (engine.name, engine.kind)} | {name}
    if not wanted or any(command.kind in kinds for command in commands):
        return
    theirs = ", ".join(dict.fromkeys(command_table(command.kind).grammar.title for command in commands))
    raise UsageError(
        f"--engine {wanted} is not what the command starts",
        code="usage.engine",
        seen=f"the command is for {theirs}; registered here: {', '.join(each.ref for each in registered) or 'none'}",
        do=f"--engine {commands[0].kind}@VERSION, or leave --engine out",
    )


def _choose(command: LaunchCommand, asked: Asked, doors: Doors) -> _Choice:
    wanted = asked.engine
    name, _, version = wanted.partition("@")
    registered = [each for each in doors.engines() if each.kind == command.kind]
    if name and name != command.kind and not any(each.name == name for each in registered):
        name, version = "", ""  # of another service in the same file
    tagged = command.container.version if command.container and not name else ""
    if tagged:
        return _recorded(command.kind, tagged, f"the image is {command.container.image}" if command.container else "")
    broken = ""
    if not version or any(wanted == each.ref for each in registered):
        fitting = [
            each for each in registered if name in ("", each.name, command.kind) and version in ("", each.version)
        ]
        for engine in sorted(fitting, key=lambda each: version_key(each.version), reverse=True):
            try:
                facts = doors.read(engine)
                if wanted or not _for_other_devices(facts, asked.site):
                    return _Choice((Candidate(engine, facts),), f"{engine.ref}, as it is installed here")
            except EngineError as error:
                broken = f"; {engine.ref} cannot be read: {error.what}"
                version = version or engine.version
    versions = recorded_versions(command.kind)
    if version:
        return _recorded(command.kind, version, f"read from its published package{broken}")
    if not versions:
        return _Choice((), "no build of it is on record")
    return _recorded(command.kind, versions[-1], "the newest release on record; --engine names another")


def _for_other_devices(facts: EngineFacts, site: Site | None) -> bool:
    """A build for the CPU, and a machine with GPUs: nobody means that one who does not name it."""
    return site is not None and bool(site.machine.gpus) and known_or(facts.device, "") == "cpu"


def _recorded(kind: str, version: str, because: str) -> _Choice:
    """The release of this version, or the nearest on both sides."""
    versions = recorded_versions(kind)
    if version in versions:
        return _Choice((_candidate(kind, version),), f"{kind}@{version}: {because}")
    older = [each for each in versions if version_key(each) < version_key(version)][-1:]
    newer = [each for each in versions if version_key(each) > version_key(version)][:1]
    near = (*older, *newer)
    if not near:
        return _Choice((), "no build of it is on record")
    text = f"{kind}@{version} is not on record: judged by the nearest that are, {' and '.join(near)}"
    return _Choice(tuple(_candidate(kind, each) for each in near), text)


def _candidate(kind: str, version: str) -> Candidate:
    return Candidate(*recorded_engine(kind, version))


# --- which checkpoint ------------------------------------------------------------------------------------------------


def _ground(command: LaunchCommand, choice: _Choice, asked: Asked, doors: Doors) -> Ground:
    """Raises: CheckpointError where the user named a checkpoint that cannot be read."""
    if asked.model:
        return Ground(doors.inspect(asked.model).model, "", asked.site)
    facts = choice.candidates[-1].facts if choice.candidates else None
    word = case_of(command, facts).model
    if word is None:
        return Ground(None, "the command names none", asked.site)
    path = doors.local(word.text) if word.certain else ""
    if not path:
        return Ground(None, f"{word.text} is not here", asked.site)
    model = _inspected(path, doors)
    return Ground(model, "" if model else f"{path} holds none", asked.site)


def _inspected(path: str, doors: Doors) -> ModelFacts | None:
    """None where the command's own path holds no checkpoint: then that is said, and the rest judged."""
    try:
        return doors.inspect(path).model
    except CheckpointError:
        return None


def _differences(found: Sequence[Judged]) -> tuple[str, ...]:
    """`0.16.0 takes --disable-log-requests, 0.19.1 does not`."""
    if len(found) < 2:
        return ()
    first, second = found[0], found[-1]
    one = {each.subject: each for each in first.findings if each.blocks}
    two = {each.subject: each for each in second.findings if each.blocks}
    sides = [(subject, second, first) for subject in one if subject not in two]
    sides += [(subject, first, second) for subject in two if subject not in one]
    return tuple(
        f"{takes.build.partition('@')[2]} takes {subject}, {refuses.build.partition('@')[2]} does not"
        for subject, takes, refuses in sides
    )
