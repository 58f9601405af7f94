"""Keys and tokens are taken out of a command before anything looks at it: no finding and no document can show them."""

import re
from dataclasses import replace

from holddown.facts.command.launch import LaunchCommand, Variable, Word, assigned
from holddown.launch.environment import REDACTED, is_secret
from holddown.lint.options import bare
from holddown.tables.load import command_table

_OPTION = re.compile(r"(?:.*-)?(?:key|token|password|secret)")
_BEGINNINGS = ("api-key", "hf-token")
_HARMLESS = re.compile(r"\d{1,6}|true|false", re.IGNORECASE)
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def masked(command: LaunchCommand) -> LaunchCommand:
    """The same with every secret redacted. Where it is shown as a command again, the shell is to put it in."""
    words = list(command.words)
    for at, word in enumerate(words):
        option, equals, rest = word.text.partition("=")
        if option in ("-e", "--env") and equals:
            inner = _assigned(Word(rest, "", word.line, word.certain))
            words[at] = replace(inner, text=f"{option}={inner.text}", raw=f"{option}={inner.raw or inner.text}")
        else:
            words[at] = _assigned(word)
    hiding = ""
    for at in range(command.begin, len(words)):
        word = words[at]
        if not word.text.startswith("-"):
            words[at] = _hidden(word, hiding) if hiding else _no_login(word)
            continue
        written, equals, value = word.text.partition("=")
        hiding = _name(command, written) if _is_secret_option(written) else ""
        if hiding and equals:
            held = _hidden(replace(word, text=value, raw=""), hiding)
            words[at] = Word(f"{written}={held.text}", f"{written}={held.raw}", word.line, certain=False)
    variables = tuple(_variable(each) for each in command.variables)
    return replace(command, words=tuple(words), variables=variables)


def _is_secret_option(written: str) -> bool:
    name = bare(written)
    short = written.startswith("--") and len(name) > 2 and any(each.startswith(name) for each in _BEGINNINGS)
    return short or _OPTION.fullmatch(name) is not None


def _name(command: LaunchCommand, written: str) -> str:
    """The variable that the shell is to put in."""
    known = command_table(command.kind).grammar.key_variable if "api" in written else ""
    return known or re.sub(r"\W", "_", bare(written)).upper()


def _hidden(word: Word, name: str) -> Word:
    if not word.certain and "$" in word.text:
        return word
    return Word(REDACTED, f'"${{{name}:?}}"', word.line, certain=False)


def _no_login(word: Word) -> Word:
    """`http://user:password@host`."""
    text = _LOGIN.sub(f"{REDACTED}@", word.text)
    return word if text == word.text else replace(word, text=text, raw="", certain=False)


def _assigned(word: Word) -> Word:
    pair = assigned(word)
    if pair is None:
        return word
    name, value = pair
    held = _value(name, value)
    if held is value:
        return word
    return Word(f"{name}={held.text}", f"{name}={held.raw or held.text}", word.line, certain=False)


def _value(name: str, value: Word) -> Word:
    secret = is_secret(name) and not name.upper().endswith(("TOKENS", "_FILE", "_PATH", "_DIR"))
    if secret and value.text and not _HARMLESS.fullmatch(value.text):
        return _hidden(value, name)
    return _no_login(value)


def _variable(variable: Variable) -> Variable:
    return replace(variable, value=_value(variable.name, variable.value))
