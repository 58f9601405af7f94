"""Options against each other, and against the machine's number of GPUs."""

import json
from collections.abc import Iterator

from holddown.base.finding import Finding, Severity
from holddown.facts.engine import version_key
from holddown.facts.machine import MachineFacts
from holddown.lint.case import Case
from holddown.lint.remark import Change, Remark
from holddown.lint.sizes import as_options, changes_of, split_of, unlike, within
from holddown.plan.parallelism import Parallelism
from holddown.plan.wishes import number_in
from holddown.tables.command import Bond, Clash, Order, Together

_ELSEWHERE = (
    "data-parallel-size-local",
    "data-parallel-backend",
    "headless",
    "data-parallel-rank",
    "data-parallel-start-rank",
)


def together_remarks(case: Case, machine: MachineFacts | None) -> Iterator[Remark]:
    """machine: None where none was named and this one has no GPU."""
    for row in case.table.together:
        yield from _bound(row, case)
    for clash in case.table.clashes:
        yield from _clashing(clash, case)
    for order in case.table.orders:
        yield from _ordered(order, case)
    yield from _divided(case)
    yield from _counted(case, machine)


def _bound(row: Together, case: Case) -> Iterator[Remark]:
    given = case.role((row.option,))
    if given is None or given.fault is not None or not given.on or not _in_force(row, case):
        return
    other = case.role(row.others)
    there = other is not None and other.on
    seen = case.seen_of(given, row.source)
    names = " or ".join(f"--{name}" for name in row.others)
    match row.bond:
        case Bond.NEEDS if not there:
            do = f"add {names}, or leave {given.written} out"
            yield Remark(
                Finding(
                    "together.needs",
                    Severity.BLOCK,
                    given.written,
                    f"{given.written} without {names}: {row.what}",
                    seen,
                    do,
                )
            )
        case Bond.IDLE if not there:
            finding = Finding(
                "together.idle",
                Severity.WARN,
                given.written,
                f"{given.written} without {names} does nothing: {row.what}",
                seen,
                f"add --{row.others[0]}, or leave {given.written} out",
            )
            yield Remark(finding)
        case Bond.EXCLUDES if there:
            assert other is not None
            finding = Finding(
                "together.excludes",
                Severity.BLOCK,
                given.written,
                f"{given.written} and {other.written}: {row.what}",
                seen,
                f"leave {given.written} out",
            )
            yield Remark(finding, (Change(*given.at),))
        case _:
            pass


def _clashing(row: Clash, case: Case) -> Iterator[Remark]:
    given = case.role((row.option,))
    if given is None or not given.on or given.fault is not None or not _in_force(row, case):
        return
    value = _keyed(row.config, row.key, case)
    if value in row.values:
        what = f"{given.written} does not go with {row.key} {value} of --{row.config}: {row.what}"
        seen, do = case.seen_of(given, row.source), f"leave {given.written} out"
        finding = Finding("together.clash", Severity.BLOCK, given.written, what, seen, do)
        yield Remark(finding, (Change(*given.at),))


def _keyed(option: str, key: str, case: Case) -> str:
    """The value of a key of a JSON option, as JSON or by a dot; empty where it is not given."""
    for given in reversed(case.arguments.given):
        if given.name != option or given.value is None:
            continue
        if given.key == key:
            return given.value.text
        try:
            held = json.loads(given.value.text) if not given.key else None
        except (ValueError, RecursionError):
            continue
        if isinstance(held, dict):
            return str(held.get(key, ""))
    return ""


def _in_force(row: Together | Clash, case: Case) -> bool:
    if not row.since and not row.until:
        return True
    if case.facts is None:
        return False
    version = version_key(case.facts.version)
    return version_key(row.since or "0") <= version and (not row.until or version <= version_key(row.until))


