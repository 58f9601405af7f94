"""How SGLang would run a checkpoint: its own words, its own memory rule."""

from dataclasses import replace

import pytest

from fakes.facts import gpu, machine, model
from fakes.known_models import glm5_nvfp4, kimi_k25_nvfp4, llama_fp8_kv
from holddown.base.evidence import Known, SourceKind, from_probe
from holddown.base.finding import Finding, Severity
from holddown.base.units import GIB
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.choose import plan
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import NoPlan, Plan
from holddown.plan.sglang import chunked_prefill_tokens, sglang_build, usual_share
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes
from holddown.tables.load import recorded_engine

NEW = Candidate(*recorded_engine("sglang", "0.5.23"))
OLD = Candidate(*recorded_engine("sglang", "0.5.8"))


def planned(*settings: tuple[str, str], of: ModelFacts | None = None, on: Candidate = NEW, gpus: int = 1) -> Plan:
    site = Site(machine(*(gpu(index) for index in range(gpus))))
    outcome = plan(of or model(), site, (on,), Wishes("m", settings=settings))
    assert isinstance(outcome, Plan), outcome
    return outcome


def values(of: Plan) -> dict[str, str]:
    return {setting.name: setting.value for setting in of.settings}


def finding(of: Plan, code: str) -> Finding:
    (found,) = [each for each in of.findings if each.code == code]
    return found


@pytest.mark.parametrize("build", [OLD, NEW], ids=["0.5.8", "0.5.23"])
def test_settings_are_in_sglangs_words(build: Candidate) -> None:
    """Context, share, sequences; none of vLLM's names."""
    found = values(planned(on=build))

    assert found["context-length"] == "32768"
    assert set(found) >= {"mem-fraction-static", "max-running-requests"}
    assert not {"max-model-len", "gpu-memory-utilization", "max-num-seqs", "enable-auto-tool-choice"} & set(found)


def test_a_split_is_written_with_names_that_every_release_has() -> None:
    """`tp-size` is an alias in 0.5.8 and the name in 0.5.23."""
    for build in (OLD, NEW):
        found = planned(("tp-size", "2"), on=build, gpus=2)
        assert found.parallelism == Parallelism(tensor_parallel_size=2)
        assert values(found)["tp-size"] == "2"


@pytest.mark.parametrize("name", ["tp-size", "tensor-parallel-size"])
def test_a_users_setting_may_be_called_by_any_of_its_names(name: str) -> None:
    """It is one setting, and it decides the split."""
    found = planned((name, "2"), gpus=4)

    assert found.parallelism.tensor_parallel_size == 2
    assert [setting.name for setting in found.settings if "parallel" in setting.name or "tp" in setting.name] == [
        "tp-size"
    ]
    (setting,) = [setting for setting in found.settings if setting.name == "tp-size"]
    assert setting.source.kind is SourceKind.USER


def test_the_share_is_of_what_is_free_before_loading() -> None:
    """Weights and KV cache take it; what remains is for activations and graphs."""
    budget = planned().budget
    share = usual_share(80 * GIB)

    before = budget.capacity_bytes / share
    assert before < 79 * GIB
    assert budget.weights_bytes + budget.kv_cache_bytes == budget.capacity_bytes
    assert budget.beyond_bytes == budget.other_bytes
    assert budget.free_bytes == 0


def test_a_users_share_sizes_the_kv_cache() -> None:
    """And is kept as it was said."""
    less, more = planned(("mem-fraction-static", "0.5")), planned(("mem-fraction-static", "0.9"))

    assert values(less)["mem-fraction-static"] == "0.5"
    assert less.budget.kv_cache_bytes < more.budget.kv_cache_bytes


@pytest.mark.parametrize(
    ("gib", "tokens", "share"),
    [(16, 2048, 0.718), (40, 4096, 0.805), (80, 8192, 0.819), (141, 8192, 0.897), (180, 16384, 0.853)],
)
def test_sglangs_own_rules_for_a_gpu_of_some_size(gib: int, tokens: int, share: float) -> None:
    """Worked out by hand from srt/server_args.py of 0.5.8."""
    assert chunked_prefill_tokens(gib * GIB) == tokens
    assert usual_share(gib * GIB) == pytest.approx(share, abs=0.002)


def test_a_larger_share_is_taken_where_the_usual_one_is_too_small() -> None:
    """Weights of 66 GiB leave no room for the whole context under SGLang's own rule."""
    found = planned(of=model(weights_bytes=66 * GIB))

    assert values(found)["mem-fraction-static"] == "0.93"
    assert "less KV cache than is wanted" in next(
        each.because for each in found.settings if each.name == "mem-fraction-static"
    )


def test_attention_is_said_to_be_not_asked() -> None:
    """SGLang declares nothing; the plan is not sure, and says why."""
    note = finding(planned(of=kimi_k25_nvfp4(), gpus=8), "compat.attention-unknown")

    assert note.severity is Severity.NOTE
    assert "declares nothing" in note.seen


def experts(shared: str, routed: str) -> ModelFacts:
    groups = (
        WeightGroup("*.shared_experts.up_proj", Component.SHARED_EXPERTS, Split.COLUMN, shared, 1, 1, GIB),
        WeightGroup("*.experts.*.up_proj", Component.ROUTED_EXPERTS, Split.EXPERTS, routed, 1, 1, GIB),
    )
    return replace(model(weights_bytes=2 * GIB), weights=groups)


