"""How llama.cpp would run a GGUF: on a CPU, on one GPU, by layers over several."""

from dataclasses import replace
from math import prod

import pytest

from fakes.checkpoint_bytes import GgufValue, gguf_head
from fakes.facts import gpu, machine, model
from holddown.base.evidence import Unknown, from_file, from_probe
from holddown.base.units import GIB
from holddown.facts.engine import Engine, EngineFacts, Flag, Takes
from holddown.facts.gguf import GgufHeader, read_header
from holddown.facts.gguf_model import gguf_facts
from holddown.facts.machine import Cpu, Gpu
from holddown.facts.model import CheckpointFormat, ModelFacts
from holddown.facts.weights import ShardSeen, Tail
from holddown.facts.workload import BATCH, CHAT
from holddown.plan.choose import plan
from holddown.plan.fit import Fit
from holddown.plan.llamacpp import LlamaCpp
from holddown.plan.llamacpp_memory import kv_dtype, layer_bytes, output_bytes, placed
from holddown.plan.plan import NoPlan, Plan, Rejected
from holddown.plan.site import Site
from holddown.plan.wishes import Candidate, Wishes


def gguf(weights_bytes: int = 4 * GIB, context: int = 8192) -> ModelFacts:
    """A Llama of 32 layers in GGUF; 128 KiB of KV cache per token."""
    made = model(weights_bytes, context=context, format=CheckpointFormat.GGUF)
    return replace(made, path="/models/m.gguf", architectures=from_file(("llama",), "m.gguf"))


def build(device: str = "cpu", architectures: tuple[str, ...] = ("llama", "glm-dsa")) -> Candidate:
    engine = Engine("llamacpp", "b11434", "llamacpp", "", "", False, 0.0, program="/opt/llama-server")
    facts = EngineFacts(
        version="b11434",
        kind="llamacpp",
        python="",
        pythonpath="",
        package_dir="/opt",
        fingerprint="f",
        device=from_probe(device, "fake"),
        torch_version=Unknown("none"),
        import_error="",
        flags=(),
        architectures=architectures,
    )
    return Candidate(engine, facts)


def small_mixture() -> ModelFacts:
    """One dense layer, two with experts, one draft layer, and a head."""
    metadata: dict[str, GgufValue] = {
        "general.architecture": "glm-dsa",
        "glm-dsa.block_count": 4,
        "glm-dsa.nextn_predict_layers": 1,
        "glm-dsa.expert_count": 8,
        "glm-dsa.expert_used_count": 2,
        "glm-dsa.expert_feed_forward_length": 32,
    }
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (8, 16)),
        ("output.weight", (8, 8)),
        *((f"blk.{number}.attn_output.weight", (8, 4)) for number in range(3)),
        ("blk.0.ffn_up.weight", (8, 32)),
        *((f"blk.{number}.ffn_up_exps.weight", (8, 16, 8)) for number in (1, 2)),
        ("blk.3.nextn.eh_proj.weight", (8, 24)),
    ]
    tensors = [(name, 0, shape, 4 * prod(shape)) for name, shape in shapes]
    head, size = gguf_head(metadata, tensors)
    header = read_header("m.gguf", size, head)
    assert isinstance(header, GgufHeader)
    return gguf_facts("/m.gguf", (ShardSeen("m.gguf", size, "0", header, Tail.DATA),), ()).model


def on_cpu(
    of: ModelFacts, ram_bytes: int = 64 * GIB, usable: float = 8.0, **settings: str
) -> Fit | tuple[Rejected, ...]:
    here = machine(ram_bytes=ram_bytes)
    here = replace(here, cpu=Cpu("c", 8, from_probe(8, "lscpu"), usable, "cgroup", ()))
    wishes = Wishes("m", settings=tuple((name.replace("_", "-"), value) for name, value in settings.items()))
    return LlamaCpp(of, Site(here), build(), wishes).on_cpu()


def on_gpus(of: ModelFacts, *gpus: Gpu) -> Fit | tuple[Rejected, ...]:
    return LlamaCpp(of, Site(machine(*gpus)), build("cuda"), Wishes("m")).on_gpus(gpus)


def set_to(fit: Fit | tuple[Rejected, ...]) -> dict[str, str]:
    assert isinstance(fit, Fit), fit
    return {setting.name: setting.value for setting in fit.settings}


