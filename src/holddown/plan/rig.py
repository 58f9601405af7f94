"""GPU, fabric and engine together, with the rates that the speed model's constants give them."""

from collections.abc import Mapping
from dataclasses import dataclass

from holddown.tables.gpu import FabricRow, GpuRow
from holddown.tables.load import fabric_row, gpu_row, speed_table
from holddown.tables.speed import Factor, SpeedTable

_FORMATS = ("bf16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4", "mxfp8", "gguf")
_GIGA, _TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class FormatRates:
    """For weights of one format. expert_kernels: how many times the usual kernels, or their cost, a layer of such
    experts has here. quantizes: the input of each linear layer is quantised first."""

    dense_bytes_s: float
    expert_bytes_s: float
    dense_flops: float
    expert_flops: float
    expert_kernels: float
    quantizes: bool


@dataclass(frozen=True, slots=True)
class Rig:
    """fabric: None for one GPU. sparse_attention: DeepSeek's sparse attention runs sparse here; where no kernel does
    (some builds on compute capability 12), every key is read. formats: by the format of the weights.
    latent_attention_flops: of decoding with MLA.
    """

    gpu: GpuRow
    fabric: FabricRow | None
    engine: str
    cuda_graphs: bool
    sparse_attention: bool
    table: SpeedTable
    formats: Mapping[str, FormatRates]
    kv_bytes_s: float
    attention_flops: float
    latent_attention_flops: float
    activation_bytes_s: float
    kernel_s: float
    eager_kernel_s: float
    collective: float
    step_s: float
    sequence_s: float
    prefill: float


def rig(
    gpu: GpuRow,
    fabric: FabricRow | None,
    engine: str,
    table: SpeedTable,
    cuda_graphs: bool = True,
    weight_only: bool = False,
    sparse_attention: bool = True,
) -> Rig:
    """weight_only: FP4 weights are multiplied in 16 bit although the GPU has FP4 tensor cores (W4A16)."""
    scale = _Scale(table.factors, engine, generation(gpu))
    constants = table.constants
    bandwidth = gpu.bandwidth_gbs * _GIGA
    formats = {name: _format_rates(name, gpu, table, scale, weight_only) for name in _FORMATS}
    attention_flops = gpu.bf16_tflops * _TERA * constants.compute * scale("compute", "bf16")
    return Rig(
        gpu=gpu,
        fabric=fabric,
        engine=engine,
        cuda_graphs=cuda_graphs,
        sparse_attention=sparse_attention,
        table=table,
        formats=formats,
        kv_bytes_s=bandwidth * constants.kv_bandwidth * scale("kv_bandwidth"),
        attention_flops=attention_flops,
        latent_attention_flops=attention_flops * scale("latent_compute"),
        activation_bytes_s=bandwidth * constants.activation_bandwidth,
        kernel_s=constants.kernel_us * 1e-6 * scale("kernel_us"),
        eager_kernel_s=constants.eager_kernel_us * 1e-6 * scale("kernel_us"),
        collective=constants.collective,
        step_s=constants.step_us * 1e-6,
        sequence_s=constants.sequence_us * 1e-6,
        prefill=scale("prefill"),
    )


@dataclass(frozen=True, slots=True)
class Hardware:
    """Names of the rows that a prediction rests on. fabric: empty for one GPU. engine: its kind."""

    gpu: str
    fabric: str
    engine: str


def named_rig(hardware: Hardware, cuda_graphs: bool = True) -> Rig:
    """Raises: UsageError when a table has no such row any more."""
    fabric = fabric_row(hardware.fabric) if hardware.fabric else None
    return rig(gpu_row(hardware.gpu), fabric, hardware.engine, speed_table(), cuda_graphs)


def generation(gpu: GpuRow) -> str:
    """`12.0` -> `12`; AMD's `gfx942` stays as it is."""
    return gpu.compute_capability.partition(".")[0]


@dataclass(frozen=True, slots=True)
class _Scale:
    factors: tuple[Factor, ...]
    engine: str
    generation: str

    def __call__(self, term: str, format: str = "") -> float:
        """Product of the factors of `term` that apply here."""
        product = 1.0
        for factor in self.factors:
            if (
                factor.term == term
                and factor.engine in ("", self.engine)
                and factor.generation in ("", self.generation)
                and factor.format in ("", format)
            ):
                product *= factor.value
        return product


def _format_rates(name: str, gpu: GpuRow, table: SpeedTable, scale: _Scale, weight_only: bool) -> FormatRates:
    peak, quantizes = _tensor_cores(name, gpu, weight_only)
    bandwidth, constants = gpu.bandwidth_gbs * _GIGA, table.constants
    compute = peak * _TERA * constants.compute * scale("compute", name)
    return FormatRates(
        dense_bytes_s=bandwidth * constants.dense_bandwidth * scale("dense_bandwidth", name),
        expert_bytes_s=bandwidth * constants.expert_bandwidth * scale("expert_bandwidth", name),
        dense_flops=compute,
        expert_flops=compute,
        expert_kernels=scale("expert_kernels", name),
        quantizes=quantizes,
    )


def _tensor_cores(name: str, gpu: GpuRow, weight_only: bool) -> tuple[float, bool]:
    """Peak in TFLOPS of the products of such weights, and whether activations are quantised for them.

    A format that the tensor cores do not know is unpacked and multiplied in 16 bit. Source: vLLM's Marlin kernels for
    INT4 everywhere, for FP8 below compute capability 8.9, for FP4 below 10.0; gpt-oss keeps FP8 activations on
    Blackwell and 16 bit elsewhere.
    """
    fp8, fp4 = gpu.fp8_tflops or 0, gpu.fp4_tflops or 0
    match name:
        case "fp8" | "fp8-block" | "mxfp8" if fp8:
            return fp8, True
        case "int8" if gpu.int8_tflops:
            return gpu.int8_tflops, True
        case "nvfp4" if fp4 and not weight_only:
            return fp4, True
        case "mxfp4" if fp4 and not weight_only:
            return fp8, True
        case _:
            return gpu.bf16_tflops, False
