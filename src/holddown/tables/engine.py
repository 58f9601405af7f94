"""Rows about one kind of engine. Every row names its source."""

from dataclasses import dataclass

from holddown.facts.engine import EngineFacts


@dataclass(frozen=True, slots=True)
class BuildVariable:
    """An environment variable for pip, put in front of what the user's own says. `{number}` in its value is the package
    index's number. where: only where all of these programs are found."""

    name: str
    value: str
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to install one build. name: what the user asks for. version: what is installed unless another is named.

    distribution: what pip calls it. torch_index: where its torch is had when pip's own places have none (empty: it
    never needs that). unusable_unless_imports: this import is tried afterwards; when it fails, `unusable` is removed.
    needs_gib: free disk space below which installing is not begun. program: file name of the server, for an engine
    that is no Python package. version_prefix: what its versions have in front of the package index's number (`b11434`).
    needs_programs: without these it cannot be built; each with the package that brings it, `c++ (build-essential)`.
    jobs_variable: says to its build how many compilers may run at once. variables: for its build. import_once: a
    package that is imported afterwards, since its import puts links in place that a wheel cannot hold.
    """

    name: str
    version: str
    distribution: str
    torch_index: str
    unusable_unless_imports: str
    unusable: tuple[str, ...]
    needs_gib: int
    source: str
    program: str = ""
    version_prefix: str = ""
    needs_programs: tuple[str, ...] = ()
    jobs_variable: str = ""
    variables: tuple[BuildVariable, ...] = ()
    import_once: str = ""


@dataclass(frozen=True, slots=True)
class GoneFlag:
    """An option that some builds do not have. instead: what does the same where it is gone, for a person. becomes: the
    same as words of a command, with `{}` for its value; empty where that needs thought. needless: why leaving it out
    changes nothing, empty where it does."""

    name: str
    instead: str
    source: str
    becomes: str = ""
    needless: str = ""


@dataclass(frozen=True, slots=True)
class GoneVariable:
    """An environment variable that newer builds do not read: they ignore it in silence. becomes: the option that does
    the same, with `{}` for its value; empty where there is none. needless: as `GoneFlag` has it. where_value: only for
    this value `becomes` holds; empty for any."""

    name: str
    becomes: str
    source: str
    needless: str = ""
    where_value: str = ""


@dataclass(frozen=True, slots=True)
class OwnedFlag:
    """An option that holddown sets itself, so `--set` may not. instead: what to say to holddown."""

    name: str
    instead: str
    source: str


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """A log line that tells the phase. fragment: a regular expression that is searched in the message.

    Groups named done and total are counts; a group named detail is what a person wants to read of it.
    """

    phase: str
    fragment: str
    source: str


@dataclass(frozen=True, slots=True)
class KvRewrite:
    """What the engine makes of a value of `--kv-cache-dtype` in code that declares nothing.

    architecture: by its code for this one, before a backend is chosen. backend: by this one, after it is chosen. One
    of the two is empty. since, until: first and last version, until empty where it goes on. compute_capabilities: empty
    for all.
    """

    architecture: str
    backend: str
    given: tuple[str, ...]
    becomes: str
    compute_capabilities: tuple[str, ...]
    since: str
    until: str
    source: str


@dataclass(frozen=True, slots=True)
class BackendLimit:
    """What an attention backend refuses only when it is built, after it was chosen."""

    backend: str
    kv_cache_dtypes: tuple[str, ...]
    compute_capabilities: tuple[str, ...]
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class ParserName:
    """What this kind of engine calls a parser that the table of families names by vLLM's name.

    of: `tool` or `reasoning`. here: its own names for it, the one that newer releases have first.
    """

    of: str
    name: str
    here: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class EngineTable:
    """kind: the adapter. package: what Python imports, empty for a program. cpu_kv_bytes_since: the first version
    whose CPU build takes the KV cache size in bytes from a flag; earlier ones take whole GiB from a variable.
    twins_since: the first version whose parser adds `--disable-x` to every `--enable-x` and the other way round.
    gguf_architectures: values of `general.architecture` that its GGUF reader takes; gguf_plugin: what brings the reader
    where it is not built in. any_model_source: that its server answers under any model name, empty where it does not.
    shared_memory: its processes talk to each other through /dev/shm. key_variable: by which it would take an API key
    that stands in the shell that starts it, empty where there is none. shorter_source: that it starts although the KV
    cache does not hold one sequence of the whole context, and takes shorter requests; empty where it ends.
    running_metric: how many requests it computes now. progress_metrics: counters one of which grows while it computes.
    waiting_metric: how many wait for it. kv_metric: the share of the KV cache that is in use. preemptions_metric: how
    often a running request lost its place in the KV cache. cached_metric, prompt_metric: counters of prompt tokens that
    the prefix cache held, and of all that it was asked for. accepted_metric, drafted_metric: counters of draft tokens.
    metrics_source: where those names were read. ignore_eos_source: that a request may ask it to go on to its end.
    thinking_budget_since: the first version that is known to end a request's thinking after so many tokens;
    thinking_budget_needs: the option without which it does not.
    """

    kind: str
    package: str
    gone_flags: tuple[GoneFlag, ...]
    owned_flags: tuple[OwnedFlag, ...]
    phases: tuple[PhaseLine, ...]
    recipes: tuple[Recipe, ...] = ()
    cpu_kv_bytes_since: str = ""
    cpu_kv_bytes_source: str = ""
    twins_since: str = ""
    twins_source: str = ""
    parser_names: tuple[ParserName, ...] = ()
    gguf_architectures: tuple[str, ...] = ()
    gguf_source: str = ""
    gguf_plugin: str = ""
    kv_rewrites: tuple[KvRewrite, ...] = ()
    backend_limits: tuple[BackendLimit, ...] = ()
    any_model_source: str = ""
    gone_variables: tuple[GoneVariable, ...] = ()
    shared_memory: bool = True
    key_variable: str = ""
    shorter_source: str = ""
    running_metric: str = ""
    progress_metrics: tuple[str, ...] = ()
    waiting_metric: str = ""
    kv_metric: str = ""
    preemptions_metric: str = ""
    cached_metric: str = ""
    prompt_metric: str = ""
    accepted_metric: str = ""
    drafted_metric: str = ""
    metrics_source: str = ""
    ignore_eos_source: str = ""
    thinking_budget_since: str = ""
    thinking_budget_needs: str = ""
    thinking_budget_source: str = ""


@dataclass(frozen=True, slots=True)
class RecordedBuild:
    """A release that need not be installed. source: the package that its facts were read from."""

    source: str
    facts: EngineFacts