def test_on_a_cpu_the_cache_holds_the_workload() -> None:
    """8 chats of 1024 + 512 tokens at once need more than one whole context: all slots share that much."""
    fit = on_cpu(gguf())
    settings = set_to(fit)

    assert isinstance(fit, Fit)
    assert settings["ctx-size"] == str(8 * 1536)
    assert settings["kv-unified"] == "true"
    assert fit.kv_cache.dtype == "f16"
    assert fit.budget.kv_cache_bytes == 8 * 1536 * 128 * 1024


def test_a_request_is_not_longer_than_the_checkpoint_allows() -> None:
    """The cache is of all slots together; one request has the checkpoint's context at most."""
    fit = on_cpu(gguf(context=8192))

    assert isinstance(fit, Fit)
    assert fit.context == 8192


def test_a_cache_that_does_not_fit_is_made_smaller_and_says_so() -> None:
    """Half of the RAM that the weights leave."""
    fit = on_cpu(gguf(context=131072), ram_bytes=12 * GIB)
    settings = set_to(fit)

    assert isinstance(fit, Fit)
    assert 1024 <= int(settings["ctx-size"]) < 131072
    assert int(settings["ctx-size"]) % 256 == 0
    assert fit.budget.used_bytes <= 12 * GIB
    assert "are what fits" in next(each.because for each in fit.settings if each.name == "ctx-size")


def test_weights_that_exceed_the_ram_are_refused() -> None:
    """With what they need and what there is."""
    refused = on_cpu(gguf(weights_bytes=80 * GIB))

    assert not isinstance(refused, Fit)
    assert (refused[0].code, "80.0 GiB of weights" in refused[0].why) == ("memory.ram", True)


def test_a_context_of_the_users_is_kept_or_refused_never_made_smaller() -> None:
    """`--set ctx-size`: it fits, or there is no plan."""
    assert set_to(on_cpu(gguf(), ctx_size="4096"))["ctx-size"] == "4096"
    assert not isinstance(on_cpu(gguf(), ram_bytes=8 * GIB, ctx_size="1000000"), Fit)


def test_a_setting_is_known_by_any_of_its_names() -> None:
    """`-c` is `--ctx-size`: it is planned around, and set once."""
    flags = (Flag("--ctx-size", takes=Takes.INTEGER, aliases=("-c",)),)
    candidate = replace(build(), facts=replace(build().facts, flags=flags))
    planned = plan(gguf(), Site(machine()), [candidate], Wishes("m", settings=(("c", "4096"),)))

    assert isinstance(planned, Plan)
    setting = planned.setting("ctx-size")
    assert setting is not None
    assert (setting.value, planned.setting("c")) == ("4096", None)
    assert planned.kv_cache is not None
    assert planned.kv_cache.tokens == 4096


def test_threads_are_named_where_a_container_may_use_fewer_cpus() -> None:
    """llama.cpp would start one for each core of the machine."""
    assert set_to(on_cpu(gguf(), usable=2.0))["threads"] == "2"
    assert "threads" not in set_to(on_cpu(gguf(), usable=8.0))


def test_prompts_that_are_kept_take_no_more_ram_than_is_left() -> None:
    """Its own default is 8 GiB, whatever the machine has."""
    assert int(set_to(on_cpu(gguf(), ram_bytes=12 * GIB))["cache-ram"]) < 4096
    assert "cache-ram" not in set_to(on_cpu(gguf(), ram_bytes=256 * GIB))


def test_a_narrower_cache_is_counted_as_the_user_sets_it() -> None:
    """q8_0: 34 bytes for 32 numbers."""
    wide, narrow = on_cpu(gguf()), on_cpu(gguf(), cache_type_k="q8_0", cache_type_v="q8_0")

    assert isinstance(wide, Fit)
    assert isinstance(narrow, Fit)
    assert narrow.budget.kv_cache_bytes == pytest.approx(wide.budget.kv_cache_bytes * 34 / 64, rel=0.001)
    assert kv_dtype("q8_0", "f16").name == "q8_0/f16"


def test_one_gpu_that_holds_it_is_enough() -> None:
    """More would add memory and no speed."""
    fit = on_gpus(gguf(), gpu(0), gpu(1))
    settings = set_to(fit)

    assert isinstance(fit, Fit)
    assert fit.gpus == (0,)
    assert settings["n-gpu-layers"] == "all"
    assert "tensor-split" not in settings


