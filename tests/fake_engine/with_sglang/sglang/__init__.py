"""Not SGLang: a stand-in that looks like it from outside. See tests/fake_engine/README.md.

Its HTTP side, cues and words are those of the stand-in for vLLM, which is not on the path here, so that a probe finds
one engine: they are put on it when this package is imported.
"""

import os
import sys
from pathlib import Path

if _why := os.environ.get("FAKE_IMPORT_ERROR"):
    raise ImportError("libfake_C.so: cannot open shared object file" if _why == "1" else _why)
sys.path.append(str(Path(__file__).resolve().parents[2]))
