"""What of an inherited environment goes on record."""

import pytest

from holddown.launch.environment import REDACTED, UNRECORDED, recordable


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("CUDA_VISIBLE_DEVICES", "v"),
        ("VLLM_USE_V1", "v"),
        ("PATH", "v"),
        ("VLLM_API_KEY", REDACTED),
        ("HF_TOKEN", REDACTED),
        ("hf_token", REDACTED),
        ("AWS_SECRET_ACCESS_KEY", REDACTED),
        ("HTTPS_PROXY", UNRECORDED),
        ("DATABASE_URL", UNRECORDED),
        ("PATHOLOGY", UNRECORDED),
    ],
)
def test_only_what_bears_on_engines_is_recorded(name: str, recorded: str) -> None:
    """Secrets never, and what may hold one under any name (a proxy's URL) is left out."""
    assert recordable([(name, "v")]) == ((name, recorded),)


def test_names_are_all_there_in_order() -> None:
    """That a variable was set is no secret."""
    assert [name for name, _ in recordable([("B", "1"), ("A", "2")])] == ["A", "B"]
