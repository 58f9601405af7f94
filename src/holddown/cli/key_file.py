"""A file with an API key, as `--api-key-file` names it."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from holddown.base.errors import UsageError
from holddown.base.finding import Finding, Severity
from holddown.cli.output import finding_text, progress


class KeyFile(NamedTuple):
    """path: absolute. key: secret."""

    path: str
    key: str


def checked(path: str) -> KeyFile:
    """Says so where others can read it. Raises: UsageError where it holds no key that a client could send."""
    if not path:
        what = "--api-key-file names no file; is a shell variable not set?"
        raise UsageError(what, code="usage.api-key-file", do="--api-key-file FILE, or leave it out")
    file = Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - pathlib raises for a `~user` that is not known
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(f"the API key file cannot be read: {why}", code="usage.api-key-file", seen=path) from error
    if not key:
        raise UsageError("the API key file is empty", code="usage.api-key-file", seen=path)
    if not re.fullmatch(r"[!-~]+", key):
        what = "the API key is not one line of printable ASCII without blanks: no client could send it"
        raise UsageError(what, code="usage.api-key-file", seen=path, do=f"openssl rand -hex 32 > {path}")
    if file.stat().st_mode & 0o077:
        what = "the API key file can be read by other users"
        progress(finding_text(Finding("api-key.readable", Severity.WARN, path, what, path, f"chmod 600 {path}")))
    return KeyFile(str(file), key)
