"""What llama.cpp's server says of itself: `--help`, `--version` and `--list-devices` into facts.

Source: llama.cpp b11434 common/arg.cpp `common_arg::to_string` (the layout), `common_print_available_devices`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holddown.facts.engine import EnvironmentVariable, Flag, Takes

_HELP_COLUMN = 40
_NAME = re.compile(r"(-[^\s,]+)(,\s*)?")
_DEFAULT = re.compile(r"default: '?([^'\s,()]+)'?\s*[,)]")
_VARIABLE = re.compile(r"\(env: ([A-Z][A-Z0-9_]+)\)")
_ALLOWED = re.compile(r"allowed values: ([\w, ]+?)(?: \(|$)")
_DEPRECATED = re.compile(r"(?:\[?DEPRECATED|\(deprecated|argument has been removed).*", re.IGNORECASE)
_WORDS = re.compile(r"[\w.-]+(?:\s*[|,]\s*[\w.-]+)+")
_NUMBER = re.compile(r"-?\d+\.\d*")
_SWITCHED = {"enabled": "true", "disabled": "false", "true": "true", "false": "false"}
_NUMBERS = frozenset({"N", "M", "F", "P", "SEED", "INDEX", "ALPHA", "SECONDS", "FRACTION", "PORT"})
_VERSION = re.compile(
    r"^version: (?:(?P<older>\d{1,9}) \((?P<hash>\w+)\)"
    r"|(?P<name>\S+) \(build (?P<build>\d{1,9}), commit (?P<commit>\w+)\))",
    re.MULTILINE,
)
_DEVICE = re.compile(r"^\s+([A-Za-z]+)(\d*): (.+?)(?: \(\d+ MiB, \d+ MiB free\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HelpText:
    """flags: in the order of the help. environment: variables that set them."""

    flags: tuple[Flag, ...]
    environment: tuple[EnvironmentVariable, ...]


@dataclass(frozen=True, slots=True)
class BuildNumber:
    """version: `b11434`, or `0.6.0-dev` of a source without its history. commit: empty where it is not told."""

    version: str
    commit: str


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """backend: `CUDA`, `ROCm`, `Vulkan`, `MTL`, ... as llama.cpp names it."""

    backend: str
    name: str


def read_help(text: str) -> HelpText:
    """Every option that the help lists; nothing where the text is no such help."""
    flags: list[Flag] = []
    variables: dict[str, EnvironmentVariable] = {}
    for head, words in _entries(text):
        names, hint = _head(head)
        if not names:
            continue
        made = _flags(names, hint, words)
        flags += made
        for name in _VARIABLE.findall(words):
            for variable in _variables(name, made[0], twin=len(made) > 1):
                variables.setdefault(variable.name, variable)
    return HelpText(tuple(flags), tuple(variables.values()))


def read_version(text: str) -> BuildNumber | None:
    """Of `version: 0.6.0 (build 11434, commit 0123abc)`, in older builds `version: 11434 (0123abc)`; None for what
    another program says."""
    match = _VERSION.search(text)
    if match is None:
        return None
    number, commit = match["older"] or match["build"], match["hash"] or match["commit"]
    version = f"b{number}" if int(number) else match["name"]
    return BuildNumber(version, "" if commit == "unknown" else commit) if version else None


def read_devices(text: str) -> tuple[ListedDevice, ...]:
    """Those that it can offload to; none for a build for the CPU, and for one that finds no GPU."""
    _, _, listed = text.partition("Available devices:")
    return tuple(ListedDevice(match[1], match[3]) for match in _DEVICE.finditer(listed))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Each option's head, and its help as one line."""
    head, words = "", list[str]()
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("-----"):
            if head:
                yield head, " ".join(words)
            beside = len(line) > _HELP_COLUMN and line[_HELP_COLUMN - 2 : _HELP_COLUMN] == "  "
            head = line[:_HELP_COLUMN].rstrip() if beside else line.rstrip()
            words = [line[_HELP_COLUMN:].strip()] if beside else []
        elif line.startswith(" ") and head:
            words.append(line.strip())
    if head:
        yield head, " ".join(words)


