"""Verdicts of `holddown lint` over published launch commands, one row a command and one column a recorded release.

    python bench/lint_table.py launch_commands.md [--details]

The file is Markdown: `### N. ENGINE ... | MODEL | MACHINE` with a fenced block of commands under it. Many are not
whole: alternatives in braces, placeholders in angle brackets, remarks in parentheses. `literal` says what is taken of
them, and what is not.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holddown.base.errors import UsageError
from holddown.facts.command.launch import LaunchCommand, Word, bare_command
from holddown.facts.command.read import read_commands
from holddown.facts.command.shell import statements
from holddown.lint.judge import Ground, judged
from holddown.plan.wishes import Candidate
from holddown.tables.load import command_tables, recorded_engine, recorded_versions

_HEAD = re.compile(r"^### (\d+)\. (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_KINDS = (("sglang", "sglang"), ("llama", "llamacpp"), ("vllm", "vllm"))


@dataclass(frozen=True)
class Entry:
    """number, title: of its heading. kind: of engine. commands: each with the text that was read."""

    number: int
    title: str
    kind: str
    commands: tuple[LaunchCommand, ...]
    left_out: str


def entries(text: str) -> Iterator[Entry]:
    heads = list(_HEAD.finditer(text))
    for at, head in enumerate(heads):
        end = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        block = _BLOCK.search(text, head.end(), end)
        title = head[2]
        kind = next(kind for word, kind in _KINDS if word in title.lower())
        commands, left_out = _commands(block[1] if block else "", kind)
        yield Entry(int(head[1]), title, kind, commands, left_out)


def _commands(block: str, kind: str) -> tuple[tuple[LaunchCommand, ...], str]:
    text = literal(block)
    grammars = [table.grammar for table in command_tables()]
    found = read_commands(text, grammars)
    if not found and re.match(r"(?:env [^\n]*)?\s*--", text):
        words = [word for words in statements(text) for word in words]
        first = next(at for at, word in enumerate(words) if word.text.startswith("--"))
        options = words[first:]
        model = [] if any(word.text.startswith("--model") for word in options) else [Word("--model"), Word("MODEL")]
        found = [bare_command([*model, *options], kind)]
    return tuple(found), "" if found else block.strip().splitlines()[0][:80]


def literal(block: str) -> str:
    """The block as a shell would read it. Lines of variables alone go before the command under them; the first of
    alternatives is taken, what may be left out is taken, remarks in parentheses are dropped, and so are `...`."""
    text = re.sub(r"^env (.+)\n(?=\S)", _joined, block, flags=re.MULTILINE)
    text = re.sub(r"\s\((?:[^()']|\([^()]*\))*\)", " ", text)
    text = re.sub(r",\s*\.\.\.\}", "}", text)
    text = re.sub(r" for [^{}|]*(?=[|}])| plus [^-]*$", "", text)
    text = re.sub(r"(?<=\s)\.\.\.(?=\s|$)", "", text)
    text = re.sub(r"\{(?!\")([^{}|'\"]*)\|[^{}'\"]*\}", lambda match: match[1].strip(), text)
    text = re.sub(r"\{(\$?\w[^{}|'\"]*)\s*for[^{}'\"]*\}", r"\1", text)
    text = re.sub(r"\[(--[\w -]+)\]", r"\1", text)
    text = re.sub(r"<[^<>\n]*>", "$N", text)
    text = re.sub(r"^(?:latency|throughput):\s*", "", text, flags=re.MULTILINE)
    return text.strip() + "\n"


def _joined(match: re.Match[str]) -> str:
    variables = " ".join(word for word in match[1].split() if "=" in word)
    return f"env {variables} "


def verdict(command: LaunchCommand, version: str) -> tuple[str, tuple[str, ...]]:
    """`ok`, `ok (2)` with warnings, or `NO`, and what was said."""
    candidate = Candidate(*recorded_engine(command.kind, version))
    answer = judged(command, candidate, Ground())
    said = tuple(
        f"{each.severity}[{each.code}] {each.what} -> {each.do}"
        for each in answer.findings
        if not each.code.startswith(("lint.", "risk.", "flag.default", "flag.abbreviated"))
    )
    return "ok" if answer.starts else "NO", said


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    write = sys.stdout.write
    for kind in ("vllm", "sglang", "llamacpp"):
        versions = recorded_versions(kind)
        write(f"\n{kind:52}{''.join(f'{version:>10}' for version in versions)}\n")
        for entry in (each for each in entries(text) if each.kind == kind):
            if not entry.commands:
                write(f"{entry.number:4} {entry.title[:46]:47}  left out: {entry.left_out}\n")
            for command in entry.commands:
                answers = [verdict(command, version) for version in versions]
                write(f"{entry.number:4} {entry.title[:46]:47}{''.join(f'{word:>10}' for word, _ in answers)}\n")
                if "--details" in sys.argv:
                    _details(versions, [said for _, said in answers])


def _details(versions: tuple[str, ...], answers: list[tuple[str, ...]]) -> None:
    by_text: dict[str, list[str]] = {}
    for version, said in zip(versions, answers, strict=True):
        for each in said:
            by_text.setdefault(each.replace(version, "X"), []).append(version)
    for each, where in by_text.items():
        sys.stdout.write(f"       {' '.join(where)}: {each}\n")


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(f"{error.what}: {error.seen}")
