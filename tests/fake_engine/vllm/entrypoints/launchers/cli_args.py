"""The HTTP side's flags: a dataclass whose fields become flags, and a few declared one by one, as in vLLM 0.32."""

import argparse
from dataclasses import dataclass, fields

from vllm.engine.arg_utils import add_engine_args


@dataclass
class FrontendArgs:
    """Field names become flags: `api_key` is `--api-key`."""

    host: str | None = None
    port: int = 8000
    api_key: list[str] | None = None
    chat_template: str | None = None
    tool_call_parser: str | None = None
    enable_auto_tool_choice: bool = False
    disable_access_log_for_endpoints: str | None = None


def make_parser() -> argparse.ArgumentParser:
    """The whole parser. vLLM takes `--max_model_len` for `--max-model-len`; the caller normalises that."""
    parser = argparse.ArgumentParser(prog="api_server.py", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?", default="")
    parser.add_argument("--disable-log-stats", action="store_true")
    group = parser.add_argument_group("Frontend")
    for field in fields(FrontendArgs):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        elif field.name == "api_key":
            group.add_argument(flag, nargs="+", default=None)
        else:
            group.add_argument(flag, type=int if isinstance(field.default, int) else str, default=field.default)
    return add_engine_args(parser)
