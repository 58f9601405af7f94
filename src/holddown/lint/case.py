"""One command before one build: what every rule looks at."""

from dataclasses import dataclass

from holddown.facts.command.launch import Grammar, LaunchCommand, Word
from holddown.facts.engine import EngineFacts
from holddown.lint.argv import Arguments, Given, read_arguments
from holddown.lint.options import Options
from holddown.lint.remark import Change
from holddown.tables.command import CommandTable, Roles
from holddown.tables.engine import EngineTable
from holddown.tables.load import command_table, engine_tables


@dataclass(frozen=True, slots=True)
class Case:
    """options: None where nothing is recorded of this kind of engine. engine: its table, None where there is none."""

    command: LaunchCommand
    arguments: Arguments
    options: Options | None
    table: CommandTable
    engine: EngineTable | None

    @property
    def grammar(self) -> Grammar:
        return self.table.grammar

    @property
    def roles(self) -> Roles:
        return self.table.roles

    @property
    def facts(self) -> EngineFacts | None:
        return self.options.facts if self.options else None

    @property
    def build(self) -> str:
        """`vllm 0.16.0`."""
        return f"{self.facts.kind} {self.facts.version}" if self.facts else self.grammar.title

    def role(self, names: tuple[str, ...]) -> Given | None:
        """The option that counts for a role."""
        return self.arguments.last(names)

    def count(self, names: tuple[str, ...]) -> int | None:
        """A role's whole number: 1 where the option is not given, None where it is no number or not known here."""
        given = self.role(names)
        if given is None:
            return 1
        value = given.value
        return int(value.text) if value is not None and value.certain and value.text.isdecimal() else None

    def text(self, names: tuple[str, ...]) -> str:
        """A role's value; empty where it is not given or not known here."""
        given = self.role(names)
        return given.value.text if given is not None and given.value is not None and given.value.certain else ""

    def put(self, names: tuple[str, ...], value: str) -> tuple[Change, ...]:
        """What sets an option: where it stands, or at the end. `true` and `false` turn a switch on and off."""
        given = self.role(names)
        if value == "false":
            return (Change(*given.at),) if given is not None else ()
        name = given.written if given is not None else f"--{names[0]}"
        words = (name,) if value == "true" else (name, value)
        return (Change(*given.at, words),) if given is not None else self.added(*words)

    def added(self, *words: str) -> tuple[Change, ...]:
        """What puts words at the end."""
        end = len(self.command.words)
        return (Change(end, end, words),)

    @property
    def model(self) -> Word | None:
        """What it serves, as it is named."""
        given = self.role(self.grammar.model_flags)
        if given is not None:
            return given.value
        positional = self.arguments.positional
        return positional[0][1] if self.grammar.model_positional and positional else None

    def seen_of(self, given: Given, evidence: str = "") -> str:
        """Where an option stood, and what the answer rests on."""
        return self.seen(given.line, evidence, self.command.words[given.at[0]].file)

    def seen(self, line: int, evidence: str = "", file: str = "") -> str:
        """Where in its file it stood, and what it rests on."""
        place = " ".join(filter(None, (file, f"line {line}" if line else "")))
        return "; ".join(filter(None, (place, evidence)))


def case_of(command: LaunchCommand, facts: EngineFacts | None) -> Case:
    """facts: of the build, None where nothing is known of this kind of engine."""
    table = command_table(command.kind)
    engine = next((each for each in engine_tables() if each.kind == command.kind), None)
    options = Options(facts, table.grammar, engine.twins_since if engine else "") if facts else None
    return Case(command, read_arguments(command, options, table.grammar), options, table, engine)
