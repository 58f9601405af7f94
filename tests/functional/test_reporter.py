"""The plug-in that vLLM loads: it says what was resolved, and the engine is what it is without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holddown.edges.process.local import REPORTER, LocalProcesses
from holddown.facts.engine_report import EngineReport, KvGroup, read_report

SELECTOR = """
from functools import cache
class Backend:
    @staticmethod
    def get_name(): return "FLASH_ATTN"
@cache
def _cached_get_attn_backend(backend, config): return Backend
def get_attn_backend(config): return _cached_get_attn_backend(None, config)
"""
CORE = """
from types import SimpleNamespace as N
class Spec: block_size, page_size_bytes, dtype = 16, 4096, "bfloat16"
class EngineCore:
    def __init__(self, config): self.kv = self._initialize_kv_caches(config)
    def _initialize_kv_caches(self, config):
        if config is None: raise ValueError("no room")
        return N(num_blocks=7, kv_cache_tensors=[N(size=100), N(size=20)],
                 kv_cache_groups=[N(layer_names=["a", "b"], kv_cache_spec=Spec())])
"""
ORACLE = """
from enum import Enum
class Backend(Enum): MARLIN = "MARLIN"
def select_fp8_moe_backend(config): return Backend.MARLIN, None
"""
START = """
from importlib.metadata import entry_points
(found,) = entry_points(group="vllm.general_plugins")
for _ in range(2): found.load()()
"""
RUN = """
from types import SimpleNamespace as N
from vllm.v1.attention.selector import get_attn_backend, _cached_get_attn_backend
from vllm.model_executor.layers.fused_moe.oracle.fp8 import select_fp8_moe_backend
from vllm.v1.engine.core import EngineCore
cache = N(cache_dtype="auto", kv_cache_size_tokens=112)
EngineCore(N(cache_config=cache, model_config=N(dtype=object)))
print(get_attn_backend(1).get_name(), select_fp8_moe_backend(1)[0].value)
_cached_get_attn_backend.cache_clear()
try: EngineCore(None)
except ValueError as error: print(error)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A package with vLLM's functions, as far as the plug-in looks at them."""
    for name, text in {
        "v1/attention/selector.py": SELECTOR,
        "v1/engine/core.py": CORE,
        "model_executor/layers/fused_moe/oracle/fp8.py": ORACLE,
    }.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def run(engine: Path, script: str, run_dir: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{engine}:{REPORTER}"}
    if run_dir:
        env["HOLDDOWN_RUN_DIR"] = run_dir
    command = [sys.executable, "-S", "-B", "-W", "error", "-c", script]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


SAME = "FLASH_ATTN MARLIN\nno room\n"


def test_what_the_engine_resolved_is_written_where_the_supervisor_looks(engine: Path, tmp_path: Path) -> None:
    """Attention, experts, the KV cache and the settings, whichever module is imported first."""
    out = tmp_path / "out"
    out.mkdir()

    done = run(engine, START + RUN, str(out))

    assert (done.stdout, done.stderr) == (SAME, "")
    report = read_report(LocalProcesses().reports(str(out)))
    assert report == EngineReport(
        attention=("FLASH_ATTN",),
        experts=("MARLIN",),
        kv_blocks=7,
        kv_bytes=120,
        kv_groups=(KvGroup("Spec", 2, 16, 4096, "bfloat16"),),
        config=(
            ("model_config.dtype", "<class 'object'>"),
            ("cache_config.cache_dtype", "auto"),
            ("cache_config.kv_cache_size_tokens", "112"),
        ),
    )


def test_modules_that_were_there_before_the_plug_in_are_heard_too(engine: Path, tmp_path: Path) -> None:
    """vLLM's API server loads plug-ins after much of it was imported, and its engine may be forked off."""
    out = tmp_path / "out"
    out.mkdir()

    done = run(engine, f"import vllm.v1.engine.core\n{START}{RUN}", str(out))

    assert done.stdout == SAME
    (file,) = out.iterdir()
    assert json.loads(file.read_text())["kv_cache"]["blocks"] == 7


@pytest.mark.parametrize("run_dir", ["", "/nowhere", "/proc/1"])
def test_the_engine_is_the_same_where_nothing_can_be_written(engine: Path, run_dir: str) -> None:
    """No folder, or one that takes nothing: not a line on stderr."""
    done = run(engine, START + RUN, run_dir)

    assert (done.stdout, done.stderr, done.returncode) == (SAME, "", 0)


def test_the_engine_is_the_same_where_its_code_is_another(engine: Path, tmp_path: Path) -> None:
    """A release whose functions are gone, or give something else."""
    (engine / "vllm/v1/attention/selector.py").write_text("def get_attn_backend(config): return 1\n")
    (engine / "vllm/v1/engine/core.py").write_text(
        "class EngineCore:\n    def __init__(self, config): self.kv = self._initialize_kv_caches(config)\n"
        "    def _initialize_kv_caches(self, config): return 3\n"
    )
    script = (
        "from vllm.v1.attention.selector import get_attn_backend\nfrom vllm.v1.engine.core import EngineCore\n"
        "print(get_attn_backend(2), EngineCore(4).kv)\n"
    )

    done = run(engine, START + script, str(tmp_path))

    assert (done.stdout, done.stderr) == ("1 3\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"attention": 3, "kv_cache": {"groups": [1]}, "config": []}',
        '{"attention": ["\\ud800"]}',
        "[" * 9000,
    ],
)
def test_a_report_that_is_no_report_says_nothing_wrong(text: str) -> None:
    """What cannot be read is left out; the log has the rest."""
    found = read_report([text])

    assert found is None or (found.kv_blocks, found.config) == (0, ())


def test_several_processes_are_put_together() -> None:
    """The engine's own has the KV cache, the workers' the backends."""
    texts = ['{"attention": ["A"]}', '{"kv_cache": {"blocks": 5}}', '{"attention": ["A", "B"], "kv_cache": null}']

    assert read_report(texts) == EngineReport(attention=("A", "B"), kv_blocks=5)