def test_what_one_gpu_does_not_hold_is_split_by_layers() -> None:
    """In proportion to what is free; every layer and byte is somewhere."""
    fit = on_gpus(gguf(100 * GIB), gpu(0), gpu(1), gpu(2))
    settings = set_to(fit)

    assert isinstance(fit, Fit)
    assert fit.gpus == (0, 1)
    assert (settings["split-mode"], settings["tensor-split"]) == ("layer", "1,1")
    assert sum(budget.weights_bytes for budget in fit.budgets) == pytest.approx(100 * GIB, rel=0.01)
    assert all(budget.free_bytes >= 0 for budget in fit.budgets)


def test_what_no_gpus_hold_names_the_fullest() -> None:
    """A limit of the memory, with the split, so that remedies can be worked out."""
    refused = on_gpus(gguf(300 * GIB), gpu(0), gpu(1))

    assert not isinstance(refused, Fit)
    assert refused[0].code == "memory.weights"
    assert refused[0].parallelism is not None
    assert refused[0].parallelism.pipeline_parallel_size == 2


def test_safetensors_are_refused_with_the_way_to_a_gguf() -> None:
    """Before anything is loaded."""
    refused = on_cpu(model())

    assert not isinstance(refused, Fit)
    assert (refused[0].code, "convert_hf_to_gguf.py" in refused[0].do) == ("compat.format", True)


def test_an_architecture_that_its_library_does_not_name_is_refused() -> None:
    """A build whose library could not be asked refuses nothing: the engine will say."""
    site, wishes = Site(machine()), Wishes("m")

    refused = LlamaCpp(gguf(), site, build(architectures=("gpt2",)), wishes).on_cpu()
    assert not isinstance(refused, Fit)
    assert refused[0].code == "compat.architecture"
    assert isinstance(LlamaCpp(gguf(), site, build(architectures=()), wishes).on_cpu(), Fit)


def test_layers_have_their_own_sizes() -> None:
    """Dense layers before those with experts, draft layers last; together with the output they are all but the
    embedding, which stays in RAM."""
    of = small_mixture()

    assert layer_bytes(of) == (128 + 1024, 128 + 4096, 128 + 4096, 768)
    assert output_bytes(of) == 256
    assert sum(layer_bytes(of)) + 256 + 512 == of.weights_bytes


def test_units_go_to_devices_as_llama_cpp_places_them() -> None:
    """Source: load_tensors: upper_bound of the shares that went before."""
    assert placed(4, (1, 1)) == (0, 0, 1, 1)
    assert placed(5, (1, 1)) == (0, 0, 0, 1, 1)
    assert placed(4, (3, 1)) == (0, 0, 0, 1)
    assert placed(3, (1,)) == (0, 0, 0)


def test_a_gguf_is_planned_for_the_engine_that_was_made_for_it() -> None:
    """And the plan says how many tokens a request may have."""
    planned = plan(gguf(), Site(machine()), [build()], Wishes("m"))

    assert isinstance(planned, Plan)
    assert (planned.engine, planned.context) == ("llamacpp@b11434", 8192)
    assert [finding.code for finding in planned.findings] == ["endpoint.any-model"]
    assert not planned.findings[0].blocks


def test_a_request_longer_than_the_context_is_said() -> None:
    """The workload's requests would be refused."""
    wishes = Wishes("m", settings=(("ctx-size", "1024"),))
    planned = plan(gguf(), Site(machine()), [build()], wishes)

    assert isinstance(planned, Plan)
    assert "plan.workload" in [finding.code for finding in planned.findings]


def test_a_workload_of_as_many_as_fit_takes_the_usual_slots() -> None:
    """8 on a CPU, more than it computes at once."""
    fit = LlamaCpp(gguf(), Site(machine()), build(), Wishes("m", workload=BATCH)).on_cpu()

    assert isinstance(fit, Fit)
    assert fit.max_num_seqs == 8
    assert CHAT.concurrency > 8
    assert fit.context == 8192


def test_a_safetensors_checkpoint_has_no_plan_where_only_llama_cpp_is() -> None:
    """And the reason is the format."""
    planned = plan(model(), Site(machine()), [build()], Wishes("m"))

    assert isinstance(planned, NoPlan)
    assert "GGUF" in planned.what


def test_where_no_engine_is_the_one_for_the_format_is_offered() -> None:
    """llama.cpp for a GGUF, vLLM for safetensors."""
    none = [plan(each, Site(machine()), [], Wishes("m")) for each in (gguf(), model())]

    assert [isinstance(each, NoPlan) and each.do.split()[3] for each in none] == ["llamacpp", "vllm-cpu"]
