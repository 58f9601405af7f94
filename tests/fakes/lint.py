"""Commands and builds for the tests of `lint`."""

from dataclasses import replace

from fakes.engine import an_engine, engine_facts
from holddown.base.evidence import from_file
from holddown.facts.command.launch import LaunchCommand, Word, launch_command
from holddown.facts.command.read import read_commands
from holddown.facts.engine import EngineFacts, EnvironmentVariable, Flag, Takes
from holddown.lint.case import Case, case_of
from holddown.lint.judge import Ground, Judged, judged
from holddown.plan.fabric import usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate
from holddown.tables.load import command_tables, recorded_engine

GRAMMARS = [table.grammar for table in command_tables()]

FLAGS = (
    Flag("--model", takes=Takes.TEXT),
    Flag("--max-model-len", takes=Takes.SIZE, default="None"),
    Flag("--max-num-seqs", takes=Takes.INTEGER, default="256"),
    Flag("--max-num-batched-tokens", takes=Takes.SIZE),
    Flag("--tensor-parallel-size", takes=Takes.INTEGER, default="1", aliases=("-tp",)),
    Flag("--decode-context-parallel-size", takes=Takes.INTEGER, default="1", aliases=("-dcp",)),
    Flag("--gpu-memory-utilization", takes=Takes.NUMBER, default="0.9"),
    Flag("--enforce-eager", ("true", "false"), Takes.NOTHING, default="false"),
    Flag("--trust-remote-code", ("true",), Takes.NOTHING, default="false"),
    Flag("--enable-log-requests", ("true", "false"), Takes.NOTHING, default="false"),
    Flag("--served-model-name", takes=Takes.TEXT, several=True),
    Flag("--speculative-config", takes=Takes.JSON),
    Flag("--dtype", ("auto", "half", "bfloat16"), Takes.TEXT, default="auto"),
    Flag("--optimization-level", takes=Takes.INTEGER, default="2"),
    Flag("--host", takes=Takes.TEXT),
    Flag("--port", takes=Takes.INTEGER, default="8000"),
    Flag("--api-key", takes=Takes.TEXT, several=True),
    Flag("--rope-note", takes=Takes.TEXT, optional=True),
    Flag("--tool-call-parser", takes=Takes.TEXT),
    Flag("--enable-auto-tool-choice", ("true", "false"), Takes.NOTHING, default="false"),
    Flag("--attention-config", takes=Takes.JSON, aliases=("-ac",)),
    Flag("--attention-backend", takes=Takes.TEXT),
    Flag("--old-way", takes=Takes.TEXT, deprecated="--old-way is deprecated and will be removed."),
)


def build(version: str = "0.32.0") -> EngineFacts:
    """A vLLM that takes FLAGS and reads three variables."""
    names = ("VLLM_CACHE_ROOT", "VLLM_LOGGING_LEVEL", "VLLM_API_KEY")
    environment = tuple(EnvironmentVariable(name) for name in names)
    return replace(engine_facts("cuda", version, FLAGS), environment=environment)


def command(text: str) -> LaunchCommand:
    """The one command of a shell line."""
    found = read_commands(text, GRAMMARS)
    assert len(found) == 1
    return found[0]


def site(named: str) -> Site:
    """`8x H200 SXM`, connected as they usually are."""
    count, row = named_gpus(named)
    fabric = usual_fabric(row)
    return Site(named_machine(count, row, fabric), {}, from_file(fabric, "tables"), here=False)


def words(*texts: str) -> LaunchCommand:
    """The command of these words, as they come after `--`."""
    found = launch_command([Word(text) for text in texts], GRAMMARS)
    assert found is not None
    return found


def case(text: str, version: str = "0.32.0") -> Case:
    return case_of(command(text), build(version))


def judge(text: str, version: str = "0.32.0", ground: Ground | None = None) -> Judged:
    """By the made-up build."""
    return judged(command(text), Candidate(an_engine(version=version), build(version)), ground or Ground())


def judge_recorded(text: str, version: str, ground: Ground | None = None, kind: str = "vllm") -> Judged:
    """By a release on record."""
    return judged(command(text), Candidate(*recorded_engine(kind, version)), ground or Ground())


def codes(judgement: Judged) -> dict[str, str]:
    """Code -> severity, of what is said of the command itself."""
    said = {each.code: str(each.severity) for each in judgement.findings if not each.code.startswith("lint.")}
    said.pop("risk.open", None)
    return said
