"""`lint` over launch commands as they were published, where the collection is present."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holddown.tables.load import recorded_versions

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT.parent / "shared" / "data" / "launch_commands.md"
SAMPLE = """\
### 1. vLLM | some model | 8x GPU
```
env NCCL_P2P_LEVEL=SYS VLLM_LOGGING_LEVEL=INFO
vllm serve org/m --tensor-parallel-size {8|4} --max-num-seqs <conc> [--enforce-eager] (alt: -dp 8) --enable-chunked
```
### 2. SGLang | other | 1x GPU
```
as previous with --tp 2
```
### 3. vLLM | third
```
--max-model-len 4096 --gpu-memory-utilization 0.9 (reported subset)
```
"""
# builds of their own: what they name exists in no release on record
PATCHED = {15: "attention backend B12X_MLA_SPARSE of a community image", 16: "the same image"}


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_table", ROOT / "bench" / "lint_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lint_table"] = module
    spec.loader.exec_module(module)
    return module


def test_the_collections_way_to_write_commands_is_read() -> None:
    """Alternatives, placeholders, remarks and halves of commands become commands; the rest is named as left out."""
    first, second, third = bench().entries(SAMPLE)

    assert [word.text for word in first.commands[0].arguments] == [
        *("org/m", "--tensor-parallel-size", "8", "--max-num-seqs", "$N", "--enforce-eager", "--enable-chunked"),
    ]
    assert {each.name for each in first.commands[0].variables} == {"NCCL_P2P_LEVEL", "VLLM_LOGGING_LEVEL"}
    assert (second.kind, second.commands, second.left_out) == ("sglang", (), "as previous with --tp 2")
    assert [word.text for word in third.commands[0].words][:2] == ["--model", "MODEL"]


@pytest.mark.skipif(not COLLECTION.exists(), reason="the collection of published commands is not here")
def test_published_commands_are_taken_by_a_release() -> None:
    """No crash on any release; each command for vLLM is right for at least one on record, but for those of patched
    builds."""
    table = bench()
    wrong = set()
    for entry in table.entries(COLLECTION.read_text(encoding="utf-8")):
        versions = recorded_versions(entry.kind)
        for command in entry.commands:
            verdicts = [table.verdict(command, version)[0] for version in versions]
            if entry.kind == "vllm" and "ok" not in verdicts:
                wrong.add(entry.number)

    assert wrong == set(PATCHED)
