"""What an engine build is and takes, as text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from holddown.base.evidence import Fact, Known, known_or
from holddown.base.units import count_text
from holddown.explain.drawing import wrapped
from holddown.facts.attention_backends import AttentionBackend, AttentionBackends
from holddown.facts.engine import EngineFacts, EnvironmentVariable, Flag, Takes

_LABEL = 14
_NAMES = 8
"""Names of a kind that are shown before the rest is only counted."""


def engine_text(facts: EngineFacts, compute_capability: str) -> str:
    """The card of a build. compute_capability: `12.0` or `cpu`, for its attention backends."""
    deprecated = [flag.name for flag in facts.flags if flag.deprecated]
    lines = [
        *_line("distribution", f"{facts.distribution or facts.kind} {facts.version}"),
        *_line("where", facts.package_dir or facts.fingerprint),
        *_line("built for", _fact(facts.device)),
        *_line("torch", _fact(facts.torch_version)),
        *_line("options", _counted(len(facts.flags), "deprecated", deprecated)),
        *_line("variables", count_text(len(facts.environment))),
        *_line("architectures", _counted(len(facts.architectures), "gone", _gone(facts))),
        *_line("tool parsers", _list(facts.tool_parsers)),
        *_line("reasoning", _list(facts.reasoning_parsers)),
        *_line("quantisation", _quantisation(facts)),
        *_line("KV cache", ", ".join(facts.kv_cache_dtypes) or "not read from this build"),
        *_attention(facts.attention_backends, compute_capability),
    ]
    return "\n".join(lines)


def _line(label: str, text: str) -> list[str]:
    return wrapped(label.ljust(_LABEL), text) if text else []


def _fact(fact: Fact[str]) -> str:
    return fact.value if isinstance(fact, Known) else f"unknown: {fact.why}"


def _counted(count: int, word: str, names: Sequence[str]) -> str:
    return f"{count_text(count)}" + (f"; {len(names)} {word}: {_some(names)}" if names else "")


def _gone(facts: EngineFacts) -> list[str]:
    def last(version: str, plugin: str) -> str:
        return f"with {version}" if version else f"to {plugin}" if plugin else ""

    return [f"{each.name} ({last(each.last_version, each.plugin)})" for each in facts.gone_architectures]


def _list(fact: Fact[tuple[str, ...]]) -> str:
    return f"{len(fact.value)}: {_some(fact.value)}" if isinstance(fact, Known) else f"unknown: {fact.why}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more (--json has them)" if more > 0 else "")


def _quantisation(facts: EngineFacts) -> str:
    least = {each.method: each.compute_capability for each in facts.quantization_minimums}
    return ", ".join(f"{name} (from {least[name]})" if name in least else name for name in facts.quantization_methods)


def _attention(backends: Fact[AttentionBackends], capability: str) -> Iterator[str]:
    if not isinstance(backends, Known):
        yield from _line("attention", f"unknown: {backends.why}")
        return
    there = [each for each in backends.value.backends if capability in each.compute_capabilities]
    where = "the CPU" if capability == "cpu" else f"compute capability {capability}"
    if not there:
        yield from _line("attention", f"no backend says that it runs on {where}")
        return
    yield f"attention on {where}, by what each backend says; the model and the order decide"
    width = max(len(each.name) for each in there) + 2
    for each in there:
        limits = "; ".join(filter(None, (_sizes(each), _lacks(each))))
        taken = ", ".join(each.kv_cache_dtypes(capability))
        yield from wrapped(each.name.ljust(width), f"{_purpose(each)}: {taken}" + (f" ({limits})" if limits else ""), 2)


def _purpose(backend: AttentionBackend) -> str:
    return ("MLA" if backend.is_mla else "heads") + (", sparse" if backend.is_sparse else "")


def _lacks(backend: AttentionBackend) -> str:
    lacking = ("" if backend.sliding_window else "sliding window", "" if backend.decode_context_parallel else "DCP")
    return f"no {' and no '.join(filter(None, lacking))}" if any(lacking) else ""


def _sizes(backend: AttentionBackend) -> str:
    """Head sizes, where not every one is taken: a run of steps by its ends."""
    sizes = backend.head_sizes
    if not sizes:
        return ""
    steps = {after - before for before, after in pairwise(sizes)}
    if len(sizes) > 4 and len(steps) == 1:
        return f"heads of {sizes[0]} to {sizes[-1]} in steps of {steps.pop()}"
    return f"heads of {', '.join(map(str, sizes))}"


# --- one word ---------------------------------------------------------------------------------------------------------


def found_text(facts: EngineFacts, word: str) -> str:
    """Every option, variable, parser, architecture and method with this word in its name; empty where there is none."""
    wanted = word.strip("-").lower().replace("_", "-")
    lines = [line for flag in facts.flags if _within(wanted, (flag.name, *flag.aliases)) for line in _flag_lines(flag)]
    lines += [_variable(each) for each in facts.environment if _within(wanted, (each.name,))]
    kinds = (
        ("tool parser", known_or(facts.tool_parsers, ())),
        ("reasoning parser", known_or(facts.reasoning_parsers, ())),
        ("architecture", facts.architectures),
        ("quantisation", facts.quantization_methods),
    )
    lines += [f"{kind} {name}" for kind, names in kinds for name in names if _within(wanted, (name,))]
    lines += [f"architecture {each}: gone" for each in _gone(facts) if _within(wanted, (each,))]
    return "\n".join(lines)


def _within(wanted: str, names: Iterable[str]) -> bool:
    return any(wanted in name.lower().replace("_", "-") for name in names)


def _flag_lines(flag: Flag) -> Iterator[str]:
    names = ", ".join((flag.name, *flag.aliases))
    yield from wrapped(
        f"option {names}  ", "; ".join(filter(None, (_taken(flag), _default(flag), flag.deprecated))), 0, 4
    )


def _taken(flag: Flag) -> str:
    if flag.choices == ("true",):
        return "turns on"
    if flag.takes is Takes.NOTHING:
        return "turns on, and off as --no-"
    one = "|".join(flag.choices) or {Takes.UNKNOWN: "a value", Takes.SIZE: "a number (8k, 1M)"}.get(
        flag.takes, flag.takes
    )
    return f"{one}, one or more" if flag.several else f"{one}, or nothing" if flag.optional else one


def _default(flag: Flag) -> str:
    return "" if flag.default is None else f"default {flag.default or repr('')}"


def _variable(variable: EnvironmentVariable) -> str:
    return f"variable {variable.name}" + (f"  default {variable.default}" if variable.default else "")
