"""Words that say which server a verb asks."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holddown import wiring
from holddown.app.target import Doors, Target, is_url, target
from holddown.cli.deployments import attended, named
from holddown.cli.key_file import checked

Command = TypeVar("Command", bound=Callable[..., Any])


def target_options(command: Command) -> Command:
    """`--model` and `--api-key-file`: of a server that is not ours."""
    command = click.option("--api-key-file", metavar="FILE", help="The API key of a server that is given by its URL.")(
        command
    )
    return click.option("--model", default="", metavar="NAME", help="Which of the server's models; its only one.")(
        command
    )


def asked(word: str, model: str, api_key_file: str | None) -> Target:
    """word: a deployment's name, or a URL. Raises: UsageError, FactError."""
    key = checked(api_key_file).key if api_key_file is not None else ""
    store = None if is_url(word) else attended().store
    doors = Doors(
        named=lambda name: named(name, store or wiring.store()),
        client=wiring.client,
        key_of=wiring.key_of,
    )
    return target(word, model, key, doors)
