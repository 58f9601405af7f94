"""Reading a vLLM's package from disk, and recording a release from its wheel."""

import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.engine import engine_facts
from holddown.base.codec import dumps, loads
from holddown.base.errors import EngineError
from holddown.base.evidence import Known, Unknown
from holddown.edges.probes.vllm_package import with_package
from holddown.facts.engine import EnvironmentVariable, Flag, MinimumCapability, Takes
from holddown.tables.engine import RecordedBuild

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import record_engine

FILES = {
    "engine/arg_utils.py": (
        "class EngineArgs:\n    def add_cli_args(parser):\n        kw = get_kwargs(CacheConfig)\n"
        '        parser.add_argument("--kv-cache-dtype", **kw["cache_dtype"])\n'
        '        parser.add_argument("--gpu-memory-utilization", **kw["gpu_memory_utilization"])\n'
    ),
    "config/cache.py": (
        'CacheDType = Literal["auto", "bfloat16", "fp8"]\n'
        "class CacheConfig:\n    cache_dtype: CacheDType = 'auto'\n"
        "    gpu_memory_utilization: float = Field(default=0.92)\n"
    ),
    "envs.py": 'environment_variables = {"VLLM_A": lambda: int(os.getenv("VLLM_A", "1"))}\n',
    "model_executor/models/registry.py": '_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM")}\n',
    "model_executor/models/llama.py": "class LlamaForCausalLM(nn.Module):\n    pass\n",
    "model_executor/layers/quantization/__init__.py": (
        'QuantizationMethods = Literal["fp8"]\n'
        "def get_quantization_config(name):\n    from .fp8 import Fp8Config\n    return {'fp8': Fp8Config}[name]\n"
    ),
    "model_executor/layers/quantization/fp8.py": (
        "class Fp8Config:\n    @classmethod\n    def get_min_capability(cls):\n        return 75\n"
    ),
    "model_executor/layers/attention/attention.py": (
        "if kv_cache_scheme is not None and kv_cache_dtype == 'auto':\n    kv_cache_dtype = 'fp8'\n"
    ),
    "utils/torch_utils.py": "def get_kv_cache_quant_algo_string(config): ...\n",
    "tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"hermes": ("file", "Hermes")}\n',
    "reasoning/basic.py": '@ReasoningParserManager.register_module("old_way")\nclass Basic: ...\n',
    "v1/attention/backends/registry.py": 'class AttentionBackendEnum(Enum):\n    FLASH = "vllm.flash.Flash"\n',
    "v1/attention/backend.py": (
        "class AttentionBackend:\n    @classmethod\n    def supports_compute_capability(cls, capability):\n"
        "        return True\n    @classmethod\n    def supports_kv_cache_dtype(cls, kv_cache_dtype):\n"
        "        return kv_cache_dtype == 'auto'\n"
    ),
    "flash.py": "from vllm.v1.attention.backend import AttentionBackend\nclass Flash(AttentionBackend): ...\n",
    "platforms/cuda.py": (
        "def _get_backend_priorities(use_mla, device_capability):\n    return [AttentionBackendEnum.FLASH]\n"
    ),
}
BARE = replace(engine_facts("cuda"), flags=(), architectures=())


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "vllm"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_everything_that_files_say_is_read(package: Path) -> None:
    """From a package as small as it can be."""
    found = with_package(BARE, package)

    assert found.flags == (
        Flag("--gpu-memory-utilization", takes=Takes.NUMBER, default="0.92"),
        Flag("--kv-cache-dtype", ("auto", "bfloat16", "fp8"), Takes.TEXT, default="auto"),
    )
    assert found.environment == (EnvironmentVariable("VLLM_A", "1"),)
    assert found.architectures == ("LlamaForCausalLM",)
    assert found.quantization_methods == ("fp8",)
    assert found.quantization_minimums == (MinimumCapability("fp8", "7.5"),)
    assert found.kv_cache_dtypes == ("auto", "bfloat16", "fp8")
    assert found.kv_quantization_followed == ("modelopt", "compressed-tensors")
    assert found.kv_flag_wins
    for fact, value in (
        (found.gpu_memory_utilization, 0.92),
        (found.tool_parsers, ("hermes",)),
        (found.reasoning_parsers, ("old_way",)),
        (found.without_pipeline, ("LlamaForCausalLM",)),
    ):
        assert isinstance(fact, Known)
        assert fact.value == value
    assert isinstance(found.attention_backends, Known)
    assert found.attention_backends.value.backends[0].kv_cache_dtypes("12.0") == ("auto",)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("v1/attention/backends/registry.py", "attention_backends"),
        ("platforms/cuda.py", "attention_backends"),
        ("tool_parsers/__init__.py", "tool_parsers"),
        ("config/cache.py", "gpu_memory_utilization"),
    ],
)
def test_a_file_that_moved_leaves_its_fact_unknown(package: Path, name: str, fact: str) -> None:
    """And everything else readable."""
    (package / name).unlink()

    found = with_package(BARE, package)

    assert isinstance(getattr(found, fact), Unknown)
    assert found.architectures == ("LlamaForCausalLM",)


def test_a_rule_file_that_is_no_python_leaves_its_fact_unknown(package: Path) -> None:
    """A file of the parser's must be readable, one of a backend need not."""
    (package / "v1/attention/backends/registry.py").write_text("class :")
    (package / "tool_parsers/__init__.py").write_text("\0")

    found = with_package(BARE, package)

    assert isinstance(found.attention_backends, Unknown)
    assert isinstance(found.tool_parsers, Unknown)


def test_a_package_without_its_parser_is_an_error(package: Path) -> None:
    """It is no vLLM that we know."""
    (package / "engine/arg_utils.py").unlink()

    with pytest.raises(EngineError, match="cannot be read"):
        with_package(BARE, package)


def test_a_wheel_becomes_a_recorded_build(tmp_path: Path) -> None:
    """With where it came from, and the torch that it pins."""
    wheel = tmp_path / "vllm-9.9.9-cp38-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(f"vllm/{name}", text)
        archive.writestr("vllm/big.so", b"not read")
        archive.writestr("vllm-9.9.9.dist-info/METADATA", "Name: vllm\nRequires-Dist: torch==2.9.1\n")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()

    build = record_engine.read(wheel, "9.9.9", unpacked)

    assert build.source.startswith("vllm-9.9.9-cp38-abi3-linux_x86_64.whl from PyPI, sha256 ")
    assert build.facts.version == "9.9.9"
    assert isinstance(build.facts.torch_version, Known)
    assert build.facts.torch_version.value == "2.9.1"
    assert loads(RecordedBuild, dumps(build)) == build
    assert not (unpacked / "vllm" / "big.so").exists()
