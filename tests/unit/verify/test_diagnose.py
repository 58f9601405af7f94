"""Logs in, one cause out."""

import pytest

from fakes.diagnosis import root_cause
from fakes.failing_logs import FailingLog, failing_logs
from holddown.base.finding import Severity


@pytest.mark.parametrize("excerpt", failing_logs(), ids=lambda excerpt: excerpt.name)
def test_the_line_that_it_rests_on_is_shown_without_prefixes(excerpt: FailingLog) -> None:
    """The evidence is a piece of the log, and no process id or file name of the engine stands before it."""
    cause = root_cause(excerpt.lines, excerpt.exit)
    first = cause.seen.removesuffix(" ...").split(" | ")[0]
    assert first in excerpt.log
    assert "[core.py" not in cause.seen and "(Worker" not in cause.seen and "(APIServer" not in cause.seen


def test_figures_win_over_words() -> None:
    """A NAMED row that stands earlier in the log gives way to an EXACT one."""
    lines = ["RuntimeError: CUDA out of memory", "error: unrecognized arguments: --x"]
    assert root_cause(lines, 1).code == "engine.unknown-flag"
    assert root_cause(lines[::-1], 1).code == "engine.unknown-flag"


def test_an_unknown_exception_is_quoted_not_explained() -> None:
    """Wrong is worse than unknown: it says that it has no explanation, and shows the engine's own words."""
    lines = [
        "(EngineCore pid=7) ERROR 11-29 13:41:38 [core.py:1510] Traceback (most recent call last):",
        "(EngineCore pid=7) ERROR 11-29 13:41:38 [core.py:1510] AssertionError: 5 does not suit 2",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed: {}",
    ]
    cause = root_cause(lines, 1)
    assert cause.code == "engine.exception"
    assert "no explanation" in cause.what
    assert cause.seen == "AssertionError: 5 does not suit 2"


