"""What a word names, what differs between two sides, and how right their predictions were."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from fakes.records import a_birth
from fakes.reports import a_deployment, a_gpu_birth, a_load, a_status, a_sweep, a_verification
from fakes.runs import a_subject
from fakes.store import FakeStore
from holddown.app.compare import Compared, Doors, compare_all
from holddown.base.codec import dumps
from holddown.base.errors import UsageError
from holddown.base.evidence import Source, SourceKind, from_probe
from holddown.launch.lifecycle import State
from holddown.launch.spec import EnvVar
from holddown.measure.compare import Method
from holddown.measure.run import Closed
from holddown.plan.estimate import Estimate
from holddown.plan.plan import Setting
from holddown.remember.record import Comparison, Deployment
from holddown.remember.run import Run

USER = Source(SourceKind.USER, "--set kv-cache-dtype=fp8")


def a_store(*deployments: Deployment, runs: tuple[Run, ...] = ()) -> FakeStore:
    store = FakeStore(kept_runs=list(runs))
    for each in deployments:
        store.births[each.birth.id], store.statuses[each.birth.id] = each.birth, each.status
    return store


def compared(*words: str, store: FakeStore | None = None, files: Mapping[str, str] | None = None) -> Compared:
    return compare_all(words, Doors(store, dict(files or {}).get))


def other_deployment() -> Deployment:
    """With an FP8 cache, on one GPU more, by a newer engine, and another variable."""
    birth = a_gpu_birth("11111111", "n", created_at=20_000.0)
    settings = (*birth.plan.settings, Setting("kv-cache-dtype", "fp8", "you set it", USER))
    plan = replace(birth.plan, settings=settings, attention_backends=("FLASHINFER",), selector="the build's own")
    spec = replace(birth.spec, env=(EnvVar("A", "2", "c"),))
    engine = replace(birth.engine, version="0.33.0")
    return Deployment(replace(birth, plan=plan, spec=spec, engine=engine), a_status(State.STOPPED))


def test_a_deployment_stands_with_its_newest_load_run() -> None:
    """By its name and by its id; a run by its own."""
    newer, older = a_sweep("be0c0002"), a_sweep("be0c0001")
    store = a_store(a_deployment(), runs=(newer, older))
    for word, bench in (("m", "be0c0002"), ("0123abcd", "be0c0002"), ("be0c0001", "be0c0001")):
        (pair,) = compared(word, "m", store=store).pairs
        assert (pair.a.deployment, pair.a.bench) == ("0123abcd", bench)
        assert [load.arrival for load in pair.loads] == [Closed(1), Closed(4), Closed(16)]


def test_every_further_one_is_held_against_the_first() -> None:
    """Three words, two pairs."""
    store = a_store(a_deployment(), runs=(a_sweep("be0c0001"), a_sweep("be0c0002"), a_sweep("be0c0003")))
    pairs = compared("be0c0001", "be0c0002", "be0c0003", store=store).pairs
    assert [(pair.a.word, pair.b.word) for pair in pairs] == [("be0c0001", "be0c0002"), ("be0c0001", "be0c0003")]


def test_what_json_printed_is_read_again() -> None:
    """Of a load run, a verification and a deployment; with no store at all."""
    files = {
        "bench.json": f"[{dumps(a_sweep())}]",
        "verify.json": dumps(a_verification()),
        "status.json": dumps(a_deployment()),
    }
    (pair,) = compared("bench.json", "bench.json", files=files).pairs
    assert len(pair.loads) == 3
    assert pair.unknown == ("bench.json and bench.json: no record of a deployment, so no plan and no settings",)
    (pair,) = compared("verify.json", "status.json", files=files).pairs
    assert pair.b.deployment == "0123abcd"


def test_a_file_is_laid_beside_its_deployment_where_that_is_on_record() -> None:
    """So that its settings are known."""
    (pair,) = compared("bench.json", "m", store=a_store(a_deployment()), files={"bench.json": dumps(a_sweep())}).pairs
    assert pair.a.deployment == "0123abcd" and pair.unknown == ()


def test_another_tools_results_are_a_run() -> None:
    """Those of `vllm bench serve`, which keeps figures alone where it is not told otherwise: changes, and no more."""
    said = {
        "date": "20261130-021500",
        "model_id": "m",
        "completed": 40,
        "num_prompts": 40,
        "total_input_tokens": 40 * 512,
        "total_output_tokens": 40 * 64,
        "request_rate": "inf",
        "max_concurrency": 4,
        "duration": 30.0,
        "median_ttft_ms": 150.0,
        "output_throughput": 85.3,
    }
    (pair,) = compared(
        "results.json", "bench.json", files={"results.json": json.dumps(said), "bench.json": dumps(a_sweep())}
    ).pairs
    (load,) = pair.loads
    assert load.arrival == Closed(4)
    assert [(one.metric, one.method) for one in load.differences] == [
        ("output_throughput", Method.NONE),
        ("ttft", Method.NONE),
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "compare.nothing"),
        ("{", "compare.file"),
        ("[1]", "bench.import"),
        ('{"phases": 1}', "compare.file"),
        (f"[{dumps(a_sweep())}, {dumps(a_sweep())}]", "compare.file"),
    ],
)
def test_what_names_nothing_is_said_with_what_there_is(text: str | None, code: str) -> None:
    """No such name; a file that is no JSON; JSON of something else; a run that is damaged; two runs at once."""
    files = {} if text is None else {"x": text}
    with pytest.raises(UsageError) as caught:
        compared("m", "x", store=a_store(a_deployment()), files=files)
    assert caught.value.code == code
    if text is None:
        assert caught.value.seen == "on record: m"


# --- what differs -----------------------------------------------------------------------------------------------------


def test_all_that_differs_is_named_with_its_because() -> None:
    """Engine, kernels, settings and variables; what is the same is not."""
    (pair,) = compared("m", "n", store=a_store(a_deployment(), other_deployment())).pairs
    found = {(one.of, one.name): one for one in pair.changes}
    assert set(found) == {
        ("engine", "version"),
        ("plan", "attention"),
        ("setting", "kv-cache-dtype"),
        ("variable", "A"),
    }
    setting = found["setting", "kv-cache-dtype"]
    assert (setting.a, setting.b, setting.because_b) == ("", "fp8", "you set it")
    variable = found["variable", "A"]
    assert (variable.a, variable.because_a, variable.b, variable.because_b) == ("1", "b", "2", "c")
    assert (found["plan", "attention"].b, found["plan", "attention"].because_b) == ("FLASHINFER", "the build's own")


def test_another_workload_is_a_difference_of_its_own() -> None:
    """By its name, its seed, and how long its requests were."""
    own = a_sweep("be0c0001")
    short = tuple(replace(trace, input_tokens=64) for trace in own.phases[0].traces)
    other = replace(own, id="be0c0002", workload="64:64", seed=7, phases=(replace(own.phases[0], traces=short),))
    (pair,) = compared("be0c0001", "be0c0002", store=a_store(a_deployment(), runs=(own, other))).pairs
    assert [(one.name, one.a, one.b) for one in pair.changes] == [
        ("workload", "chat", "64:64"),
        ("seed", "0", "7"),
        ("lengths", "512 tokens in, 64 out", "64 tokens in, 64 out"),
    ]


def test_servers_that_are_not_ours_differ_by_what_they_tell() -> None:
    """What one side does not tell is no difference."""
    older = a_sweep("be0c0001", deployment="")
    subject = replace(a_subject(deployment=""), version=from_probe("0.33.0", "/version"))
    newer = replace(older, id="be0c0002", subject=subject)
    (pair,) = compared("be0c0001", "be0c0002", store=a_store(runs=(older, newer))).pairs
    assert [(one.name, one.a, one.b) for one in pair.changes] == [("version", "0.32.0", "0.33.0")]


def test_a_check_that_came_out_otherwise_is_told() -> None:
    """Of the newest verification, or of the release."""
    other = a_verification()
    failed = replace(other.verdicts[1], check="streaming")
    store = a_store(a_deployment(), runs=(replace(other, verdicts=(other.verdicts[0], failed)),))
    (pair,) = compared("status.json", "ce000001", store=store, files={"status.json": dumps(a_deployment())}).pairs
    assert [(one.of, one.name, one.a, one.b) for one in pair.changes] == [
        ("check", "streaming", "skipped", "failed"),
    ]


# --- predicted --------------------------------------------------------------------------------------------------------


def test_what_was_measured_stands_beside_what_is_predicted() -> None:
    """At each number of requests at once, but where the client was the limit."""
    loads = (a_load(Closed(1)), a_load(Closed(8)), a_load(Closed(64), limited="late"))
    rows = tuple(Comparison(users, 512, 64, Estimate(100, 60, 150), 80.0) for users in (1, 8, 64))
    run = replace(a_sweep(loads=loads), comparisons=rows)
    (pair,) = compared("m", "m", store=a_store(a_deployment(), runs=(run,))).pairs
    assert [(one.concurrency, one.measured, one.factor) for one in pair.a.foretold] == [
        (1, 80.0, None),
        (8, 80.0, None),
    ]


def test_calibration_is_by_others_alone() -> None:
    """Its own measurements would confirm themselves."""
    rows = (Comparison(1, 64, 128, Estimate(100, 60, 150), 80.0),)
    own = replace(a_deployment(), status=replace(a_status(), comparisons=rows))
    (pair,) = compared("m", "m", store=a_store(own)).pairs
    assert [(one.measured, one.factor) for one in pair.a.foretold] == [(80.0, None)]
    other = Deployment(replace(own.birth, id="11111111", name="n"), own.status)
    (pair,) = compared("m", "m", store=a_store(own, other)).pairs
    factor = pair.a.foretold[0].factor
    assert factor is not None and 0.8 < factor < 0.85


def test_nothing_is_foretold_of_a_cpu() -> None:
    """Its plan says why; a comparison has nothing to show."""
    bare = Deployment(a_birth(), a_status())
    (pair,) = compared("m", "m", store=a_store(bare, runs=(a_sweep(),))).pairs
    assert pair.a.foretold == ()


def test_the_document_is_json() -> None:
    """All of it, with what was compared by name."""
    store = a_store(a_deployment(), other_deployment(), runs=(a_sweep(),))
    document = json.loads(dumps(compared("m", "n", store=store)))
    assert document["pairs"][0]["b"]["word"] == "n"
    assert [load["arrival"]["concurrency"] for load in document["pairs"][0]["loads"]] == [1]