def _ordered(row: Order, case: Case) -> Iterator[Remark]:
    smaller, larger = case.role((row.smaller,)), case.role((row.larger,))
    switch = case.role((row.only_without,)) if row.only_without else None
    if smaller is None or larger is None or (row.only_without and (switch is None or switch.on)):
        return
    least, most = (number_in(each.value.text) if each.value else None for each in (smaller, larger))
    if not least or not most or least <= most:
        return
    what = f"{larger.written} {most} is less than {smaller.written} {least}: {row.what}"
    do = f"{larger.written} {least} or more, or a smaller {smaller.written}"
    finding = Finding("together.order", Severity.BLOCK, larger.written, what, case.seen_of(larger, row.source), do)
    yield Remark(finding, (Change(*larger.at, (larger.written, str(least))),))


def _divided(case: Case) -> Iterator[Remark]:
    given = case.role(case.roles.decode_context_parallel)
    tp, dcp = case.count(case.roles.tensor_parallel), case.count(case.roles.decode_context_parallel)
    if given is None or not tp or not dcp or tp % dcp == 0:
        return
    what = f"decode context parallel size {dcp} does not divide tensor parallel size {tp}"
    fitting = max(size for size in range(1, dcp) if tp % size == 0)
    finding = Finding(
        "together.divided",
        Severity.BLOCK,
        given.written,
        what,
        case.seen_of(given, "config/parallel.py: its ranks are those of tensor parallelism"),
        f"{given.written} {fitting}",
    )
    yield Remark(finding, (Change(*given.at, (given.written, str(fitting))),))


def _counted(case: Case, machine: MachineFacts | None) -> Iterator[Remark]:
    split, ep = split_of(case), case.role(case.roles.expert_parallel)
    if split is None:
        return
    if ep is not None and ep.on and split.world_size == 1 and case.roles.expert_parallel[0].startswith("enable"):
        what = f"{ep.written} on one GPU does nothing: there is nobody to share the experts with"
        yield Remark(
            Finding("together.idle", Severity.WARN, ep.written, what, case.seen_of(ep), f"leave {ep.written} out")
        )
    if machine is not None and machine.gpus and not elsewhere(case):
        yield from _too_many(case, split, machine)


def _too_many(case: Case, split: Parallelism, machine: MachineFacts) -> Iterator[Remark]:
    roles, visible = case.roles, visible_gpus(case, len(machine.gpus))
    if split.world_size <= visible:
        return
    given = case.role(roles.tensor_parallel) or case.role(roles.data_parallel) or case.role(roles.pipeline_parallel)
    sizes = (
        ("tensor", split.tensor_parallel_size),
        ("pipeline", split.pipeline_parallel_size),
        ("data", split.data_parallel_size),
    )
    how = " x ".join(f"{kind} {size}" for kind, size in sizes if size > 1)
    hidden = visible < len(machine.gpus)
    there = f"{visible} of them by CUDA_VISIBLE_DEVICES" if hidden else f"{visible} there"
    instead = unlike(case, split, within(split, visible))
    finding = Finding(
        "machine.gpus",
        Severity.BLOCK,
        given.written if given else "GPUs",
        f"{split.world_size} GPUs are asked for ({how} parallel), {there}",
        case.seen(given.line if given else 0, f"{len(machine.gpus)} x {machine.gpus[0].name}"),
        f"{as_options(instead) or 'smaller sizes'}, or more GPUs",
    )
    yield Remark(finding, changes_of(case, instead))


def elsewhere(case: Case) -> bool:
    """Whether ranks may run on other machines too."""
    executor = case.role(("distributed-executor-backend",))
    ray = executor is not None and executor.value is not None and executor.value.text == "ray"
    nodes = case.count(case.roles.nodes)
    return ray or nodes != 1 or case.role(_ELSEWHERE) is not None


def visible_gpus(case: Case, there: int) -> int:
    """Of the machine's, those that CUDA_VISIBLE_DEVICES lets it see."""
    variable = case.command.variable("CUDA_VISIBLE_DEVICES")
    if variable is None or not variable.value.certain or not variable.value.text.strip():
        return there
    return min(there, len(variable.value.text.split(",")))
