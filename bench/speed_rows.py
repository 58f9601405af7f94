"""Published measurements as cases that the speed model can time: model, rig, split, cache and workload of each row."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holddown.base.errors import HolddownError
from holddown.base.evidence import Known, Unknown
from holddown.edges.checkpoints.local import LocalCheckpoints
from holddown.facts.kv_cache import BF16, FP8, CacheSplit, KvDtype, sequence_bytes
from holddown.facts.model import ModelFacts
from holddown.facts.weight_groups import Component, Split, WeightGroup
from holddown.facts.workload import Workload
from holddown.plan.fabric import usual_fabric
from holddown.plan.memory import Loaded, rank_weights
from holddown.plan.parallelism import Parallelism
from holddown.plan.rig import Rig, rig
from holddown.plan.speed import Loop, closed_loop, prefill
from holddown.plan.step import decode_step
from holddown.plan.work import ModelWork, model_work
from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import fabric_row, gpu_row
from holddown.tables.speed import SpeedTable

# The measurements' words for a fabric.
LINKS = {"pcie5": "pcie5-dual-socket", "pcie5t": "pcie5-dual-socket-tuned", "pcie5x": "pcie5-switch", "pcie4": "pcie4"}
# Measured names without a folder of that name: a folder of the same shapes, and the formats if they differ.
SAME_SHAPES = {
    "Meta-Llama-3.1-70B": ("Llama-3.3-70B-Instruct", ""),
    "Kimi-K2.6": ("Kimi-K2.5", ""),
    "Qwen3.5-397B-A17B-NVFP4": ("Qwen3.5-397B-A17B", "routed=nvfp4,shared=nvfp4"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "bf16"),
}
KV_DTYPES = {"bf16": BF16, "fp8": FP8, "int4": KvDtype("int4", 0.5625), "q8_0": KvDtype("q8_0", 1.0625)}
# Measurements' words for a format: WeightGroup's word, and bytes per weight with scales.
FORMATS = {
    "bf16": ("bf16", 2.0),
    "fp8": ("fp8", 1.0),
    "fp8_block": ("fp8-block", 1 + 4 / 128**2),
    "int8": ("int8", 1 + 2 / 128),
    "int4_g32": ("int4", 0.5 + 2 / 32),
    "int4_g128": ("int4", 0.5 + 2.5 / 128),
    "nvfp4": ("nvfp4", 0.5 + 1 / 16),
    "mxfp4": ("mxfp4", 0.5 + 1 / 32),
    "mxfp8": ("mxfp8", 1 + 1 / 32),
}
# Mean bits per weight of llama.cpp's mixtures. Source: sizes of published files.
GGUF_BITS = {
    "Q2_K_XL": 3.1,
    "Q3_K_S": 3.5,
    "Q3_K_M": 3.91,
    "Q3_K_XL": 4.0,
    "IQ4_XS": 4.32,
    "Q4_0": 4.6,
    "Q4_K_S": 4.6,
    "Q4_K_M": 4.85,
    "Q4_K_XL": 4.95,
    "Q5_K_M": 5.7,
    "Q6_K": 6.57,
    "Q6_K_XL": 7.0,
    "Q8_0": 8.5,
    "Q8_K_XL": 9.5,
    "MXFP4": 4.6,
}
LINEAR_LAYERS = ("attn_in", "attn_lat", "attn_out", "linear", "mamba", "dense_mlp", "shared", "routed")
# Of a GPU's memory, what weights and cache may take, and what else lies there.
_USABLE, _OTHER_BYTES = 0.95, 3e9


@dataclass(frozen=True, slots=True)
class Case:
    """A row with all that does not depend on the constants. pool_bytes: what is left for the KV cache of a rank."""

    row: Mapping[str, Any]
    work: ModelWork
    gpu: GpuRow
    fabric: FabricRow | None
    split: Parallelism
    kv: KvDtype
    pool_bytes: float

    @property
    def group(self) -> str:
        return str(self.row["group"])

    @property
    def kind(self) -> str:
        return str(self.row["kind"])


@dataclass(slots=True)
class Cases:
    judged: list[Case] = field(default_factory=list)
    not_judged: dict[str, int] = field(default_factory=dict)

    def leave_out(self, why: str) -> None:
        self.not_judged[why] = self.not_judged.get(why, 0) + 1


def read_cases(files: Iterable[Path], models: Path) -> Cases:
    """Rows with `use` false are left out without a word: their own file says why."""
    cases = Cases()
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line) if line.strip() else {"use": False}
            if not row.get("use", True):
                continue
            try:
                made = _case(row, models)
            except (KeyError, TypeError, ValueError) as error:
                made = f"a row of {row.get('group')} is not understood: {error!r}"
            if isinstance(made, Case):
                cases.judged.append(made)
            else:
                cases.leave_out(made)
    return cases


def _case(row: Mapping[str, Any], models: Path) -> Case | str:
    if row.get("kind") not in ("decode", "tpot", "otps", "prefill"):
        return f"kind {row.get('kind')} is not one that is predicted"
    made = _model(str(row["model"]), str(row.get("quant") or ""), models)
    if isinstance(made, str):
        return made
    model, work = made
    try:
        gpu = gpu_row(str(row["gpu"]))
        fabric = fabric_row(LINKS.get(row["link"], row["link"])) if row.get("link") else usual_fabric(gpu)
        split = _split(row)
    except (HolddownError, ValueError) as error:
        return str(error)
    kv = KV_DTYPES[row["kv"]] if row.get("kv") else _own_kv(model)
    held = sum(part.size_bytes for part in rank_weights(model, split, 0, Loaded()))
    pool = max(_USABLE * gpu.memory_bytes - held - _OTHER_BYTES, 0.03 * gpu.memory_bytes)
    return Case(row, work, gpu, fabric if split.world_size > 1 else None, split, kv, pool)


def _split(row: Mapping[str, Any]) -> Parallelism:
    """An expert parallel size between 1 and all ranks (TensorRT-LLM has it) counts as all ranks."""
    tp, pp, dp, dcp = (int(row.get(key) or 1) for key in ("tp", "pp", "dp", "dcp"))
    ep = tp * dp if int(row.get("ep") or 1) > 1 else 1
    return Parallelism(tp, pp, dp, ep, dcp)


def _own_kv(model: ModelFacts) -> KvDtype:
    asked = model.kv_cache_quantization
    return FP8 if isinstance(asked, Known) and asked.value == "fp8" else BF16


@cache
def _model(name: str, formats: str, models: Path) -> tuple[ModelFacts, ModelWork] | str:
    """The folder `models`/name, or the file name.json there, or what has equal shapes."""
    own = ""
    if not (models / name).is_dir() and not (models / f"{name}.json").is_file():
        folder, own = SAME_SHAPES.get(name, ("", ""))
        if not folder or not (models / folder).is_dir():
            return f"no config.json of {name}, nor of equal shapes"
    else:
        folder = name
    try:
        model = _inspected(models, folder)
    except HolddownError as error:
        return f"{name}: {error.what}"
    if formats or own:
        model = replace(model, weights=stored_as(model.weights, formats or own))
    work = model_work(model)
    return f"{name}: {work.why}" if isinstance(work, Unknown) else (model, work.value)


def _inspected(models: Path, name: str) -> ModelFacts:
    if (models / name).is_dir():
        return LocalCheckpoints().inspect(str(models / name)).model
    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text((models / f"{name}.json").read_text(encoding="utf-8"), encoding="utf-8")
        return LocalCheckpoints().inspect(folder).model


def stored_as(groups: tuple[WeightGroup, ...], formats: str) -> tuple[WeightGroup, ...]:
    """The groups in other formats: `all=nvfp4`, `attn_in=fp8_block,routed=int4_g128`, `gguf:Q4_K_M`, `bf16`.

    What is not named is 16 bit, whatever it was.
    """
    if formats.startswith("gguf:"):
        name = formats.removeprefix("gguf:")
        bits = GGUF_BITS.get(name) or float(name)
        return tuple(
            group if group.component is Component.NORMS else _stored(group, "gguf", bits / 8) for group in groups
        )
    said = dict(part.split("=") for part in formats.split(",")) if "=" in formats else {"all": formats}
    every = said.pop("all", "")
    wanted = dict.fromkeys(LINEAR_LAYERS, every) if every else {}
    wanted.update(said)
    return tuple(_stored(group, *FORMATS[wanted.get(_part(group)) or "bf16"]) for group in groups)


def _stored(group: WeightGroup, name: str, each: float) -> WeightGroup:
    return replace(group, format=name, size_bytes=round(group.parameters * each))


def _part(group: WeightGroup) -> str:
    """The measurements' word for what this group is part of."""
    match group.component:
        case Component.DENSE_MLP:
            return "dense_mlp"
        case Component.SHARED_EXPERTS:
            return "shared"
        case Component.ROUTED_EXPERTS:
            return "routed"
        case Component.ATTENTION:
            path = group.module.split(".")
            if "linear_attn" in path:
                return "linear"
            if "mixer" in path and path[-1] in ("in_proj", "out_proj"):
                return "mamba"
            if path[-1] == "kv_b_proj" or "indexer" in path:
                return "indexer"
            inward = "attn_lat" if group.split is Split.REPLICATED else "attn_in"
            return "attn_out" if group.split is Split.ROW else inward
        case _:
            return "other"


