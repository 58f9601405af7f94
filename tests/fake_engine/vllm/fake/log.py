"""Log lines in vLLM's shape: `(APIServer pid=7) INFO 11-29 13:56:18 [model.py:733] text`."""

import os
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Log:
    """One process's voice. A log that can no longer be written (disk full, reader gone) never stops the engine."""

    who: str

    def say(self, level: str, where: str, text: str) -> None:
        head = f"({self.who} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{where}] "
        raw("".join(head + line + "\n" for line in text.split("\n")))

    def info(self, where: str, text: str) -> None:
        self.say("INFO", where, text)

    def warning(self, where: str, text: str) -> None:
        self.say("WARNING", where, text)

    def error(self, where: str, text: str) -> None:
        self.say("ERROR", where, text)


def raw(text: str) -> None:
    """Text without a prefix, in one write so that processes sharing the log do not mix within a line."""
    try:
        os.write(sys.stdout.fileno(), text.encode())
    except OSError:
        pass


def traceback_text(frames: list[tuple[str, int, str, str]], error: str) -> str:
    """frames: (file under site-packages, line, function, source line)."""
    lines = ["Traceback (most recent call last):"]
    for file, number, function, source in frames:
        lines += [f'  File "site-packages/{file}", line {number}, in {function}', f"    {source}"]
    return "\n".join([*lines, error])
