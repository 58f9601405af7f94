"""`holddown lint`."""

import sys
from pathlib import Path
from typing import Any

import click

from holddown import wiring
from holddown.app.lint import Asked, Linted, lint
from holddown.base.errors import UsageError
from holddown.cli.output import answer, bold, findings_text, json_option
from holddown.cli.site import site_of
from holddown.explain.drawing import wrapped
from holddown.explain.lint_text import corrected_text, releases_text, said, unjudged_text, verdict_text
from holddown.facts.command.launch import LaunchCommand, Word, bare_command, launch_command
from holddown.facts.command.read import read_commands
from holddown.lint.judge import Judged
from holddown.plan.site import Site
from holddown.tables.load import command_tables

_LARGEST_BYTES = 4 * 1024**2


@click.command(
    short_help="What is wrong with a launch command.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, metavar="[--] COMMAND...")
@click.option("--engine", default="", metavar="NAME[@VERSION]", help="Which build; also one not installed here.")
@click.option("--file", "file", metavar="FILE", help="Read a script, compose file, manifest or unit; - for stdin.")
@click.option("--node", "node_file", metavar="FILE", help="For the machine that `node --json` wrote down.")
@click.option("--gpus", metavar="GPUS", help="For these, `8x H200 SXM`.")
@click.option("--fabric", metavar="NAME", help="What connects them: nvlink, pcie-switch, pcie-dual-socket, ...")
@click.option("--model", default="", metavar="PATH", help="The checkpoint, where the command's is not here.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **words: Any) -> None:
    """What is wrong with a launch command of vLLM, SGLang or llama.cpp, for a build, a machine and a checkpoint: before
    anything is loaded. Nothing is started or imported.

    \b
    holddown lint -- vllm serve moonshotai/Kimi-K2.5 --tensor-parallel-size 8 --disable-log-requests
    holddown lint --engine vllm@0.19.1 --gpus '8x H200 SXM' 'VLLM_USE_V1=1 vllm serve ... \\ ...'
    holddown lint --file compose.yaml

    COMMAND is words after --, or one quoted shell line. Exit code 0 when nothing known forbids it, also with warnings;
    1 when it would not start, or not as meant.
    """
    commands = _commands(words["words"], words["file"], words["engine"])
    site = _site(words["node_file"], words["gpus"], words["fabric"])
    model = wiring.checkpoint_path(words["model"]) if words["model"] else ""
    asked = Asked(words["engine"], model, site)
    found = lint(commands, asked, wiring.lint_doors())
    document = {"commands": [_document(each) for each in found]} if words["as_json"] else {}
    answer(document, "\n\n".join(lint_text(each) for each in found), as_json=words["as_json"])
    if not all(each.starts for each in found):
        ctx.exit(1)


def _commands(words: tuple[str, ...], file: str | None, engine: str) -> list[LaunchCommand]:
    """Raises: UsageError where there is no launch command in what was given."""
    grammars = [table.grammar for table in command_tables()]
    if file is None and words == ("-",):
        file, words = "-", ()
    if file is not None:
        if words:
            raise UsageError("--file and a command were both given", code="usage.lint", do="leave one out")
        name = "stdin" if file == "-" else file
        found = read_commands(_contents(file), grammars, name)
    elif len(words) == 1:
        found = read_commands(words[0], grammars)
    else:
        one = launch_command([Word(word) for word in words], grammars)
        found = [one] if one is not None else []
    if not found and words and words[0].startswith("-"):
        found = _options_alone(words, engine)
    if found:
        return found
    starts = ", ".join(
        name for each in grammars for name in (*each.commands, *(f"python -m {m}" for m in each.modules))
    )
    what = f"there is no launch command in {file}" if file else "this is no launch command of an engine that is known"
    if not words and not file:
        what = "no command was given"
    raise UsageError(
        what, code="lint.no-command", seen=f"known are {starts}", do="holddown lint -- vllm serve MODEL ..."
    )


def _options_alone(words: tuple[str, ...], engine: str) -> list[LaunchCommand]:
    kinds = [table.grammar.kind for table in command_tables() if engine.partition("@")[0] == table.grammar.kind]
    return [bare_command([Word(word) for word in words], kinds[0])] if kinds else []


def _contents(file: str) -> str:
    try:
        data = sys.stdin.buffer.read(_LARGEST_BYTES + 1) if file == "-" else _bytes(Path(file))
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} cannot be read", code="usage.lint-file", seen=str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text", code="usage.lint-file", seen=str(error)[:200]) from error
    if len(data) > _LARGEST_BYTES:
        raise UsageError(f"{file} is too large for a launch command", code="usage.lint-file", seen="more than 4 MiB")
    return text


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_BYTES + 1)


def _site(node_file: str | None, gpus: str | None, fabric: str | None) -> Site | None:
    """None where no machine is named and this one has no GPU."""
    site, _ = site_of(node_file, gpus, fabric)
    return site if site.machine.gpus else None


def lint_text(one: Linted) -> str:
    """One command's answer for a person."""
    blocks: list[str] = []
    for at, judgement in enumerate(one.judged):
        before = one.judged[at - 1] if at else None
        head = bold(verdict_text(judgement), "green" if judgement.starts else "red")
        blocks.append("\n".join([f"{one.where}: {head}" if one.where else head, *_basis(one, judgement)]))
        blocks.append(findings_text(said(judgement, before)))
    last = one.judged[-1]
    blocks.append("\n".join(f"differs: {each}" for each in one.differs))
    blocks.append(corrected_text(last, lambda text: bold(text, "green")))
    tail = (unjudged_text(last.findings), releases_text(one.kind, one.releases))
    blocks.append("\n".join(filter(None, tail)))
    return "\n\n".join(filter(None, blocks))


def _basis(one: Linted, judgement: Judged) -> list[str]:
    return wrapped("  rests on ", one.rests_on, hang=4) if judgement is one.judged[0] else []


def _document(one: Linted) -> dict[str, Any]:
    from holddown.base.codec import dump

    judgements = []
    for each in one.judged:
        judgements.append(
            {
                "build": each.build,
                "starts": each.starts,
                "findings": [dump(finding) for finding in each.findings],
                "corrected": each.corrected.line,
                "changed": each.corrected.changed,
                "mended": each.mended,
            }
        )
    return {
        "where": one.where,
        "engine": one.kind,
        "starts": one.starts,
        "rests_on": one.rests_on,
        "judged": judgements,
        "differs": list(one.differs),
        "releases": [{"version": each.version, "against": list(each.against)} for each in one.releases],
    }
