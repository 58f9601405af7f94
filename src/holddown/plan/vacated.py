"""A machine as it will be once some processes are gone: what comes in their place is planned before they are."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from holddown.base.evidence import known_or
from holddown.facts.machine import Gpu, MachineFacts, ProcessFacts


def vacated(machine: MachineFacts, leaving: Iterable[ProcessFacts]) -> MachineFacts:
    """leaving: they and what they hold are no more. Memory that several of them share is counted once for each, so the
    machine's is bound by its limit."""
    going = tuple(leaving)
    pids = frozenset(each.pid for each in going)
    memory = machine.memory
    available = min(memory.limit_bytes, memory.available_bytes + sum(each.rss_bytes for each in going))
    gpus = tuple(_without(gpu, pids) for gpu in machine.gpus)
    return replace(machine, gpus=gpus, memory=replace(memory, available_bytes=available))


def _without(gpu: Gpu, pids: Collection[int]) -> Gpu:
    """What NVML does not tell of a process that leaves is taken to stay: the plan is the more careful for it."""
    leaving = [each for each in gpu.processes if each.pid in pids]
    freed = sum(known_or(each.used_bytes, 0) for each in leaving)
    staying = tuple(each for each in gpu.processes if each.pid not in pids)
    return replace(gpu, free_bytes=min(gpu.total_bytes, gpu.free_bytes + freed), processes=staying)