def test_a_worker_that_died_is_not_the_cause_of_its_own_exception() -> None:
    """The executor reports a dead worker after the worker has said why it died."""
    lines = [
        "(Worker pid=3) ERROR 11-29 13:32:11 [multiproc_executor.py:1063] ValueError: the reason",
        "(EngineCore pid=2) ERROR 11-29 13:32:11 [core.py:1512] RuntimeError: Worker failed with error 'the reason'",
        "(APIServer pid=1) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    ]
    assert root_cause(lines, 1).seen == "ValueError: the reason"


def test_pydantic_says_on_the_next_line_what_is_wrong() -> None:
    """The line with "validation error" alone would tell nothing."""
    lines = ["pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "  Value error, no."]
    assert root_cause(lines, 1).seen.endswith("Value error, no.")


def test_a_warning_that_quotes_an_error_is_no_evidence() -> None:
    """Every start of vLLM warns of `OSError: [Errno 24] Too many open files`."""
    lines = ["(APIServer pid=1) WARNING 11-29 13:31:07 [x.py:1] e.g. OSError: [Errno 28] No space left on device"]
    assert root_cause(lines, 1).code == "engine.no-reason-found"


def test_code_that_a_traceback_quotes_is_no_evidence() -> None:
    """`except torch.OutOfMemoryError:` in a traceback does not mean that memory ran out."""
    lines = ["Traceback (most recent call last):", "    except torch.OutOfMemoryError:", "ValueError: no"]
    assert root_cause(lines, 1).seen == "ValueError: no"


def test_a_hint_gives_way_to_the_exception_that_ended_it() -> None:
    """A module that was missed on the way and done without is not the cause."""
    missed = "ModuleNotFoundError: No module named 'flash_attn'"
    assert root_cause([missed, "ValueError: the reason"], 1).seen == "ValueError: the reason"
    assert root_cause([missed], 1).code == "engine.missing-module"


@pytest.mark.parametrize(
    ("exit_code", "code"),
    [
        (-9, "engine.killed"),
        (137, "engine.killed"),
        (-11, "engine.signal-11"),
        (139, "engine.signal-11"),
        (-4, "engine.signal-4"),
        (-15, "engine.told-to-stop"),
        (143, "engine.told-to-stop"),
        (1, "engine.no-reason-found"),
        (0, "engine.no-reason-found"),
        (None, "engine.no-reason-found"),
    ],
)
def test_without_an_error_the_exit_speaks(exit_code: int | None, code: str) -> None:
    """Signal n as Python (-n) and as a shell (128 + n) report it."""
    assert root_cause(["INFO:     Started server process [1]"], exit_code).code == code


def test_the_killer_is_not_named() -> None:
    """Signal 9 without a word may be the kernel or a person: both are said."""
    cause = root_cause([], -9)
    assert "most often" in cause.what and "anybody" in cause.what
    assert cause.seen == "the log is empty"


def test_being_told_to_stop_does_not_block() -> None:
    """Nothing is wrong with an engine that somebody stopped."""
    line = "(EngineCore pid=1) INFO 11-29 13:42:27 [core.py:1454] EngineCore: trigger received signal=SIGTERM"
    assert root_cause([line, "RuntimeError: cancelled while stopping"], 0).severity is Severity.WARN


def test_a_server_that_fails_ends_its_core_before_it_says_why() -> None:
    """With a failing exit status the signal was its own, and the traceback after it is the cause."""
    line = "(EngineCore pid=1) INFO 11-29 13:42:27 [core.py:1454] EngineCore: trigger received signal=SIGTERM"
    assert root_cause([line, "jinja2.exceptions.TemplateSyntaxError: unexpected"], 1).seen.startswith("jinja2")
    assert root_cause([line, "jinja2.exceptions.TemplateSyntaxError: unexpected"], -15).code == "engine.told-to-stop"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (
            "ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
            "engine.address-in-use",
            "port 8000",
        ),
        ("OSError: [Errno 98] Address already in use", "engine.address-in-use", "taken"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of",
            "engine.out-of-gpu-memory",
            "2.50 GiB",
        ),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'", "engine.no-space", "/dev/shm"),
        ("ValueError: No available memory for the cache blocks.", "engine.kv-cache-too-small", "no room"),
        (
            "ValueError: --kv-cache-dtype fp8 is not supported by MLA attention on CPU.",
            "engine.kv-cache-dtype",
            "fp8",
        ),
        (
            "ValueError: No valid attention backend found for cuda with X(). Reasons: {TRITON_MLA: [a]}.",
            "engine.no-attention-backend",
            "TRITON_MLA: [a]",
        ),
        ("api_server.py: error: argument --port: invalid int value: 'x'", "engine.bad-flag-value", "--port"),
        (
            "KeyError: 'invalid reasoning parser: zzz (chose from { deepseek_r1,qwen3 })'",
            "engine.unknown-parser",
            "2 others",
        ),
        (
            "RuntimeError: Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
            "engine.worker-killed",
            "VllmWorker-0",
        ),
    ],
)
def test_messages_from_engine_source(line: str, code: str, words: str) -> None:
    """Failures that no run of ours had: their messages as they stand in vLLM's and uvicorn's source."""
    cause = root_cause([line], 1)
    assert cause.code == code
    assert words in cause.what


SGLANG_CHILD = [
    "[2026-05-04 10:00:00] server_args=ServerArgs(model_path='/m')",
    "[2026-05-04 10:00:09] Received sigquit from a child process. It usually means the child failed.",
]


def test_sglang_ends_itself_by_sigkill_and_the_cause_is_its_schedulers() -> None:
    """Exit by signal 9 is its normal failure: the exception in its log is named, not the kernel."""
    log = [
        SGLANG_CHILD[0],
        "[2026-05-04 10:00:08 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "site-packages/sglang/srt/managers/scheduler.py", line 2981, in run_scheduler_process',
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.5",
        "",
        SGLANG_CHILD[1],
    ]
    cause = root_cause(log, -9)

    assert cause.code == "engine.kv-cache-too-small"
    assert "mem-fraction-static" in cause.do


