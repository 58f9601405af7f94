"""Loads a deployment lightly, and reports how fast it is."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from holddown.facts.answers import Ask, Reply
from holddown.measure.load import CONCURRENCY, crowd_load, more_crowd_load, single_load, warm_up
from holddown.measure.metrics import Measured, busy_seconds, failures, measurements
from holddown.ports import Client, Progress

DEFAULT_BUDGET_S = 12.0


def measure(client: Client, model_name: str, say: Progress, budget_s: float = DEFAULT_BUDGET_S) -> Measured:
    """Warm-up, then one request at a time, then eight at once; about `budget_s` in all, the warm-up not counted.

    Times come with the answers: no clock is needed here. Requests that fail are counted in a finding.
    """
    warm = client.stream(warm_up(model_name))
    single = single_load(model_name, warm, budget_s)
    if single is None:
        return Measured((), failures([warm]))
    say(f"measuring: {len(single.asks)} requests of {single.output_tokens} tokens, one at a time")
    alone = [client.stream(ask) for ask in single.asks]
    first = crowd_load(model_name, single)
    say(f"measuring: requests of {first.output_tokens} tokens, {CONCURRENCY} at once")
    crowd = _at_once(client, first.asks)
    left_s = budget_s - busy_seconds(alone) - busy_seconds(crowd)
    crowd += _at_once(client, more_crowd_load(model_name, first, crowd, left_s).asks)
    return Measured(measurements(alone, 1) + measurements(crowd, CONCURRENCY), failures([*alone, *crowd]))


def _at_once(client: Client, asks: Sequence[Ask]) -> list[Reply]:
    """Never more than eight under way, and as soon as one ends the next begins."""
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return list(pool.map(client.stream, asks))
