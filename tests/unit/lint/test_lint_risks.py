"""What is said of options together, of the machine, and of risks."""

import pytest

from fakes.lint import codes, judge, judge_recorded
from holddown.base.evidence import from_file
from holddown.lint.judge import Ground, Judged
from holddown.plan.fabric import usual_fabric
from holddown.plan.named_machine import named_gpus, named_machine
from holddown.plan.site import Site


def site(named: str) -> Site:
    count, row = named_gpus(named)
    fabric = usual_fabric(row)
    return Site(named_machine(count, row, fabric), {}, from_file(fabric, "tables"), here=False)


def on(text: str, gpus: str) -> Judged:
    return judge_recorded(text, "0.16.0", Ground(site=site(gpus)))


@pytest.mark.parametrize(
    ("options", "code", "severity"),
    [
        ("--enable-auto-tool-choice", "together.needs", "block"),
        ("--tool-call-parser hermes", "together.idle", "warn"),
        ("-tp 8 -dcp 3", "together.divided", "block"),
        ("--max-num-seqs 512 --max-num-batched-tokens 256", "together.order", "block"),
        ("--host 0.0.0.0 --port 1", "risk.open", "warn"),
        ("--api-key k", "risk.api-key", "warn"),
        ("--trust-remote-code", "risk.remote-code", "warn"),
        ("--gpu-memory-utilization 0.98", "risk.memory-share", "warn"),
        ("--enforce-eager", "risk.eager", "warn"),
    ],
)
def test_each_rule_is_said_with_its_weight(options: str, code: str, severity: str) -> None:
    """What forbids the start blocks; what is risky warns."""
    found = judge(f"vllm serve m {options}")

    assert {each.code: str(each.severity) for each in found.findings}.get(code) == severity


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --host 127.0.0.1",
        "vllm serve m --host localhost",
        "vllm serve m --host ::1",
        "VLLM_API_KEY=$KEY vllm serve m --host 0.0.0.0",
        "vllm serve m --host 0.0.0.0 --api-key k",
    ],
)
def test_a_closed_or_guarded_endpoint_is_not_called_open(text: str) -> None:
    """A loopback address, or a key by any way."""
    assert "risk.open" not in {each.code for each in judge(text).findings}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"risk.shared-memory"}),
        ("--ipc=host", set()),
        ("--shm-size 16g", set()),
        ("--privileged --ipc host", {"risk.privileged"}),
    ],
)
def test_a_containers_shared_memory_and_rights(options: str, expected: set[str]) -> None:
    """Several ranks need more than docker's 64 MiB; a privileged container is root."""
    found = judge(f"docker run {options} vllm/vllm-openai:latest --model m -tp 2")

    assert ("--ipc=host" in found.corrected.line) is (options in ("", "--ipc=host"))
    assert {each for each in codes(found) if each.startswith("risk.")} == expected


@pytest.mark.parametrize(
    ("options", "version", "clashes"),
    [
        ('--speculative-config \'{"method": "ngram"}\'', "0.32.0", True),
        ("--speculative-config.method ngram", "0.19.1", True),
        ("--speculative-config.method mtp", "0.19.1", False),
        ("--speculative-config.method ngram", "0.33.0", False),
    ],
)
def test_speculation_that_asynchronous_scheduling_does_not_take(options: str, version: str, clashes: bool) -> None:
    """As JSON and by a dot, in the releases that refuse it."""
    found = judge_recorded(f"vllm serve m --async-scheduling {options}", version)

    assert ("together.clash" in codes(found)) is clashes


def test_more_gpus_than_there_are_is_corrected() -> None:
    """TP8 on four GPUs; what CUDA_VISIBLE_DEVICES hides is not there."""
    assert on("vllm serve m -tp 8", "4x H200 SXM").corrected.line == "vllm serve m -tp 4"
    hidden = on("CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 8", "8x H200 SXM")
    assert "2 of them by CUDA_VISIBLE_DEVICES" in next(e.what for e in hidden.findings if e.code == "machine.gpus")
    assert "machine.gpus" not in codes(on("vllm serve m -tp 8 --nnodes 2", "4x H200 SXM"))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--reasoning-parser deepseek_r2", "vllm serve m --reasoning-parser deepseek_r1"),
        ("--enable-auto-tool-choice --tool-call-parser deepseek_v4", "vllm serve m"),
        ("--attention-backend FLASHINFR", "vllm serve m --attention-backend FLASHINFER"),
        ("--attention-backend flashinfer", "vllm serve m --attention-backend flashinfer"),
        ("--attention-backend NOBODYS", "vllm serve m"),
    ],
)
def test_names_that_the_build_does_not_register(options: str, line: str) -> None:
    """A near one is put in its place, unless the name is right in another release."""
    assert judge_recorded(f"vllm serve m {options}", "0.16.0").corrected.line == line
