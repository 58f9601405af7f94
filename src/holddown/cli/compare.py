"""`holddown compare A B ...`."""

from pathlib import Path

import click

from holddown import wiring
from holddown.app.compare import Compared, Doors, Pair, compare_all
from holddown.base.errors import UsageError
from holddown.cli.output import answer, json_option
from holddown.explain.compare_text import changes_lines, foretold_lines, loads_lines
from holddown.explain.report.told import date_text


@click.command(name="compare")
@click.argument("words", metavar="A B ...", nargs=-1, required=True)
@json_option
def command(words: tuple[str, ...], as_json: bool) -> None:
    """How B, and each further one, differs from A: in what it ran with and how fast it was, and how sure that is.

    Each is a deployment's name or id (with its newest runs), a run's id, or a file: what bench, verify or status prints
    with --json, or the results of `vllm bench serve` or guidellm.
    """
    if len(words) < 2:
        raise UsageError("compare takes two or more", code="usage.compare", seen=words[0], do="holddown compare A B")
    compared = compare_all(words, Doors(wiring.existing_store(), _read))
    answer(compared, compared_text(compared), as_json=as_json)


def compared_text(compared: Compared) -> str:
    return "\n\n".join(_pair_text(pair) for pair in compared.pairs)


def _pair_text(pair: Pair) -> str:
    heads = [f"{name}  {_head(side.word, side.bench, side.at)}" for name, side in (("A", pair.a), ("B", pair.b))]
    blocks = [heads, list(changes_lines(pair.changes, pair.unknown)), list(loads_lines(pair.loads))]
    blocks.append(list(foretold_lines((("A", pair.a.foretold), ("B", pair.b.foretold)))))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(word: str, bench: str, at: float) -> str:
    run = f"run {bench}" if bench else "no load run: what was measured before its release"
    return f"{word}: {run}" + (f", {date_text(at)}" if at else "")


def _read(path: str) -> str | None:
    """Raises: UsageError for a file that cannot be read as text."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", code="compare.file", seen=str(error)) from error
