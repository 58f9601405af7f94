"""The fence: a unit test that starts a process, opens a socket or a database, or touches files fails.

An import linter cannot see `open()`. What may be opened: Python code and our own tables.
"""

import re
import sys
from collections.abc import Iterator

import pytest

_FORBIDDEN = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "socket.", "sqlite3.connect")
# a .pyc is first written under a name with a number at its end
_CODE = re.compile(r"\.(py|pyc|toml|so)(\.\d+)?$")
_RECORDED = "/holddown/tables/engines/recorded/"
_on = False


def _fence(event: str, args: tuple[object, ...]) -> None:
    if not _on:
        return
    if event.startswith(_FORBIDDEN):
        raise RuntimeError(f"fence: a unit test reached for the world: {event} {args!r}")
    if event == "open" and isinstance(args[0], str) and not _CODE.search(args[0]) and _RECORDED not in args[0]:
        raise RuntimeError(f"fence: a unit test opened a file: {args[0]}")


sys.addaudithook(_fence)


@pytest.fixture(autouse=True)
def fence() -> Iterator[None]:
    global _on
    _on = True
    yield
    _on = False
