"""A released deployment -> the systemd unit that runs it again. Source: systemd.service(5), systemd.kill(5),
systemd.syntax(7), systemd.unit(5) of systemd 252; RestartSteps= came with 254, OOMPolicy= with 243, by their NEWS."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holddown.launch.environment import NOT_INHERITED, REDACTED, UNRECORDED
from holddown.launch.lifecycle import Patience

MARK = "# Written by `holddown service install"
"""The first words of every unit of ours: a file without them is not ours to touch."""
STAYS_DOWN = 69
"""Exit code of a service whose supervisor has given up after restarts. Source: sysexits.h, EX_UNAVAILABLE."""
_FAILURES = 3
_BREAKER_S = 600
_FIRST_RESTART_S = 10
_LAST_RESTART_S = 120
_RESTART_STEPS = 4
_STEPS_SINCE = 254
_OOM_POLICY_SINCE = 243
_OPEN_FILES = 65536
# how often a stop sends SIGKILL again before it is taken for stuck in the kernel, as a process on a lost GPU may be
_STOP_GRACES = 3

# Of the session that installed it, or given by systemd: they would be wrong in a service.
_OF_A_SESSION = ("HOME", "USER", "SHELL", *NOT_INHERITED)
_XDG_FOLDERS = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")


@dataclass(frozen=True, slots=True)
class Service:
    """What a unit is made of.

    id: the deployment's whose record is run again. program: words that start holddown. user: who runs it, for a unit
    of the system; empty for a unit of a user's own manager. environment: what the engine inherited when it was
    released, as recorded. environment_file: where variables may stand that no record holds. needs: paths that must be
    mounted. systemd: its version; 0 where it is not known.
    """

    name: str
    id: str
    program: tuple[str, ...]
    user: str
    environment: tuple[tuple[str, str], ...]
    environment_file: str
    needs: tuple[str, ...]
    gpus: bool
    load_bytes: int
    systemd: int = 0

    @property
    def system(self) -> bool:
        return bool(self.user)


def unit_name(name: str) -> str:
    return f"holddown-{name}.service"


def is_ours(text: str) -> bool:
    return text.startswith(MARK)


def unit_text(service: Service) -> str:
    """The whole file. Each line that is not plain has its reason above it."""
    words = f"{service.name}{' --system' if service.system else ''}"
    blocks = (
        [f"{MARK} {words}`, from the record of {service.id}.", f"# Taken away by `holddown service remove {words}`."],
        ["[Unit]", *_unit(service)],
        ["[Service]", *_start(service), *_environment(service), *_times(service), *_ends(service), *_limits()],
        ["[Install]", f"WantedBy={'multi-user' if service.system else 'default'}.target"],
    )
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def hidden_variables(environment: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Names of what the engine inherited and no record holds, since they are secret by their names."""
    return tuple(name for name, value in environment if value == REDACTED)


# --- blocks -----------------------------------------------------------------------------------------------------


def _unit(service: Service) -> Iterator[str]:
    quiet_s = Patience.for_load(service.load_bytes).quiet_s
    yield f"Description={_specifiers(f'{service.name}, a model served by holddown')}"
    if service.system:
        gpus = " nvidia-persistenced.service" if service.gpus else ""
        yield "Wants=network-online.target"
        if service.gpus:
            yield "# without persistenced the first program that opens a GPU waits for its driver"
        yield f"After=network-online.target{gpus}"
        yield "# not before the disks of the checkpoint, of the engine and of the records are there"
        yield f"RequiresMountsFor={' '.join(map(_quoted, service.needs))}"
    else:
        yield "# no order: a user's manager does not see the system's units, and starts after them"
    yield f"# after {_FAILURES} failed starts it stays down, until `systemctl reset-failed` and a start by hand; the"
    yield "# interval is long enough for slow loads of this checkpoint, or slow failures would not be counted together"
    yield f"StartLimitIntervalSec={max(_BREAKER_S, _seconds(_FAILURES * quiet_s))}"
    yield f"StartLimitBurst={_FAILURES}"


def _start(service: Service) -> Iterator[str]:
    yield "# started means released: its answers were checked, not only its port"
    yield "Type=notify"
    yield "# the supervisor speaks, no process of the engine"
    yield "NotifyAccess=main"
    if service.system:
        yield "# whose record, engine and key file it is"
        yield f"User={service.user}"
    yield f"ExecStart={_command(service, 'run')}"
    yield "# ends the engine where a stop was asked for and the supervisor was killed before it had done it; leaves it"
    yield "# alone where the supervisor crashed"
    yield f"ExecStopPost=-{_command(service, 'settle')}"


