"""Behaviour on cue, from FAKE_* environment variables. tests/fake_engine/README.md lists them."""

import os
from dataclasses import dataclass

PHASES = ("config", "weights", "compile", "profile", "kv-cache", "server")
ANSWERS = (
    "good",
    "gibberish",
    "repeat",
    "wrong-usage",
    "ignore-stop",
    "ignore-max-tokens",
    "any-model",
    "stream-differs",
    "empty",
)
# Share of FAKE_LOAD_SECONDS per phase.
SHARES = {"config": 0.1, "weights": 0.5, "compile": 0.15, "profile": 0.1, "kv-cache": 0.1, "server": 0.05}


@dataclass(frozen=True, slots=True)
class Cues:
    """crash_after: requests answered before the engine dies, or None. die_after_ready: seconds, or None. room_tokens:
    of the KV cache, which a longer context does not fit; 0 for any. hang_after: requests answered before the next one
    hangs, or None. eat_mib: memory that its core takes while it loads. crash_log: file that it prints, and ends.
    lies_by_name: a model lies as its name says."""

    load_seconds: float
    shards: int
    crash_at: str
    crash_after: int | None
    crash_message: str
    exit_code: int | None
    hang_at: str
    answer: str
    ignore_term: bool
    die_after_ready: float | None
    log_flood_bytes: int
    token_seconds: float
    owner: str
    room_tokens: int
    hang_after: int | None
    eat_mib: int
    crash_log: str
    lies_by_name: bool


def only_for(names: "list[str]") -> None:
    """FAKE_ONLY: other servers behave well, and so do the processes that they start."""
    only = os.environ.pop("FAKE_ONLY", "")
    if only and only not in names:
        for name in ("FAKE_CRASH_AT", "FAKE_CRASH_LOG", "FAKE_HANG_AT", "FAKE_ANSWER", "FAKE_ROOM_TOKENS"):
            os.environ.pop(name, None)


def read() -> Cues:
    """Raises: SystemExit when a variable holds a word that is not listed: a test with a typo must not pass."""
    env = os.environ.get
    crash_at = env("FAKE_CRASH_AT", "")
    crash_after = None
    if crash_at == "first-request":
        crash_after = 0
    elif crash_at.startswith("after:"):
        crash_after = int(crash_at.removeprefix("after:"))
    elif crash_at not in ("", *PHASES):
        raise SystemExit(f"fake engine: FAKE_CRASH_AT={crash_at}: none of {PHASES}, first-request, after:N")
    hang_at = env("FAKE_HANG_AT", "")
    hang_after = None
    if hang_at.startswith("after:"):
        hang_after = int(hang_at.removeprefix("after:"))
    elif hang_at not in ("", "request", *PHASES):
        raise SystemExit(f"fake engine: FAKE_HANG_AT={hang_at}: none of {PHASES}, request")
    answer = env("FAKE_ANSWER", "good")
    if answer not in ANSWERS:
        raise SystemExit(f"fake engine: FAKE_ANSWER={answer}: none of {ANSWERS}")
    exit_code, die_after = env("FAKE_EXIT_CODE"), env("FAKE_DIE_AFTER_READY")
    return Cues(
        load_seconds=float(env("FAKE_LOAD_SECONDS", "0.3")),
        shards=int(env("FAKE_SHARDS", "1")),
        crash_at=crash_at,
        crash_after=crash_after,
        crash_message=env("FAKE_CRASH_MESSAGE", ""),
        exit_code=int(exit_code) if exit_code else None,
        hang_at=hang_at,
        answer=answer,
        ignore_term=env("FAKE_IGNORE_TERM") == "1",
        die_after_ready=float(die_after) if die_after else None,
        log_flood_bytes=int(env("FAKE_LOG_FLOOD", "0")),
        token_seconds=float(env("FAKE_TOKEN_SECONDS", "0.001")),
        owner=env("FAKE_OWNER", ""),
        room_tokens=int(env("FAKE_ROOM_TOKENS", "0")),
        hang_after=hang_after,
        eat_mib=int(env("FAKE_EAT_MIB", "0")),
        crash_log=env("FAKE_CRASH_LOG", ""),
        lies_by_name=_lies_by_name(),
    )


def _lies_by_name() -> bool:
    """Raises: SystemExit for any other word."""
    word = os.environ.get("FAKE_LIES", "")
    if word not in ("", "by-name"):
        raise SystemExit(f"fake engine: FAKE_LIES={word}: not by-name")
    return bool(word)
