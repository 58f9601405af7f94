"""The diagnosis of whole logs, where a folder of captures lies beside the repository."""

from pathlib import Path

import pytest

from fakes.diagnosis import root_cause

CAPTURES = Path(__file__).parents[3] / "shared" / "captures" / "vllm"
EXPECTED = {
    "bad-flag.log": (2, "engine.unknown-flag"),
    "bad-parser.log": (1, "engine.unknown-parser"),
    "gpu-memory-held.log": (1, "engine.gpu-memory-held"),
    "heads-not-divisible.log": (1, "engine.heads-not-divisible"),
    "killed-while-starting.log": (-9, "engine.killed"),
    "kv-too-small.log": (1, "engine.kv-cache-too-small"),
    "mla-fp8-healthy-then-dies.log": (1, "engine.kv-cache-dtype"),
    "offline-kimi-shape-6-layers.log": (0, "engine.told-to-stop"),
    "offline-minimax-shape-8-layers-interrupted.log": (-15, "engine.told-to-stop"),
    "ready-gqa.log": (0, "engine.told-to-stop"),
    "ready-mla-int4.log": (0, "engine.told-to-stop"),
    "ready-mla.log": (0, "engine.told-to-stop"),
    "ready-smollm2-compiled.log": (0, "engine.told-to-stop"),
    "ready-smollm2-eager.log": (0, "engine.told-to-stop"),
    "sigkill-parent.log": (-9, "engine.killed"),
    "sigterm-clean.log": (0, "engine.told-to-stop"),
    "tp2-one-gpu.log": (1, "engine.too-few-gpus"),
    "unknown-attention-backend.log": (1, "engine.unknown-attention-backend"),
    "unknown-flag.log": (2, "engine.unknown-flag"),
    "unsupported-architecture.log": (1, "engine.unsupported-architecture"),
}
LOGS = sorted(CAPTURES.glob("*/*.log"))


@pytest.mark.skipif(not LOGS, reason="no folder of captures beside this repository")
def test_every_captured_log_is_diagnosed() -> None:
    """Each log gives the cause that its capture was made for; a new one must be entered here."""
    found = {}
    for path in LOGS:
        exit_code, _ = EXPECTED[path.name]
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        found[f"{path.parent.name}/{path.name}"] = root_cause(lines, exit_code).code
    assert found == {f"{path.parent.name}/{path.name}": EXPECTED[path.name][1] for path in LOGS}
