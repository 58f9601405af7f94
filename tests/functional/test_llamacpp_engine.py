"""`holddown engine` and `plan` on a program that answers like llama.cpp's server, and on some that do not."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.checkpoint_bytes import GgufValue, gguf_head
from holddown.base.codec import loads
from holddown.base.errors import EngineError
from holddown.edges.probes.llamacpp import LlamaCppProbe, program_version
from holddown.facts.engine import Engine

Run = Callable[..., subprocess.CompletedProcess[str]]
HELP = """\
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
-np,   --parallel N                     number of server slots (default: -1, -1 = auto)
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
                                        use single unified KV buffer (default: disabled)
-fit,  --fit [on|off]                   whether to adjust unset arguments (default: 'on')
-t,    --threads N                      number of CPU threads (default: -1)
-cram, --cache-ram N                    prompt cache in MiB (default: 8192)
"""


def server(folder: Path, version: str = "version: 0.6.0-dev (build 11434, commit 0123abcd)") -> Path:
    """A llama-server in shell; it writes down what it is asked."""
    path = folder / "llama-server"
    path.write_text(
        f"""#!/bin/sh
echo "$1" >> {folder}/asked
case "$1" in
  --version) echo '{version}' >&2 ;;
  --help) cat {folder}/help ;;
  --list-devices) printf 'Available devices:\\n  (none)\\n' ;;
esac
""",
        encoding="utf-8",
    )
    (folder / "help").write_text(HELP, encoding="utf-8")
    path.chmod(0o755)
    return path


def small_gguf(path: Path) -> Path:
    """A Llama of two layers, of zeros."""
    metadata: dict[str, GgufValue] = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 2048,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
    }
    head, size = gguf_head(metadata, [("token_embd.weight", 0, (64, 128), 64 * 128 * 4)])
    path.write_bytes(head + b"\1" * (size - len(head)))
    return path


def registered(program: Path) -> Engine:
    return Engine("llamacpp", "b11434", "llamacpp", "", "", False, 0.0, program=str(program))


def test_a_server_is_registered_asked_planned_for_and_forgotten(holddown: Run, tmp_path: Path) -> None:
    """By the path of the program itself: no Python has to be named."""
    program = server(tmp_path)
    added = holddown("engine", "add", str(program), "--json")
    table = holddown("engine", "list")
    planned = holddown("plan", str(small_gguf(tmp_path / "m.gguf")), "--json")
    removed = holddown("engine", "remove", "llamacpp")

    assert added.returncode == 0, added.stderr
    state = json.loads(added.stdout)
    assert state["engine"]["kind"] == "llamacpp"
    assert state["engine"]["version"] == "b11434"
    assert (state["device"]["value"], state["trouble"], state["flags"]) == ("cpu", "", 7)
    assert "llamacpp@b11434" in table.stdout
    assert str(program) in table.stdout
    plan = json.loads(planned.stdout)["plan"]
    assert plan["argv"][0] == str(program)
    assert plan["argv"][plan["argv"].index("--fit") + 1] == "off"
    assert plan["context_length"] == 2048
    assert removed.returncode == 0
    assert program.exists()


def test_a_server_for_another_cpu_is_named_and_not_registered(holddown: Run, tmp_path: Path) -> None:
    """It dies of SIGILL; nothing of it is kept."""
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\nkill -ILL $$\n", encoding="utf-8")
    program.chmod(0o755)

    added = holddown("engine", "add", str(program))

    assert added.returncode == 3
    assert "was built for another CPU" in added.stderr
    assert "engine install llamacpp" in added.stderr
    assert json.loads(holddown("engine", "list", "--json").stdout)["engines"] == []


def test_what_it_answers_is_kept_until_its_file_changes(tmp_path: Path) -> None:
    """One `--help` for each build."""
    program = server(tmp_path)
    probe = LlamaCppProbe(tmp_path / "cache")
    first = probe.facts(registered(program), str)
    again = probe.facts(registered(program), str)
    (tmp_path / "help").write_text(HELP + "--new                                   new\n", encoding="utf-8")
    program.write_text(program.read_text(encoding="utf-8") + "# rebuilt\n", encoding="utf-8")
    rebuilt = probe.facts(registered(program), str)

    assert first == again
    assert (tmp_path / "asked").read_text(encoding="utf-8").count("--help") == 2
    assert "--new" in [flag.name for flag in rebuilt.flags]
    assert "--new" not in [flag.name for flag in first.flags]


def test_a_server_that_is_gone_says_how_to_forget_it(tmp_path: Path) -> None:
    """Its registration is there, its file is not."""
    with pytest.raises(EngineError, match="is gone") as caught:
        LlamaCppProbe(tmp_path).facts(registered(tmp_path / "llama-server"), str)

    assert caught.value.do == "holddown engine remove llamacpp@b11434"


def test_a_program_that_became_another_is_an_obstacle(tmp_path: Path) -> None:
    """What it said is shown."""
    with pytest.raises(EngineError, match="does not answer like") as caught:
        LlamaCppProbe(tmp_path).facts(registered(server(tmp_path, "gcc 12.2")), str)

    assert "gcc 12.2" in caught.value.seen


def test_other_programs_are_no_llama_cpp(tmp_path: Path) -> None:
    """Also those that fail, and files that cannot be run."""
    text = tmp_path / "text"
    text.write_text("no program", encoding="utf-8")
    text.chmod(0o755)

    assert program_version(Path("/bin/false")) is None
    assert program_version(text) is None
    assert program_version(server(tmp_path)) == "b11434"


def test_a_registration_of_an_older_holddown_still_loads() -> None:
    """It has no `program`."""
    record = (
        '{"name": "vllm", "version": "0.25.1", "kind": "vllm", "python": "/v/bin/python", "pythonpath": "", '
        '"managed": false, "registered_at": 1.0}'
    )

    engine = loads(Engine, record)

    assert (engine.program, engine.executable) == ("", "/v/bin/python")
