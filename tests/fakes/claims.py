"""Claims of a server, and its script played."""

from dataclasses import replace

from holddown.app.play import play
from holddown.base.evidence import Unknown, from_file
from holddown.ports import Client
from holddown.verify.claims import Claims
from holddown.verify.script import Script
from holddown.verify.verdict import Verdict

UNTOLD = Unknown("a fake")


ABLE = Claims(
    model="m",
    engine="vllm",
    ours=True,
    chat=True,
    tools=True,
    reasoning=True,
    images=True,
    prefix_cache=True,
    context=from_file(4096, "a fake"),
    parameters=from_file(8_000_000_000, "a fake"),
    vocab_size=UNTOLD,
)
"""Of a model that is large enough for all."""
SMALL = replace(ABLE, parameters=from_file(135_000_000, "a fake"))
STRANGER = replace(ABLE, ours=False, tools=None, reasoning=None, images=None, parameters=UNTOLD)
"""Of a server that is not ours, and tells little."""


def played(script: Script, client: Client) -> Verdict:
    return play(script, client, lambda seconds: None)
