"""The local cache of the Hugging Face hub. Source: huggingface_hub 1.0 constants.py, file_download.py."""

import os
import re
from pathlib import Path

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def snapshot(repository: str) -> Path | None:
    """The newest files of `organisation/name` that lie here; None where there are none."""
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        return None
    folder = _cache() / f"models--{repository.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    found = folder / "snapshots" / commit
    return found if found.is_dir() else None


def _cache() -> Path:
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME") or str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"
