"""One line of a log, without what an engine, a container's runtime or a terminal put around it."""

import re
from dataclasses import dataclass

_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RUNTIME = re.compile(
    r"(?:"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] "  # CRI
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) "  # docker logs -t, journalctl -o short-iso
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w.@-]+\[\d+\]: "  # journalctl
    r"|[\w.-]+[-_]\d+ +\| "  # docker compose
    r"|\[pod/\S+\] "  # kubectl logs --prefix
    r")+"
)
_DOCKER_JSON = re.compile(r'\{"log":"((?:[^"\\]|\\.)*)","stream":"std(?:out|err)"')
_ENGINE = re.compile(
    r"(?:(?P<sglang>\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (?P<rank>[A-Z][A-Z\d ]*))?\]) ?)?"  # SGLang: no level
    r"(?:\((?P<process>[\w.-]+(?: pid=\d+)?(?:, ip=[\d.]+)?)\) ?)?"  # vLLM, Ray
    r"(?:\[(?P<torchrun>rank\d+)\]: ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
    r"(?:\[?(?P<c10>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ [\w./-]+:\d+\] ?)?"  # torch's C++
    r"(?:\d+\.\d\d\.\d{3}\.\d{3} (?P<llama>[DIWE]) )?"
)
_QUIET_LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "D", "I", "W"})
# uvicorn's, SGLang's where it knows a level, and a Python warning with the code that it quotes
_QUIET = re.compile(r"(?:INFO|WARNING|DEBUG|Warning): *|\S+:\d+: \w*Warning: |warnings\.warn\(")
_ACCESS = re.compile(r'INFO: +\S+ - "')
_QUOTED = re.compile(r" {4}|  File ")


@dataclass(frozen=True, slots=True)
class LogLine:
    """number: in the log, from 1. process: who wrote it, empty where that is not said. quiet: information or a warning,
    which is no evidence. quoted: code or a file name within a traceback. engine: whose way of writing it is, empty
    where nothing tells. access: of one request."""

    number: int
    process: str
    text: str
    quiet: bool = False
    quoted: bool = False
    engine: str = ""

    @property
    def access(self) -> bool:
        return _ACCESS.match(self.text) is not None


def log_line(raw: str, number: int) -> LogLine:
    """raw: without its end. Anything is a line."""
    text = _COLOURS.sub("", raw) if "\x1b" in raw else raw
    if text.startswith('{"log":"') and (boxed := _DOCKER_JSON.match(text)) is not None:
        text = boxed[1].encode("latin-1", "backslashreplace").decode("unicode_escape", "replace").rstrip("\n")
    if (around := _RUNTIME.match(text)) is not None:
        text = text[around.end() :]
    found = _ENGINE.match(text)
    assert found is not None  # every part of it is optional
    text = text[found.end() :].rstrip()
    process = found["process"] or found["torchrun"] or (found["rank"] or "").strip()
    level = found["level"] or found["c10"] or found["llama"] or ""
    quiet = level in _QUIET_LEVELS or _QUIET.match(text.lstrip()) is not None
    return LogLine(number, process, text, quiet, _QUOTED.match(text) is not None, _engine(found))


def _engine(found: re.Match[str]) -> str:
    if found["level"]:
        return "vllm"
    if found["llama"]:
        return "llamacpp"
    return "sglang" if found["sglang"] else ""
