"""What engines print when they fail, and what it means. One row per cause; the order of rows means nothing.

Of all rows that match a log, the one with the highest `specificity` is the cause: a row that quotes figures knows more
than one that recognises a word. Patterns are stable fragments of messages, without file names and line numbers, which
move between versions.

Source: the messages of vLLM 0.25.1 and 0.32.0 and of llama.cpp b11434 as printed by real runs (tests/captures), and of
vLLM 0.16 to 0.33 as they stand in its source.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holddown.base.units import size_text

EXACT = 3
"""Quotes the figures or names that are wrong."""
NAMED = 2
"""Names the cause, without its figures."""
HINT = 1
"""A sign that has more than one possible cause."""

Groups = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failure:
    """One cause. what and do are templates over the pattern's named groups; `derive` may add further names."""

    code: str
    specificity: int
    pattern: re.Pattern[str]
    what: str
    do: str
    derive: Callable[[Groups], Groups] = dict

    def words(self, match: re.Match[str]) -> tuple[str, str]:
        """(what, do) for a line that matched."""
        groups = {name: value or "" for name, value in match.groupdict().items()}
        names = {**groups, **self.derive(groups)}
        return self.what.format_map(names), self.do.format_map(names)


def _fitting_utilization(groups: Groups) -> Groups:
    share = float(groups["free"]) / float(groups["total"])
    return {"fits": f"{int(share * 100) / 100:.2f}"}


def _dividing_size(groups: Groups) -> Groups:
    heads, size = int(groups["heads"]), int(groups["size"])
    return {"fits": str(next(fewer for fewer in range(max(size - 1, 1), 0, -1) if heads % fewer == 0))}


def _parser(groups: Groups) -> Groups:
    flag = groups["kind"].replace(" ", "-") + "-parser"
    known = [name.strip() for name in groups["known"].rstrip(" })'\"").split(",")]
    close = difflib.get_close_matches(groups["name"], known, n=1)
    return {"flag": flag, "fits": close[0] if close else "NAME", "count": str(len(known))}


def _kv_dtype(groups: Groups) -> Groups:
    return {"found": groups["found"].lower(), "wanted": groups["wanted"].lower()}


def _buffer(groups: Groups) -> Groups:
    return {"size": size_text(int(groups["bytes"]))}


