"""What we read of attention backends from vLLM's source against what its own selector says when it is run."""

import json
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holddown.base.evidence import Known
from holddown.edges.engines import EngineFolders
from holddown.edges.probes.vllm import VllmProbe
from holddown.facts.attention_backends import AttentionQuery

SCRIPT = Path(__file__).with_name("ask_attention_backends.py")
KINDS = (
    # MLA, sparse, head sizes, (sinks, sliding window)
    (True, False, (576,), ((False, False),)),
    (True, True, (576,), ((False, False),)),
    (False, False, (64, 80, 128, 256), ((False, False), (True, False), (True, True))),
)


def queries() -> list[dict[str, Any]]:
    """Every kind of attention on GPUs of five generations, with six KV cache dtypes, few and many heads."""
    found = []
    for capability, dtype, heads, (mla, sparse, sizes, marks) in product(
        ("8.0", "8.9", "9.0", "10.0", "12.0"),
        ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_ds_mla", "nvfp4"),
        (8, 64),
        KINDS,
    ):
        for size, (sinks, window) in product(sizes, marks):
            words = {"capability": capability, "dtype": dtype, "heads": heads, "head_size": size}
            found.append({**words, "mla": mla, "sparse": sparse, "sinks": sinks, "window": window})
    return found


@pytest.mark.live
def test_every_backend_is_judged_as_vllms_own_selector_judges_it(vllm_python: str, tmp_path: Path) -> None:
    """The same backends are tried and the same are valid, and each reason that we give is one that vLLM gives."""
    engine = EngineFolders(tmp_path / "engines").add(None, vllm_python, "")
    if engine.version != "0.32.0":
        pytest.skip(f"the selector's words are those of 0.32.0, the engine here is {engine.ref}")
    backends = VllmProbe(tmp_path / "cache").facts(engine, lambda line: None).attention_backends
    assert isinstance(backends, Known)
    asked = queries()

    done = subprocess.run(
        [vllm_python, str(SCRIPT)], input=json.dumps(asked), capture_output=True, text=True, cwd="/", timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    assert len(said) == len(asked)
    for query, theirs in zip(asked, said, strict=True):
        ours = {answer.name: answer.reasons for answer in backends.value.answers(_query(query))}
        assert set(ours) == set(theirs), query
        for name, reasons in theirs.items():
            assert bool(ours[name]) == bool(reasons), (query, name, ours[name], reasons)
            assert set(ours[name]) <= set(reasons), (query, name)


def _query(query: dict[str, Any]) -> AttentionQuery:
    return AttentionQuery(
        compute_capability=query["capability"],
        kv_cache_dtype=query["dtype"],
        is_mla=query["mla"],
        is_sparse=query["sparse"],
        head_size=query["head_size"],
        heads_per_gpu=query["heads"],
        sinks=query["sinks"],
        sliding_window=query["window"],
        decode_context_parallel=False,
        fields=(("index_topk", 2048),),  # the selector is asked without a model, and then wants nothing of it
    )
