"""Facts built to order: a checkpoint, a machine, a GPU."""

from holddown.base.evidence import Known, Unknown, from_file, from_probe
from holddown.base.units import GIB
from holddown.facts.attention import FullAttention
from holddown.facts.machine import Cpu, Disk, Gpu, GpuProcess, MachineFacts, Memory
from holddown.facts.model import CheckpointFormat, ModelFacts


def model(
    weights_bytes: int = 14 * GIB,
    heads: int = 32,
    kv_heads: int = 8,
    context: int = 32768,
    layers: int = 32,
    format: CheckpointFormat = CheckpointFormat.SAFETENSORS,
) -> ModelFacts:
    """A Llama of 7B unless told otherwise; 128 KiB of KV cache per token."""

    def config(value: int) -> Known[int]:
        return from_file(value, "config.json")

    return ModelFacts(
        path="/models/llama",
        format=format,
        digest="d1",
        architectures=from_file(("LlamaForCausalLM",), "config.json"),
        model_type=from_file("llama", "config.json"),
        parameters=from_file(weights_bytes // 2, "headers"),
        weights_bytes=weights_bytes,
        by_dtype=(),
        shards=4,
        dtype=from_file("bfloat16", "config.json"),
        quantization=Unknown("none"),
        max_position_embeddings=config(context),
        num_hidden_layers=config(layers),
        hidden_size=config(4096),
        num_attention_heads=config(heads),
        num_key_value_heads=config(kv_heads),
        vocab_size=config(128256),
        chat_template=from_file("{{ messages }}", "tokenizer_config.json"),
        attention=from_file((FullAttention(layers, heads, kv_heads, 128, 128),), "config.json"),
    )


def gpu(index: int = 0, free_bytes: int = 79 * GIB, *holders: GpuProcess) -> Gpu:
    """80 GiB."""
    compute = from_probe("9.0", "NVML")
    return Gpu(index, f"GPU-{index}", "NVIDIA H100", 80 * GIB, free_bytes, compute, Unknown("-"), (), holders)


def machine(*gpus: Gpu, ram_bytes: int = 64 * GIB) -> MachineFacts:
    shm = Disk("/dev/shm", "/dev/shm", "tmpfs", 8 * GIB, 8 * GIB)
    return MachineFacts(
        schema_version=1,
        captured_at=0.0,
        hostname="h",
        boot_id="boot-1",
        user="me",
        kernel="6.1",
        cpu=Cpu("c", 8, from_probe(8, "lscpu"), 8.0, "all of them", ()),
        memory=Memory(ram_bytes, ram_bytes, ram_bytes, 0, "MemTotal"),
        disks=(),
        shm=from_probe(shm, "statvfs"),
        open_files_soft=65536,
        open_files_hard=65536,
        driver=from_probe("580", "NVML") if gpus else Unknown("no driver"),
        gpus=gpus,
        gpus_because="" if gpus else "no driver",
    )
