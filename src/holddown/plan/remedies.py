"""What would do where nothing fits: more GPUs, weights in RAM with the price of it, a smaller checkpoint."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from holddown.base.evidence import Known, known_or
from holddown.base.units import GIB, count_text, size_text
from holddown.facts.machine import Gpu, MachineFacts
from holddown.facts.model import ModelFacts

_COUNTS = (2, 4, 8, 16)
# GB/s of one direction that a copy reaches. Source: 53 to 56 GB/s over PCIe 5 x16 measured (voipmonitor/rtx6kpro),
# 63 possible; older generations in proportion.
_PCIE_GBS = {"3": 13.0, "4": 27.0, "5": 54.0, "6": 108.0}
_USABLE = 0.9
_BESIDE_BYTES = 5 * GIB
"""Activations, graphs and a little KV cache of a large model: an estimate for a remedy, not a budget."""


def remedies(
    model: ModelFacts,
    machine: MachineFacts,
    gpus: Sequence[Gpu],
    least_weights_bytes: int,
    fits: Callable[[tuple[Gpu, ...]], str],
) -> tuple[str, ...]:
    """least_weights_bytes: of the fullest GPU under the widest split that the engine allows. fits: how a model runs on
    GPUs, in a word, empty where it does not."""
    return tuple(
        filter(
            None,
            (
                _more_gpus(gpus, fits),
                *_offload(machine, gpus, least_weights_bytes),
                _smaller(model, gpus),
            ),
        )
    )


def _more_gpus(gpus: Sequence[Gpu], fits: Callable[[tuple[Gpu, ...]], str]) -> str:
    """The least of the usual counts on which it runs; all as the first one is."""
    for count in _COUNTS:
        if count <= len(gpus):
            continue
        how = fits(tuple(replace(gpus[0], index=index) for index in range(count)))
        if how:
            return f"{count} GPUs of this kind ({gpus[0].name}): {how}"
    return f"more than {_COUNTS[-1]} GPUs of this kind, or larger ones"


def _offload(machine: MachineFacts, gpus: Sequence[Gpu], least_weights_bytes: int) -> Iterator[str]:
    gpu = gpus[0]
    room = int(gpu.total_bytes * _USABLE) - _BESIDE_BYTES
    beyond = least_weights_bytes - room
    if beyond <= 0:
        return
    ram = beyond * len(gpus)
    if machine.memory.limit_bytes and ram > machine.memory.limit_bytes:
        here = size_text(machine.memory.limit_bytes)
        yield f"not CPU offload: {size_text(ram)} of RAM would be needed, {here} are here"
        return
    generation = re.search(r"\d", known_or(gpu.pcie, "Gen4"))
    gbs = _PCIE_GBS.get(generation.group() if generation else "4", 27.0)
    seconds = beyond / (gbs * 1e9)
    yield (
        f"--set cpu-offload-gb={-(-beyond // GIB)}: {size_text(ram)} of weights in RAM, read over PCIe at every step: "
        f"{seconds:.1f} s per token at {gbs:.0f} GB/s"
    )


def _smaller(model: ModelFacts, gpus: Sequence[Gpu]) -> str:
    room = sum(int(gpu.total_bytes * _USABLE) - _BESIDE_BYTES for gpu in gpus)
    if room <= 0:
        return ""
    bits = ""
    if isinstance(model.parameters, Known) and model.parameters.value:
        each = room * 8 / model.parameters.value
        bits = f", {each:.1f} bits for each of its {count_text(model.parameters.value)} parameters"
    return f"a smaller checkpoint: at most {size_text(room)} of weights{bits}"