@pytest.mark.parametrize(
    ("shared", "routed", "apart"), [("bf16", "nvfp4", True), ("nvfp4", "nvfp4", False), ("bf16", "bf16", False)]
)
def test_shared_experts_in_another_format_are_not_fused(shared: str, routed: str, apart: bool) -> None:
    """Story 4: shared experts are BF16 in that checkpoint, so their fusion must be off."""
    fusion = planned(of=experts(shared, routed)).setting("disable-shared-experts-fusion")

    assert (fusion is not None) == apart
    assert fusion is None or ("BF16" in fusion.because and "NVFP4" in fusion.because)


def kv(of: ModelFacts, capability: str, *settings: tuple[str, str], on: Candidate = NEW) -> str:
    gpus = tuple(
        replace(gpu(index), total_bytes=141 * GIB, free_bytes=140 * GIB, compute_capability=from_probe(capability, "-"))
        for index in range(8)
    )
    outcome = plan(of, Site(machine(*gpus)), (on,), Wishes("m", settings=settings))
    assert isinstance(outcome, Plan), outcome
    assert outcome.kv_cache is not None
    return outcome.kv_cache.dtype


def test_the_kv_cache_is_kept_as_sglang_keeps_it() -> None:
    """ModelOpt's wish is followed under `auto`, compressed-tensors' is not; sparse MLA is FP8 from Blackwell on."""
    assert kv(kimi_k25_nvfp4(), "9.0") == "fp8"
    assert kv(kimi_k25_nvfp4(), "9.0", ("kv-cache-dtype", "bf16")) == "bfloat16"
    assert kv(llama_fp8_kv(), "9.0") == "bfloat16"
    plain = replace(glm5_nvfp4(), kv_cache_quantization=Known("none", glm5_nvfp4().kv_cache_quantization.source))  # type: ignore[union-attr]
    assert kv(plain, "12.0") == "fp8_ds_mla"
    assert kv(plain, "9.0") == "bfloat16"


def test_what_is_not_counted_is_said() -> None:
    """The user's data parallelism stays as it was said; the plan says that its figures are without it."""
    found = planned(("attn-dp-size", "2"))

    assert values(found)["attn-dp-size"] == "2"
    note = finding(found, "plan.not-counted")
    assert (note.severity, note.subject) == (Severity.WARN, "attn-dp-size")


def test_data_and_context_parallelism_are_not_planned() -> None:
    """Such a split is not taken, with that reason."""
    build = sglang_build(kimi_k25_nvfp4(), Site(machine(gpu())), NEW, Wishes("m"))

    assert "dp.not-planned" in {each.code for each in build.limits(Parallelism(data_parallel_size=2))}
    divided = Parallelism(tensor_parallel_size=2, decode_context_parallel_size=2)
    assert "dcp.not-planned" in {each.code for each in build.limits(divided)}


def test_experts_must_divide_evenly() -> None:
    """SGLang asserts it; vLLM gives some ranks one more."""
    uneven = replace(kimi_k25_nvfp4(), moe=replace(kimi_k25_nvfp4().moe, num_experts=385))  # type: ignore[type-var]
    build = sglang_build(uneven, Site(machine(gpu())), NEW, Wishes("m"))

    limits = build.limits(Parallelism(tensor_parallel_size=8, expert_parallel_size=8))
    assert [limit.code for limit in limits if limit.blocks] == ["ep.experts"]


def test_a_contradiction_names_sglangs_setting() -> None:
    """Not the search's word for it."""
    found = planned(("context-length", "many"))

    note = finding(found, "plan.max-model-len")
    assert note.subject == "context-length"
    assert note.do == "leave out --set context-length"


def test_an_architecture_that_only_a_newer_release_has() -> None:
    """Without a recipe the way to it is pip and `engine add`."""
    outcome = plan(glm5_nvfp4(), Site(machine(*(gpu(index) for index in range(8)))), (OLD,), Wishes("m"))

    assert isinstance(outcome, NoPlan)
    whys = [each.why for each in outcome.rejected]
    assert any("sglang@0.5.16 has" in why for why in whys)
    # and the release as a whole asks for a newer GPU than these
    assert any("modelopt_fp4 needs compute capability 10.0 in sglang 0.5.8" in why for why in whys)
    assert "pip install sglang==0.5.16" in outcome.do and "engine add" in outcome.do


def test_on_a_cpu_the_kv_cache_is_sized_in_tokens() -> None:
    """The engine would take most of the RAM."""
    build = replace(NEW, facts=replace(NEW.facts, device=from_probe("cpu", "torch")))
    outcome = plan(model(weights_bytes=GIB), Site(machine()), (build,), Wishes("m"))

    assert isinstance(outcome, Plan)
    found = values(outcome)
    assert found["device"] == "cpu"
    assert int(found["max-total-tokens"]) >= 32768
    assert "mem-fraction-static" not in found
    assert not [each for each in outcome.findings if each.code == "plan.not-counted"]


def test_vllm_comes_before_sglang() -> None:
    """Where both run a checkpoint, nothing changes for who has no opinion."""
    vllm = Candidate(*recorded_engine("vllm", "0.16.0"))
    outcome = plan(model(), Site(machine(gpu())), (NEW, vllm), Wishes("m"))

    assert isinstance(outcome, Plan)
    assert outcome.engine == "vllm@0.16.0"


def test_what_somebody_else_holds_is_not_shared_out() -> None:
    """The share is of what is free on a GPU of which another process has a part."""
    held = replace(gpu(), free_bytes=60 * GIB)
    outcome = plan(model(), Site(machine(held)), (NEW,), Wishes("m", gpus=(0,)))

    assert isinstance(outcome, Plan)
    assert outcome.budget.capacity_bytes < 60 * GIB * usual_share(80 * GIB)
