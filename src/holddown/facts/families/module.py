"""One module of a checkpoint, or many alike: its name pattern, its shape, and the numbers it runs through."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """Modules that differ in their numbers only.

    name: each number is `*`; spans: for each `*` the numbers it runs through, in order. shape: of one weight, (out, in)
    for a Linear. bias: the bias's shape, empty for none. linear: a Linear, which quantisers take. part: what stands
    after the name, empty for a bare parameter. dtype: safetensors' name, empty for the model's own. draft: in a layer
    that only a draft reads. fused: all experts of a layer in one tensor, whose first axis they are.
    """

    name: str
    shape: Shape
    spans: tuple[tuple[int, ...], ...] = ()
    bias: Shape = ()
    linear: bool = False
    part: str = "weight"
    dtype: str = ""
    draft: bool = False
    fused: bool = False

    @property
    def count(self) -> int:
        return prod(len(span) for span in self.spans)

    @property
    def parameters(self) -> int:
        """Of one of them, as trained; DeepSeek V4's table from tokens to experts is no weight."""
        if self.dtype.startswith("I"):
            return 0
        return prod(self.shape) + (prod(self.bias) if self.bias else 0)

    def under(self, prefix: str, *spans: tuple[int, ...]) -> "Module":
        """The same below `prefix`, whose own `*` run through `spans`."""
        return replace(self, name=f"{prefix}{self.name}", spans=(*spans, *self.spans))


def linear(name: str, out: int, features: int, bias: bool = False) -> Module:
    return Module(name, (out, features), bias=(out,) if bias else (), linear=True)


def norm(name: str, width: int, bias: bool = False) -> Module:
    return Module(name, (width,), bias=(width,) if bias else ())


def bare(name: str, *shape: int, dtype: str = "") -> Module:
    """A parameter that is no module: `A_log`."""
    return Module(name, shape, part="", dtype=dtype)


def under(prefix: str, modules: Iterable[Module], *spans: tuple[int, ...]) -> Iterator[Module]:
    return (module.under(prefix, *spans) for module in modules)
