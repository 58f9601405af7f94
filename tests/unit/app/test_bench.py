"""Load on a server, or on two by turns, and the record of it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from fakes.client import FakeClient
from fakes.clock import FakeClock
from fakes.leftovers import FakeHost
from fakes.load import IDLE_CLIENT, FakeLoad, a_trace, steadily
from fakes.runs import a_subject
from fakes.store import FakeStore
from holddown.app.bench import Doors, Wish, bench
from holddown.app.target import Target
from holddown.base.errors import FactError, UsageError
from holddown.base.evidence import Unknown, from_probe
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.facts.served import Served
from holddown.facts.workload import Slo
from holddown.measure.drive import Drive, Driven, Pulse
from holddown.measure.pauses import Pauses
from holddown.measure.run import Closed, Open, Phase, Spacing
from holddown.measure.shapes import SHAPES, Shape
from holddown.measure.why import value

SMALL = Shape("64:11", 64, 11)


@dataclass
class World:
    """load: what each server's load client says, by the server's name."""

    load: dict[str, FakeLoad] = field(default_factory=dict)
    store: FakeStore = field(default_factory=FakeStore)
    said: list[str] = field(default_factory=list)
    ended: list[tuple[str, Phase]] = field(default_factory=list)
    pulses: list[Pulse] = field(default_factory=list)

    def doors(self) -> Doors:
        ids = iter(f"be0c000{number}" for number in range(9))
        return Doors(
            store=self.store,
            clock=FakeClock(),
            host=FakeHost(),
            load=lambda target: self.load.setdefault(target.subject.name, FakeLoad()),
            say=self.said.append,
            pulse=lambda arrival, pulse: self.pulses.append(pulse),
            ended=lambda name, phase: self.ended.append((name, phase)),
            new_id=lambda: next(ids),
        )


def a_target(name: str = "m", engine: str = "vllm", room: int = 4096, client: FakeClient | None = None) -> Target:
    told = from_probe(engine, "x") if engine else Unknown("not told")
    served = Served(("m",), told, Unknown("x"), from_probe(room, "/v1/models"))
    return Target(a_subject(deployment="", name=name), served, client or FakeClient(), None)


def users(drive: Drive) -> int:
    return drive.users


def test_a_run_is_on_record_with_its_phases() -> None:
    """One per number of users that was asked, after a warm-up that is not on it."""
    world = World()
    (run,) = bench([a_target()], Wish(SMALL, (Closed(1), Closed(8)), seconds=5.0), world.doors())
    assert world.store.run(run.id) == run
    assert [phase.arrival for phase in run.phases] == [Closed(1), Closed(8)]
    assert value(run.phases[1].figures, "output_throughput") == pytest.approx(8 * 110 / 3, rel=0.01)
    assert (run.workload, run.cut, run.source) == ("64:11", "", "")
    warm_up, *phases = world.load["m"].driven
    assert warm_up.shape.output_tokens <= 16 and warm_up.requests == 2
    assert [drive.users for drive in phases] == [1, 8]
    assert len({drive.first_session for drive in world.load["m"].driven}) == 3


def test_nothing_said_is_a_sweep_to_the_knee() -> None:
    """A server that serves four users as fast as any number: 16 bring no more than 4."""

    def saturated(drive: Drive) -> Driven:
        slower = max(1.0, drive.users / 4)
        traces = tuple(a_trace(0.0, token_s=0.02 * slower) for _ in range(drive.users or 1))
        return Driven(traces, 0.3 * slower, Pauses(0, ()), IDLE_CLIENT)

    world = World({"m": FakeLoad(saturated)})
    (run,) = bench([a_target()], Wish(SMALL), world.doors())
    assert [phase.arrival for phase in run.phases] == [Closed(users) for users in (1, 2, 4, 8, 16)]
    assert any("bring no more tokens" in note for note in run.notes)


def test_a_sweep_over_rates() -> None:
    """From about one request at a time on, and the knee in words."""
    world = World()
    (run,) = bench([a_target()], Wish(SMALL, sweep_rates=True, seconds=4.0), world.doors())
    assert all(isinstance(phase.arrival, Open) for phase in run.phases)
    assert any("the sweep ended" in note for note in run.notes)


def test_two_servers_are_measured_by_turns() -> None:
    """A B, B A: what drifts falls on both alike."""
    world = World()
    wish = Wish(SMALL, (Closed(1), Closed(2)), requests=4, seconds=0.0, repeat=2)
    first, second = bench([a_target("a"), a_target("b")], wish, world.doors())
    assert [name for name, _ in world.ended] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert len(first.phases) == len(second.phases) == 4
    assert first.id != second.id


def stopped_after(phases: int, cut: str = "stopped by Ctrl-C") -> Callable[[Drive], Driven]:
    left = [phases + 1]  # and the warm-up

    def says(drive: Drive) -> Driven:
        left[0] -= 1
        return replace(steadily(drive), cut=cut if left[0] == 0 else "")

    return says


def test_ctrl_c_keeps_what_was_measured() -> None:
    """The phase that was cut short too, and the record says so."""
    world = World({"m": FakeLoad(stopped_after(2))})
    (run,) = bench([a_target()], Wish(SMALL, (Closed(1), Closed(2), Closed(4))), world.doors())
    assert len(run.phases) == 2 and run.cut == "stopped by Ctrl-C"
    assert world.store.run(run.id) == run


def test_ctrl_c_between_phases() -> None:
    """An interrupt that no load client took."""

    def interrupted(drive: Drive) -> Driven:
        if drive.users == 2:
            raise KeyboardInterrupt
        return steadily(drive)

    world = World({"m": FakeLoad(interrupted)})
    (run,) = bench([a_target()], Wish(SMALL, (Closed(1), Closed(2))), world.doors())
    assert [phase.arrival for phase in run.phases] == [Closed(1)] and run.cut


def test_a_client_that_comes_late_is_marked() -> None:
    """In the record, so that every view can say it."""
    late = FakeLoad(lambda drive: replace(steadily(drive), client=replace(IDLE_CLIENT, cpu_share=0.99)))
    (run,) = bench([a_target()], Wish(SMALL, (Closed(1),)), World({"m": late}).doors())
    assert "99%" in run.phases[0].client.limited


def test_the_engines_counters_are_read_beside() -> None:
    """Once load is on it, by the names of its table."""
    client = FakeClient(measured={"vllm:num_requests_waiting": 3.0, "vllm:kv_cache_usage_perc": 0.5})
    (run,) = bench([a_target(client=client)], Wish(SMALL, (Closed(8),)), World().doors())
    engine = run.phases[0].engine
    assert engine.waiting_mean == from_probe(3.0, "/metrics")
    assert isinstance(engine.preemptions, Unknown)


def test_an_engine_that_is_not_known_tells_nothing() -> None:
    """And is asked for nothing."""
    (run,) = bench([a_target(engine="")], Wish(SMALL, (Closed(8),)), World().doors())
    assert run.phases[0].engine.waiting_mean == Unknown("not told")


def test_without_ignore_eos_where_it_is_refused() -> None:
    """A server that is none of the three may answer 400; the record says how long answers are then."""

    def strict(drive: Drive) -> Driven:
        if drive.ignore_eos:
            return Driven((a_trace(fault="HTTP 400: unknown field ignore_eos"),), 1.0, Pauses(0, ()), IDLE_CLIENT)
        return steadily(drive)

    world = World({"m": FakeLoad(strict)})
    (run,) = bench([a_target(engine="")], Wish(SMALL, (Closed(1),)), world.doors())
    assert any("ignore_eos" in note for note in run.notes)
    assert not world.load["m"].driven[-1].ignore_eos


def test_a_server_that_cannot_be_measured() -> None:
    """Nothing is put on record, and the error has the server's own words."""
    dead = FakeLoad(lambda drive: Driven((a_trace(fault="HTTP 500: no"),), 1.0, Pauses(0, ()), IDLE_CLIENT))
    world = World({"m": dead})
    with pytest.raises(FactError) as error:
        bench([a_target()], Wish(SMALL, (Closed(1),)), world.doors())
    assert error.value.seen == "HTTP 500: no"
    assert world.store.runs("http://127.0.0.1:8000") == ()


