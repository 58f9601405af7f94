"""What other load clients wrote, as records of ours. The shapes are those of vllm 0.32.0 and guidellm 0.8.1."""

import json
from typing import Any

import pytest

from fakes.records import a_birth
from fakes.store import FakeStore
from holddown.app.import_bench import import_bench
from holddown.base.errors import UsageError
from holddown.launch.lifecycle import State
from holddown.measure.run import Closed, Open, Spacing
from holddown.measure.why import value
from holddown.remember.record import Status
from holddown.remember.run import BenchRun

VLLM: dict[str, Any] = {
    "date": "20261130-015754",
    "backend": "openai-chat",
    "model_id": "m",
    "num_prompts": 2,
    "request_rate": "inf",
    "max_concurrency": 4,
    "duration": 2.0,
    "completed": 2,
    "failed": 0,
    "total_input_tokens": 128,
    "total_output_tokens": 64,
    "request_throughput": 1.0,
    "request_goodput": None,
    "output_throughput": 32.0,
    "total_token_throughput": 96.0,
    "median_ttft_ms": 57.0,
    "p99_ttft_ms": 66.0,
    "median_itl_ms": 20.0,
}
DETAILED = {
    "start_times": [100.0, 100.5],
    "ttfts": [0.05, 0.06],
    "latencies": [0.5, 0.6],
    "input_lens": [64, 64],
    "output_lens": [32, 32],
    "errors": ["", ""],
    "itls": [[0.02, 0.03], [0.02]],
}
_TIMES = {
    "request_start_time": 1000.5,
    "request_end_time": 1001.5,
    "time_to_first_token_ms": 50.0,
    "time_to_first_output_token_ms": 50.0,
    "prompt_tokens": 55,
    "output_tokens": 32,
    "info": {"timings": {"token_iterations": 32}, "error": None},
}
_LOST = dict.fromkeys(_TIMES) | {"info": {"timings": {"token_iterations": 0}, "error": "timed out"}}
GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "config": {"spec": {"backend": {"kind": "openai_http", "target": "http://127.0.0.1:8000", "model": "m"}}},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "max_concurrency": 4, "streams": 4}},
            "start_time": 1000.0,
            "duration": 2.0,
            "metrics": {
                "inter_token_latency_ms": {
                    "successful": {"count": 1, "percentiles": {"p50": 20.0, "p90": 21.0, "p95": 22.0, "p99": 23.0}}
                }
            },
            "requests": {"successful": [_TIMES], "errored": [_LOST], "incomplete": []},
        }
    ],
}


def imported(data: object, target: str = "http://127.0.0.1:8000") -> BenchRun:
    store = FakeStore()
    store.create(a_birth(), Status(State.STOPPED, 1.0))
    run = import_bench(target, data if isinstance(data, str) else json.dumps(data), "their.json", store, "be0c0001")
    assert store.run("be0c0001") == run
    return run


def test_vllm_bench_serve() -> None:
    """Its figures as they are, with where they came from."""
    run = imported(VLLM)
    (phase,) = run.phases
    assert (run.source, run.workload, run.subject.model) == ("their.json", "64:32", "m")
    assert (phase.arrival, phase.seconds, phase.traces) == (Closed(4), 2.0, ())
    assert value(phase.figures, "output_throughput") == 32.0
    assert value(phase.figures, "ttft", 50) == 57.0
    assert value(phase.figures, "ttft", 99) == 66.0


def test_vllm_bench_serve_in_detail() -> None:
    """Each request is a trace, so that it can be compared."""
    (phase,) = imported({**VLLM, **DETAILED, "request_rate": 2.5, "max_concurrency": None}).phases
    assert phase.arrival == Open(Spacing.POISSON, 2.5)
    assert [trace.due_s for trace in phase.traces] == [0.0, 0.5]
    assert phase.traces[1].first_s == pytest.approx(0.56)
    assert phase.itl_count == 3 and phase.itl_quantiles_ms[100] == pytest.approx(30)


def test_guidellm() -> None:
    """Every request of it, those that failed too."""
    run = imported(GUIDELLM)
    (phase,) = run.phases
    assert (phase.arrival, run.workload) == (Closed(4), "55:32")
    assert [trace.fault for trace in phase.traces] == ["", "timed out"]
    assert value(phase.figures, "ttft", 50) == pytest.approx(50.0)
    assert value(phase.figures, "itl", 95) == 22.0


def test_of_a_deployment_of_ours_that_is_not_up() -> None:
    """A record is of the past: by its name it is found among ours."""
    assert imported(VLLM, target="m").subject.deployment == "0123abcd"


@pytest.mark.parametrize("data", ["", "[]", "{}", "nonsense", json.dumps({**VLLM, "completed": "many"})])
def test_any_other_file_is_refused(data: str) -> None:
    """With what was wrong, and which files will do."""
    with pytest.raises(UsageError) as error:
        imported(data)
    assert error.value.code == "bench.import" and error.value.seen and error.value.do


def test_a_name_that_is_nobodys() -> None:
    """Neither a deployment nor a URL."""
    with pytest.raises(UsageError):
        imported(VLLM, target="nobody")
