"""The words: what README and docs show can be typed, what they link to is there, what they list the code has."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from holddown.base.errors import HolddownError
from holddown.cli.main import VERBS, program
from holddown.verify.expect import CHECK_NAMES

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
PAGES = (README, REPOSITORY / "CHANGELOG.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(holddown [^`]+)`(?!`)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_END_OF_COMMAND = re.compile(r" \| | [12]?>| && |;| #|   +")


@dataclass(frozen=True)
class Command:
    """A command line of holddown in a page. whole: in a block, to be typed as it stands; else a mention."""

    page: str
    line: str
    whole: bool


def _name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def _commands() -> Iterator[Command]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in _FENCE.finditer(text):
            for line in block[2].replace("\\\n", " ").splitlines():
                typed = line.strip().removeprefix("$ ")
                if typed.startswith("holddown ") and "[OPTIONS]" not in typed:
                    yield Command(_name(page), typed, whole=True)
        for mention in _INLINE.finditer(_FENCE.sub("", text)):
            yield Command(_name(page), " ".join(mention[1].split()), whole=False)


def _words(line: str) -> list[str]:
    """Up to where the shell would begin something else, or a remark stands beside it."""
    return shlex.split(_END_OF_COMMAND.split(line, maxsplit=1)[0])[1:]


def _parse(line: str, *, whole: bool) -> None:
    """As click would, without running it. Raises: click.UsageError."""
    command: click.Command = program
    context = click.Context(program, info_name="holddown")
    words = _words(line)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"there is no {name}")
        command, context = found, click.Context(found, info_name=name, parent=context)
    if isinstance(command, click.Group):
        return  # `holddown --help`, `holddown engine`
    try:
        command.make_context(context.info_name, words)
    except click.MissingParameter:
        if whole:
            raise


@pytest.mark.parametrize("command", [*dict.fromkeys(_commands())], ids=lambda each: f"{each.page}: {each.line}"[:90])
def test_every_command_line_parses(command: Command) -> None:
    """Verbs and options that a page shows exist, with the arguments that they need."""
    _parse(command.line, whole=command.whole)


@pytest.mark.parametrize(
    "line", ["holddown lift x", "holddown up demo --nmae x", "holddown up", "holddown logs x -n some"]
)
def test_a_wrong_command_line_would_be_found(line: str) -> None:
    """The test above can fail: on a verb, an option, an argument, a value."""
    with pytest.raises(click.UsageError):
        _parse(line, whole=True)


def test_the_pages_show_commands() -> None:
    """Every verb is shown somewhere in a block: the reading of the pages works."""
    shown = {command.line.split()[1] for command in _commands() if command.whole}
    assert shown >= set(VERBS)


def test_the_readme_is_short() -> None:
    """Under 150 lines."""
    assert len(README.read_text(encoding="utf-8").splitlines()) < 150


def test_the_readme_names_every_verb() -> None:
    """Its table has each verb, and none that is not there."""
    table = re.findall(r"^\| (`[^|]*) \|", README.read_text(encoding="utf-8").replace("\\|", "/"), re.MULTILINE)
    assert {name for row in table for name in re.findall(r"`(\w+)", row)} == set(VERBS)


def test_the_readme_names_every_exit_code() -> None:
    """Those of the error tree, and yes, no, bug, and Ctrl-C."""
    codes = {0, 1, 130, HolddownError.exit_code, *(kind.exit_code for kind in HolddownError.__subclasses__())}
    text = README.read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"\*\*(\d+)\*\*", text)} == codes


def test_the_readme_shows_every_check() -> None:
    """The transcript is of the checks that run today, in their order."""
    (verified,) = re.findall(r"^  verified  (.*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(verified.split(", ")) == CHECK_NAMES


def _slugs(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_internal_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the repository, and a heading of it where it names one."""
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        target, _, heading = link.partition("#")
        there = (page.parent / target) if target else page
        assert there.is_file(), f"{_name(page)} links to {link}"
        assert not heading or heading in _slugs(there), f"{_name(page)} links to {link}"


def test_every_page_is_linked_to() -> None:
    """A page that nothing leads to is not read."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert {_name(page) for page in PAGES if page not in linked} == {"CHANGELOG.md"}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_no_page_names_the_place_it_was_written_in(page: Path) -> None:
    """Paths are a reader's, not ours: no home, checkout or scratch folder of this machine."""
    text = page.read_text(encoding="utf-8")
    homes = re.findall(r"/root/|/home/(?!you/)\w+", text)
    scratch = re.findall(r"/tmp/(?!holddown-UID|chat\.)\S+", text)
    ours = [str(folder) for folder in (REPOSITORY, Path.home()) if str(folder) in text]
    assert homes + scratch + ours == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_code_of_the_pages_is_code(page: Path) -> None:
    """Python blocks compile, and the shell reads its blocks to their end."""
    for kind, block in _FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            compile(block, _name(page), "exec")
        if kind == "sh":
            assert subprocess.run(["sh", "-n"], input=block, text=True, check=False).returncode == 0


def test_the_reference_is_what_the_code_says() -> None:
    """docs/generate.py would write the pages as they are."""
    script = REPOSITORY / "docs" / "generate.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_code_in_the_source_is_in_the_reference() -> None:
    """Read another way than the generator does: each `code="..."` that is written out."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "src").rglob("*.py"))
    codes = set(re.findall(r"\bcode=\"([a-z-]+\.[a-z-]+)\"", source))
    codes |= set(re.findall(r"\bFinding\(\s*\"([a-z-]+\.[a-z-]+)\"", source))
    pages = [REPOSITORY / "docs" / "reference" / name for name in ("findings.md", "errors.md")]
    listed = set(
        re.findall(r"^\| `([^`]+)`", "\n".join(page.read_text(encoding="utf-8") for page in pages), re.MULTILINE)
    )
    assert len(codes) > 50
    assert codes - listed == set()
