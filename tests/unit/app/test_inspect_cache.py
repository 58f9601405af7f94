"""The KV cache that `inspect` tells of."""

from dataclasses import replace

import pytest

from fakes.facts import model
from holddown.app.inspect import Inspected, summed
from holddown.base.evidence import Fact, Known, Unknown, from_file
from holddown.facts.model import Inspection


def inspected(asked: Fact[str]) -> Inspected:
    return summed(Inspection(replace(model(), kv_cache_quantization=asked), ()))


@pytest.mark.parametrize(
    ("asked", "kv_dtype", "bytes_per_token"),
    [
        (Unknown("not read"), "bfloat16", 128 * 1024),
        (from_file("none", "config.json"), "bfloat16", 128 * 1024),
        (from_file("fp8", "config.json"), "fp8", 64 * 1024),
        (from_file("fp8_e4m3", "config.json"), "fp8", 64 * 1024),
    ],
)
def test_it_is_sized_in_the_dtype_that_the_checkpoint_asks_for(
    asked: Fact[str], kv_dtype: str, bytes_per_token: int
) -> None:
    """Half in FP8; 16 bit where nothing is asked for."""
    cache = inspected(asked).cache
    assert isinstance(cache.bytes_per_token, Known)
    assert (cache.kv_dtype, cache.bytes_per_token.value) == (kv_dtype, bytes_per_token)


def test_a_dtype_without_a_rule_is_not_taken_for_16_bit() -> None:
    """Its size is unknown, and the answer says of which dtype; what other dtypes would take is known all the same."""
    found = inspected(from_file("int8", "config.json"))
    assert isinstance(found.cache.bytes_per_token, Unknown)
    assert "int8" in found.cache.bytes_per_token.why
    assert all(isinstance(cache.bytes_per_token, Known) for cache in found.caches)
