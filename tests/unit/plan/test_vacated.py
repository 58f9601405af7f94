"""A machine as it will be without some of its processes."""

from dataclasses import replace

from fakes.facts import GIB, gpu, machine
from fakes.leftovers import process
from holddown.base.evidence import Unknown, from_probe
from holddown.facts.machine import GpuProcess
from holddown.plan.vacated import vacated


def test_what_a_leaving_process_holds_is_free() -> None:
    """Of the GPU's memory and of the machine's; what others hold stays."""
    leaving, staying = process(10, "vllm"), process(11, "other")
    both = (leaving, staying)
    held = tuple(GpuProcess(each.pid, from_probe(30 * GIB, "NVML"), from_probe(each, "/proc")) for each in both)
    there = machine(gpu(0, 20 * GIB, *held))
    found = vacated(there, (leaving,))

    assert found.gpus[0].free_bytes == 50 * GIB
    assert [each.pid for each in found.gpus[0].processes] == [staying.pid]
    used = replace(there, memory=replace(there.memory, available_bytes=GIB))
    assert vacated(used, (leaving,)).memory.available_bytes == GIB + leaving.rss_bytes


def test_what_the_driver_does_not_tell_is_taken_to_stay() -> None:
    """The plan is the more careful for it."""
    leaving = process(10, "vllm")
    there = machine(gpu(0, 20 * GIB, GpuProcess(10, Unknown("hidden"), Unknown("hidden"))))

    assert vacated(there, (leaving,)).gpus[0].free_bytes == 20 * GIB


def test_memory_is_bound_by_its_limit() -> None:
    """Pages that several processes share are counted for each."""
    leaving = tuple(replace(process(pid, "vllm"), rss_bytes=1000 * GIB) for pid in (10, 11))
    there = machine()

    assert vacated(there, leaving).memory.available_bytes == there.memory.limit_bytes
