"""`holddown node`."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import click

from holddown import wiring
from holddown.app.node import node
from holddown.base.evidence import Known
from holddown.base.units import size_text
from holddown.cli.output import answer, fact_text, json_option
from holddown.facts.machine import Disk, Gpu, GpuProcess, MachineFacts

_LABEL = 12
# what kernels and quantisation of a CPU build depend on; the whole list is in --json
_TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")


@click.command(short_help="What this machine is, and who holds its GPUs.")
@click.option("--path", "paths", multiple=True, metavar="PATH", help="Show the disk that holds this path too.")
@json_option
def command(paths: tuple[str, ...], as_json: bool) -> None:
    """What this machine is, as far as it is ours to use: CPUs and memory as control groups
    allow, disks, /dev/shm, and GPUs with the processes that hold them. Works with no GPU.
    """
    places = wiring.paths()
    facts = node(wiring.host(), (str(places.data), str(places.state), *paths))
    answer(facts, "\n".join(_card(facts)), as_json=as_json)


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}"


def _rows(label: str, texts: Iterable[str]) -> Iterator[str]:
    for index, text in enumerate(texts):
        yield _row("" if index else label, text)


def _card(facts: MachineFacts) -> Iterator[str]:
    cpu, memory = facts.cpu, facts.memory
    yield _row("machine", f"{facts.hostname}, Linux {facts.kernel}, as {facts.user}")
    physical = f", {cpu.physical.value} cores" if isinstance(cpu.physical, Known) else ""
    yield _row("cpu", f"{cpu.usable:g} of {cpu.logical} CPUs usable ({cpu.usable_because}){physical}")
    telling = " ".join(flag for flag in _TELLING_FLAGS if flag in cpu.flags)
    yield _row("", f"{cpu.model}; {telling}" if telling else cpu.model)
    yield _row("memory", f"{size_text(memory.available_bytes)} available of {size_text(memory.limit_bytes)}")
    yield _row("", memory.because)
    if memory.limit_bytes < memory.total_bytes:
        yield _row("", f"the machine has {size_text(memory.total_bytes)}")
    yield _row("swap", size_text(memory.swap_total_bytes) if memory.swap_total_bytes else "none")
    yield from _rows("disk", (f"{_disk_text(disk)}  {disk.mount} ({disk.fstype})" for disk in facts.disks))
    yield _row("/dev/shm", fact_text(facts.shm, _disk_text))
    yield _row("open files", f"{facts.open_files_soft} (hard limit {facts.open_files_hard})")
    yield from _gpu_card(facts)


def _disk_text(disk: Disk) -> str:
    return f"{size_text(disk.free_bytes):>10} free of {size_text(disk.total_bytes):>10}"


def _gpu_card(facts: MachineFacts) -> Iterator[str]:
    if not facts.gpus:
        yield _row("gpus", f"none: {facts.gpus_because}")
        return
    yield _row("driver", fact_text(facts.driver))
    width = max(len(gpu.name) for gpu in facts.gpus)
    yield _row("gpus", f"{'#':>3}  {'name':<{width}}  {'free':>10}  {'total':>10}  {'cc':<5} {'pcie':<10} links")
    for gpu in facts.gpus:
        sizes = f"{size_text(gpu.free_bytes):>10}  {size_text(gpu.total_bytes):>10}"
        capability, pcie = fact_text(gpu.compute_capability), fact_text(gpu.pcie)
        links = _links_text(gpu) or "-"
        yield _row("", f"{gpu.index:>3}  {gpu.name:<{width}}  {sizes}  {capability:<5} {pcie:<10} {links}")
        for holder in gpu.processes:
            yield _row("", f"       {_holder_text(holder)}")
        if not gpu.processes:
            yield _row("", "       no process holds it")
    if facts.gpus_because:
        yield _row("note", facts.gpus_because)


def _links_text(gpu: Gpu) -> str:
    """Peers by kind of link: `NV18 to 1 2 3, SYS to 4`."""
    kinds = dict.fromkeys(link.kind for link in gpu.links)
    peers = {kind: " ".join(str(link.peer) for link in gpu.links if link.kind == kind) for kind in kinds}
    return ", ".join(f"{kind} to {peers[kind]}" for kind in kinds)


def _holder_text(holder: GpuProcess) -> str:
    used = fact_text(holder.used_bytes, size_text)
    if not isinstance(holder.process, Known):
        return f"{used} by pid {holder.pid}, {holder.process.why}"
    process = holder.process.value
    since = datetime.fromtimestamp(process.started_unix).astimezone().strftime("%Y-%m-%d %H:%M")
    title = process.title if len(process.title) <= 80 else process.title[:79] + "…"
    return f"{used} by pid {holder.pid} of {process.user} since {since}: {title}"