def _environment(service: Service) -> Iterator[str]:
    carried = [(name, value) for name, value in service.environment if _carries(name, value)]
    if carried:
        yield "# what bears on engines of what it inherited when it was released"
        yield from (f"Environment={_quoted(f'{name}={value}')}" for name, value in carried)
    hidden = [name for name in hidden_variables(service.environment) if name not in _OF_A_SESSION]
    if hidden:
        yield f"# it also inherited {', '.join(hidden)}, which no record holds."
        yield "# If it needs that: NAME=VALUE lines in this file, with mode 0600; the - lets it be absent"
        yield f"EnvironmentFile=-{_specifiers(service.environment_file)}"


def _times(service: Service) -> Iterator[str]:
    patience = Patience.for_load(service.load_bytes)
    silence_s = patience.quiet_s + patience.give_up_s
    yield f"# the silence after which the supervisor itself gives up, with {service.load_bytes / 1e9:.1f} GB to load;"
    yield "# as long as there are signs of life it asks for more time"
    yield f"TimeoutStartSec={_seconds(silence_s + patience.grace_s)}"
    yield f"# SIGTERM, and SIGKILL after {patience.grace_s:.0f} s to what is left; then again"
    yield f"TimeoutStopSec={_seconds(_STOP_GRACES * patience.grace_s) + 10}"
    yield "Restart=on-failure"
    yield f"RestartSec={_FIRST_RESTART_S}"
    if service.systemd >= _STEPS_SINCE:
        yield f"RestartSteps={_RESTART_STEPS}"
        yield f"RestartMaxDelaySec={_LAST_RESTART_S}"
    yield "# 0: `holddown down` stopped it, perhaps while it started. 2: what this unit asks for is not there any more,"
    yield f"# as when the checkpoint was changed. {STAYS_DOWN}: its engine failed after the release, and the supervisor"
    yield "# has started that again as often as makes sense. Another start cures none of these"
    yield f"RestartPreventExitStatus=0 2 {STAYS_DOWN}"


def _ends(service: Service) -> Iterator[str]:
    yield "# SIGTERM is for the supervisor, which ends the engine and all of it. Should it crash, its engine serves on,"
    yield "# and the next start takes it over; with `mixed` systemd would kill the engine with it"
    yield "KillMode=process"
    if not service.systemd or service.systemd >= _OOM_POLICY_SINCE:
        yield "# a process that the kernel ends for want of memory is the supervisor's to see and to explain"
        yield "OOMPolicy=continue"


def _limits() -> Iterator[str]:
    yield "# a socket for each request that runs, besides files and pipes"
    yield f"LimitNOFILE={_OPEN_FILES}"
    yield "# pinned host memory, for GPU copies and RDMA"
    yield "LimitMEMLOCK=infinity"
    yield "# the thread pools of an engine grow with the cores and the GPUs"
    yield "TasksMax=infinity"


def _carries(name: str, value: str) -> bool:
    if value in (REDACTED, UNRECORDED) or name in _OF_A_SESSION or name.startswith("PYTHON"):
        return False
    printable = value.isprintable()  # no line break may stand in a unit, and nothing of the kind in these variables
    return printable and (not name.startswith("XDG_") or name in _XDG_FOLDERS)


# --- words ------------------------------------------------------------------------------------------------------


def _command(service: Service, verb: str) -> str:
    words = [_quoted(word) for word in (*service.program, "service", verb, service.id)]
    # no variable is looked for in the first word, and $$ would stay two there
    return " ".join([words[0], *(word.replace("$", "$$") for word in words[1:])])


def _quoted(word: str) -> str:
    """As one word of a unit. Source: systemd.syntax(7), Quoting."""
    word = _specifiers(word)
    if re.fullmatch(r"[\w@%+=:,./~-]+", word, re.ASCII):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _seconds(seconds: float) -> int:
    return -(-int(seconds * 1000) // 1000)


def mounted(paths: Iterable[str]) -> tuple[str, ...]:
    """Those that are absolute, each once: a repository id is no path."""
    return tuple(dict.fromkeys(path for path in paths if path.startswith("/")))
