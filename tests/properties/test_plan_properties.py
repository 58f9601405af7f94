"""What holds of every plan, whatever the checkpoint, the GPUs and the settings."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.captured import NAMES, captured_model
from holddown.base.evidence import Known, known_or
from holddown.facts.kv_cache import BF16, FP8, CacheSplit, sequence_bytes
from holddown.facts.model import ModelFacts
from holddown.facts.workload import WORKLOADS
from holddown.plan.choose import plan
from holddown.plan.fabric import usual_fabric
from holddown.plan.memory import Loaded, rank_weights
from holddown.plan.named_machine import named_machine
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import NoPlan, Plan
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.tables.load import gpu_rows, recorded_engine

_ROWS = [row for row in gpu_rows() if row.vendor == "NVIDIA"]


@cache
def build(version: str) -> Candidate:
    return Candidate(*recorded_engine("vllm", version))


def planned(of: ModelFacts, gpus: int, row: int, version: str, *words: tuple[str, str], workload: str) -> Plan | NoPlan:
    gpu = _ROWS[row]
    fabric = usual_fabric(gpu)
    site = Site(named_machine(gpus, gpu, fabric), here=False)
    return plan(of, site, (build(version),), Wishes("m", settings=words, workload=WORKLOADS[workload]))


MODELS = st.sampled_from(NAMES).map(captured_model)
SHARES = st.sampled_from(["", "0.5", "0.8", "0.95", "0.99"])


@settings(max_examples=60, deadline=None)
@given(
    of=MODELS,
    gpus=st.sampled_from([1, 2, 4, 6, 8]),
    row=st.integers(0, len(_ROWS) - 1),
    version=st.sampled_from(["0.16.0", "0.25.1", "0.33.0"]),
    share=SHARES,
    workload=st.sampled_from(sorted(WORKLOADS)),
)
def test_no_plan_exceeds_its_gpus(of: ModelFacts, gpus: int, row: int, version: str, share: str, workload: str) -> None:
    """Weights, KV cache and the rest fit the share that the engine is given, graphs beyond it the GPU, on every GPU."""
    words = (("gpu-memory-utilization", share),) if share else ()
    outcome = planned(of, gpus, row, version, *words, workload=workload)
    if isinstance(outcome, NoPlan):
        assert outcome.rejected
        assert outcome.do
        return
    assert len(outcome.gpus) == len(outcome.per_gpu) == outcome.parallelism.world_size <= gpus
    for budget in outcome.per_gpu:
        assert budget.used_bytes - budget.beyond_bytes <= budget.capacity_bytes
        assert budget.used_bytes <= budget.device_bytes
        assert budget.kv_cache_bytes > 0
    for figures in (each.figures for each in outcome.rejected if each.figures):
        assert figures.weights_bytes <= outcome.budget.device_bytes


@settings(max_examples=60, deadline=None)
@given(
    of=MODELS,
    tp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2]),
    experts=st.booleans(),
    loaded=st.builds(Loaded, st.booleans(), st.booleans(), st.booleans()),
)
def test_more_ranks_never_raise_the_weights_of_one(
    of: ModelFacts, tp: int, pp: int, experts: bool, loaded: Loaded
) -> None:
    """Twice the tensor parallel size never loads more onto the fullest GPU."""

    def fullest(size: int) -> int:
        split = Parallelism(size, pp, 1, size if experts else 1)
        stages = (rank_weights(of, split, stage, loaded) for stage in range(pp))
        return max(sum(part.size_bytes for part in stage) for stage in stages)

    assert fullest(2 * tp) <= fullest(tp)


@settings(max_examples=60, deadline=None)
@given(of=MODELS, tokens=st.integers(1, 2**20), more=st.integers(1, 2**20), tp=st.sampled_from([1, 2, 8]))
def test_a_longer_sequence_never_takes_less_cache(of: ModelFacts, tokens: int, more: int, tp: int) -> None:
    """So the number of sequences falls as their context grows; FP8 never takes more than bf16."""
    assert isinstance(of.attention, Known)
    kinds = of.attention.value
    split = CacheSplit(tp=tp)
    short, long = (sequence_bytes(kinds, count, BF16, split) for count in (tokens, tokens + more))
    assert short <= long
    assert sequence_bytes(kinds, tokens, FP8, split) <= short


@settings(max_examples=30, deadline=None)
@given(of=MODELS, gpus=st.sampled_from([2, 4, 8]), wanted=st.integers(2048, 2**18))
def test_a_context_of_the_users_is_kept(of: ModelFacts, gpus: int, wanted: int) -> None:
    """`--set max-model-len` stays in the plan as it was given; where it does not fit, a finding says so."""
    outcome = planned(of, gpus, 0, "0.33.0", ("max-model-len", str(wanted)), workload="chat")
    if isinstance(outcome, NoPlan):
        return
    setting = outcome.setting("max-model-len")
    assert setting is not None
    assert setting.value == str(wanted)
    tokens = outcome.kv_cache.tokens if outcome.kv_cache else 0
    said = [finding for finding in outcome.findings if finding.code == "plan.max-model-len"]
    assert said or tokens >= wanted or not known_or(of.max_position_embeddings, 0)
