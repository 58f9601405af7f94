"""Not vLLM: a stand-in that looks like vLLM 0.32 from outside. See tests/fake_engine/README.md."""

import os

from vllm._version import __version__

__all__ = ["__version__"]

if _why := os.environ.get("FAKE_IMPORT_ERROR"):
    raise ImportError("libfake_C.so: cannot open shared object file" if _why == "1" else _why)
