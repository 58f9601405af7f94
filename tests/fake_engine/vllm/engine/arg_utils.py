"""The engine's own flags, declared one by one as vLLM declares them."""

import argparse


def add_engine_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds what describes the model, its memory and its parallelism."""
    model_group = parser.add_argument_group("ModelConfig")
    model_group.add_argument("--model", default="")
    model_group.add_argument("--served-model-name", nargs="+", default=None)
    model_group.add_argument("--max-model-len", type=int, default=None)
    model_group.add_argument(
        "--dtype", choices=["auto", "bfloat16", "float", "float16", "float32", "half"], default="auto"
    )
    model_group.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction, default=False)
    model_group.add_argument("--trust-remote-code", action=argparse.BooleanOptionalAction, default=False)
    model_group.add_argument("--seed", type=int, default=0)
    load_group = parser.add_argument_group("LoadConfig")
    load_group.add_argument("--load-format", choices=["auto", "dummy", "safetensors"], default="auto")
    parser.add_argument_group("StructuredOutputsConfig").add_argument("--reasoning-parser", default="")
    parallel_group = parser.add_argument_group("ParallelConfig")
    parallel_group.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    cache_group = parser.add_argument_group("CacheConfig")
    cache_group.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    cache_group.add_argument("--kv-cache-memory-bytes", type=int, default=None)
    cache_group.add_argument(
        "--kv-cache-dtype", choices=["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"], default="auto"
    )
    cache_group.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    scheduler_group = parser.add_argument_group("SchedulerConfig")
    scheduler_group.add_argument("--max-num-seqs", type=int, default=None)
    scheduler_group.add_argument("--max-num-batched-tokens", type=int, default=None)
    return parser
