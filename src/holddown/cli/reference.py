"""What a server is compared with: words to a reference, and a reference to a file."""

from pathlib import Path

from holddown import wiring
from holddown.app.target import is_url
from holddown.app.verify_target import kept_reference, reference_of
from holddown.base.codec import dumps, loads
from holddown.base.errors import UsageError
from holddown.cli.output import progress
from holddown.cli.target import asked
from holddown.verify.quality import Reference


def reference(word: str, api_key_file: str | None) -> Reference:
    """word: a URL, a file, the id of a run, or a deployment's name: as it is now where it is up, else as its newest run
    kept it.

    Raises: UsageError, FactError.
    """
    if is_url(word):
        return _now(word, api_key_file)
    if Path(word).is_file():
        return read(word)
    store = wiring.store()
    there = store.latest(word)
    if there is not None and not there.status.state.over:
        return _now(word, None)
    kept = kept_reference(word, store)
    if kept is None:
        raise UsageError(
            f"there is nothing to compare with by the name of {word}",
            code="usage.against",
            seen="neither a file, nor a deployment that is up, nor a run that kept a reference",
            do="holddown verify NAME --save-reference FILE keeps one; then --against FILE",
        )
    return kept


def read(path: str) -> Reference:
    """Raises: UsageError where it is none."""
    try:
        return loads(Reference, Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = f"{path} is no reference that verify can compare with"
        raise UsageError(what, code="usage.against", seen=str(error)[:300], do="--save-reference writes one") from error


def write(kept: Reference, path: str) -> None:
    """Raises: UsageError where it cannot be written."""
    try:
        Path(path).write_text(dumps(kept) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written", code="usage.save-reference", seen=str(error)) from error


def _now(word: str, api_key_file: str | None) -> Reference:
    progress(f"asking {word} what it thinks of the passages")
    target = asked(word, "", api_key_file)
    return reference_of(target, wiring.clock())
