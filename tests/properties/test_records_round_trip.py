"""What is put on record comes back as it was."""

from dataclasses import fields, is_dataclass
from typing import get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.facts import model
from holddown.base.codec import dump, dumps, load, loads
from holddown.base.evidence import Known, Source
from holddown.facts.model import ModelFacts
from holddown.plan.parallelism import Parallelism
from holddown.remember.record import Birth, Deployment, Happening, Status
from holddown.remember.run import Run

# JSON has neither: nan is no figure that anybody measured
numbers = st.floats(allow_nan=False, allow_infinity=False)
st.register_type_strategy(float, numbers)
st.register_type_strategy(Known, lambda known: st.builds(Known, st.from_type(get_args(known)[0]), st.from_type(Source)))
sizes = st.integers(min_value=1)
st.register_type_strategy(Parallelism, st.builds(Parallelism, sizes, sizes, sizes))


@given(st.from_type(Status))
def test_any_status(status: Status) -> None:
    """Of whatever verdicts, figures, notes and ends."""
    assert loads(Status, dumps(status)) == status


@given(st.from_type(Birth))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_birth(birth: Birth) -> None:
    """Facts that are known and facts that are not, with their sources."""
    assert loads(Birth, dumps(birth)) == birth


@given(st.one_of(*map(st.from_type, get_args(Happening))))
def test_any_happening(happening: Happening) -> None:
    """Each kind comes back as its own kind."""
    assert loads(Happening, dumps(happening, Happening)) == happening  # type: ignore[arg-type]


@given(st.one_of(*map(st.from_type, get_args(Run))))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_run(run: Run) -> None:
    """Each kind with all that was measured and judged."""
    assert loads(Run, dumps(run, Run)) == run  # type: ignore[arg-type]


def test_a_status_of_an_older_version_is_readable() -> None:
    """Fields that were added since have defaults."""
    assert loads(Status, '{"state": "released", "since": 1.0}').segments == ()


def test_a_record_with_a_field_that_is_gone_is_readable() -> None:
    """ModelFacts had `head_dim` and `latent_kv_dim` before attention was kept by layer; stores have them still."""
    older = dump(model()) | {"head_dim": {"is": "Unknown", "why": "-"}, "remote_code_files": ["modeling_x.py"]}
    assert load(ModelFacts, older) == model()


def test_records_are_made_of_frozen_values() -> None:
    """What is on record must not change in a reader's hands."""
    for type_ in (Birth, Status, Deployment, *get_args(Happening), *get_args(Run)):
        assert is_dataclass(type_) and type_.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert fields(type_)
