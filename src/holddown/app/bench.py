"""Puts load on a server, or on two by turns, and gives a record of how fast each is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from holddown import ports
from holddown.app.engine_side import EngineWatch
from holddown.app.language import language
from holddown.app.target import Target
from holddown.base.errors import FactError, UsageError
from holddown.base.evidence import Fact, Known, Unknown, derived
from holddown.facts.workload import NO_SLO, Slo
from holddown.measure.arrivals import dues
from holddown.measure.drive import STOPPED, Drive, Driven, Language, Pulse, Shot, shot_of
from holddown.measure.figures import figures, meets, sound, tpot_ms, ttft_ms
from holddown.measure.metrics import Measurement
from holddown.measure.pauses import ordered
from holddown.measure.run import Arrival, Closed, Open, Phase, Spacing, Trace
from holddown.measure.shapes import Shape
from holddown.measure.stats import quantiles
from holddown.measure.sweep import Enough, Step, next_rate, next_users
from holddown.measure.why import behind, judged, value
from holddown.remember.calibrate import comparisons
from holddown.remember.record import Comparison
from holddown.remember.run import BenchRun
from holddown.tables.load import engine_table

_WARM_UP_REQUESTS, _WARM_UP_TOKENS = 2, 16
_SESSIONS_OF_A_PHASE = 10_000_000
_BUSY_SHARE = 0.4
"""Of a core that a process of the client is given work for: above that it would come late to its sockets."""


@dataclass(frozen=True, slots=True)
class Wish:
    """arrivals: one phase each; empty for a sweep over users, or over rates. seconds, requests: of a phase; one of them
    may be 0. repeat: how often each phase. budget_s: after so long no further load of a sweep is begun. trace: the
    requests of `Spacing.TRACE`."""

    shape: Shape
    arrivals: tuple[Arrival, ...] = ()
    sweep_rates: bool = False
    seconds: float = 20.0
    requests: int = 0
    repeat: int = 1
    budget_s: float = 180.0
    slo: Slo = NO_SLO
    seed: int = 0
    patience_s: float = 120.0
    trace: tuple[Shot, ...] = ()


@dataclass(frozen=True, slots=True)
class Doors:
    """load: a load client for a server. say: takes a line. pulse: (arrival, how it goes), a few times a second. ended:
    of a phase. new_id: for a record."""

    store: ports.Store
    clock: ports.Clock
    host: ports.Host
    load: Callable[[Target], ports.LoadClient]
    say: ports.Progress
    pulse: Callable[[Arrival, Pulse], None]
    ended: Callable[[str, Phase], None]
    new_id: Callable[[], str]


@dataclass
class _Arm:
    """One server while it is measured. token_s, first_s: as the warm-up saw them."""

    target: Target
    load: ports.LoadClient
    language: Language
    ignore_eos: bool
    notes: list[str]
    token_s: float = 0.0
    first_s: float = 0.0
    phases: list[Phase] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.target.subject.name


def bench(targets: Sequence[Target], wish: Wish, doors: Doors) -> tuple[BenchRun, ...]:
    """One record per server, in their order. Ctrl-C keeps the phases that were measured, the last one cut short.

    Raises: UsageError where the requests do not fit the server; FactError where it does not answer the warm-up.
    """
    at = doors.clock.now()
    arms = [_prepared(target, wish, doors) for target in targets]
    try:
        cut = _measure(arms, wish, doors)
    except KeyboardInterrupt:
        cut = STOPPED
    runs = []
    for arm in arms:
        run = BenchRun(
            id=doors.new_id(),
            at=at,
            subject=arm.target.subject,
            workload=wish.shape.name,
            seed=wish.seed,
            phases=tuple(arm.phases),
            cut=cut,
            notes=tuple(arm.notes),
            slo=wish.slo,
            comparisons=_compared(arm),
        )
        if run.phases:
            doors.store.add_run(run)
        runs.append(run)
    return tuple(runs)


# --- before -----------------------------------------------------------------------------------------------------------


def _prepared(target: Target, wish: Wish, doors: Doors) -> _Arm:
    _expect_fits(target, wish)
    doors.say(f"asking {target.subject.name} how it counts tokens")
    spoken = language(target.client, target.subject.model)
    arm = _Arm(target, doors.load(target), spoken, ignore_eos=True, notes=[wish.shape.text])
    arm.notes += [spoken.note] if spoken.note else []
    arm.notes += [] if spoken.chat else ["asked by plain completions: it answers no chats"]
    doors.say(f"warming up {target.subject.name}")
    _warm_up(arm, wish)
    return arm


def _expect_fits(target: Target, wish: Wish) -> None:
    room = target.served.max_model_len
    needed = max(
        [wish.shape.input_tokens + wish.shape.output_tokens]
        + [shot.input_tokens + shot.output_tokens for shot in wish.trace]
    )
    if isinstance(room, Known) and needed > room.value:
        tokens_in = room.value * 2 // 3 // 16 * 16
        raise UsageError(
            f"a request of {needed} tokens does not fit {target.subject.name}",
            code="bench.too-long",
            seen=f"its context is {room.value} tokens ({room.source.where})",
            do=f"--workload {tokens_in}:{room.value - tokens_in}, or shorter",
        )


def _warm_up(arm: _Arm, wish: Wish) -> None:
    """Sets how fast it is and whether `ignore_eos` is kept. Raises: FactError."""
    kind = arm.target.served.engine
    offered = isinstance(kind, Known) and bool(engine_table(kind.value).ignore_eos_source)
    shape = replace(wish.shape, output_tokens=min(_WARM_UP_TOKENS, wish.shape.output_tokens), turns=1)
    driven = _warmed(arm, wish, shape)
    if not sound(driven.traces) and not offered and any("HTTP 4" in trace.fault for trace in driven.traces):
        arm.ignore_eos = False
        driven = _warmed(arm, wish, shape)
    good = sound(driven.traces)
    if not good:
        raise FactError(
            f"{arm.name} does not answer in a way that can be measured",
            code="bench.no-answer",
            seen=next((trace.fault for trace in driven.traces), driven.cut),
            do="holddown verify TARGET says more; --workload IN:OUT asks for less",
        )
    if not arm.ignore_eos:
        arm.notes.append("it takes no ignore_eos: answers end where the model ends them")
    elif any(trace.output_tokens < shape.output_tokens for trace in good):
        arm.notes.append("it does not keep to ignore_eos: answers end where the model ends them")
    off = {trace.input_tokens - shape.input_tokens for trace in good} - {0}
    if arm.language.exact and off:
        arm.notes.append(f"by its usage prompts are {max(off, key=abs):+d} tokens off what its tokenizer counted")
    last = good[-1]
    arm.first_s, arm.token_s = ttft_ms(last) / 1000, (tpot_ms(last) or 0.0) / 1000


def _warmed(arm: _Arm, wish: Wish, shape: Shape) -> Driven:
    # one after the other: the first pays for lazy compilation, the second tells how fast it is
    drive = replace(
        _drive(arm, wish, shape, first_session=-_SESSIONS_OF_A_PHASE), users=1, requests=_WARM_UP_REQUESTS, seconds=0.0
    )
    driven = arm.load.drive(drive, lambda _: None)
    if driven.cut == STOPPED:
        raise KeyboardInterrupt
    return driven


def _drive(arm: _Arm, wish: Wish, shape: Shape, first_session: int) -> Drive:
    return Drive(
        model=arm.target.subject.model,
        language=arm.language,
        shape=shape,
        seed=wish.seed,
        ignore_eos=arm.ignore_eos,
        users=0,
        requests=wish.requests,
        seconds=wish.seconds,
        first_session=first_session,
        patience_s=wish.patience_s,
    )


# --- the phases -------------------------------------------------------------------------------------------------------


def _measure(arms: list[_Arm], wish: Wish, doors: Doors) -> str:
    """Gives why it was cut short, empty where it was not."""
    began = doors.clock.monotonic()
    rounds = 0
    while True:
        arrival = _next(arms[0], wish, doors.clock.monotonic() - began)
        if isinstance(arrival, Enough):
            for arm in arms:
                arm.notes += [arrival.why] if arrival.why else []
            return ""
        for _ in range(wish.repeat):
            # A B, then B A: what drifts, a machine that grows warm, falls on both alike
            for arm in arms if rounds % 2 == 0 else reversed(arms):
                phase, cut = _phase(arm, arrival, wish, doors)
                arm.phases.append(phase)
                doors.ended(arm.name, phase)
                if cut:
                    return cut
            rounds += 1


def _next(arm: _Arm, wish: Wish, spent_s: float) -> Arrival | Enough:
    done = len(arm.phases) // wish.repeat
    if wish.arrivals:
        return wish.arrivals[done] if done < len(wish.arrivals) else Enough("")
    if arm.phases and spent_s > wish.budget_s:
        return Enough(f"the sweep ended after {spent_s:.0f} s; --budget gives it longer")
    steps = [_step(phase, wish.slo) for phase in arm.phases[:: wish.repeat]]
    if wish.sweep_rates:
        alone_s = arm.first_s + arm.token_s * wish.shape.output_tokens
        rate = next_rate(steps, float(f"{1 / max(alone_s, 1e-3):.2g}"))
        return _ended(rate) if isinstance(rate, Enough) else Open(Spacing.POISSON, rate)
    users = next_users(steps)
    return _ended(users) if isinstance(users, Enough) else Closed(users)


def _ended(enough: Enough) -> Enough:
    return Enough(f"the sweep ended: {enough.why}")


def _step(phase: Phase, slo: Slo) -> Step:
    closed = isinstance(phase.arrival, Closed)
    rate = value(phase.figures, "output_throughput" if closed else "request_rate")
    count = max(1, len(phase.traces))
    return Step(
        load=float(phase.arrival.concurrency) if isinstance(phase.arrival, Closed) else phase.arrival.rate_per_s,
        throughput=rate or 0.0,
        failed_share=sum(1 for trace in phase.traces if trace.fault) / count,
        slo_met=sum(1 for trace in phase.traces if meets(trace, slo)) / count if slo != NO_SLO else 1.0,
        limited=bool(phase.client.limited),
        behind=behind(phase.traces) is not None,
    )


def _phase(arm: _Arm, arrival: Arrival, wish: Wish, doors: Doors) -> tuple[Phase, str]:
    drive = _planned(arm, arrival, wish)
    watch = EngineWatch(arm.target.client, arm.target.served.engine)
    watch.begin()
    began_at = doors.clock.now()
    gpus = arm.target.deployment.birth.plan.gpus if arm.target.deployment else ()
    before = doors.host.energy_joules(gpus) if gpus else _NO_GPUS

    def pulse(beat: Pulse) -> None:
        doors.pulse(arrival, beat)
        watch.look(beat.elapsed_s)

    driven = arm.load.drive(drive, pulse)
    joules = _used(before, doors.host.energy_joules(gpus) if gpus else _NO_GPUS)
    found = figures(driven.traces, driven.held_s, driven.pauses, wish.slo, joules)
    capacity = arm.load.capacity()
    client = replace(driven.client, capacity_per_s=capacity.value if isinstance(capacity, Known) else 0.0)
    phase = Phase(
        arrival=arrival,
        began_at=began_at,
        seconds=driven.held_s,
        traces=driven.traces,
        itl_quantiles_ms=quantiles(ordered(driven.pauses)),
        itl_count=driven.pauses.count,
        figures=found,
        engine=watch.end(),
        client=judged(client, found),
        energy_joules=joules,
    )
    return phase, driven.cut


_NO_GPUS = Unknown("it is not known which GPUs it uses")


def _used(before: Fact[float], after: Fact[float]) -> Fact[float]:
    if isinstance(before, Known) and isinstance(after, Known):
        return derived(after.value - before.value, after.source.where)
    return before if isinstance(before, Unknown) else after


def _planned(arm: _Arm, arrival: Arrival, wish: Wish) -> Drive:
    session = len(arm.phases) * _SESSIONS_OF_A_PHASE
    drive = _drive(arm, wish, wish.shape, session)
    match arrival:
        case Closed(users):
            drive = replace(drive, users=users, requests=max(wish.requests, users) if wish.requests else 0)
        case Open(Spacing.TRACE):
            shots = tuple(replace(shot, session=session + shot.session) for shot in wish.trace)
            drive = replace(drive, shots=shots, seconds=_span(shots), requests=0)
        case Open():
            seconds = wish.seconds or wish.requests / arrival.rate_per_s
            times = dues(arrival, seconds, wish.seed)
            if wish.requests:
                times = times[: wish.requests]
            shots = tuple(_open_shot(wish.shape, session, number, due) for number, due in enumerate(times))
            drive = replace(drive, shots=shots, seconds=seconds, requests=0)
    return replace(drive, processes=_processes(arm, drive))


_OPEN_SESSIONS = 64
"""Of an open loop, that go on turn by turn side by side: by then the turn before is most likely answered."""


def _open_shot(shape: Shape, first_session: int, number: int, due: float) -> Shot:
    if shape.turns == 1:
        return shot_of(shape, first_session + number, 0, due)
    batch, place = divmod(number, _OPEN_SESSIONS * shape.turns)
    turn, session = divmod(place, _OPEN_SESSIONS)
    return shot_of(shape, first_session + batch * _OPEN_SESSIONS + session, turn, due)


def _span(shots: Sequence[Shot]) -> float:
    last = shots[-1].due_s
    return last * len(shots) / (len(shots) - 1) if len(shots) > 1 else 1.0


def _processes(arm: _Arm, drive: Drive) -> int:
    """As many as the load needs if every stream were as fast as one alone; a core is left for the server."""
    capacity = arm.load.capacity()
    most = max(1, arm.load.cores() - 1)
    if not isinstance(capacity, Known):
        return most
    answer_s = arm.first_s + arm.token_s * drive.shape.output_tokens
    streams = drive.users or len(drive.shots) / max(drive.seconds, 1e-3) * answer_s
    events_per_s = streams / arm.token_s if arm.token_s else streams * drive.shape.output_tokens
    return max(1, min(most, round(events_per_s / (_BUSY_SHARE * capacity.value) + 0.5)))


# --- after ------------------------------------------------------------------------------------------------------------


def _compared(arm: _Arm) -> tuple[Comparison, ...]:
    """Nothing of a server that is not ours."""
    deployment = arm.target.deployment
    measured = [one for phase in arm.phases if (one := _measurement(phase)) is not None]
    return comparisons(deployment.birth.plan, deployment.birth.model, measured) if deployment is not None else ()


def _measurement(phase: Phase) -> Measurement | None:
    rate = value(phase.figures, "output_throughput")
    good: Sequence[Trace] = sound(phase.traces)
    if not isinstance(phase.arrival, Closed) or rate is None or not good:
        return None
    return Measurement(
        metric="output_throughput",
        value=rate,
        unit="tok/s",
        percentile=0,
        n=len(good),
        concurrency=phase.arrival.concurrency,
        input_tokens=round(sum(trace.input_tokens for trace in good) / len(good)),
        output_tokens=round(sum(trace.output_tokens for trace in good) / len(good)),
    )
