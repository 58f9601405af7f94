"""`holddown plan` as a command: for named GPUs, for a snapshot of a machine, and with words that make no sense."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.captured import CONFIGS

Run = Callable[..., subprocess.CompletedProcess[str]]
EIGHT = ("--gpus", "8x RTX PRO 6000 Server")
SNAPSHOT = Path(__file__).parents[1] / "golden" / "plans" / "machine_2xh200.json"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], str]:
    """A directory that holds only the config of one of the captures."""

    def make(name: str) -> str:
        capture = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(capture["config"]), encoding="utf-8")
        if "quant" in capture:
            (folder / "hf_quant_config.json").write_text(json.dumps(capture["quant"]), encoding="utf-8")
        return str(folder)

    return make


def document(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def test_the_document_has_the_names_that_scripts_rely_on(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """Engine, split, settings, command, memory by GPU, speed with its band, findings, what was rejected."""
    done = holddown("plan", checkpoint("minimax-m2.5"), *EIGHT, "--engine", "vllm@0.16.0", "--json")
    assert done.returncode == 0, done.stderr
    told = document(done)
    plan = told["plan"]
    assert plan["engine"]["name"] == "vllm"
    assert plan["engine"]["version"] == "0.16.0"
    assert set(plan["parallelism"]) == {"tp", "pp", "dp", "ep", "dcp"}
    assert all(set(each) >= {"flag", "value", "because", "source"} for each in plan["settings"])
    assert all(each["because"] and each["source"] for each in plan["settings"])
    assert "vllm.entrypoints.openai.api_server" in plan["argv"]
    assert plan["env"]["NCCL_P2P_LEVEL"] == "SYS"
    assert plan["memory"]["weights_bytes"] == pytest.approx(53.75 * 2**30, rel=0.01)
    assert plan["memory"]["kv_bytes_per_token"] == 63_488
    assert len(plan["memory"]["per_gpu"]) == len(plan["gpus"]) == 4
    for speed in (plan["speed"]["single_stream_tok_s"], plan["speed"]["throughput_tok_s"]):
        assert 0 < speed["low"] < speed["value"] < speed["high"]
    assert plan["findings"][0]["code"] == "weights.none"
    eight = next(each for each in told["rejected"] if each["candidate"] == "TP8")
    assert eight["code"] == "tp.block"
    assert eight["parallelism"]["tp"] == 8
    assert "192" in eight["what"]


def test_no_plan_is_null_with_what_would_do(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """595 GB on four GPUs of 96: exit code 1, each split with its limit."""
    done = holddown("plan", checkpoint("kimi-k2.5"), "--gpus", "4x RTX PRO 6000 Server", "--json")
    assert done.returncode == 1
    told = document(done)
    assert told["plan"] is None
    assert "8 GPUs of this kind" in told["do"]
    assert {each["code"] for each in told["rejected"]} >= {"memory.weights"}


def test_a_setting_of_the_users_is_fixed(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """`--set` decides context and split, and says so."""
    words = ("--set", "max-model-len=131072", "--set", "tensor-parallel-size=8")
    done = holddown("plan", checkpoint("kimi-k2.5"), *EIGHT, *words, "--json")
    plan = document(done)["plan"]
    assert plan["parallelism"]["tp"] == 8
    assert plan["context_length"] == 131072
    assert next(each for each in plan["settings"] if each["flag"] == "--max-model-len")["because"] == "you set it"


def test_a_snapshot_of_another_machine_is_planned_for(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """What `node --json` wrote there."""
    done = holddown("plan", checkpoint("qwen3-0.6b"), "--node", str(SNAPSHOT), "--json")
    assert done.returncode == 0, done.stderr
    assert document(done)["plan"]["memory"]["device_bytes"] == 143771 * 2**20


def test_another_fabric_is_another_speed(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """One-shot all-reduces behind switches are faster than NCCL over two sockets."""
    path = checkpoint("kimi-k2.5")
    speeds = {}
    for fabric in ("pcie-dual-socket", "pcie-switch"):
        done = holddown("plan", path, *EIGHT, "--fabric", fabric, "--set", "tensor-parallel-size=8", "--json")
        speeds[fabric] = document(done)["plan"]["speed"]["single_stream_tok_s"]["value"]
    assert speeds["pcie-switch"] > speeds["pcie-dual-socket"]


def test_people_read_it_within_a_hundred_columns(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """All but the command itself, paths and evidence, which stay whole to be copied."""
    done = holddown("plan", checkpoint("glm-5-nvfp4"), *EIGHT, "--engine", "vllm@0.33.0")
    assert done.returncode == 0, done.stderr
    plan = done.stdout.partition("\ncommand\n")[0]
    wide = [line for line in plan.splitlines() if len(line) > 100]
    assert wide == []
    for word in ("candidates", "not taken", "settings", "because", "KV cache"):
        assert word in plan


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--gpus", "8x RTX PRO"), 2, "fits more than one GPU"),
        (("--gpus", "8x H900"), 2, "no GPU of the table is called"),
        (("--gpus", "0x H200 SXM"), 2, "no count of GPUs"),
        (("--gpus", "8x H200 SXM", "--fabric", "string"), 2, "no fabric of the table"),
        (("--gpus", "8x H200 SXM", "--node", "x.json"), 2, "names a machine and --gpus another"),
        (("--node", "/no/such/file"), 2, "cannot be read"),
        (("--node", __file__), 3, "no description of a machine"),
        (("--gpus", "8x H200 SXM", "--workload", "fishing"), 2, "no workload is called"),
        (("--gpus", "8x H200 SXM", "--rate", "2", "--concurrency", "3"), 2, "exclude each other"),
        (("--gpus", "8x H200 SXM", "--rate", "nan"), 2, "no finite number"),
        (("--gpus", "8x H200 SXM", "--tpot-ms", "inf"), 2, "no finite number"),
        (("--gpus", "8x H200 SXM", "--set", "host=0.0.0.0"), 2, "--set host is not taken"),
        (("--gpus", "8x H200 SXM", "--set", "model=other"), 2, "--set model is not taken"),
        (("--gpus", "8x H200 SXM", "--set", "AWS_SECRET_ACCESS_KEY=s"), 2, "settings are recorded and shown"),
        (("--gpus", "8x H200 SXM", "--engine", "vllm@9.9"), 2, "no engine is called"),
        (("--gpus", "8x MI300X"), 1, "is no GPU for it"),
    ],
)
def test_words_that_cannot_be_followed_are_answered(
    holddown: Run, checkpoint: Callable[[str], str], words: tuple[str, ...], code: int, said: str
) -> None:
    """In one sentence, with what to do."""
    done = holddown("plan", checkpoint("qwen3-0.6b"), *words)
    assert done.returncode == code, done.stderr
    assert said in " ".join((done.stdout + done.stderr).split())


def test_a_directory_without_weights_is_planned_and_not_started(
    holddown: Run, checkpoint: Callable[[str], str], fake_engine_added: str
) -> None:
    """`up` says what is missing; the plan of it is only of shapes."""
    done = holddown("up", checkpoint("qwen3-0.6b"), "--engine", fake_engine_added)
    assert done.returncode == 1
    assert "no weights" in done.stdout + done.stderr


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_an_answer_that_no_disk_takes_is_no_bug_of_ours(
    home: Any, checkpoint: Callable[[str], str], as_json: tuple[str, ...]
) -> None:
    """`> FILE` on a full file system: what happened in one sentence, exit code 3."""
    words = ["plan", checkpoint("qwen3-0.6b"), "--gpus", "8x H200 SXM", *as_json]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holddown", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=home.env,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("error[output.unwritable]: the answer could not be written")
    assert "Traceback" not in done.stderr


def test_what_is_said_to_fit_adds_up(holddown: Run, checkpoint: Callable[[str], str]) -> None:
    """Of each GPU: everything but what the engine takes beside its share, and what is left, is the share."""
    done = holddown("plan", checkpoint("minimax-m2.5"), *EIGHT, "--engine", "vllm@0.16.0", "--json")
    kinds = ("weights", "kv_cache", "activation", "graph", "communication", "runtime", "free")
    for gpu in document(done)["plan"]["memory"]["per_gpu"]:
        held = sum(gpu[f"{kind}_bytes"] for kind in kinds)
        assert gpu["beyond_bytes"] > 0
        assert held - gpu["beyond_bytes"] == gpu["capacity_bytes"]
