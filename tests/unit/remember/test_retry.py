"""What a failed start may change of the next, and what it may not."""

from dataclasses import replace

import pytest

from fakes.records import a_birth
from holddown.base.evidence import Source, SourceKind
from holddown.base.finding import Finding, Severity
from holddown.launch.lifecycle import State
from holddown.plan.plan import Setting
from holddown.plan.wishes import Edit
from holddown.remember.record import Deployment, Status
from holddown.remember.retry import MOST_RETRIES, Refused, next_edits

CAUSE = Finding("engine.x", Severity.BLOCK, "engine", "it did not fit")


def failed(*edits: tuple[str, str], settings: tuple[tuple[str, str], ...] = (), by_user: bool = False) -> Deployment:
    birth = a_birth()
    kind = SourceKind.USER if by_user else SourceKind.DERIVED
    own = tuple(Setting(name, value, "because", Source(kind, "here")) for name, value in settings)
    plan = replace(birth.plan, settings=own)
    return Deployment(replace(birth, plan=plan), Status(State.FAILED, 0.0, cause=CAUSE, edits=edits))


def tried(*edits: tuple[str, str]) -> tuple[Edit, ...]:
    return tuple(Edit(name, value, "it did not fit", f"start {name}={value}") for name, value in edits)


def test_the_change_carries_its_because_and_its_start() -> None:
    """For explain."""
    found = next_edits(failed(("max-model-len", "1024")), (), consent=False)

    assert not isinstance(found, Refused)
    assert [(each.name, each.value, each.because) for each in found] == [("max-model-len", "1024", "it did not fit")]
    assert a_birth().id in found[0].where


def test_a_failure_that_names_no_change_is_refused_without_a_word() -> None:
    """There is nothing to say of it."""
    assert next_edits(failed(), (), consent=False) == Refused("")


def test_the_same_change_is_never_made_twice() -> None:
    """It did not help."""
    found = next_edits(failed(("max-model-len", "1024")), tried(("max-model-len", "1024")), consent=False)
    assert isinstance(found, Refused) and "was tried already" in found.why


def test_it_is_changed_twice_at_most() -> None:
    """However many causes come."""
    before = tried(*((f"a{number}", "1") for number in range(MOST_RETRIES)))
    found = next_edits(failed(("max-model-len", "1024")), before, consent=True)
    assert isinstance(found, Refused) and "left to you" in found.why


@pytest.mark.parametrize(
    ("edit", "there"),
    [
        (("quantization", "fp8"), ()),
        (("trust-remote-code", "true"), ()),
        (("host", "0.0.0.0"), ()),
        (("tool-call-parser", "kimi_k2"), ()),
        (("gpu-memory-utilization", "0.95"), ()),
        (("gpu-memory-utilization", "0.85"), (("gpu-memory-utilization", "0.80"),)),
        (("kv-cache-dtype", "fp8"), ()),
        (("kv-cache-dtype", "fp8"), (("kv-cache-dtype", "bfloat16"),)),
        (("kv-cache-dtype", "auto"), ()),
        (("kv-cache-dtype", "nvfp4"), (("kv-cache-dtype", "fp8"),)),
        (("max-model-len", "1024"), (("max-model-len", "1024"),)),
    ],
)
def test_what_weakens_or_changes_nothing_is_refused(edit: tuple[str, str], there: tuple[tuple[str, str], ...]) -> None:
    """Weights, trust, who may ask; a KV cache is only raised; and what it was already. With consent, too."""
    found = next_edits(failed(edit, settings=there), (), consent=True)
    assert isinstance(found, Refused) and found.why


def test_a_share_moves_the_way_that_its_failure_asks_for() -> None:
    """Down where memory ran out, up where the KV cache had too little."""
    less = failed(("gpu-memory-utilization", "0.85"))
    more = failed(("gpu-memory-utilization", "0.95"))
    too_small = replace(more, status=replace(more.status, cause=replace(CAUSE, code="engine.kv-cache-too-small")))

    assert not isinstance(next_edits(less, (), consent=False), Refused)
    assert not isinstance(next_edits(too_small, (), consent=False), Refused)


@pytest.mark.parametrize("old", ["fp8", "fp8_e4m3", "nvfp4"])
def test_a_kv_cache_is_raised(old: str) -> None:
    """To the model's own."""
    found = next_edits(failed(("kv-cache-dtype", "auto"), settings=(("kv-cache-dtype", old),)), (), consent=False)
    assert not isinstance(found, Refused)


def test_what_the_user_set_needs_consent() -> None:
    """And the refusal names it, so that somebody can be asked."""
    deployment = failed(("max-model-len", "1024"), settings=(("max-model-len", "4096"),), by_user=True)

    found = next_edits(deployment, (), consent=False)
    assert isinstance(found, Refused) and found.by_user == ("max-model-len",)
    assert not isinstance(next_edits(deployment, (), consent=True), Refused)