FAILURES = (
    Failure(
        "engine.child-failed",
        HINT,
        re.compile(r"[Ss][Ii][Gg][Qq][Uu][Ii][Tt] (?:from|received).*It usually means (?:the|one) child failed"),
        "a process of the engine's failed and told the server, which then killed them all; it left no other error",
        "holddown logs NAME has what came before; dmesg | grep -i 'killed process' tells whether the kernel did it",
    ),
    Failure(
        "engine.worker-died",
        HINT,
        re.compile(r"Worker proc (?P<worker>\S+) died unexpectedly(?! \(exit)"),
        "{worker} was ended from outside the engine, and left no error of its own: most often the kernel did it for "
        "want of memory, but anybody allowed to may have",
        "dmesg | grep -i 'killed process' tells; holddown node shows what memory is free",
    ),
    Failure(
        "engine.kv-cache-too-small",
        EXACT,
        re.compile(
            r"max seq len \((?P<asked>\d+)\).*?\((?P<needed>[\d.]+) GiB KV cache is needed.*?"
            r"available KV cache memory \((?P<free>[\d.]+) GiB\).*?estimated maximum model length is (?P<fits>\d+)"
        ),
        "one sequence of {asked} tokens needs {needed} GiB of KV cache; {free} GiB are there, enough for {fits} tokens",
        "holddown up ... --set max-model-len={fits}",
    ),
    Failure(
        "engine.kv-cache-too-small",
        NAMED,
        re.compile(r"No available memory for the cache blocks|larger than the available KV cache memory"),
        "the weights leave no room for the KV cache",
        "holddown up ... --set gpu-memory-utilization=0.95, a shorter --set max-model-len, or more GPUs",
    ),
    Failure(
        "engine.kv-cache-too-small",
        EXACT,
        re.compile(
            r"leave no GPU memory for the KV cache under --mem-fraction-static=(?P<asked>[\d.]+)\. "
            r"Raise --mem-fraction-static above (?P<least>[\d.]+)"
        ),
        "the weights alone take more than the share {asked} of what was free; above {least} there is some KV cache",
        "holddown up ... --set mem-fraction-static=N above {least}, or more GPUs",
    ),
    Failure(
        "engine.kv-cache-too-small",
        NAMED,
        re.compile(r"Not enough memory\. Please try to increase --mem-fraction-static"),
        "the weights leave no room for the KV cache",
        "holddown up ... --set mem-fraction-static=0.93, a shorter --set context-length, or more GPUs",
    ),
    Failure(
        "engine.gpu-memory-held",
        EXACT,
        re.compile(
            r"Free memory on device (?P<device>\S+) \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than "
            r"desired GPU memory utilization \((?P<asked>[\d.]+), (?P<wanted>[\d.]+) GiB\)"
        ),
        "{device} has {free} of {total} GiB free; the engine was to take {wanted} GiB",
        "holddown node shows who holds it; or --set gpu-memory-utilization={fits}",
        _fitting_utilization,
    ),
    Failure(
        "engine.unknown-flag",
        EXACT,
        re.compile(r"error: unrecognized arguments: (?P<flags>.+)"),
        "this engine version does not know {flags}",
        "leave out that --set; holddown engine list shows the versions that are here",
    ),
    Failure(
        "engine.bad-flag-value",
        EXACT,
        re.compile(r"error: argument (?P<flag>--[\w/.-]+)\S*: (?P<why>.+)"),
        "this engine version does not take that value for {flag}: {why}",
        "give another value with --set, or leave it out",
    ),
    Failure(
        "engine.unsupported-architecture",
        EXACT,
        re.compile(r"Model architectures \[(?P<names>[^\]]*)\] are not supported"),
        "this engine version has no code for the architecture {names}",
        "holddown engine install vllm, for a newer version; config.json names the architecture",
    ),
    Failure(
        "engine.unknown-parser",
        EXACT,
        re.compile(r"invalid (?P<kind>tool call|reasoning) parser: (?P<name>\S+) \(chose from \{(?P<known>[^}]*)"),
        "this engine version has no {kind} parser {name}; it has {count} others",
        "holddown up ... --set {flag}={fits}",
        _parser,
    ),
    Failure(
        "engine.kv-cache-dtype",
        EXACT,
        re.compile(r"expected scalar type (?P<wanted>\w+) but found (?P<found>Float8_\w+)"),
        "the attention of this engine cannot read a KV cache of {found} here: it expects {wanted}",
        "holddown up ... --set kv-cache-dtype=auto",
        _kv_dtype,
    ),
    Failure(
        "engine.kv-cache-dtype",
        EXACT,
        re.compile(r"--kv-cache-dtype (?P<found>\S+) is not supported"),
        "the attention of this engine cannot read a KV cache of {found} here",
        "holddown up ... --set kv-cache-dtype=auto",
    ),
    Failure(
        "engine.heads-not-divisible",
        EXACT,
        re.compile(
            r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<size>\d+)\)",
        ),
        "{heads} attention heads cannot be split over a tensor parallel size of {size}",
        "holddown up ... --set tensor-parallel-size={fits}",
        _dividing_size,
    ),
    Failure(
        "engine.too-few-gpus",
        EXACT,
        re.compile(r"World size \((?P<asked>\d+)\) is larger than the number of available GPUs \((?P<there>\d+)\)"),
        "it is split over {asked} GPUs; the engine sees {there}",
        "holddown up ... --set tensor-parallel-size={there}",
    ),
    Failure(
        "engine.unknown-attention-backend",
        EXACT,
        re.compile(r"Unknown attention backend: '(?P<name>[^']+)'"),
        "this engine version has no attention backend {name}",
        "leave out --set attention-backend: the engine chooses one that fits",
    ),
    Failure(
        "engine.no-attention-backend",
        EXACT,
        re.compile(r"No valid attention backend found for (?P<platform>\w+).*?Reasons: (?P<why>\{.*\})"),
        "no attention backend of this engine version fits this model on this {platform} device: {why}",
        "holddown up ... --set kv-cache-dtype=auto where a KV dtype was set; else a newer engine version",
    ),
    Failure(
        "engine.attention-backend-misfit",
        EXACT,
        re.compile(r"Selected backend (?P<name>\S+) is not valid for this configuration. Reason: (?P<why>.+)"),
        "the attention backend {name} does not fit here: {why}",
        "leave out --set attention-backend: the engine chooses one that fits",
    ),
    Failure(
        "engine.out-of-gpu-memory",
        EXACT,
        re.compile(r"out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)"),
        "a GPU ran out of memory when {size} more were wanted",
        "holddown up ... --set gpu-memory-utilization=0.85, a smaller --set max-num-seqs, or more GPUs",
    ),
    Failure(
        "engine.out-of-gpu-memory",
        NAMED,
        re.compile(r"OutOfMemoryError|CUDA error: out of memory|CUDA out of memory"),
        "a GPU ran out of memory",
        "holddown up ... --set gpu-memory-utilization=0.85, a smaller --set max-num-seqs, or more GPUs",
    ),
    Failure(
        "engine.out-of-memory",
        NAMED,
        re.compile(r"DefaultCPUAllocator: can't allocate memory|^MemoryError\b"),
        "the machine's memory did not suffice",
        "holddown node shows what is free; a smaller --set max-model-len or KV cache needs less",
    ),
    Failure(
        "engine.address-in-use",
        EXACT,
        re.compile(r"bind on address \('(?P<host>[^']+)', (?P<port>\d+)\S*: address already in use"),
        "port {port} on {host} is taken by another program",
        "holddown up ... --port with another number",
    ),
    Failure(
        "engine.address-in-use",
        NAMED,
        re.compile(r"\[Errno 98\]|Address already in use"),
        "a port that the engine wanted is taken by another program",
        "holddown up ... --port with another number",
    ),
    Failure(
        "engine.no-space",
        NAMED,
        re.compile(r"\[Errno 28\]|No space left on device"),
        "a file system is full: a disk, or /dev/shm, through which the engine's processes talk",
        "df -h / /dev/shm; holddown clean shows what dead engines left there",
    ),
    Failure(
        "engine.too-many-open-files",
        NAMED,
        re.compile(r"^OSError: \[Errno 24\]"),
        "the limit of open files is too low",
        "ulimit -n 65535, then again",
    ),
    Failure(
        "engine.missing-module",
        HINT,
        re.compile(r"^(?:ModuleNotFoundError: )No module named '(?P<module>[^']+)'"),
        "the engine's environment lacks the Python module {module}",
        "holddown engine remove and engine install make it anew; for one of your own, install the module there",
    ),
    Failure(
        "engine.worker-killed",
        HINT,
        re.compile(r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: -9\)"),
        "{worker} was killed from outside (signal 9), most often by the kernel for want of memory",
        "dmesg | grep -i 'killed process' tells; holddown node shows what is free",
    ),
    # --- llama.cpp
    Failure(
        "engine.unsupported-architecture",
        EXACT,
        re.compile(r"error loading model: unknown model architecture: '(?P<name>[^']+)'"),
        "this llama.cpp has no code for the architecture {name}",
        "holddown engine install llamacpp   builds a newer one",
    ),
    Failure(
        "engine.model-file",
        NAMED,
        re.compile(r"error loading model: (?!unknown model architecture)(?P<why>.+)"),
        "llama.cpp cannot load the file: {why}",
        "holddown inspect PATH says whether it is whole; get it again where it is not",
    ),
    Failure(
        "engine.out-of-memory",
        EXACT,
        re.compile(r"failed to allocate (?P<device>\S+) buffer of size (?P<bytes>\d+)"),
        "a buffer of {size} could not be had on {device}",
        "less of it with --set ctx-size=N; holddown node shows what is free",
        _buffer,
    ),
    Failure(
        "engine.address-in-use",
        EXACT,
        re.compile(r"couldn't bind HTTP server socket, hostname: (?P<host>\S+), port: (?P<port>\d+)"),
        "port {port} on {host} is taken by another program",
        "holddown up ... --port with another number",
    ),
)
