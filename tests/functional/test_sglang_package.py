"""Reading an SGLang's package from disk, asking an installed one, and recording a release from its wheel."""

import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.engine import engine_facts
from functional.conftest import FAKE_ENGINE
from holddown.base.codec import dumps, loads
from holddown.base.errors import EngineError
from holddown.base.evidence import Known, Unknown
from holddown.edges.engines import EngineFolders
from holddown.edges.probes.by_kind import ProbeByKind
from holddown.edges.probes.sglang import SglangProbe
from holddown.edges.probes.sglang_package import with_package
from holddown.facts.engine import EnvironmentVariable
from holddown.tables.engine import RecordedBuild

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import record_engine

EARLY = {
    "srt/server_args.py": (
        "class ServerArgs:\n    share: float | None = None\n"
        "    def settle(self):\n        self.share = 0.9\n"
        "    def add_cli_args(parser):\n"
        '        parser.add_argument("--kv-cache-dtype", default="auto", choices=["auto", "bf16"])\n'
        '        parser.add_argument("--quantization", default=None, choices=["gptq", "unquant"])\n'
        '        parser.add_argument("--share", type=float, default=ServerArgs.share)\n'
    ),
    "srt/models/llama.py": "class LlamaForCausalLM: ...\nEntryClass = LlamaForCausalLM\n",
    "srt/environ.py": "class Envs:\n    SGLANG_QUICK = EnvBool(True)\n",
    "srt/layers/quantization/__init__.py": 'BASE_QUANTIZATION_METHODS = {"fp8": Fp8Config}\n',
    "srt/model_executor/model_runner.py": 'kv_cache_quant_algo = None\nx = os.getenv("SGLANG_ELSEWHERE", "3")\n',
    "srt/function_call/function_call_parser.py": (
        "class FunctionCallParser:\n    ToolCallParserEnum: dict = {'qwen': Qwen}\n"
    ),
}
LATE = {
    "srt/server_args.py": (
        "class ServerArgs:\n    def add_cli_args(parser):\n"
        '        parser.add_argument("--config", type=str)\nServerArgs = defstruct("ServerArgs")\n'
    ),
    "srt/arg_groups/fields/memory.py": (
        "class Memory:\n    _NS_PATH = 'memory'\n"
        "    share: A[Optional[float], 'The share.'] = None\n    slots: A[int | None, 'Slots.'] = None\n"
    ),
    "srt/arg_groups/memory_hook.py": "declare(args, share=0.9)\n",
    "srt/arg_groups/field_order.py": 'ORDER = ["share", "slots"]\nother = dict(slots=1)\n',
}
BARE = replace(engine_facts("cuda"), flags=(), architectures=(), kind="sglang")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_package_of_the_early_layout_is_read(tmp_path: Path) -> None:
    """Options, architectures, methods, parsers, variables; what it does not declare is unknown."""
    found = with_package(BARE, write(tmp_path / "sglang", EARLY))

    assert [(flag.name, flag.default) for flag in found.flags] == [
        ("--kv-cache-dtype", "auto"),
        ("--quantization", "None"),
        ("--share", None),
    ]
    assert found.architectures == ("LlamaForCausalLM",)
    assert found.quantization_methods == ("fp8", "gptq")
    assert found.kv_cache_dtypes == ("auto", "bf16")
    assert found.kv_quantization_followed == ("modelopt",)
    assert isinstance(found.tool_parsers, Known) and found.tool_parsers.value == ("qwen",)
    assert isinstance(found.reasoning_parsers, Unknown)
    assert isinstance(found.attention_backends, Unknown)
    assert isinstance(found.gpu_memory_utilization, Unknown)
    assert found.environment == (
        EnvironmentVariable("SGLANG_ELSEWHERE", "3"),
        EnvironmentVariable("SGLANG_QUICK", "true"),
    )


def test_a_package_of_the_late_layout_is_read(tmp_path: Path) -> None:
    """Fields beside the parser's own options; what code sets at start has no default, what is only listed has."""
    found = with_package(BARE, write(tmp_path / "sglang", LATE))

    assert [(flag.name, flag.default) for flag in found.flags] == [
        ("--config", "None"),
        ("--share", None),
        ("--slots", "None"),
    ]


@pytest.mark.parametrize("text", ["", "def (", "class ServerArgs: ...\n", "x = " + "(" * 300])
def test_a_package_that_is_something_else_is_an_obstacle(tmp_path: Path, text: str) -> None:
    """With the file that was looked at."""
    with pytest.raises(EngineError) as caught:
        with_package(BARE, write(tmp_path / "sglang", {"srt/server_args.py": text}))

    assert caught.value.code == "engine.source"
    assert "server_args.py" in caught.value.seen


def test_an_installed_one_is_asked_once(tmp_path: Path) -> None:
    """The stand-in: known by its package, read, imported on trial, and then had from the cache."""
    folders = EngineFolders(tmp_path / "engines")
    engine = folders.add(None, sys.executable, str(FAKE_ENGINE / "with_sglang"))
    heard: list[str] = []
    probe = ProbeByKind({"sglang": lambda: SglangProbe(tmp_path / "cache")})

    first = probe.facts(engine, heard.append)

    assert engine.ref == "sglang@0.5.23"
    assert engine.kind == "sglang"
    assert (first.import_error, first.architectures) == ("", ("LlamaForCausalLM",))
    assert isinstance(first.device, Known) and first.device.value == "cpu"
    assert probe.facts(engine, heard.append) == first
    assert len(heard) == 1


def test_a_wheel_becomes_a_recorded_build(tmp_path: Path) -> None:
    """By the kind that its name begins with."""
    wheel = tmp_path / "sglang-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in EARLY.items():
            archive.writestr(f"sglang/{name}", text)
        archive.writestr("sglang-9.9.9.dist-info/METADATA", "Name: sglang\nRequires-Dist: torch==2.9.1\n")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()

    build = record_engine.read(wheel, "9.9.9", unpacked)

    assert loads(RecordedBuild, dumps(build)) == build
    assert (build.facts.kind, build.facts.version, build.facts.distribution) == ("sglang", "9.9.9", "sglang")
    assert isinstance(build.facts.torch_version, Known) and build.facts.torch_version.value == "2.9.1"
    assert build.facts.knows_flag("--share")
