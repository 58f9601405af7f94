"""`holddown`: finds the verb, runs it, turns what was raised into words and an exit code."""

import importlib
import sys

import click

from holddown import __version__
from holddown.base.errors import HolddownError
from holddown.cli.output import error_json, show_error

# verb -> one line for `--help`. The module of a verb is imported only when it is called: `--help` stays fast.
VERBS = {
    "inspect": "What a checkpoint directory or GGUF file is.",
    "node": "What this machine is, and who holds its GPUs.",
    "plan": "How a checkpoint should run on a machine, and how fast.",
    "lint": "What is wrong with a launch command, for a build and a machine.",
    "engine": "Install, add, list and remove engine environments.",
    "fetch": "Get the small demo chat model.",
    "up": "Plan, launch, verify, measure and release a deployment.",
    "bench": "How fast a deployment, or any server, is under load.",
    "status": "How one deployment is, or all that are up.",
    "list": "Every deployment on record.",
    "logs": "The engine's log.",
    "diagnose": "Why an engine failed, from its log.",
    "verify": "Whether a server is right, whoever started it.",
    "switch": "One deployment in another's place.",
    "down": "Stop a deployment.",
    "service": "Run a released deployment as a systemd service.",
    "explain": "Why a deployment runs as it does, flag by flag.",
    "compare": "How deployments, runs or files differ, and how sure that is.",
    "report": "A deployment as one HTML page.",
    "clean": "What dead engines left behind, and removing it.",
}
HIDDEN = ("supervise",)


class Verbs(click.Group):
    """A group whose commands live in `holddown.cli.<verb>`, each as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS and cmd_name not in HIDDEN:
            return None
        command: click.Command = importlib.import_module(f"holddown.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="holddown")
def program() -> None:
    """Takes a checkpoint and a machine, and brings up a verified, measured, explained
    OpenAI-compatible deployment on an existing engine.

    \b
    Exit codes: 0 yes; 1 the answer is no; 2 usage; 3 a fact could not be had;
    4 launch failed; 5 store; 70 a bug of ours.
    """


def main() -> None:
    """The console script. Exits with the codes of `program`'s help."""
    as_json = "--json" in sys.argv
    try:
        # without standalone mode click gives the code of `ctx.exit` back instead of raising it
        sys.exit(program.main(standalone_mode=False))
    except click.ClickException as error:
        if as_json:
            error_json("usage", error.format_message(), do="the same words with --help")
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # `holddown logs | head`: the reader has what it wanted
        sys.stderr.close()
        sys.exit(0)
    except HolddownError as error:
        show_error(error, as_json=as_json)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - the one place that reports a bug
        import traceback

        if as_json:
            error_json("bug", "this is a bug of holddown; please report it", seen=f"{type(error).__name__}: {error}")
        traceback.print_exc()
        click.echo("error[bug]: this is a bug of holddown; please report the lines above", err=True)
        sys.exit(70)
