"""Writes docs/reference from the code: `python docs/generate.py`. With --check it writes nothing and exits 1 when a
page is not what the code says now."""

import ast
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import click
from said import GAP, SOURCE, Reader, Said, Shape

from holddown.base import errors, evidence, finding
from holddown.cli.main import VERBS, program
from holddown.edges.store import MIGRATIONS
from holddown.launch import lifecycle, phases
from holddown.measure import metrics
from holddown.plan import plan
from holddown.plan.parallelism import SIZE_SETTINGS
from holddown.plan.planners import PLANNERS
from holddown.remember import record
from holddown.tables.failure import Failure, Form
from holddown.tables.load import engine_tables, fabric_rows, failures
from holddown.verify import expect, judge, quality, suite, verdict

PAGES = Path(__file__).resolve().parent / "reference"
_NOTE = "<!-- Written by docs/generate.py from the code: do not edit. -->\n"
_FINDING = Shape("Finding", ("code", "severity", "subject", "what", "seen", "do"))
_KINDS = {"integer range": "N", "integer": "N"}


def _page(title: str, *blocks: str) -> str:
    return "\n\n".join([_NOTE + f"# {title}", *(block.strip("\n") for block in blocks if block)]) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = [*head]
    lines = [names, ["---"] * len(names), *([_cell(text) for text in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _doc(thing: object) -> str:
    """The docstring; none where a dataclass made one of its fields."""
    text = inspect.getdoc(thing) or ""
    return "" if isinstance(thing, type) and text.startswith(f"{thing.__name__}(") else text


# --- the command line -----------------------------------------------------------------------------------------


def cli_page() -> str:
    blocks = [
        _paragraphs(program.help or ""),
        "A process that a signal ended gives no code of ours; Ctrl-C gives 130, as in every shell.",
        _table(("obstacle", "exit code", "when"), [*_exit_rows(errors.HolddownError)]),
        "Every verb takes `-h`. `holddown --version` gives the version.",
    ]
    for verb in VERBS:
        command = program.get_command(click.Context(program), verb)
        assert command is not None
        blocks += _command_blocks(command, f"holddown {verb}")
    return _page("Command line", *blocks)


def _exit_rows(kind: type[errors.HolddownError]) -> Iterator[tuple[str, str, str]]:
    for each in kind.__subclasses__():
        says = _doc(each) if each.__doc__ else _line_in_tree(each.__name__)
        yield _code(each.__name__), str(each.exit_code), says
        yield from _exit_rows(each)


def _line_in_tree(name: str) -> str:
    """A class without a docstring is explained in the tree that the module draws."""
    line = next(line for line in _doc(errors).splitlines() if f" {name} " in line)
    return re.sub(r".*\d", "", line).strip()


def _command_blocks(command: click.Command, path: str) -> Iterator[str]:
    yield f"## `{path}`"
    if isinstance(command, click.Group):
        yield _paragraphs(command.help or "")
        for name, each in ((name, each) for name, each in command.commands.items() if not each.hidden):
            yield from (block.replace("## ", "### ", 1) for block in _command_blocks(each, f"{path} {name}"))
        return
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join(["[OPTIONS]", *(_argument(each) for each in arguments)])
    yield f"```\n{path} {usage}\n```"
    yield _paragraphs(command.help or "")
    options = [each for each in command.params if isinstance(each, click.Option)]
    yield _table(("option", "what it does"), ((_option(each), _option_help(each)) for each in options))


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _option(option: click.Option) -> str:
    names = ", ".join(_code(name) for name in option.opts)
    names += "".join(f" / {_code(name)}" for name in option.secondary_opts)
    if option.is_flag:
        return names
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    kind = option.metavar or _KINDS.get(option.type.name, option.type.name.upper())
    return f"{names} {_code(' or '.join(map(str, choices)) or kind)}"


def _option_help(option: click.Option) -> str:
    text = option.help or ""
    if option.show_default and option.default is not None:
        text += f" Default: {option.default}."
    return text + (" May be given again." if option.multiple else "")


def _paragraphs(text: str) -> str:
    """Click's help: a paragraph that begins with \\b keeps its lines."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip("\n ")):
        lines = [line.strip() for line in block.strip().splitlines()]
        kept = lines[0] == "\b"
        blocks.append("```\n" + "\n".join(lines[1:]) + "\n```" if kept else " ".join(lines))
    return "\n\n".join(blocks)


# --- what can be said -----------------------------------------------------------------------------------------


def findings_page(reader: Reader) -> str:
    said = reader.all(_FINDING)
    return _page(
        "Findings",
        _doc(finding),
        _doc(finding.Finding).split("\n\n")[0] + " A code is stable; a sentence may be reworded. "
        f"`{GAP}` stands for a figure or a name.",
        _doc(finding.Severity),
        "## Of checkpoints, plans, machines, answers and deployments",
        _said_table(said),
        "## Of an engine's log",
        "The cause of an engine's end, as far as its log tells, each with what was printed in a log of our tests.",
        _table(("code", "what", "do", "at"), (_signature(row) for row in failures())),
    )


def _signature(row: Failure) -> tuple[str, str, str, str]:
    causes = dict.fromkeys(form.cause or row.cause for form in row.forms)
    remedies = dict.fromkeys(_remedy(row, form) for form in row.forms)
    return _code(f"engine.{row.id}"), _gaps(causes), _gaps(remedies), row.stage


def _remedy(row: Failure, form: Form) -> str:
    edits = (f"`--set {edit}`" for edit in form.edits or row.edits)
    return "; ".join(filter(None, (*edits, form.remedy or row.remedy)))


def _gaps(texts: Iterable[str]) -> str:
    return " *or* ".join(dict.fromkeys(re.sub(r"{\w+}", GAP, text) for text in texts))


def _said_table(said: Iterable[Said]) -> str:
    by_code: dict[str, list[Said]] = {}
    for one in said:
        by_code.setdefault(one.code, []).append(one)
    rows = []
    for code, each in by_code.items():
        grades = dict.fromkeys(grade for one in each for grade in one.severity.split(" or "))
        rows.append((_code(code), ", ".join(grades), _sentences(each), each[0].stage))
    return _table(("code", "severity", "what", "stage"), rows)


def _sentences(said: Iterable[Said]) -> str:
    whats = [*dict.fromkeys(one.what for one in said if one.what.strip(f" {GAP}"))]
    return " *or* ".join(whats)


def errors_page(reader: Reader) -> str:
    rows = []
    for kind, exit_code, _ in _exit_rows(errors.HolddownError):
        said = reader.all(Shape(kind.strip("`"), ("what",)))
        for code in dict.fromkeys(one.code for one in said):
            rows.append((_code(code), kind, exit_code, _sentences(one for one in said if one.code == code)))
    return _page(
        "Errors",
        "An answer is a [finding](findings.md); an obstacle is an error: on stderr as `error[code]: what`, `seen`, "
        '`do`, and with `--json` also on stdout as `{"error": {code, what, seen, do}}`.',
        _table(("code", "kind", "exit code", "what"), sorted(rows)),
    )


# --- settings -------------------------------------------------------------------------------------------------


def settings_page() -> str:
    blocks = [
        "`holddown up --set NAME=VALUE` takes every option of the engine that is installed, by its long name without "
        "dashes; `--set NAME` alone turns a switch on; a name in capitals is an environment variable for the engine. "
        "`holddown explain NAME` prints what a deployment was given, each with its because.",
        "## Where a setting comes from",
        _doc(evidence.SourceKind) + " " + ", ".join(_code(kind) for kind in evidence.SourceKind) + ".",
        "## What holddown decides by itself",
        _table(("setting", "because"), _decided()),
        *(_own_words(kind) for kind in PLANNERS if (SOURCE / "plan" / f"{kind}.py").exists()),
        "## Environment variables that it gives to an engine",
        _table(("variable", "because"), dict(_variables()).items()),
        "## What `--set` does not take",
        "Variables whose name looks like a secret's: they are inherited from the shell, and their values not recorded.",
    ]
    for table in engine_tables():
        owned = ((_code(row.name), f"{row.instead}: {row.source}") for row in table.owned_flags)
        gone = ((_code(row.name), row.instead, row.source) for row in table.gone_flags)
        recipes = ((_code(row.name), row.version, f"{row.needs_gib} GiB", row.source) for row in table.recipes)
        blocks += [
            f"Of {table.kind}, what holddown gives to the engine itself:",
            _table(("setting", "instead"), owned),
            f"## Options that some versions of {table.kind} do not have",
            _table(("setting", "instead", "source"), gone),
        ]
        if table.recipes:
            blocks += [
                f"## What `engine install` knows of {table.kind}",
                _table(("name", "version unless another is named", "disk", "tried on"), recipes),
            ]
    return _page("Settings", *blocks)


def _own_words(kind: str) -> str:
    """Of an engine that is planned in words of its own."""
    return f"Of {kind}, in its own words:\n\n" + _table(("setting", "because"), dict(_settings_in(kind)).items())


def _decided() -> Iterator[tuple[str, str]]:
    """What is set for every engine or for vLLM; then those whose names are data."""
    for module in ("settings", "compat", "parsers"):
        yield from _settings_in(module)
    for name in SIZE_SETTINGS:
        yield _code(name), "the split that was searched out, with what it was preferred to"
    rows = {each.name: each.because for fabric in fabric_rows() for each in fabric.environment}
    yield from ((_code(name), because) for name, because in rows.items())


def _settings_in(module: str) -> Iterator[tuple[str, str]]:
    """Calls of `add(name, value, because, ...)` and `Setting(name, ...)` in a file of plan/."""
    tree = ast.parse((SOURCE / "plan" / f"{module}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("add", "Setting"):
            name, because = node.args[0], node.args[2]
            is_constant = isinstance(name, ast.Constant) or (isinstance(name, ast.Name) and name.id.isupper())
            if is_constant:
                yield _code(_because(name, tree)), _because(because, tree)


def _because(node: ast.expr, tree: ast.Module) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        given = [each for each in ast.walk(tree) if isinstance(each, ast.Assign) and each.lineno < node.lineno]
        named = [each for each in given if ast.unparse(each.targets[0]) == node.id]
        nearest = max(named, key=lambda each: each.lineno, default=None)
        if nearest is not None:
            return _because(nearest.value, tree)
    return "says which figures it rests on, of this checkpoint on this machine"


def _variables() -> Iterator[tuple[str, str]]:
    launch = SOURCE / "launch"
    for path in (launch / "environment.py", *sorted((launch / "engines").glob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id="EnvVar"), args=[ast.Constant(value=name), _, because]):
                    yield _code(str(name)), _because(because, tree)
                case ast.Call(func=ast.Name(id="SecretEnv"), args=[ast.Constant(value=name), *_]):
                    yield _code(str(name)), "the key in the file given with --api-key-file"
                case _:
                    pass


# --- records --------------------------------------------------------------------------------------------------


def records_page(reader: Reader) -> str:
    words = (plan.Plan, plan.Setting, plan.MemoryBudget, plan.Rejected, finding.Finding, verdict.Verdict)
    more = (metrics.Measurement, record.PhaseTime, lifecycle.ProcessRef, lifecycle.Exit, evidence.Source)
    blocks = [
        _doc(record),
        "`status`, `list` and `explain` with `--json` give these. An object of several possible kinds says which under "
        '`"is"`; a fact is `{"is": "Known", "value", "source"}` or `{"is": "Unknown", "why"}`.',
        "## A deployment",
        *(_class_block(kind) for kind in (record.Birth, record.Status)),
        "## What can happen to it",
        *(_class_block(kind) for kind in typing.get_args(record.Happening)),
        "## States",
        _members(lifecycle.State),
        "## Phases of a start",
        _members(phases.Phase),
        "## Checks",
        "What `--skip-check` takes, in the order in which they run.",
        _table(("check", "what it asks", "fails when"), _checks(reader)),
        "What `holddown verify` asks besides, where the model and the server claim it. *quick*: also with `--quick`. "
        "*loads*: of a server that is not ours only with `--intrusive`.",
        _table(("check", "", "what it asks", "fails when"), _suite(reader)),
        _doc(verdict.Outcome),
        "## Words in these",
        *(_class_block(kind) for kind in (*words, *more)),
        "## The store",
        "SQLite. Its schema is made by numbered migrations; `PRAGMA user_version` is the number of the last.",
        *(f"```sql\n{_dedented(sql)}\n```" for sql in MIGRATIONS),
    ]
    return _page("Records", *blocks)


def _members(kind: type[StrEnum]) -> str:
    return f"{_doc(kind)}\n\n" + ", ".join(_code(member) for member in kind) + "."


def _suite(reader: Reader) -> Iterator[tuple[str, str, str, str]]:
    """The comparison last: it needs a reference."""
    said = reader.all(Shape("failed", ("check",)))
    rows = [(each.name, each.script, each.quick, each.loads) for each in suite.ENTRIES]
    for name, script, quick, loads in (*rows, (quality.NAME, quality, False, False)):
        kind = ", ".join(word for word, holds in (("quick", quick), ("loads", loads)) if holds)
        fails = (one for one in said if one.code.startswith(f"{name}.") and not one.code.endswith(".refused"))
        yield _code(name), kind, _doc(script).split("\n\n")[0], _sentences(fails)


def _checks(reader: Reader) -> Iterator[tuple[str, str, str]]:
    said = reader.all(Shape("failed", ("check",)))
    for kind in typing.get_args(expect.Check):
        asks = _doc(kind) or _doc(getattr(judge, kind.name.replace("-", "_")))
        fails = [one for one in said if one.code.startswith(f"{kind.name}.") and not one.code.endswith(".refused")]
        yield _code(kind.name), asks, _sentences(fails or [one for one in said if one.code == f"{kind.name}.refused"])


def _class_block(kind: type) -> str:
    fields = dataclasses.fields(kind)
    table = _table(("field", "type"), ((_code(each.name), _code(_type(each.type))) for each in fields))
    return "\n\n".join(filter(None, (f"### {kind.__name__}", _doc(kind), table if fields else "")))


def _type(type_: object) -> str:
    text = type_.__name__ if isinstance(type_, type) and not typing.get_args(type_) else str(type_)
    return re.sub(r"[\w.]+\.(\w+)", r"\1", text)


def _dedented(sql: str) -> str:
    return "\n".join(line.removeprefix("    ").rstrip() for line in sql.strip("\n").splitlines()).strip()


def pages() -> dict[str, str]:
    reader = Reader()
    return {
        "cli.md": cli_page(),
        "findings.md": findings_page(reader),
        "errors.md": errors_page(reader),
        "settings.md": settings_page(),
        "records.md": records_page(reader),
    }


def main() -> None:
    written = pages()
    stale = [name for name, text in written.items() if _now(PAGES / name) != text]
    if "--check" in sys.argv:
        if stale:
            sys.exit(f"docs/reference is stale: {', '.join(stale)}; run: python docs/generate.py")
        return
    PAGES.mkdir(exist_ok=True)
    for name in stale:
        (PAGES / name).write_text(written[name], encoding="utf-8")
    sys.stdout.write(f"written: {', '.join(stale) or 'nothing, all is as the code says'}\n")


def _now(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    main()
