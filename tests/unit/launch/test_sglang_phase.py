"""One line of SGLang's log, one phase. The lines are shaped after the source of 0.5.8 and 0.5.23."""

import pytest

from holddown.launch.engines.sglang import phase
from holddown.launch.phases import Phase, PhaseSeen

AT = "[2026-05-04 10:00:00 TP0] "
GRAPHS = Phase.GRAPHS


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (
            "[2026-05-04 10:00:00] Attention backend not specified. Use fa3 backend by default.",
            PhaseSeen(Phase.PROCESS, detail="Use fa3 backend"),
        ),
        ("[2026-05-04 10:00:00] server_args=ServerArgs(model_path='/m', ...)", PhaseSeen(Phase.CONFIG)),
        ("[2026-05-04 10:00:00.123] server_args={'model_path': '/m'}", PhaseSeen(Phase.CONFIG)),
        (AT + "Init torch distributed begin.", PhaseSeen(Phase.CONFIG)),
        (AT + "Load weight begin. avail mem=93.11 GB", PhaseSeen(Phase.WEIGHTS, detail="avail mem=93.11 GB")),
        (
            "\rLoading safetensors checkpoint shards:  12% Completed | 3/25 [00:10<01:10,  3.2s/it]",
            PhaseSeen(Phase.WEIGHTS, 3, 25),
        ),
        ("Multi-thread loading shards:  50% Completed | 2/4 [00:01<00:01, 1s/it]", PhaseSeen(Phase.WEIGHTS, 2, 4)),
        (
            AT + "Load weight end. type=KimiK25, dtype=torch.bfloat16, avail mem=19.03 GB, mem usage=73.93 GB.",
            PhaseSeen(Phase.WEIGHTS, detail="mem usage=73.93 GB"),
        ),
        (
            AT + "KV Cache is allocated. #tokens: 190000, KV size: 12.45 GB",
            PhaseSeen(Phase.KV_CACHE, detail="#tokens: 190000, KV size: 12.45 GB"),
        ),
        (
            AT + "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 9, K size: 1.00 GB, V size: 1.00 GB",
            PhaseSeen(Phase.KV_CACHE, detail="#tokens: 9, K size: 1.00 GB, V size: 1.00 GB"),
        ),
        (AT + "Memory pool end. avail mem=6.10 GB", PhaseSeen(Phase.KV_CACHE, detail="avail mem=6.10 GB")),
        (AT + "Capture cuda graph begin. This can take up to several minutes. avail mem=6.10 GB", PhaseSeen(GRAPHS)),
        (AT + "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1", PhaseSeen(GRAPHS)),
        (
            "Capturing batches (bs=1 avail_mem=5.70 GB): 100%|██████████| 23/23 [00:30<00:00,  1.30s/it]",
            PhaseSeen(GRAPHS, 23, 23),
        ),
        (
            AT + "Capture cuda graph end. Time elapsed: 30.11 s. mem usage=0.40 GB. avail mem=5.70 GB.",
            PhaseSeen(GRAPHS, detail="mem usage=0.40 GB"),
        ),
        (
            AT + "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 7, KV size: 3.00 GB, x",
            PhaseSeen(GRAPHS, detail="#tokens: 7, KV size: 3.00 GB"),
        ),
        (
            AT + "max_total_num_tokens=190000, chunked_prefill_size=8192, max_prefill_tokens=16384, "
            "max_running_requests=256, context_len=131072, available_gpu_mem=5.70 GB",
            PhaseSeen(Phase.SERVER, detail="max_total_num_tokens=190000"),
        ),
        ("INFO:     Application startup complete.", PhaseSeen(Phase.SERVER)),
        ("[2026-05-04 10:00:00] The server is fired up and ready to roll!", PhaseSeen(Phase.SERVER)),
        (AT + "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0", None),
        ("", None),
    ],
)
def test_a_line_tells_its_phase(line: str, seen: PhaseSeen | None) -> None:
    """With counts and figures where it has some."""
    assert phase(line) == seen
