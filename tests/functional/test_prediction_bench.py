"""bench/prediction.py judges shipped constants on any file of measurements."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ROOT / "tests" / "captures" / "shaped_configs"
ROW = {"group": "g", "kind": "decode", "model": "Qwen3-32B-8-layers", "gpu": "H200 SXM", "tp": 1, "engine": "vllm"}


def judged(measurements: Path, models: Path) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "bench" / "prediction.py"), "--judge", str(measurements)]
    done = subprocess.run(
        [*command, "--models", str(models), "--json"], capture_output=True, text=True, timeout=120, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_steps_that_were_timed_on_an_h200_are_within_a_fifth(tmp_path: Path) -> None:
    """48 rows of our own which the constants were not fitted on: a change of the model that loses them is a mistake."""
    answer = judged(ROOT / "bench" / "h200_steps.jsonl", SHAPES)

    assert answer["n"] >= 40
    assert answer["median_ape"] < 0.2
    assert answer["mean_ape"] < 0.2


def test_what_cannot_be_judged_is_counted_with_its_reason(tmp_path: Path) -> None:
    """A model without a config, a GPU without a row, a word that nobody knows; `use: false` is left out silently."""
    rows = [
        {**ROW, "conc": 1, "ctx": 1024, "value": 358.9},
        {**ROW, "conc": 1, "ctx": 1024, "value": 1.0, "use": False},
        {**ROW, "conc": 1, "ctx": 1024, "value": 1.0, "model": "Nobody-7B"},
        {**ROW, "conc": 1, "ctx": 1024, "value": 1.0, "gpu": "H200"},
        {**ROW, "conc": 1, "ctx": 1024, "value": 1.0, "kv": "int3"},
        {**ROW, "conc": 1, "ctx": 1024, "value": 1.0, "kind": "power"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    answer = judged(file, SHAPES)

    assert answer["n"] == 1
    assert answer["mean_ape"] == answer["median_ape"]
    assert sum(answer["not_judged"].values()) == 4
    assert any("Nobody-7B" in why for why in answer["not_judged"])
    assert any("H200" in why for why in answer["not_judged"])


def test_a_time_per_token_is_turned_over(tmp_path: Path) -> None:
    """The same measurement as speed and as time has the same error."""
    load = {"conc": 1, "isl": 1024, "osl": 1024, "value": 4.0}
    errors = []
    for kind, value in (("tpot", 4.0), ("otps", 250.0)):
        file = tmp_path / f"{kind}.jsonl"
        file.write_text(json.dumps({**ROW, **load, "kind": kind, "value": value}), encoding="utf-8")
        errors.append(judged(file, SHAPES)["mean_ape"])

    assert abs(errors[0] - errors[1]) < 0.05
