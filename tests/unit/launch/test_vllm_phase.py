"""One line of vLLM's log, one phase."""

import pytest

from holddown.launch.engines.vllm import phase
from holddown.launch.phases import Phase, PhaseSeen

CORE = "(EngineCore_DP0 pid=31) INFO 11-29 14:22:42 [core.py:114] "


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("(APIServer pid=7) INFO 11-29 13:26:42 [u.py:1] non-default args: {'port': 8}", PhaseSeen(Phase.PROCESS)),
        (
            "INFO 02-03 04:05:06 [api_server.py:1] vLLM API server version 0.16.0",
            PhaseSeen(Phase.PROCESS, detail="version 0.16.0"),
        ),
        (
            "\rLoading safetensors checkpoint shards:  12% Completed | 3/25 [00:10<01:10,  3.2s/it]",
            PhaseSeen(Phase.WEIGHTS, 3, 25),
        ),
        (
            "(Worker_TP0 pid=9) Multi-thread loading shards:  50% Completed | 2/4 [00:10<00:10,  3.2s/it]",
            PhaseSeen(Phase.WEIGHTS, 2, 4),
        ),
        (
            CORE + "Model loading took 29.71 GiB memory and 8.85 seconds",
            PhaseSeen(Phase.WEIGHTS, detail="Model loading took 29.71 GiB"),
        ),
        (
            CORE + "[backbone] Dynamo bytecode transform time: 3.46 s",
            PhaseSeen(Phase.COMPILE, detail="Dynamo bytecode transform time: 3.46 s"),
        ),
        (
            CORE + "torch.compile takes 24.94 s in total",
            PhaseSeen(Phase.COMPILE, detail="torch.compile takes 24.94 s in total"),
        ),
        (
            CORE + "CPU KV cache size: 46,592 tokens, Maximum concurrency for 2,048 tokens per request: 22.75x",
            PhaseSeen(Phase.KV_CACHE, detail="CPU KV cache size: 46,592 tokens"),
        ),
        (
            CORE + "Maximum concurrency for 4,096 tokens per request: 9552.83x",
            PhaseSeen(Phase.KV_CACHE, detail="Maximum concurrency for 4,096 tokens per request: 9552.83x"),
        ),
        (
            "Capturing CUDA graphs (decode, FULL):  35%|###5      | 18/51 [00:00<00:00, 77.4it/s]",
            PhaseSeen(Phase.GRAPHS, 18, 51),
        ),
        (
            "(APIServer pid=7) INFO 02-03 04:05:06 [a.py:1] Starting vLLM API server 0 on http://127.0.0.1:8",
            PhaseSeen(Phase.SERVER, detail="http://127.0.0.1:8"),
        ),
        (
            "(APIServer pid=7) INFO 02-03 04:05:06 [a.py:1] Starting vLLM server on http://127.0.0.1:8",
            PhaseSeen(Phase.SERVER, detail="http://127.0.0.1:8"),
        ),
        (
            "(EngineCore_DP0 pid=31) (RayWorkerWrapper pid=9, ip=192.0.2.2) INFO 02-03 04:05:06 [m.py:1] "
            "Starting to load model /m...",
            PhaseSeen(Phase.WEIGHTS),
        ),
        ("(APIServer pid=2979) INFO:     Application startup complete.", PhaseSeen(Phase.SERVER)),
    ],
)
def test_a_line_tells_its_phase_and_its_figures(line: str, seen: PhaseSeen) -> None:
    """Prefixes, redraws and versions differ; the fragment, the counts and the figures are found."""
    assert phase(line) == seen


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\r",
        "(EngineCore pid=3122) ",
        "warnings.warn(",
        "(APIServer pid=7) INFO 11-29 14:23:05 [launcher.py:46] Route: /health, Methods: GET",
        "(APIServer pid=7) INFO 11-29 13:31:08 [loggers.py:1] Engine 000: CPU KV cache usage: 0.0%, Running: 0 reqs",
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        "(APIServer pid=7) INFO 11-29 13:31:08 [x.py:1] user said: Starting to load model",
        "INFO:     Application shutdown complete.",
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    """Running, stopping and quoting a phase's words is not being in it."""
    assert phase(line) is None