def test_a_child_that_left_no_error_is_not_blamed_on_the_kernel_alone() -> None:
    """What is known is that one of its processes failed."""
    assert root_cause(SGLANG_CHILD, -9).code == "engine.child-failed"
    assert root_cause(SGLANG_CHILD[:1], -9).code == "engine.killed"


def test_weights_that_leave_no_room_name_the_share_that_would() -> None:
    """SGLang works out the least."""
    line = (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7. "
        "Raise --mem-fraction-static above 0.812 (minimum viable = 1 - available/pre = 0.8113)."
    )
    cause = root_cause([line], -9)

    assert "0.812" in cause.do
    assert cause.code == "engine.kv-cache-too-small"


# --- single requests ------------------------------------------------------------------------------------------------

REFUSED = [
    "0.09.001.001 I srv  llama_server: server is listening on http://127.0.0.1:8080",
    "0.41.340.122 E srv    send_error: task id = 4, error: request (9120 tokens) exceeds the available context size "
    "(4096 tokens), try increasing it",
]


def test_a_refused_request_ends_no_engine() -> None:
    """While it serves, it is what the log tells; of an engine that was killed or stopped, it is not the cause."""
    assert root_cause(REFUSED, None).code == "engine.request-too-long"
    assert root_cause(REFUSED, -9).code == "engine.killed"
    stopped = "(EngineCore pid=1) INFO 11-29 13:42:27 [core.py:1454] EngineCore: trigger received signal=SIGTERM"
    assert root_cause([*REFUSED, stopped], None).code == "engine.told-to-stop"


def test_what_ends_an_engine_stands_above_a_refused_request() -> None:
    """However sure the latter is."""
    assert root_cause([*REFUSED, "7.12.340.122 E CUDA error: out of memory"], None).code == "engine.out-of-gpu-memory"


def test_a_refused_request_is_told_although_its_process_lives_on() -> None:
    """The lines after its traceback are of other requests."""
    prefix = "(APIServer pid=1) ERROR 05-04 10:32:11 [serving_chat.py:270]"
    log = [
        f"{prefix} Traceback (most recent call last):",
        f"{prefix} ValueError: As of transformers v4.44, default chat template is no longer allowed",
        "(APIServer pid=1) INFO 05-04 10:32:20 [loggers.py:310] Engine 000: Running: 0 reqs",
    ]
    assert root_cause(log, None).code == "engine.no-chat-template"


# --- whose log it is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "setting"),
    [
        ("(EngineCore pid=1) INFO 05-04 10:00:00 [core.py:117] Initializing", "gpu-memory-utilization"),
        ("[2026-05-04 10:00:06 TP0] Init torch distributed begin.", "mem-fraction-static"),
        ("0.00.012.073 I srv  llama_server: initializing ...", "ctx-size"),
    ],
)
def test_the_remedy_is_of_the_engine_that_wrote_the_log(first: str, setting: str) -> None:
    """One failure has other settings in each engine, and how a line is written tells whose it is."""
    cause = root_cause([first, "RuntimeError: CUDA error: out of memory"], 1)
    assert cause.code == "engine.out-of-gpu-memory"
    assert setting in cause.do


def test_who_is_given_is_not_guessed() -> None:
    """A deployment's record says which engine it is."""
    line = "[2026-05-04 10:00:06 TP0] RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0"
    assert "gpu-memory-utilization" in root_cause([line], 1, "vllm").do


# --- lines ----------------------------------------------------------------------------------------------------------


def test_an_exception_of_a_library_ends_a_traceback_whatever_its_name() -> None:
    """OutOfResources, HarmonyError, OfflineModeIsEnabled: their full names tell."""
    lines = ["Traceback (most recent call last):", '  File "x.py", line 1, in f', "triton.runtime.Strange: too much"]
    assert root_cause(lines, 1).seen == "triton.runtime.Strange: too much"


def test_a_name_that_is_near_to_none_is_no_edit() -> None:
    """Better no setting than one that is made up."""
    cause = root_cause(["KeyError: 'invalid tool call parser: zzz (chose from { hermes,kimi_k2 })'"], 1)
    assert cause.code == "engine.unknown-parser"
    assert "--set" not in cause.do