_ALSO = {"on": ("enabled", "true", "1"), "off": ("disabled", "false", "0"), "auto": ("-1",)}
"""What else is read as these three. Source: b11434 common/arg.cpp is_truthy, is_falsey, is_autoy."""


def _head(text: str) -> tuple[list[str], str]:
    """`-c,    --ctx-size N` -> its names and what it wants after them."""
    names: list[str] = []
    position = 0
    while match := _NAME.match(text, position):
        names.append(match[1])
        position = match.end()
        if match[2] is None:
            break
    return names, text[position:].strip()


def _flags(names: Sequence[str], hint: str, words: str) -> list[Flag]:
    """One option, and for one with a negative form that form too."""
    deprecated = match[0].strip("[]() ") if (match := _DEPRECATED.search(_VARIABLE.sub("", words))) else ""
    default = match[1].strip('"') if (match := _DEFAULT.search(words)) else None
    default = None if default and default.startswith("--") else default  # as that other option is
    if hint:
        choices = _choices(hint, words)
        takes = Takes.TEXT if choices else _takes(hint, default)
        name, aliases = _named(names)
        return [Flag(name, choices, takes, default=default, aliases=aliases, deprecated=deprecated)]
    positive, negative = _parted(names)
    name, aliases = _named(positive)
    on = ("true", "false") if negative else ("true",)
    value = _SWITCHED.get(default or "")
    made = [Flag(name, on, Takes.NOTHING, default=value, aliases=aliases, deprecated=deprecated)]
    if negative:
        name, aliases = _named(negative)
        made.append(Flag(name, ("true",), Takes.NOTHING, aliases=aliases, deprecated=deprecated))
    return made


def _parted(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """`-kvo --kv-offload -nkvo --no-kv-offload` into the two forms: the negative names come last."""
    long = [name for name in names if name.startswith("--")]
    opposite = next((name for name in long if f"--no-{name.removeprefix('--')}" in long), "")
    if not opposite:
        return list(names), []
    first = names.index(f"--no-{opposite.removeprefix('--')}")
    while first > 0 and not names[first - 1].startswith("--") and names[first - 1].startswith("-n"):
        first -= 1
    return list(names[:first]), list(names[first:])


def _named(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The first long name, and the others."""
    name = next((each for each in names if each.startswith("--")), names[0])
    return name, tuple(each for each in names if each != name)


def _choices(hint: str, words: str) -> tuple[str, ...]:
    """`{none,layer,row}`, `<on|off|auto>`, `[on|off]`, `sgd|adamw`, or the help's `allowed values`."""
    if match := _ALLOWED.search(words):
        return _split(match[1])
    inner = hint[1:-1] if hint[0] + hint[-1] in ("{}", "<>", "[]") else hint
    listed = "|" in inner or hint.startswith("{")
    found = _split(inner) if listed and _WORDS.fullmatch(inner) else ()
    return (*found, *(other for word in found for other in _ALSO.get(word, ()))) if "on" in found else found


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in re.split(r"[|,\s]+", text) if word))


def _takes(hint: str, default: str | None) -> Takes:
    """A number is whole only where the default shows it: `N` stands for both."""
    if hint not in _NUMBERS:
        return Takes.TEXT
    if default is None or not re.fullmatch(r"-?[\d.]+", default):
        return Takes.UNKNOWN
    return Takes.NUMBER if _NUMBER.fullmatch(default) else Takes.INTEGER


def _variables(name: str, flag: Flag, *, twin: bool) -> Iterator[EnvironmentVariable]:
    """Source: common/arg.cpp `common_arg::get_env`: LLAMA_ARG_NO_X where the option has a negative form."""
    yield EnvironmentVariable(name, flag.default or "", flag.deprecated)
    if twin and name.startswith("LLAMA_ARG_"):
        yield EnvironmentVariable(name.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1), "", flag.deprecated)
