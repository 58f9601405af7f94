"""What a build's own selectors said, and what the plan makes of it."""

from dataclasses import replace

from fakes.known_models import gpt_oss, kimi_k25_int4, kimi_k25_nvfp4, minimax_m25
from fakes.selector import MARLIN, FakeSelector
from holddown.base.evidence import Fact, Known, Unknown, from_file, from_probe
from holddown.base.finding import Severity
from holddown.facts.asked import NOT_ASKED, Asked, AskedMoe, MoeAnswer, MoeQuery, MoeRefusal, Questions
from holddown.facts.attention_backends import AttentionQuery
from holddown.facts.engine import EngineFacts
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.plan.compat import KvAnswer, Wish, kv_choices
from holddown.plan.experts_query import moe_query
from holddown.plan.kernels import experts_kernel, selector_questions
from holddown.plan.parallelism import Parallelism
from holddown.tables.load import recorded_engine

TP8 = Parallelism(tensor_parallel_size=8)


def with_experts(model: ModelFacts, format: str) -> ModelFacts:
    """The model with routed experts stored so."""
    group = WeightGroup("experts.*", Component.ROUTED_EXPERTS, Split.EXPERTS, format, 1, 1, 1)
    return replace(model, weights=(group,))


def asked(model: ModelFacts, version: str, selector: FakeSelector, capability: str = "12.0") -> EngineFacts:
    """Facts of a recorded release, with what the selector says to all that the model asks."""
    engine, facts = recorded_engine("vllm", version)
    queries = selector_questions(model, facts, capability, [TP8])
    said = selector.ask(engine, facts, Questions(queries), lambda line: None)
    assert isinstance(said, Known)
    return replace(facts, asked=said.value)


def choices(model: ModelFacts, facts: EngineFacts, wish: Wish = Wish(), capability: str = "12.0") -> KvAnswer:
    return kv_choices(model, facts, capability, wish, TP8)


def test_a_selector_that_agrees_changes_nothing_but_the_source() -> None:
    """The setting of story 1, resting on the build's own word."""
    answer = choices(kimi_k25_nvfp4(), asked(kimi_k25_nvfp4(), "0.16.0", FakeSelector()))

    assert answer.setting is not None
    assert answer.setting.value == "bfloat16"
    assert answer.setting.source.where == (
        "asked vllm 0.16.0's own selector: v1/attention/backends/mla/triton_mla.py:29"
    )
    assert answer.findings == ()


def test_the_selector_wins_where_it_takes_what_was_read_to_be_refused() -> None:
    """A patched 0.16.0 whose TRITON_MLA takes FP8: `auto` stands, and the difference is said."""
    answer = choices(kimi_k25_nvfp4(), asked(kimi_k25_nvfp4(), "0.16.0", FakeSelector(takes=("TRITON_MLA",))))

    assert answer.setting is None
    assert answer.chosen is not None
    assert (answer.chosen.dtype, answer.chosen.by_selector) == ("auto", True)
    (finding,) = answer.findings
    assert (finding.code, finding.severity) == ("compat.selector-differs", Severity.NOTE)
    assert "takes TRITON_MLA" in finding.seen


def test_the_selector_wins_where_it_refuses_what_was_read_to_be_taken() -> None:
    """A build without its Triton kernels: no plan on this GPU, with the build's own reason."""
    refusing = FakeSelector(refuses={"TRITON_MLA": "ImportError: triton"})

    answer = choices(kimi_k25_int4(), asked(kimi_k25_int4(), "0.33.0", refusing))

    assert answer.chosen is None
    blocks, note = answer.findings
    assert blocks.code == "compat.attention"
    assert "TRITON_MLA (ImportError: triton)" in blocks.seen
    assert blocks.seen.endswith("(asked vllm 0.33.0's own selector)")
    assert note.code == "compat.selector-differs"


def test_a_backend_that_cannot_say_without_a_gpu_is_judged_as_it_was_read() -> None:
    """Its reasons in the answer mean nothing."""
    unsure = FakeSelector(refuses={"TRITON_MLA": "no GPU"}, unsure=("TRITON_MLA",))

    answer = choices(kimi_k25_int4(), asked(kimi_k25_int4(), "0.33.0", unsure))

    assert answer.chosen is not None
    assert answer.chosen.backends == ("TRITON_MLA",)
    assert answer.findings == ()


def test_what_was_not_asked_is_read() -> None:
    """Answers about eight GPUs say nothing about one."""
    facts = asked(kimi_k25_int4(), "0.33.0", FakeSelector(refuses={"TRITON_MLA": "no"}))

    answer = kv_choices(kimi_k25_int4(), facts, "12.0", Wish(), Parallelism())

    assert answer.chosen is not None
    assert not answer.chosen.by_selector


def test_the_backend_that_the_user_wants_is_asked_of_the_selector_too() -> None:
    """--set attention-backend=TRITON_MLA on a build whose selector refuses it."""
    facts = asked(kimi_k25_int4(), "0.33.0", FakeSelector(refuses={"TRITON_MLA": "no kernels"}))

    answer = choices(kimi_k25_int4(), facts, Wish(attention_backend="triton_mla"))

    assert answer.chosen is None
    assert "TRITON_MLA (no kernels)" in answer.findings[0].seen


