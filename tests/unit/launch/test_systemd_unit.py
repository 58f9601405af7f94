"""Words and figures of a systemd unit; the whole text is in tests/golden/services."""

from dataclasses import replace

import pytest

from holddown.launch.export.systemd import Service, hidden_variables, is_ours, mounted, unit_name, unit_text
from holddown.launch.lifecycle import Patience

SERVICE = Service("m", "0123abcd", ("/e/python",), "", (), "/c/m.env", (), False, 1_000_000, 252)


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


@pytest.mark.parametrize("load_bytes", [0, 10**9, 540 * 10**9])
def test_systemd_is_as_patient_as_the_supervisor(load_bytes: int) -> None:
    """A start ends by its supervisor, which says why; systemd's limit comes after it. Three slow failures count
    together, and never in less than ten minutes."""
    text = unit_text(replace(SERVICE, load_bytes=load_bytes))
    patience = Patience.for_load(load_bytes)
    (start,), (interval,) = values(text, "TimeoutStartSec"), values(text, "StartLimitIntervalSec")
    assert int(start) > patience.quiet_s + patience.give_up_s
    assert int(interval) >= max(600, 3 * patience.quiet_s)


def test_no_secret_and_nothing_of_the_session_is_carried() -> None:
    """What is redacted stands by name in a comment; a line break would be another line of the unit."""
    environment = (
        ("API_KEY", "(redacted)"),
        ("HOME", "/root"),
        ("LESS", "(not recorded)"),
        ("PYTHONPATH", "/lib"),
        ("TERM", "a\nExecStart=/bin/false"),
        ("VLLM_USE_V1", "1"),
        ("XDG_SESSION_ID", "4"),
    )
    text = unit_text(replace(SERVICE, environment=environment))
    assert values(text, "Environment") == ["VLLM_USE_V1=1"]
    assert values(text, "EnvironmentFile") == ["-/c/m.env"]
    assert hidden_variables(environment) == ("API_KEY",)


def test_no_environment_file_is_named_without_need() -> None:
    """Where the engine inherited nothing secret."""
    assert values(unit_text(SERVICE), "EnvironmentFile") == []


def test_what_systemd_would_read_otherwise_is_escaped() -> None:
    """Blanks, quotes, its %-specifiers everywhere, and in commands its $-variables."""
    odd = replace(SERVICE, program=("/my e/$x/100%/python", 'a "$b" \\c'), environment=(("PATH", "/a b:$x:5%"),))
    text = unit_text(odd)
    assert values(text, "ExecStart") == ['"/my e/$x/100%%/python" "a \\"$$b\\" \\\\c" service run 0123abcd']
    assert values(text, "Environment") == ['"PATH=/a b:$x:5%%"']


@pytest.mark.parametrize(("systemd", "steps", "policy"), [(0, 0, 1), (239, 0, 0), (252, 0, 1), (255, 1, 1)])
def test_only_keys_that_this_systemd_knows(systemd: int, steps: int, policy: int) -> None:
    """It would call the file faulty. Of one that is not known, what all but the oldest know."""
    text = unit_text(replace(SERVICE, systemd=systemd))
    assert (len(values(text, "RestartSteps")), len(values(text, "OOMPolicy"))) == (steps, policy)


def test_only_a_unit_of_the_system_waits_for_others() -> None:
    """A user's manager has none of the system's units."""
    system = unit_text(replace(SERVICE, user="ana", gpus=True, needs=("/m",)))
    assert values(system, "After") == ["network-online.target nvidia-persistenced.service"]
    assert (values(system, "User"), values(system, "WantedBy")) == (["ana"], ["multi-user.target"])
    own = unit_text(SERVICE)
    assert values(own, "After") == values(own, "User") == [] and values(own, "WantedBy") == ["default.target"]


def test_ours_is_known_by_its_first_line() -> None:
    """And nobody else's, an empty (masked) one neither."""
    assert is_ours(unit_text(SERVICE)) and unit_name("m") == "holddown-m.service"
    assert not is_ours("") and not is_ours("[Unit]\n" + unit_text(SERVICE))


def test_only_paths_can_be_mounted() -> None:
    """A repository id is none."""
    assert mounted(("/a", "org/model", "/a", "")) == ("/a",)
