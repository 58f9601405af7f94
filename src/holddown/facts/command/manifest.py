"""A compose file or Kubernetes manifest -> the engine commands of its containers, with the line of every word."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from holddown.base.errors import UsageError
from holddown.facts.command.launch import (
    Container,
    Grammar,
    LaunchCommand,
    Variable,
    Word,
    assigned,
    launch_command,
)
from holddown.facts.command.shell import shell_commands

_SHELLS = ("sh", "bash", "dash", "zsh")
_INTERPOLATION = re.compile(r"(?<!\$)\$(?:\{(\w+):?-([^}]*)\}|\{[^}]*\}|\w+|\(\w+\))")
_MOST_NODES = 20000


@dataclass(frozen=True, slots=True)
class _Service:
    """One container of the file. name: for messages."""

    name: str
    how: str
    fields: dict[str, yaml.Node]


def manifest_commands(text: str, grammars: Sequence[Grammar], where: str) -> list[LaunchCommand]:
    """Raises: UsageError where it is no YAML."""
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        seen = _trouble(error)
        raise UsageError(f"{where or 'the text'} cannot be read as YAML", code="lint.yaml", seen=seen) from error
    services = [each for document in documents for each in _services(document)]
    named = len(services) > 1
    found = []
    for service in services:
        place = ", ".join(filter(None, (where, service.name if named else "")))
        found += _commands(service, grammars, place)
    return found


def _trouble(error: Exception) -> str:
    """What and where, without the text itself: a key may stand there."""
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{line}{getattr(error, 'problem', None) or type(error).__name__}"


def _commands(service: _Service, grammars: Sequence[Grammar], where: str) -> list[LaunchCommand]:
    words = [word for field in ("entrypoint", "command", "args") for word in _words(service.fields.get(field))]
    variables = tuple(_variables(service.fields))
    container = _container(service)
    if len(words) > 2 and words[0].text.rpartition("/")[2] in _SHELLS and words[1].text.startswith("-"):
        commands = shell_commands(words[2].text, grammars, words[2].line, where, 1)
        return [
            LaunchCommand(
                each.kind, each.words, each.program, each.begin, (*variables, *each.variables), container, where
            )
            for each in commands
        ]
    command = launch_command(words, grammars, variables, container, where)
    return [command] if command is not None else []


def _services(node: yaml.Node) -> Iterator[_Service]:
    """Containers of a manifest wherever they stand in it, and services of a compose file. Each node once: aliases could
    make a small file endlessly large."""
    seen: set[int] = set()
    queue = [node]
    while queue and len(seen) < _MOST_NODES:
        node = queue.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        fields = _fields(node)
        for name, child in _fields(fields.get("services")).items():
            if isinstance(child, yaml.MappingNode):
                yield _Service(f"service {name}", "compose", _fields(child))
        for list_name in ("initContainers", "containers"):
            for child in _items(fields.get(list_name)):
                container = _fields(child)
                yield _Service(f"container {_text(container.get('name')) or '?'}", "kubernetes", container)
        queue += [child for name, child in fields.items() if name not in ("services", "containers", "initContainers")]
        queue += _items(node)


def _fields(node: yaml.Node | None, depth: int = 0) -> dict[str, yaml.Node]:
    """Of a mapping, with what `<<` brings."""
    if not isinstance(node, yaml.MappingNode) or depth > 5:
        return {}
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value == "<<":
            merged = _items(value) if isinstance(value, yaml.SequenceNode) else [value]
            for each in merged:
                found = {**_fields(each, depth + 1), **found}
        else:
            found[key.value] = value
    return found


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _words(node: yaml.Node | None) -> list[Word]:
    """Of a list, or of a text that is split as a shell would."""
    if isinstance(node, yaml.ScalarNode):
        try:
            parts = shlex.split(node.value.replace("\\\n", " "))
        except ValueError as error:
            what = f"the command in line {_line(node)} cannot be split into words: {str(error).lower()}"
            raise UsageError(what, code="lint.yaml", do="close the quote") from error
        return [_word(part, _line(node)) for part in parts]
    return [_word(_text(each), _line(each)) for each in _items(node) if isinstance(each, yaml.ScalarNode)]


def _word(text: str, line: int) -> Word:
    """`${A:-b}` is b; other variables of the surroundings are not known here."""
    text = _INTERPOLATION.sub(lambda match: match[2] if match[2] is not None else match[0], text)
    return Word(text.replace("$$", "$"), "", line, not _INTERPOLATION.search(text))


def _line(node: yaml.Node) -> int:
    block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return int(node.start_mark.line) + (2 if block else 1)


def _variables(fields: dict[str, yaml.Node]) -> Iterator[Variable]:
    for name in ("environment", "env"):
        node = fields.get(name)
        for key, value in _fields(node).items():
            if isinstance(value, yaml.ScalarNode):
                yield Variable(key, _word(_text(value), _line(value)))
        for item in _items(node):
            pair = assigned(_word(_text(item), _line(item)))
            entry = _fields(item)
            if pair is not None:
                yield Variable(*pair)
            elif "name" in entry:
                known = isinstance(entry.get("value"), yaml.ScalarNode)
                word = _word(_text(entry.get("value")), _line(item))
                yield Variable(_text(entry["name"]), word if known else Word("", "", _line(item), certain=False))


def _container(service: _Service) -> Container:
    fields = service.fields
    privileged = fields.get("privileged") or _fields(fields.get("securityContext")).get("privileged")
    shared = "host" if _text(fields.get("ipc")) == "host" else _text(fields.get("shm_size"))
    mounts = [_text(_fields(each).get("mountPath")) for each in _items(fields.get("volumeMounts"))]
    shared = shared or ("mounted" if "/dev/shm" in mounts else "")
    return Container(
        service.how, _text(fields.get("image")), _text(privileged).lower() in ("true", "yes", "on"), shared
    )
