"""Planning, asking the chosen build, planning again."""

from dataclasses import replace

from fakes.engine import FakeEngines, FakeProbe, an_engine, engine_facts
from fakes.facts import gpu, machine, model
from fakes.ground import FakeCheckpoints
from fakes.selector import FakeSelector
from holddown.app.plan import Doors, Planned, plan
from holddown.facts.engine import Flag
from holddown.plan.plan import NoPlan
from holddown.plan.site import Site
from holddown.plan.wishes import Wishes
from holddown.tables.load import recorded_build

FLAGS = (Flag("--max-model-len"), Flag("--enforce-eager"), Flag("--max-num-seqs"))
READ = recorded_build("vllm", "0.32.0").facts
FACTS = replace(
    engine_facts("cuda", flags=FLAGS), attention_backends=READ.attention_backends, kv_cache_dtypes=READ.kv_cache_dtypes
)
ON_GPUS = Site(machine(gpu(0), gpu(1)))
ON_CPU = Site(machine())


def planned(
    selector: FakeSelector, *, ask: bool | None = None, site: Site = ON_GPUS, device: str = "cuda", **settings: str
) -> Planned | NoPlan:
    names = tuple((name.replace("_", "-") if name.islower() else name, value) for name, value in settings.items())
    engine = replace(an_engine(), python="/p")
    doors = Doors(
        FakeCheckpoints(),
        FakeEngines([engine]),
        FakeProbe(FACTS if device == "cuda" else engine_facts(device, flags=FLAGS)),
        lambda line: None,
        selector,
    )
    return plan("/models/llama", site, Wishes("m", engine=engine.ref, settings=names), doors, ask=ask)


def test_a_plan_says_that_the_build_itself_was_asked() -> None:
    """Every backend's word is the selector's; one set of questions was enough."""
    selector = FakeSelector()

    found = planned(selector)

    assert isinstance(found, Planned)
    assert found.plan.selector == "asked vllm 0.32.0's own selector"
    assert found.plan.attention_backends == ("FLASH_ATTN",)
    assert len(selector.asked) == 1
    assert {query.compute_capability for query in selector.asked[0].queries} == {"9.0"}


def test_nobody_is_asked_unless_it_is_wanted() -> None:
    """`plan` alone takes no 20 s."""
    selector = FakeSelector()

    found = planned(selector, ask=False)

    assert isinstance(found, Planned)
    assert found.plan.selector == ""
    assert selector.asked == []


def test_the_plan_follows_what_the_build_says() -> None:
    """FLASH_ATTN missing from this build: the next one, and a note."""
    found = planned(FakeSelector(refuses={"FLASH_ATTN": "ImportError"}))

    assert isinstance(found, Planned)
    assert found.plan.attention_backends == ("FLASHINFER",)
    assert "compat.selector-differs" in [each.code for each in found.findings]


def test_a_build_that_refuses_everything_is_no_plan() -> None:
    """Each backend's reason is in it."""
    names = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT")

    found = planned(FakeSelector(refuses=dict.fromkeys(names, "no kernels")))

    assert isinstance(found, NoPlan)
    assert any("no kernels" in each.why for each in found.rejected)


def test_a_selector_that_fails_leaves_what_was_read_and_says_so() -> None:
    """With the last lines of what it printed."""
    found = planned(FakeSelector(fails="it did not end within 300 s; last line"))

    assert isinstance(found, Planned)
    assert found.plan.attention_backends == ("FLASH_ATTN",)
    assert found.plan.selector == ""
    (note,) = [each for each in found.findings if each.code == "compat.selector-failed"]
    assert note.seen == "it did not end within 300 s; last line"
    assert not note.blocks


def test_on_a_cpu_nobody_is_asked_and_only_who_wants_it_is_told() -> None:
    """The selectors choose for GPUs."""
    selector = FakeSelector()

    by_itself = planned(selector, site=ON_CPU, device="cpu")
    by_hand = planned(selector, ask=True, site=ON_CPU, device="cpu")

    assert isinstance(by_itself, Planned)
    assert isinstance(by_hand, Planned)
    assert selector.asked == []
    codes = [[each.code for each in found.findings] for found in (by_itself, by_hand)]
    assert ["compat.selector-failed" in each for each in codes] == [False, True]


def test_variables_that_the_user_sets_are_there_when_the_build_is_asked() -> None:
    """VLLM_USE_FLASHINFER_MOE_FP4 decides between kernels; ours for NCCL do not."""
    selector = FakeSelector()

    planned(selector, VLLM_USE_TRTLLM_ATTENTION="0")

    assert selector.asked[0].environment == (("VLLM_USE_TRTLLM_ATTENTION", "0"),)


def test_the_model_is_not_changed_by_asking() -> None:
    """The same plan comes out where the selector says what was read."""
    asked, read = planned(FakeSelector()), planned(FakeSelector(), ask=False)

    assert isinstance(asked, Planned)
    assert isinstance(read, Planned)
    assert replace(asked.plan, selector="") == read.plan
    assert asked.inspection.model == model()
