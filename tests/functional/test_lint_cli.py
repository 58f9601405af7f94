"""`holddown lint` as a person runs it: words, lines, files, and what cannot be followed."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from functional.conftest import FAKE_ENGINE, HolddownCommand, Home, write_checkpoint


def test_the_first_thing_a_newcomer_tries(holddown: HolddownCommand) -> None:
    """A command of a model card: what is wrong, and the command as it should be, on stdout; exit 1."""
    done = holddown(
        "lint", "--engine", "vllm@0.19.1", "--", "vllm", "serve", "org/m", "-tp", "8", "--disable-log-requests"
    )

    assert done.returncode == 1
    assert done.stdout.startswith("wrong for vllm@0.19.1: 1 thing keeps it from starting as it is meant")
    assert "block[flag.unknown]: vllm 0.19.1 has no option --disable-log-requests" in done.stdout
    assert "\nvllm serve org/m -tp 8\n" in done.stdout
    assert "taken by 0.11.0, 0.16.0, 0.33.0; not by 0.19.1, 0.25.1, 0.32.0" in " ".join(done.stdout.split())
    assert done.stderr == ""


def test_warnings_alone_are_a_yes(holddown: HolddownCommand) -> None:
    """Exit 0: it starts, and what is risky is said."""
    done = holddown("lint", "--engine", "vllm@0.32.0", "vllm serve org/m --host 0.0.0.0 --trust-remote-code")

    assert done.returncode == 0
    assert "warn[risk.open]" in done.stdout
    assert "warn[risk.remote-code]" in done.stdout


def test_json_is_one_document(holddown: HolddownCommand) -> None:
    """Findings by code, the corrected command, every recorded release."""
    done = holddown("lint", "--json", "--engine", "vllm@0.32.0", "--", "vllm", "serve", "m", "--swap-space", "4")
    (one,) = json.loads(done.stdout)["commands"]

    assert done.returncode == 1
    assert (one["engine"], one["starts"]) == ("vllm", False)
    assert one["judged"][0]["corrected"] == "vllm serve m"
    assert one["judged"][0]["findings"][0]["code"] == "flag.unknown"
    assert one["releases"][-1] == {"version": "0.33.0", "against": ["--swap-space"]}


def test_files_are_read_and_lines_named(holddown: HolddownCommand, tmp_path: Path) -> None:
    """A compose file with two services, a script and a unit: where each word stood."""
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        "services:\n"
        "  a:\n    image: vllm/vllm-openai:v0.19.1\n    ipc: host\n"
        "    command:\n      - --model\n      - org/m\n      - --swap-space\n      - '4'\n"
        "  b:\n    image: vllm/vllm-openai:v0.19.1\n    ipc: host\n    command: --model org/m\n"
    )
    done = holddown("lint", "--file", str(compose))

    assert done.returncode == 1
    assert f"{compose}, service a: wrong for vllm@0.19.1" in done.stdout
    assert f"{compose}, service b: right for vllm@0.19.1" in done.stdout
    assert "seen: line 8; " in done.stdout

    unit = tmp_path / "vllm.service"
    unit.write_text("[Service]\nEnvironment=VLLM_USE_V1=1\nExecStart=/opt/vllm serve m \\\n  --swap-space 4\n")
    assert "seen: line 3; " in holddown("lint", "--engine", "vllm@0.19.1", "--file", str(unit)).stdout


def test_the_checkpoint_and_the_machine_are_judged(holddown: HolddownCommand, tiny_checkpoint: Path) -> None:
    """The command's own path is read; --gpus names the machine."""
    done = holddown(
        "lint", "--engine", "vllm@0.16.0", "--gpus", "2x H200 SXM", "--",
        "vllm", "serve", str(tiny_checkpoint), "-tp", "8", "--enable-expert-parallel",
    )  # fmt: skip

    assert done.returncode == 1
    assert "block[machine.gpus]: 8 GPUs are asked for" in done.stdout
    assert "expert parallelism needs experts; this model has none" in done.stdout
    assert "was not judged" not in done.stdout


