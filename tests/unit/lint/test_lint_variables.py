"""What is said of environment variables."""

from dataclasses import replace

import pytest

from fakes.engine import an_engine
from fakes.lint import build, codes, command, judge, judge_recorded
from holddown.base.finding import Severity
from holddown.lint.judge import Ground, judged
from holddown.plan.wishes import Candidate


@pytest.mark.parametrize(
    ("text", "version", "line"),
    [
        (
            "VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve m",
            "0.16.0",
            "vllm serve m --attention-backend FLASHINFER",
        ),
        (
            "export VLLM_FLASHINFER_MOE_BACKEND=latency\nvllm serve m",
            "0.32.0",
            "vllm serve m --moe-backend flashinfer_trtllm",
        ),
    ],
)
def test_a_choice_that_would_be_lost_becomes_the_option(text: str, version: str, line: str) -> None:
    """The variable is ignored in silence: it is not as meant, so it blocks."""
    found = judge_recorded(text, version)

    assert codes(found)["env.gone"] == "block"
    assert found.corrected.line == line


@pytest.mark.parametrize(
    ("text", "version", "severity", "line"),
    [
        ("VLLM_USE_V1=1 vllm serve m", "0.16.0", Severity.NOTE, "vllm serve m"),
        ("VLLM_USE_V1=0 vllm serve m", "0.16.0", Severity.WARN, "vllm serve m"),
        ("VLLM_ATTENTION_BACKEND=X vllm serve m --attention-backend FLASHINFER", "0.16.0", Severity.NOTE, None),
        ("VLLM_RPC_TIMEOUT=9 vllm serve m", "0.33.0", Severity.WARN, "vllm serve m"),
    ],
)
def test_a_gone_variable_that_loses_no_choice_does_not_block(
    text: str, version: str, severity: Severity, line: str | None
) -> None:
    """Needless ones, ones that nothing replaces, and ones whose option is given beside them."""
    found = judge_recorded(text, version)
    said = next(each for each in found.findings if each.code == "env.gone")

    assert said.severity is severity
    assert line is None or found.corrected.line == line


def test_a_variable_that_the_build_reads_is_not_said() -> None:
    """Nor one of another's."""
    assert codes(judge("VLLM_CACHE_ROOT=/x HOME=/y vllm serve m")) == {}


def test_a_misspelt_variable_is_corrected_where_it_stands() -> None:
    """`VLLM_LOGING_LEVEL` is ignored in silence by every release."""
    found = judge("VLLM_LOGING_LEVEL=DEBUG vllm serve m")

    assert codes(found) == {"env.unread": "warn"}
    assert found.corrected.line == "VLLM_LOGGING_LEVEL=DEBUG vllm serve m"


def test_a_variable_that_nobody_on_record_reads_stays() -> None:
    """A patched build may read it."""
    found = judge("export VLLM_PCIE_ONESHOT=1\nvllm serve m")

    assert codes(found) == {"env.unread": "warn"}
    assert found.corrected.line == "export VLLM_PCIE_ONESHOT=1; vllm serve m"


@pytest.mark.parametrize(
    ("text", "code", "severity"),
    [
        ("NCCL_P2P_LEVEL=SYS vllm serve m", None, ""),
        ("NCCL_P2P_LEVLE=SYS vllm serve m", "env.library", "warn"),
        ("NCCL_P2P_LEVEL=FAST vllm serve m", "env.value", "warn"),
        ("NCCL_NOBODY_KNOWS_THIS_ONE=1 vllm serve m", "env.library", "note"),
    ],
)
def test_the_variables_of_nccl_are_known_too(text: str, code: str | None, severity: str) -> None:
    """A typo there costs a night: NCCL says nothing."""
    assert codes(judge(text)) == ({} if code is None else {code: severity})


def test_without_a_list_of_variables_none_is_judged_and_that_is_said() -> None:
    """Silence is no yes."""
    facts = replace(build(), environment=())
    found = judged(command("VLLM_WHATEVER=1 vllm serve m"), Candidate(an_engine(), facts), Ground())

    assert [each.code for each in found.findings if each.code.startswith(("env.", "lint.no-v"))] == [
        "lint.no-variables"
    ]
