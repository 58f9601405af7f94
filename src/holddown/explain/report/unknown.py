"""What nobody knows of a deployment, said as such."""

from collections.abc import Iterator

from holddown.base.evidence import Unknown
from holddown.explain.report.markup import Html, section, tag
from holddown.explain.report.told import Told


def unknown(told: Told) -> Html:
    return section("unknown", "What is not known", tag("ul", *(tag("li", text) for text in _texts(told))))


def _texts(told: Told) -> Iterator[str]:
    birth, status = told.deployment.birth, told.deployment.status
    plan, name = birth.plan, birth.name
    for check in status.unverified:
        yield f"{check}: skipped, or nothing was shown either way"
    if told.verify is None:
        yield f"whether it passes the full verification: holddown verify {name}"
    if told.bench is None:
        yield f"how it behaves under load: holddown bench {name}"
    if isinstance(plan.speed, Unknown):
        yield f"how fast it should be: {plan.speed.why}"
    if plan.kv_cache is not None and isinstance(plan.kv_cache.bytes_per_token, Unknown):
        yield f"what a token takes in the KV cache: {plan.kv_cache.bytes_per_token.why}"
    if status.report is None:
        yield "what the engine made of its settings: it did not say, or holddown could not read it"
    if told.bench is not None and len({each.arrival for each in told.bench.phases}) == len(told.bench.phases):
        yield "how much another run would differ: intervals here are of the requests within a run"
    yield "the driver, the clocks and the temperature of this machine at the time: no record holds them"