def test_a_model_in_the_hub_cache_is_read(holddown: HolddownCommand, home: Home, tmp_path: Path) -> None:
    """By its repository's name, at the commit that `main` is."""
    folder = tmp_path / "hub" / "models--org--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    write_checkpoint(folder / "snapshots" / "abc")
    args = ("lint", "--engine", "vllm@0.16.0", "vllm serve org/tiny")

    assert "checkpoint was not judged: org/tiny is not here" in holddown(*args).stdout
    assert "checkpoint was not judged" not in holddown(*args, env={"HF_HUB_CACHE": str(tmp_path / "hub")}).stdout


def test_a_key_is_never_shown(holddown: HolddownCommand) -> None:
    """Not in the text, not in the document, not in an error."""
    for extra in ((), ("--json",)):
        for words in (("vllm serve m --api-key s3cr3t --port",), ("HF_TOKEN=s3cr3t vllm serve m",)):
            done = holddown("lint", *extra, *words)
            assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("lint",), "lint.no-command"),
        (("lint", "--", "echo", "hello"), "lint.no-command"),
        (("lint", "vllm serve 'm"), "lint.quote"),
        (("lint", "--file", "/nowhere"), "usage.lint-file"),
        (("lint", "--file", "/"), "usage.lint-file"),
        (("lint", "--file", "x.sh", "vllm serve m"), "usage.lint"),
        (("lint", "--engine", "sglang@0.5", "vllm serve m"), "usage.engine"),
        (("lint", "--gpus", "8x Nothing", "vllm serve m"), "usage"),
        (("lint", "--node", "/nowhere", "vllm serve m"), "usage.node"),
    ],
)
def test_what_cannot_be_followed_is_usage(holddown: HolddownCommand, args: tuple[str, ...], code: str) -> None:
    """Exit 2, on stderr what, seen and do; nothing on stdout."""
    done = holddown(*args)

    assert done.returncode == 2, done.stderr
    assert f"error[{code}" in done.stderr
    assert done.stdout == ""


def test_a_file_that_is_no_text_is_said(holddown: HolddownCommand, tmp_path: Path) -> None:
    """Bytes of a model, a manifest that is no YAML."""
    for name, data in (("x.sh", b"\xff\xfe\x00"), ("x.yaml", b"a: [")):
        file = tmp_path / name
        file.write_bytes(data)
        done = holddown("lint", "--file", str(file))
        assert (done.returncode, done.stdout) == (2, "")


def test_a_checkpoint_that_is_named_and_not_there_is_an_error(holddown: HolddownCommand) -> None:
    """--model is the user's word: exit 3."""
    assert holddown("lint", "--model", "/nowhere", "vllm serve m").returncode == 3


def test_an_installed_engine_is_read_and_never_imported(holddown: HolddownCommand, home: Home) -> None:
    """From what it was asked when it was registered, and where that is gone, from its files: an import that fails is no
    obstacle."""
    broken = {"FAKE_IMPORT_ERROR": "1"}
    holddown("engine", "add", sys.executable, "--pythonpath", str(FAKE_ENGINE), "--name", "mine")
    cached = holddown("lint", "--json", "vllm serve m --no-such-option", env=broken)
    shutil.rmtree(home.path / "cache")
    read = holddown("lint", "--json", "vllm serve m --no-such-option", env=broken)

    for done in (cached, read):
        (one,) = documents(done.stdout)
        assert one["judged"][0]["build"].startswith("mine@")
        assert one["judged"][0]["findings"][0]["subject"] == "--no-such-option"
        assert "asking" not in done.stderr


def documents(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["commands"]
    return found


def test_options_alone_need_the_engine_named(holddown: HolddownCommand) -> None:
    """Half a command from a chat: `--max-model-len 8k ...`."""
    done = holddown("lint", "--json", "--engine", "vllm@0.32.0", "--", "--model", "m", "--swap-space", "4")

    assert documents(done.stdout)[0]["judged"][0]["corrected"] == "--model m"
    assert holddown("lint", "--", "--model", "m").returncode == 2