def test_every_layer_kind_and_kv_dtype_of_every_split_is_a_question_once() -> None:
    """gpt-oss: full and sliding attention; the experts are one question per split."""
    model = replace(with_experts(gpt_oss(), "mxfp4"), moe=kimi_k25_int4().moe)
    _, facts = recorded_engine("vllm", "0.32.0")

    found = selector_questions(model, facts, "9.0", [TP8, Parallelism(), TP8])

    attention = [each for each in found if isinstance(each, AttentionQuery)]
    assert {(each.sliding_window, each.heads_per_gpu) for each in attention} == {
        (False, 8), (True, 8), (False, 64), (True, 64),
    }  # fmt: skip
    assert {"auto", "fp8"} <= {each.kv_cache_dtype for each in attention}
    assert sum(isinstance(each, MoeQuery) for each in found) == 2
    assert len(set(found)) == len(found)


def test_an_engine_without_selectors_is_asked_nothing() -> None:
    """SGLang declares nothing about its kernels; not even its experts are a question."""
    _, facts = recorded_engine("sglang", "0.5.23")

    assert selector_questions(with_experts(kimi_k25_int4(), "int4"), facts, "9.0", [TP8]) == ()


def test_experts_are_asked_about_as_the_checkpoint_stores_them_and_the_architecture_routes_them() -> None:
    """Kimi-K2.5 INT4 with expert parallelism; gpt-oss has an activation of its own."""
    spread = Parallelism(tensor_parallel_size=8, expert_parallel_size=8)

    kimi = moe_query(with_experts(kimi_k25_int4(), "int4"), "12.0", spread, "Flashinfer-Cutlass")
    oss = moe_query(replace(with_experts(gpt_oss(), "mxfp4"), moe=kimi_k25_int4().moe), "9.0", TP8)

    assert isinstance(kimi, Known)
    assert isinstance(oss, Known)
    assert (kimi.value.method, kimi.value.format, kimi.value.group_size) == ("compressed-tensors", "int4", 32)
    assert (kimi.value.expert_parallel, kimi.value.routing, kimi.value.activation) == (True, "DeepSeekV3", "silu")
    assert kimi.value.backend == "flashinfer_cutlass"
    assert (oss.value.routing, oss.value.activation, oss.value.backend) == ("Renormalize", "swigluoai", "auto")


def test_experts_of_two_formats_or_none_are_no_question() -> None:
    """What the kernels would be asked about is not known."""
    mixed = with_experts(minimax_m25(), "fp8-block")
    mixed = replace(mixed, weights=(*mixed.weights, replace(mixed.weights[0], format="bf16")))

    found: list[Fact[MoeQuery]] = [
        moe_query(mixed, "9.0", TP8),
        moe_query(minimax_m25(), "9.0", TP8),
        moe_query(replace(minimax_m25(), moe=None), "9.0", TP8),
        moe_query(replace(with_experts(minimax_m25(), "bf16"), hidden_size=Unknown("-")), "9.0", TP8),
        moe_query(with_experts(minimax_m25(), "bf16"), "9.0", Parallelism(tensor_parallel_size=1024)),
    ]

    assert all(isinstance(each, Unknown) for each in found)


def said_of_experts(model: ModelFacts, said: Fact[MoeAnswer]) -> EngineFacts:
    query = moe_query(model, "12.0", TP8)
    assert isinstance(query, Known)
    return replace(recorded_engine("vllm", "0.32.0")[1], asked=Asked(moe=(AskedMoe(query.value, said),)))


NONE = MoeAnswer(
    "",
    (MoeRefusal("MARLIN", "kernel does not support current device cuda"),),
    "No NvFp4 MoE backend supports the deployment configuration.",
    "model_executor/layers/fused_moe/oracle/nvfp4.py",
)


def test_the_kernel_of_the_experts_is_the_selectors_word() -> None:
    """Where it was asked; nothing is said where it was not."""
    model = with_experts(kimi_k25_nvfp4(), "nvfp4")

    there = experts_kernel(model, said_of_experts(model, from_probe(MARLIN, "fake")), "12.0", TP8)
    elsewhere = experts_kernel(model, recorded_engine("vllm", "0.32.0")[1], "12.0", TP8)

    assert (there.name, there.finding) == ("MARLIN", None)
    assert (elsewhere.name, elsewhere.finding) == ("", None)


def test_experts_that_no_kernel_takes_forbid_the_split() -> None:
    """With the engine's own sentence and each backend's reason."""
    model = with_experts(kimi_k25_nvfp4(), "nvfp4")

    finding = experts_kernel(model, said_of_experts(model, from_probe(NONE, "fake")), "12.0", TP8).finding

    assert finding is not None
    assert (finding.code, finding.severity) == ("compat.experts", Severity.BLOCK)
    assert finding.what == (
        "no kernel of vllm 0.32.0 runs this model's experts as TP8 on compute capability 12.0: "
        "No NvFp4 MoE backend supports the deployment configuration"
    )
    assert "MARLIN (kernel does not support current device cuda)" in finding.seen


def test_what_is_not_sure_of_an_unknown_family_only_warns() -> None:
    """Its routing and activation were taken for granted; another may be supported."""
    model = replace(
        with_experts(kimi_k25_nvfp4(), "nvfp4"), architectures=from_file(("NewForCausalLM",), "config.json")
    )

    finding = experts_kernel(model, said_of_experts(model, from_probe(NONE, "fake")), "12.0", TP8).finding

    assert finding is not None
    assert finding.severity is Severity.WARN


def test_a_build_that_cannot_say_which_kernel_is_a_note() -> None:
    """0.16.0 has no oracle for INT4 experts."""
    model = with_experts(kimi_k25_int4(), "int4")
    facts = said_of_experts(model, Unknown("LookupError: this build has no oracle for int4 experts"))

    finding = experts_kernel(model, facts, "12.0", TP8).finding

    assert finding is not None
    assert (finding.code, finding.severity) == ("compat.experts-unknown", Severity.NOTE)
    assert NOT_ASKED.moe == ()
