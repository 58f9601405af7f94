"""What would start, and should be thought about: who can reach it, whose code runs, how near the edge it is."""

import ipaddress
from collections.abc import Iterator

from holddown.base.evidence import known_or
from holddown.base.finding import Finding, Severity
from holddown.facts.model import ModelFacts
from holddown.lint.argv import Given
from holddown.lint.case import Case
from holddown.lint.remark import Change, Remark

_NEAR_THE_EDGE = 0.97
"""Source: vllm-project/vllm issues on 0.97 and more: graph capture and sampling died of memory that no profile saw."""


def risk_remarks(case: Case, model: ModelFacts | None) -> Iterator[Remark]:
    """model: None where the checkpoint was not read."""
    yield from _code(case, model)
    yield from _key(case)
    yield from _reachable(case)
    yield from _share(case)
    yield from _eager(case)
    yield from _container(case)


def _code(case: Case, model: ModelFacts | None) -> Iterator[Remark]:
    given = case.role(case.roles.remote_code)
    if given is None or not given.on:
        return
    if model is not None and not model.remote_code:
        what = f"{given.written}: the checkpoint has no Python code of its own, so there is nothing to trust"
        finding = Finding(
            "risk.remote-code", Severity.NOTE, given.written, what, case.seen_of(given, model.path), "leave it out"
        )
        yield Remark(finding, (Change(*given.at),))
        return
    what = f"{given.written} runs whatever Python code the checkpoint brings, with your rights"
    names = ", ".join(file.name for file in model.remote_code) if model else ""
    do = "read that code, or leave it out where the build has the model's code itself"
    yield Remark(Finding("risk.remote-code", Severity.WARN, given.written, what, case.seen_of(given, names), do))


def _key(case: Case) -> Iterator[Remark]:
    given = case.role(case.roles.api_key)
    if given is None or given.value is None:
        return
    name = case.grammar.key_variable
    what = f"{given.written} on the command line: every user of the machine can read the key with ps"
    if not name:
        do = "a proxy in front of it that holds the key, or a machine that is yours alone"
        yield Remark(Finding("risk.api-key", Severity.WARN, given.written, what, case.seen_of(given), do))
        return
    do = f"leave it out, and export {name} before"
    finding = Finding("risk.api-key", Severity.WARN, given.written, what, case.seen_of(given), do)
    into = _into_container(case, "-e", name)
    yield Remark(finding, (Change(*given.at), *into), set=((name, f"${{{name}:?}}"),))


def _into_container(case: Case, *words: str) -> tuple[Change, ...]:
    """What gives `docker run` more options; nothing where there is none."""
    before = [word.text for word in case.command.words[: case.command.program]]
    if case.command.container is None or "run" not in before:
        return ()
    at = before.index("run") + 1
    return (Change(at, at, words),)


def _reachable(case: Case) -> Iterator[Remark]:
    given = case.role(case.roles.host)
    if case.role(case.roles.api_key) or case.command.variable(case.grammar.key_variable or "-"):
        return
    if case.command.container is not None:
        if given is None or given.value is None or _loopback(given.value.text):
            return
        what = "no API key: whoever reaches the container's published port can use the model"
        do = f"publish it on 127.0.0.1 only, or set {case.grammar.key_variable or case.roles.api_key[0]}"
        yield Remark(Finding("risk.open", Severity.NOTE, given.written, what, case.seen_of(given), do))
        return
    if given is not None and given.value is not None:
        if not given.value.certain or _loopback(given.value.text):
            return
        what = f"{given.written} {given.value.text} without an API key: all who reach this machine can use the model"
        yield Remark(
            Finding("risk.open", Severity.WARN, given.written, what, case.seen_of(given), _closed(case, given))
        )
    elif case.table.open_by_default:
        what = f"without --host {case.grammar.title} listens on all addresses, and there is no API key"
        yield Remark(Finding("risk.open", Severity.NOTE, "--host", what, "", _closed(case, None)))


def _closed(case: Case, given: Given | None) -> str:
    name = case.grammar.key_variable
    key = f", or export {name} before" if name else ", or an API key"
    return f"{given.written if given else '--host'} 127.0.0.1{key}"


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _share(case: Case) -> Iterator[Remark]:
    given = case.role(case.roles.memory_share)
    if given is None or given.value is None or not given.value.certain:
        return
    try:
        share = float(given.value.text)
    except ValueError:
        return
    if _NEAR_THE_EDGE <= share <= 1:
        what = (
            f"{given.written} {given.value.text} leaves {1 - share:.0%} of a GPU for what no profile sees: it may die"
        )
        finding = Finding(
            "risk.memory-share",
            Severity.WARN,
            given.written,
            what,
            case.seen_of(given),
            f"{given.written} 0.95 or less",
        )
        yield Remark(finding)


def _eager(case: Case) -> Iterator[Remark]:
    given = case.role(case.roles.eager)
    target = case.command.variable("VLLM_TARGET_DEVICE")
    on_cpu = target is not None and target.value.text == "cpu"
    if given is None or not given.on or on_cpu or (case.facts and known_or(case.facts.device, "") == "cpu"):
        return
    what = (
        f"{given.written} turns CUDA graphs and compilation off: every token takes longer, small models several times"
    )
    do = "leave it out once it runs; it is for finding faults"
    yield Remark(Finding("risk.eager", Severity.WARN, given.written, what, case.seen_of(given), do))


def _container(case: Case) -> Iterator[Remark]:
    container = case.command.container
    if container is None:
        return
    if container.privileged:
        what = "a privileged container is root on the machine"
        do = "leave it out: --gpus all is enough for the GPUs" if container.how == "docker run" else "leave it out"
        yield Remark(Finding("risk.privileged", Severity.WARN, container.how, what, container.image, do))
    ranks = (case.count(case.roles.tensor_parallel) or 2) * (case.count(case.roles.pipeline_parallel) or 1)
    if not container.shared_memory and ranks > 1:
        what = (
            f"the container has 64 MiB of shared memory, and {ranks} ranks pass tensors through it: NCCL fails at start"
        )
        how = {"docker run": "--ipc=host, or --shm-size 16g", "compose": "ipc: host, or shm_size: 16gb"}
        do = how.get(container.how, "an emptyDir with medium: Memory, mounted at /dev/shm")
        finding = Finding("risk.shared-memory", Severity.WARN, container.how, what, container.image, do)
        yield Remark(finding, _into_container(case, "--ipc=host"))
