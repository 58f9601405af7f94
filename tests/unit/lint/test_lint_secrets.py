"""No key or token that a command holds is shown."""

import pytest

from fakes.lint import GRAMMARS, command, judge
from holddown.base.codec import dumps
from holddown.base.errors import UsageError
from holddown.facts.command.read import read_commands
from holddown.lint.secrets import masked

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "text",
    [
        f"vllm serve m --api-key {SECRET}",
        f"vllm serve m --api-key={SECRET}",
        f"vllm serve m --api_key '{SECRET}' other-{SECRET}",
        f"vllm serve m --api-k {SECRET}",
        f"vllm serve m --hf-token {SECRET}",
        f"HF_TOKEN={SECRET} vllm serve m",
        f"export VLLM_API_KEY={SECRET}\nvllm serve m",
        f"docker run -e HF_TOKEN={SECRET} vllm/vllm-openai --model m",
        f"docker run --env=HF_TOKEN={SECRET} vllm/vllm-openai --model m",
        f"HTTPS_PROXY=http://me:{SECRET}@proxy vllm serve m",
        f"vllm serve m --middleware http://me:{SECRET}@host",
        f"llama-server -m x --api-key {SECRET}",
    ],
)
def test_a_secret_is_in_nothing_that_is_said(text: str) -> None:
    """Neither in the command after masking, nor in a finding, nor in the corrected command."""
    hidden = masked(command(text))

    assert SECRET not in dumps(hidden)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"HF_TOKEN={SECRET} vllm serve 'm", ""),
        (f"services: [{SECRET}", "c.yaml"),
        (f"ExecStart=vllm '{SECRET}", "x.service"),
    ],
)
def test_an_error_shows_no_text_either(text: str, name: str) -> None:
    """What cannot be read may hold a key all the same."""
    with pytest.raises(UsageError) as error:
        read_commands(text, GRAMMARS, name)

    assert SECRET not in f"{error.value.what} {error.value.seen} {error.value.do}"


def test_the_key_moves_into_the_environment() -> None:
    """The corrected command can be pasted: the shell puts the key in, and stops where there is none."""
    hidden = masked(command(f"vllm serve m --api-key {SECRET} --port 1"))
    assert [word.text for word in hidden.arguments] == ["m", "--api-key", "(redacted)", "--port", "1"]

    found = judge("vllm serve m --api-key k --port 1")
    assert found.corrected.line == 'export VLLM_API_KEY="${VLLM_API_KEY:?}"; vllm serve m --port 1'


@pytest.mark.parametrize(
    "text", ["vllm serve m --max-num-batched-tokens 8192 --tokenizer t", "X_TOKENS=100 vllm serve m"]
)
def test_tokens_that_are_no_secret_stay(text: str) -> None:
    """A number of tokens is not a token."""
    assert masked(command(text)) == command(text)