def test_a_request_that_does_not_fit() -> None:
    """Said before any load, with sizes that do."""
    with pytest.raises(UsageError) as error:
        bench([a_target(room=2048)], Wish(SHAPES["agent"], (Closed(1),)), World().doors())
    assert error.value.code == "bench.too-long" and "--workload" in error.value.do


def test_goodput_by_the_limits_of_the_wish() -> None:
    """They are on record with it."""
    (run,) = bench([a_target()], Wish(SMALL, (Closed(1),), slo=Slo(ttft_ms=500)), World().doors())
    assert value(run.phases[0].figures, "goodput") == pytest.approx(10 / 3, rel=0.01)
    assert run.slo == Slo(ttft_ms=500)


@pytest.mark.parametrize(
    ("arrival", "requests", "wanted"),
    [(Open(Spacing.CONSTANT, 2.0), 0, 20), (Open(Spacing.CONSTANT, 2.0), 5, 5), (Open(Spacing.BURSTS, 4.0, 8), 0, 40)],
)
def test_an_open_loop_sends_what_is_due(arrival: Open, requests: int, wanted: int) -> None:
    """As many as the rate makes of the time, each a text of its own."""
    world = World()
    bench([a_target()], Wish(SMALL, (arrival,), seconds=10.0, requests=requests), world.doors())
    shots = world.load["m"].driven[-1].shots
    assert len(shots) == wanted == len({shot.session for shot in shots})


def test_as_many_processes_as_the_load_needs() -> None:
    """One for a few streams, and never so many that none of the cores is left for the server."""
    load = FakeLoad()
    bench([a_target()], Wish(SMALL, (Closed(1), Closed(1000))), World({"m": load}).doors())
    assert [drive.processes for drive in load.driven[1:]] == [1, 2]
    weak = FakeLoad(calibrated=1000.0)
    bench([a_target()], Wish(SMALL, (Closed(1000),)), World({"m": weak}).doors())
    assert weak.driven[-1].processes == 3


def plain_only(ask: Ask) -> Reply:
    from fakes.client import answer

    return Refusal(400, "no chat template") if ask.messages else answer("so", usage=(9, 1))


def test_a_model_without_a_chat_template_is_asked_plainly() -> None:
    """And the record says so."""
    world = World()
    (run,) = bench([a_target(client=FakeClient(says=plain_only))], Wish(SMALL, (Closed(1),)), world.doors())
    assert not world.load["m"].driven[-1].language.chat
    assert any("plain completions" in note for note in run.notes)
