"""A launch command as somebody wrote it, and where the engine's own words begin in it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Grammar:
    """How one engine's server is called.

    commands: first words of a command line, `vllm serve`. modules: what `python -m` runs. images: parts of the names of
    container images whose entry point is the server. model_flags: without dashes. model_positional: the first word
    that no option takes is the model. prefixes: of the environment variables that are the engine's. old_prefix: one
    that is read as the first of them, empty for none. underscores: `_` and `-` are one in names. abbreviations: any
    beginning of a name that fits one option only. equals: `--name=value`. dotted: `--json-option.key value`. levels:
    `-O3` is this option with 3. config_flag: names a YAML file of options. key_variable: gives the API key without
    showing it to `ps`.
    """

    kind: str
    title: str
    commands: tuple[str, ...]
    modules: tuple[str, ...]
    images: tuple[str, ...]
    model_flags: tuple[str, ...]
    model_positional: bool
    prefixes: tuple[str, ...]
    old_prefix: str
    underscores: bool
    abbreviations: bool
    equals: bool
    dotted: bool
    levels: str
    config_flag: str
    key_variable: str
    source: str


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command. text: as the program gets it. raw: as it was written, empty where it was not in a shell's
    text. line: in its file, from 1; 0 where it came as an argument. certain: False where it holds what only the shell
    that runs it will know. file: where that is another than the command's."""

    text: str
    raw: str = ""
    line: int = 0
    certain: bool = True
    file: str = ""

    @property
    def short(self) -> str:
        """The text, cut where it is long."""
        return self.text if len(self.text) < 60 else self.text[:57] + "..."


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that is set for the engine. at: which words of the command set it; None where a line of
    its own does."""

    name: str
    value: Word
    at: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """What the engine runs in. how: `docker run`, `compose`, `kubernetes`. shared_memory: `host`, a size, or empty
    where nothing is said."""

    how: str
    image: str
    privileged: bool = False
    shared_memory: str = ""

    @property
    def version(self) -> str:
        """What the image's tag says: `vllm/vllm-openai:v0.16.0-cu129` -> `0.16.0`; empty for `latest`."""
        found = re.search(r":v?(\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)", self.image.rpartition("/")[2])
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """words: the whole command. begin: index of the engine's first argument. program: index of the word that names it.
    where: its file, and its service where there are several; empty for a command line."""

    kind: str
    words: tuple[Word, ...]
    program: int
    begin: int
    variables: tuple[Variable, ...] = ()
    container: Container | None = None
    where: str = ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[self.begin :]

    def variable(self, name: str) -> Variable | None:
        """The last of that name: it is the one that counts."""
        return next((each for each in reversed(self.variables) if each.name == name), None)


_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_CONTAINER_TOOLS = ("docker", "podman", "nerdctl")
_NO_VALUE = frozenset({
    "-d", "--detach", "-i", "--interactive", "-t", "--tty", "--rm", "--privileged", "--init", "-P", "--publish-all",
    "--read-only", "--oom-kill-disable", "--no-healthcheck", "-q", "--quiet", "--sig-proxy", "--replace",
})  # fmt: skip


def assigned(word: Word) -> tuple[str, Word] | None:
    """`A=B` -> its name and value."""
    match = _ASSIGNMENT.fullmatch(word.text)
    if match is None:
        return None
    raw = word.raw.partition("=")[2] if word.raw else ""
    return match[1], replace(word, text=match[2], raw=raw)


def launch_command(
    words: Sequence[Word],
    grammars: Sequence[Grammar],
    variables: Sequence[Variable] = (),
    container: Container | None = None,
    where: str = "",
) -> LaunchCommand | None:
    """The engine's command among these words, whatever stands before it (`sudo`, `numactl`, `docker run ...`); None
    where none is. variables: set by lines before it. container: what its manifest says."""
    everything = tuple(words)
    box = _boxed(everything)
    if container is None and box is not None:
        container = box.container
    for at in range(len(everything)):
        for grammar in grammars:
            length = _program(everything, at, grammar)
            if length:
                return _made(everything, (at, at + length), grammar, variables, container, where)
    entry = (box.image, box.image + 1) if box else (0, 0)
    for grammar in grammars:
        if container is not None and any(part in container.image for part in grammar.images):
            return _made(everything, entry, grammar, variables, container, where)
    return None


def bare_command(words: Sequence[Word], kind: str, where: str = "") -> LaunchCommand:
    """Options alone, of an engine that is named elsewhere."""
    return LaunchCommand(kind, tuple(words), 0, 0, (), None, where)


def _made(
    words: tuple[Word, ...],
    at: tuple[int, int],
    grammar: Grammar,
    variables: Sequence[Variable],
    container: Container | None,
    where: str,
) -> LaunchCommand:
    own = tuple(_set_before(words[: at[0]]))
    return LaunchCommand(grammar.kind, words, at[0], at[1], (*variables, *own), container, where)


def _program(words: Sequence[Word], at: int, grammar: Grammar) -> int:
    """How many words from there name this engine's server; 0 where they do not."""
    name = words[at].text.rpartition("/")[2]
    for command in grammar.commands:
        first, *rest = command.split()
        if name == first and [each.text for each in words[at + 1 : at + 1 + len(rest)]] == rest:
            return 1 + len(rest)
    if not _PYTHON.fullmatch(words[at].text):
        return 0
    for index in range(at + 1, len(words) - 1):
        if words[index].text == "-m":
            return index + 2 - at if words[index + 1].text in grammar.modules else 0
        if not words[index].text.startswith("-"):
            return 0
    return 0


def _set_before(words: Sequence[Word]) -> list[Variable]:
    """`A=B`, `-e A=B` and `--env=A=B` before the engine's own words."""
    found = []
    for index, word in enumerate(words):
        before = words[index - 1].text if index else ""
        if word.text.startswith(("--env=", "-e=")):
            _, _, text = word.text.partition("=")
            pair, start = assigned(Word(text, "", word.line, word.certain)), index
        else:
            pair, start = assigned(word), index - (before in ("-e", "--env"))
        if pair is not None and not word.text.startswith("-"):
            found.append(Variable(*pair, at=(start, index + 1)))
        elif pair is not None:
            found.append(Variable(*pair, at=(index, index + 1)))
    return found


@dataclass(frozen=True, slots=True)
class _Box:
    container: Container
    image: int


def _boxed(words: Sequence[Word]) -> _Box | None:
    """What `docker run` says of its container."""
    names = [word.text.rpartition("/")[2] for word in words]
    start = next(
        (at for at, name in enumerate(names[:-1]) if name in _CONTAINER_TOOLS and names[at + 1] == "run"), None
    )
    if start is None:
        return None
    privileged, shared, index = False, "", start + 2
    while index < len(words) and words[index].text.startswith("-"):
        name, equals, value = words[index].text.partition("=")
        takes = not equals and name not in _NO_VALUE and not re.fullmatch(r"-[ditqP]+", name)
        if takes and index + 1 < len(words):
            value = words[index + 1].text
        privileged = privileged or (name == "--privileged" and value != "false")
        shared = value if name == "--shm-size" or (name == "--ipc" and value == "host") else shared
        index += 2 if takes else 1
    if index >= len(words):
        return None
    return _Box(Container("docker run", words[index].text, privileged, shared), index)
