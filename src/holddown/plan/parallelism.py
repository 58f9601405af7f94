"""How a model is split over devices, in vLLM's terms."""

from dataclasses import dataclass

SIZE_SETTINGS = {
    "tensor-parallel-size": "tensor_parallel_size",
    "pipeline-parallel-size": "pipeline_parallel_size",
    "data-parallel-size": "data_parallel_size",
    "decode-context-parallel-size": "decode_context_parallel_size",
}
"""Setting -> field of Parallelism. Experts are divided or not: `enable-expert-parallel`."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a model is split. Sizes are counts of GPUs (of NUMA nodes on a CPU build).

    expert_parallel_size: 1, or tensor x data parallel size: vLLM divides the experts over all ranks of a stage.
    decode_context_parallel_size: ranks among the tensor parallel ones that divide the KV cache's tokens.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel_size: int = 1
    decode_context_parallel_size: int = 1

    def __post_init__(self) -> None:
        tp, dp, ep, dcp = (
            self.tensor_parallel_size,
            self.data_parallel_size,
            self.expert_parallel_size,
            self.decode_context_parallel_size,
        )
        if min(tp, self.pipeline_parallel_size, dp, ep, dcp) < 1:
            raise ValueError(f"parallel sizes start at 1, got {self}")
        if ep not in (1, tp * dp):
            raise ValueError(f"experts are divided over all {tp * dp} ranks of a stage or not at all, got {ep}")
        if tp % dcp:
            raise ValueError(f"decode context parallel size {dcp} does not divide {tp} tensor parallel ranks")

    @property
    def world_size(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def text(self) -> str:
        """`TP8`, `TP4 x PP2`, `TP8 + EP`, `TP8 + DCP8`."""
        further = (("PP", self.pipeline_parallel_size), ("DP", self.data_parallel_size))
        text = f"TP{self.tensor_parallel_size}" + "".join(f" x {name}{size}" for name, size in further if size > 1)
        if self.expert_parallel_size > 1:
            text += " + EP"
        if self.decode_context_parallel_size > 1:
            text += f" + DCP{self.decode_context_parallel_size}"
        return text
