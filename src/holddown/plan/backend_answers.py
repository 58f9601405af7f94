"""What a build's attention backends say to a query: as its own selector said where it was asked, else as its source
was read."""

from collections.abc import Iterable

from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.facts.attention_backends import AttentionBackends, AttentionQuery, BackendAnswer, answer
from holddown.facts.engine import EngineFacts


def backend_answers(facts: EngineFacts, query: AttentionQuery, wished: str = "") -> tuple[BackendAnswer, ...]:
    """In the order in which they are tried; only the one that the user asks for where there is one."""
    read = facts.attention_backends.value if isinstance(facts.attention_backends, Known) else _NONE
    said = _said(facts, read, query)
    if not wished:
        return read.answers(query) if said is None else said
    named, own = read.named(wished.upper()), next((each for each in said or () if each.name == wished.upper()), None)
    if own is not None:
        return (own,)
    return (answer(named, query),) if named is not None else said or read.answers(query)


def selector_name(facts: EngineFacts) -> str:
    """For a person and for sources."""
    return f"asked {facts.kind} {facts.version}'s own selector"


def was_asked(facts: EngineFacts, query: AttentionQuery) -> bool:
    return facts.asked.attention_said(query) is not None


def differing(facts: EngineFacts, queries: Iterable[AttentionQuery]) -> tuple[Finding, ...]:
    """A note where the selector takes what its source was read to refuse, or the other way round: we read it wrongly,
    or this build is not what was published."""
    if not isinstance(facts.attention_backends, Known):
        return ()
    read = facts.attention_backends.value
    found: dict[str, str] = {}
    for query in queries:
        said = _said(facts, read, query)
        for each in said or ():
            named = read.named(each.name)
            ours = answer(named, query).reasons if named is not None else ("it was not read",)
            if bool(ours) != bool(each.reasons):
                why = ", ".join(each.reasons or ours)
                how = "refuses" if each.reasons else "takes"
                found.setdefault(each.name, f"{how} {each.name} ({query.kv_cache_dtype}: {why})")
    if not found:
        return ()
    what = f"{facts.kind} {facts.version}'s own selector does not say what its source was read to say; it is followed"
    do = "if nothing of this build was changed by hand or is missing, please report it"
    seen = "it " + "; ".join(found.values())
    return (Finding("compat.selector-differs", Severity.NOTE, "attention backend", what, seen, do),)


def _said(facts: EngineFacts, read: AttentionBackends, query: AttentionQuery) -> tuple[BackendAnswer, ...] | None:
    """What the selector said; of a backend that could not say, what was read. None where it was not asked."""
    said = facts.asked.attention_said(query)
    if said is None:
        return None
    return tuple(_or_read(each, read, query) if each.name in said.unsure else each for each in said.backends)


def _or_read(each: BackendAnswer, read: AttentionBackends, query: AttentionQuery) -> BackendAnswer:
    named = read.named(each.name)
    if named is not None:
        return answer(named, query)
    return BackendAnswer(each.name, each.path, ("whether it takes this is not known",))


_NONE = AttentionBackends((), ())
