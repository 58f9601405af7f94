"""A released deployment in, its systemd unit out, compared whole.

After a wanted change: `HOLDDOWN_REWRITE_GOLDEN=1 pytest tests/golden`, and read the difference.
"""

import os
from pathlib import Path

import pytest

from holddown.launch.export.systemd import Service, unit_text

_FOLDER = Path(__file__).parent / "services"
_ENVIRONMENT = (
    ("AWS_PROFILE", "(not recorded)"),
    ("HF_HOME", "/data/hf cache"),
    ("HF_TOKEN", "(redacted)"),
    ("HOME", "/home/ana"),
    ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("PYTHONPATH", "/home/ana/lib"),
    ("XDG_RUNTIME_DIR", "/run/user/1000"),
    ("XDG_STATE_HOME", "/data/state"),
)
UNITS = {
    "small_on_cpu": Service(
        name="demo",
        id="0123abcd",
        program=("/home/ana/venv/bin/python", "-P", "-m", "holddown"),
        user="",
        environment=(("PATH", "/usr/bin:/bin"),),
        environment_file="/home/ana/.config/holddown/demo.env",
        needs=(),
        gpus=False,
        load_bytes=270_000_000,
        systemd=252,
    ),
    "large_on_gpus_of_the_system": Service(
        name="kimi-k2.5",
        id="89abcdef",
        program=("/home/ana/my venv/bin/python", "-P", "-m", "holddown"),
        user="ana",
        environment=_ENVIRONMENT,
        environment_file="/home/ana/.config/holddown/kimi-k2.5.env",
        needs=("/models/Kimi K2.5", "/home/ana/.local/share/holddown/engines/vllm@0.32.0/bin/python"),
        gpus=True,
        load_bytes=540_000_000_000,
        systemd=255,
    ),
}


@pytest.mark.parametrize("story", UNITS)
def test_the_unit_of(story: str) -> None:
    """As it stands in the file of that name."""
    path = _FOLDER / f"{story}.service"
    text = unit_text(UNITS[story])
    if os.environ.get("HOLDDOWN_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_file_is_a_story() -> None:
    """None is left over."""
    assert {path.stem for path in _FOLDER.glob("*.service")} == set(UNITS)
