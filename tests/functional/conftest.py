"""Fixtures of the functional tests: a private home, a tiny checkpoint, the command line, the fake engine."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

# what a script runs in its background ignores Ctrl-C, and so would each program that a test starts
signal.signal(signal.SIGINT, signal.default_int_handler)

FAKE_ENGINE = Path(__file__).resolve().parents[1] / "fake_engine"
_LLAMA = {"hidden": 16, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 4, "intermediate": 32, "vocab": 64}


@dataclass(frozen=True)
class Home:
    """Where everything of one test lives. path is short: Unix socket paths end at 107 characters."""

    path: Path
    env: dict[str, str] = field(repr=False)

    def processes(self) -> list[int]:
        """Ids of our user's living processes whose environment names this home: nobody else's can."""
        return [pid for pid in _own_pids() if str(self.path).encode() in _environ(pid)]

    def segments(self) -> list[Path]:
        """Shared-memory segments that this home's engines made and that are still there."""
        found = []
        for path in Path("/dev/shm").glob("psm_fake_*"):
            try:
                owner = path.read_bytes()[:200].rstrip(b"\0")
            except OSError:
                continue
            if owner == str(self.path).encode():
                found.append(path)
        return found

    def private_folders(self) -> list[Path]:
        """The TMPDIRs that a supervisor gave its engines, outside this home because socket paths must be short."""
        values = {
            Path(os.fsdecode(variable.removeprefix(b"TMPDIR=")))
            for pid in self.processes()
            for variable in _environ(pid).split(b"\0")
            if variable.startswith(b"TMPDIR=/tmp/holddown-")
        }
        return sorted(values)

    def end_processes(self, patience_s: float = 5.0) -> None:
        """SIGKILL to what `processes` proves to be ours, again until nothing is left: a supervisor may restart."""
        deadline = time.monotonic() + patience_s
        while left := self.processes():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {left} of {self.path} do not end")
            time.sleep(0.02)


def _own_pids() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if entry.stat().st_uid == os.getuid():
                    found.append(int(entry.name))
            except FileNotFoundError:
                continue
    return found


def _environ(pid: int) -> bytes:
    """Empty for another user's process, for one that is gone, and for a zombie."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


class HolddownCommand(Protocol):
    def __call__(
        self, *args: str, env: dict[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def home() -> Iterator[Home]:
    """A private home. Afterwards every process started under it is ended; a segment left behind fails the test.

    A test that leaves an engine running on purpose ends it itself (`home.end_processes()`, then `segments()`).
    """
    path = Path(tempfile.mkdtemp(prefix="hd", dir="/tmp"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FAKE_", "VLLM_", "XDG_"))}
    places = {
        "XDG_DATA_HOME": path / "data",
        "XDG_STATE_HOME": path / "state",
        "XDG_CACHE_HOME": path / "cache",
        "TMPDIR": path / "t",
    }
    for place in places.values():
        place.mkdir()
    env = {name: str(place) for name, place in places.items()}
    yield Home(path, {**inherited, **env, "FAKE_OWNER": str(path), "NO_COLOR": "1"})
    it = Home(path, {})
    running, folders = it.processes(), it.private_folders()
    it.end_processes()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    left = it.segments()
    for segment in left:
        segment.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    # with the engine still up when the test ended, its segment is ours to remove and no fault
    if left and not running:
        pytest.fail(f"left behind: {', '.join(map(str, left))}")


@pytest.fixture
def tiny_checkpoint(tmp_path: Path) -> Path:
    """A whole Llama checkpoint of a few KB, in the Hugging Face layout."""
    folder = tmp_path / "tiny-llama"
    folder.mkdir()
    write_checkpoint(folder)
    return folder


@pytest.fixture
def holddown(home: Home) -> HolddownCommand:
    """Runs `holddown ARGS` in the private home, with extra environment, to its end."""

    def run(*args: str, env: dict[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holddown", *args],
            env={**home.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def fake_engine_added(holddown: HolddownCommand) -> str:
    """The fake engine, registered as `vllm`; gives the reference to call it by."""
    done = holddown("engine", "add", sys.executable, "--pythonpath", str(FAKE_ENGINE))
    assert done.returncode == 0, done.stderr
    return "vllm"


def tensor_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of a small Llama's tensors, as transformers stores them."""
    size = _LLAMA
    heads, kv_heads = size["heads"] * size["head_dim"], size["kv_heads"] * size["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (size["vocab"], size["hidden"])}
    for layer in range(size["layers"]):
        head = f"model.layers.{layer}."
        shapes[head + "self_attn.q_proj.weight"] = (heads, size["hidden"])
        shapes[head + "self_attn.k_proj.weight"] = (kv_heads, size["hidden"])
        shapes[head + "self_attn.v_proj.weight"] = (kv_heads, size["hidden"])
        shapes[head + "self_attn.o_proj.weight"] = (size["hidden"], heads)
        shapes[head + "mlp.gate_proj.weight"] = (size["intermediate"], size["hidden"])
        shapes[head + "mlp.up_proj.weight"] = (size["intermediate"], size["hidden"])
        shapes[head + "mlp.down_proj.weight"] = (size["hidden"], size["intermediate"])
        shapes[head + "input_layernorm.weight"] = (size["hidden"],)
        shapes[head + "post_attention_layernorm.weight"] = (size["hidden"],)
    shapes["model.norm.weight"] = (size["hidden"],)
    shapes["lm_head.weight"] = (size["vocab"], size["hidden"])
    return shapes


def write_checkpoint(folder: Path) -> None:
    """config.json, model.safetensors (BF16 zeros), tokenizer.json and tokenizer_config.json with a chat template."""
    size = _LLAMA
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": size["hidden"],
        "num_hidden_layers": size["layers"],
        "num_attention_heads": size["heads"],
        "num_key_value_heads": size["kv_heads"],
        "head_dim": size["head_dim"],
        "intermediate_size": size["intermediate"],
        "vocab_size": size["vocab"],
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in tensor_shapes().items():
        count = 2
        for dim in shape:
            count *= dim
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset))
    template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2))
    vocabulary = {f"t{number}": number for number in range(size["vocab"])}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
