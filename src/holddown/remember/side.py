"""One side of a comparison: a deployment, a run, or both; and what it ran with beside the other's."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holddown.base.evidence import Fact, Known
from holddown.launch.spec import EnvVar
from holddown.measure.compare import Sample, sample_of
from holddown.measure.metrics import Measurement
from holddown.measure.run import Closed, Figure
from holddown.plan.plan import Plan, Setting
from holddown.remember.curve import lengths
from holddown.remember.record import Deployment
from holddown.remember.run import BenchRun, VerifyRun
from holddown.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Side:
    """word: as the user named it. Each part is None where it has none."""

    word: str
    deployment: Deployment | None = None
    bench: BenchRun | None = None
    verify: VerifyRun | None = None

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Of its load run; failing that, of what was measured before its release."""
        if self.bench is not None:
            return tuple(map(sample_of, self.bench.phases))
        return _of_release(self.deployment.status.measurements) if self.deployment is not None else ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        if self.verify is not None:
            return self.verify.verdicts
        return self.deployment.status.verdicts if self.deployment is not None else ()


def _of_release(measurements: tuple[Measurement, ...]) -> tuple[Sample, ...]:
    by_load: dict[int, list[Figure]] = {}
    for one in measurements:
        figure = Figure(one.metric, one.value, one.unit, one.percentile, one.n)
        by_load.setdefault(one.concurrency, []).append(figure)
    return tuple(Sample(Closed(load), tuple(figures)) for load, figures in by_load.items())


@dataclass(frozen=True, slots=True)
class Change:
    """Something that differs. of: model, engine, machine, workload, plan, setting, variable, check. a, b: empty where
    that side has none. because_a, because_b: of what was decided."""

    of: str
    name: str
    a: str
    b: str
    because_a: str = ""
    because_b: str = ""


def changes(a: Side, b: Side) -> tuple[Change, ...]:
    """All that differs as far as it is on record; what one side does not tell is no difference."""
    found = [*_subjects(a, b), *_workloads(a, b), *_verdicts(a, b)]
    if a.deployment is not None and b.deployment is not None:
        left, right = a.deployment.birth, b.deployment.birth
        found += _plans(left.plan, right.plan)
        found += _given_otherwise("setting", _given(left.plan.settings), _given(right.plan.settings))
        found += _given_otherwise("variable", _given(left.spec.env), _given(right.spec.env))
    return tuple(found)


def unknown(a: Side, b: Side) -> tuple[str, ...]:
    """What could not be laid side by side, and why."""
    lacking = [side.word for side in (a, b) if side.deployment is None]
    why = f"{' and '.join(lacking)}: no record of a deployment, so no plan and no settings"
    return (why,) if lacking else ()


def _subjects(a: Side, b: Side) -> Iterator[Change]:
    for of, name in (("engine", "engine"), ("engine", "version"), ("model", "checkpoint"), ("machine", "machine")):
        left, right = _told(a, name), _told(b, name)
        if left and right and left != right:
            yield Change(of, name, left, right)


def _told(side: Side, name: str) -> str:
    """Empty where it is not known."""
    if side.deployment is not None:
        birth = side.deployment.birth
        gpus = f"{len(birth.plan.gpus)} x {birth.plan.hardware.gpu}" if birth.plan.hardware else ""
        own = {
            "engine": birth.engine.name,
            "version": birth.engine.version,
            "checkpoint": birth.plan.model_digest,
            "machine": gpus,
        }
        return own[name]
    run = side.bench or side.verify
    fact: Fact[str] | None = getattr(run.subject, name) if run is not None else None
    return fact.value if isinstance(fact, Known) else ""


def _workloads(a: Side, b: Side) -> Iterator[Change]:
    if a.bench is None or b.bench is None:
        return
    for name in ("workload", "seed"):
        left, right = str(getattr(a.bench, name)), str(getattr(b.bench, name))
        if left != right:
            yield Change("workload", name, left, right)
    left, right = _lengths_text(a.bench), _lengths_text(b.bench)
    if left and right and left != right:
        yield Change("workload", "lengths", left, right)


def _lengths_text(run: BenchRun) -> str:
    """`1024 tokens in, 256 out`, in the mean; empty where no request succeeded."""
    found = lengths(run)
    return f"{found[0]} tokens in, {found[1]} out" if found is not None else ""


def _verdicts(a: Side, b: Side) -> Iterator[Change]:
    left, right = ({each.check: each for each in side.verdicts} for side in (a, b))
    for check in left:
        if check in right and left[check].outcome != right[check].outcome:
            one, other = left[check], right[check]
            yield Change("check", check, str(one.outcome), str(other.outcome), one.seen, other.seen)


def _plans(a: Plan, b: Plan) -> Iterator[Change]:
    rows = (
        ("split", (a.parallelism.text, b.parallelism.text), (a.parallelism_because, b.parallelism_because)),
        ("attention", (", ".join(a.attention_backends), ", ".join(b.attention_backends)), (a.selector, b.selector)),
        ("experts", (a.experts_backend, b.experts_backend), (a.selector, b.selector)),
    )
    for name, values, becauses in rows:
        if values[0] != values[1]:
            yield Change("plan", name, *values, *becauses)


_Given = Mapping[str, tuple[str, str]]
"""Name -> value and because."""


def _given(each: Iterable[Setting | EnvVar]) -> _Given:
    return {one.name: (one.value, one.because) for one in each}


def _given_otherwise(of: str, a: _Given, b: _Given) -> Iterator[Change]:
    nothing = ("", "")
    for name in dict.fromkeys((*a, *b)):
        (left, because_left), (right, because_right) = a.get(name, nothing), b.get(name, nothing)
        if left != right:
            yield Change(of, name, left, right, because_left, because_right)
