"""A YAML file of options, as `--config` names it, put into the command where its parser puts it.

Source: vLLM 0.32.0 utils/argparse_utils.py `_pull_args_from_config`, `load_config_file`: after the model, before the
other words, so that those win; SGLang 0.5.23 server_args_config_parser.py does the like.
"""

import json
from dataclasses import replace

import yaml

from holddown.facts.command.launch import Grammar, LaunchCommand, Word


def config_option(command: LaunchCommand, grammar: Grammar) -> tuple[int, int, str] | None:
    """Which words of the command name the file, and its name; None where there is none, or only a shell knows it."""
    if not grammar.config_flag:
        return None
    name = f"--{grammar.config_flag}"
    for at in range(command.begin, len(command.words)):
        word = command.words[at]
        if word.text == name and at + 1 < len(command.words) and command.words[at + 1].certain:
            return at, at + 2, command.words[at + 1].text
        if grammar.equals and word.text.startswith(f"{name}=") and word.certain:
            return at, at + 1, word.text.removeprefix(f"{name}=")
    return None


def with_config(command: LaunchCommand, grammar: Grammar, text: str) -> LaunchCommand | None:
    """The command with the file's options in place of its name. None where the text is no mapping of options."""
    named = config_option(command, grammar)
    if named is None:
        return None
    start, stop, file = named
    words = _words(text, file)
    if words is None:
        return None
    kept = (*command.words[:start], *command.words[stop:])
    model_first = command.begin < len(kept) and not kept[command.begin].text.startswith("-")
    at = command.begin + (1 if model_first else 0)
    return replace(command, words=(*kept[:at], *words, *kept[at:]))


def _words(text: str, file: str) -> tuple[Word, ...] | None:
    """None where it is no mapping; nor with aliases: a few of them can stand for endlessly much."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            return None
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        options = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(options, dict) or not isinstance(node, yaml.MappingNode):
        return None
    lines = {key.value: key.start_mark.line + 1 for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
    found = ((each, lines.get(str(name), 0)) for name, value in options.items() for each in _option(str(name), value))
    return tuple(Word(each, "", line, file=file) for each, line in found)


def _option(name: str, value: object) -> list[str]:
    match value:
        case True:
            return [f"--{name}"]
        case False:
            return [f"--no-{name}"]
        case list():
            return [f"--{name}", *map(str, value)] if value else []
        case dict():
            return [f"--{name}", json.dumps(value, default=str)]
        case _:
            return [f"--{name}", str(value)]