class Predictor:
    """Predicts rows with one set of constants."""

    def __init__(self, table: SpeedTable) -> None:
        self._table = table
        self._rigs: dict[tuple[object, ...], Rig] = {}

    def speed(self, case: Case) -> float:
        """Tokens per second: of all streams for `decode` and `otps`, of one stream for `tpot`, of reading the prompt
        for `prefill`."""
        row, at = case.row, self._rig(case)
        if case.kind == "prefill":
            return float(row["isl"] / prefill(case.work, at, case.split, int(row["isl"])))
        concurrency = float(row["conc"])
        if case.kind == "decode":
            context = max(1.0, float(row["ctx"]))
            resident = self._resident(case, context)
            step = decode_step(case.work, at, case.split, case.kv, concurrency, context, resident)
            return concurrency / step.total
        loop = self._loop(case)
        return loop.requests_per_s * int(row["osl"]) if case.kind == "otps" else 1 / loop.tpot_s

    def ttft_ms(self, case: Case) -> float:
        """Mean time to the first token of a row with a workload."""
        loop = self._loop(case)
        return 1e3 * loop.ttft_s

    def _loop(self, case: Case) -> Loop:
        row = case.row
        workload = Workload("row", int(row["isl"]), int(row["osl"]), 1)
        tokens = int(self._resident(case, workload.input_tokens + workload.output_tokens / 2))
        at = self._rig(case)
        return closed_loop(case.work, at, case.split, case.kv, workload, round(float(row["conc"])), tokens)

    @staticmethod
    def _resident(case: Case, context: float) -> float:
        """Tokens of sequences of this length that fit the pool."""
        ranks = CacheSplit(
            case.split.tensor_parallel_size,
            case.split.decode_context_parallel_size,
            case.split.pipeline_parallel_size,
        )
        each = sequence_bytes(case.work.attention, int(context), case.kv, ranks)
        return case.pool_bytes / each * context if each else 0.0

    def _rig(self, case: Case) -> Rig:
        row = case.row
        engine = str(row.get("engine") or "vllm")
        weight_only, dense_mla = bool(row.get("w4a16")), bool(row.get("dense_mla"))
        graphs = bool(row.get("graphs", True))
        key = (case.gpu.name, case.fabric and case.fabric.name, engine, weight_only, dense_mla, graphs)
        if key not in self._rigs:
            self._rigs[key] = rig(case.gpu, case.fabric, engine, self._table, graphs, weight_only, not dense_mla)
        return self._rigs[key]


def measured_speed(case: Case) -> float:
    """The row's value as a speed: a time per output token in ms is turned over."""
    value = float(case.row["value"])
    return 1e3 / value if case.kind == "tpot" else value
