"""Shell text -> launch commands."""

import pytest

from fakes.lint import GRAMMARS, command
from holddown.base.errors import UsageError
from holddown.facts.command.launch import LaunchCommand
from holddown.facts.command.shell import shell_commands, statements


def texts(found: LaunchCommand) -> list[str]:
    return [word.text for word in found.arguments]


def variables(found: LaunchCommand) -> dict[str, str]:
    return {each.name: each.value.text for each in found.variables}


def script(text: str) -> list[LaunchCommand]:
    return shell_commands(text, GRAMMARS, 1, "run.sh")


@pytest.mark.parametrize(
    ("line", "kind", "arguments"),
    [
        ("vllm serve m --port 1", "vllm", ["m", "--port", "1"]),
        ("/opt/venv/bin/vllm serve m", "vllm", ["m"]),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm", ["--model", "m"]),
        ("/usr/bin/python3.12 -u -m sglang.launch_server --tp 8", "sglang", ["--tp", "8"]),
        ("sglang serve --model-path m", "sglang", ["--model-path", "m"]),
        ("./build/bin/llama-server -m x.gguf -ngl 99", "llamacpp", ["-m", "x.gguf", "-ngl", "99"]),
        ("sudo -E numactl --cpunodebind=0 vllm serve m", "vllm", ["m"]),
        ("nohup vllm serve m > log 2>&1 &", "vllm", ["m"]),
        ("cd /x && exec vllm serve m | tee log", "vllm", ["m"]),
        ("bash -lc 'vllm serve m --port 1'", "vllm", ["m", "--port", "1"]),
        ("docker run --gpus all --name vllm -p 1:2 vllm/vllm-openai:v0.16.0 --model m", "vllm", ["--model", "m"]),
        ("docker run -it --rm lmsysorg/sglang:latest python3 -m sglang.launch_server --tp 2", "sglang", ["--tp", "2"]),
        ("docker run ghcr.io/ggml-org/llama.cpp:server-cuda -m x.gguf", "llamacpp", ["-m", "x.gguf"]),
    ],
)
def test_the_engine_is_found_behind_whatever_stands_before_it(line: str, kind: str, arguments: list[str]) -> None:
    """Prefixes, paths, modules, images and inner shells all lead to the engine's own words."""
    found = command(line)

    assert (found.kind, texts(found)) == (kind, arguments)


@pytest.mark.parametrize("line", ["vllm bench serve --model m", "echo vllm", "python train.py", "docker run nginx", ""])
def test_what_starts_no_server_is_none(line: str) -> None:
    """Neither another sub-command nor another program is taken for a server."""
    assert script(line) == []


def test_variables_come_from_every_place_that_sets_them() -> None:
    """`export`, `env`, a plain assignment before the command, and `-e` of a container."""
    found = script("export A=1\nC=no\nenv B=2 docker run -e D=4 --env=E=5 vllm/vllm-openai --model m")[0]

    assert variables(found) == {"A": "1", "B": "2", "D": "4", "E": "5"}


def test_continued_lines_comments_and_quotes_are_a_shells() -> None:
    """Lines joined by a backslash are one command; each word keeps the line on which it stood."""
    found = script("# start\nvllm serve m \\\n  --port 1 \\\n  --hf-overrides '{\"a\": 1}' # why\nvllm serve n")

    assert [texts(each) for each in found] == [["m", "--port", "1", "--hf-overrides", '{"a": 1}'], ["n"]]
    assert [word.line for word in found[0].arguments] == [2, 3, 3, 4, 4]


def test_variables_of_the_text_are_put_in_and_others_are_uncertain() -> None:
    """What the script sets is known; what only a shell knows is marked, and kept as it was written."""
    found = script('MODEL=org/m\nvllm serve "$MODEL" -tp ${TP:-8} --port $PORT --seed $(date +%s)')[0]

    assert texts(found) == ["org/m", "-tp", "8", "--port", "$PORT", "--seed", "$(date +%s)"]
    assert [word.certain for word in found.arguments] == [True, True, True, True, False, True, False]


def test_a_here_document_is_not_read_as_commands() -> None:
    """The body of `cat <<EOF` is a file's text."""
    found = script("cat > x <<EOF\nvllm serve inner --port '\nEOF\nvllm serve outer")

    assert [texts(each) for each in found] == [["outer"]]


def test_a_quote_that_is_never_closed_is_an_error_with_its_line() -> None:
    """The whole of the text cannot be trusted then, so nothing is judged."""
    with pytest.raises(UsageError, match="opens in line 2 is never closed"):
        list(statements("vllm serve m\n--port '1"))


def test_an_image_tells_its_version() -> None:
    """`v0.16.0` of the tag; `latest` says nothing."""
    tagged = command("docker run vllm/vllm-openai:v0.16.0-cu129 --model m").container
    latest = command("docker run --ipc=host vllm/vllm-openai:latest --model m").container

    assert tagged is not None and tagged.version == "0.16.0"
    assert latest is not None and (latest.version, latest.shared_memory) == ("", "host")
