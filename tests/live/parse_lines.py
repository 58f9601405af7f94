"""Runs in the engine's Python: gives each line of options to the engine's own parser. One JSON list on stdout, each
entry empty where the line was taken, else how the parser ended."""

import contextlib
import importlib
import io
import json
import os
import shlex
import sys

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")


def parser():
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for place in ("launchers", "common", "openai"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(f"vllm.entrypoints.{place}.cli_args")
            break
    top = FlexibleArgumentParser(prog="vllm")
    serve = top.add_subparsers(dest="subparser").add_parser("serve")
    module.make_arg_parser(serve)
    return top


def main():
    its = parser()
    ends = []
    for line in sys.stdin.read().splitlines():
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                its.parse_args(["serve", "m", *shlex.split(line)])
            ends.append("")
        except SystemExit:
            ends.append((said.getvalue().strip().splitlines() or ["exit"])[-1])
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            ends.append(f"{type(error).__name__}: {error}")
    sys.stdout.write(json.dumps(ends) + "\n")


main()
