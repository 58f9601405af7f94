"""The options of the stand-in: a class whose fields are defaults, and a parser that names each."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from sglang.srt.function_call.parser_names import TOOL_CALL_PARSER_NAMES
from sglang.srt.parser.reasoning_parser_names import REASONING_PARSER_NAMES

QUANTIZATION_CHOICES = ["fp8", "compressed-tensors"]
KV_CHOICES = ["auto", "bf16", "fp8_e4m3"]


@dataclass
class ServerArgs:
    model_path: str
    served_model_name: str | None = None
    host: str = "127.0.0.1"
    port: int = 30000
    device: str | None = None
    tp_size: int = 1
    context_length: int | None = None
    mem_fraction_static: float | None = None
    max_running_requests: int | None = None
    max_total_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    attention_backend: str | None = None
    api_key: str | None = None

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        own = ServerArgs
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--served-model-name", type=str, default=ServerArgs.served_model_name)
        parser.add_argument("--host", type=str, default=ServerArgs.host)
        parser.add_argument("--port", type=int, default=ServerArgs.port)
        parser.add_argument("--device", type=str, default=ServerArgs.device)
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=ServerArgs.tp_size)
        parser.add_argument("--context-length", type=int, default=ServerArgs.context_length)
        parser.add_argument("--mem-fraction-static", type=float, default=ServerArgs.mem_fraction_static)
        parser.add_argument("--max-running-requests", type=int, default=ServerArgs.max_running_requests)
        parser.add_argument("--max-total-tokens", type=int, default=ServerArgs.max_total_tokens)
        parser.add_argument("--quantization", type=str, default=None, choices=QUANTIZATION_CHOICES)
        parser.add_argument(
            "--kv-cache-dtype", type=str, default=own.kv_cache_dtype, choices=["auto", "bf16", "fp8_e4m3"]
        )
        parser.add_argument("--attention-backend", type=str, default=own.attention_backend, choices=["triton", "fa3"])
        parser.add_argument("--tool-call-parser", type=str, default=None, choices=TOOL_CALL_PARSER_NAMES)
        parser.add_argument("--reasoning-parser", type=str, default=None, choices=REASONING_PARSER_NAMES)
        parser.add_argument("--uvicorn-access-log-exclude-prefixes", type=str, nargs="*", default=[])
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--api-key", type=str, default=ServerArgs.api_key)
        parser.add_argument("--config", type=str)


def prepare_server_args(argv: list[str]) -> argparse.Namespace:
    """What stands in the YAML file that `--config` names comes before the command line, which wins."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    if "--config" in argv:
        at = argv.index("--config")
        argv = [*_lines_of(Path(argv[at + 1])), *argv[:at], *argv[at + 2 :]]
    return parser.parse_args(argv)


def _lines_of(file: Path) -> list[str]:
    found = []
    for line in file.read_text().splitlines():
        name, _, value = line.partition(": ")
        found += [f"--{name}", str(json.loads(value))]
    return found
