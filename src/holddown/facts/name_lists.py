"""Lists of module names in a quantisation config: plain names, `*` globs, `re:` patterns, matched as tools do."""

import fnmatch
import re
from collections.abc import Iterable

from holddown.facts.hf_keys import NotUnderstoodError

_LONGEST = 300
# A repeated group that repeats inside can take forever on a name that does not match: such a list is not understood.
_NESTED_REPEAT = re.compile(r"\([^()]*[*+}][^()]*\)\s*[*+{]")


class NameList:
    """Which modules a list of names means.

    A plain name means the module, everything below it, and any module that ends in it or has it as a step:
    `lm_head`, `gate`, `vision_tower`, `model.layers.0.self_attn`. A glob is held against the whole name, and against
    the name without its first steps, because tools disagree about the wrapper's prefix.
    Source: compressed-tensors' match_named_modules, vLLM's is_layer_skipped and ModelOpt's is_layer_excluded.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Raises: NotUnderstoodError."""
        self._plain: set[str] = set()
        self._expressions: list[re.Pattern[str]] = []
        globs: list[str] = []
        for name in names:
            if name.startswith("re:"):
                self._expressions.append(_compiled(name[3:]))
            elif "*" in name or "?" in name:
                globs.append(fnmatch.translate(name))
            else:
                self._plain.add(name)
        self._globs = [re.compile("|".join(globs[start : start + 200])) for start in range(0, len(globs), 200)]

    def __contains__(self, module: object) -> bool:
        """module: a full name with its numbers."""
        if not isinstance(module, str):
            return False
        steps = module.split(".")
        if self._plain and any(
            ".".join(steps[first:last]) in self._plain
            for first in range(len(steps))
            for last in range(first + 1, len(steps) + 1)
        ):
            return True
        if any(expression.match(module) for expression in self._expressions):
            return True
        tails = [".".join(steps[first:]) for first in range(min(3, len(steps)))]
        return any(glob.fullmatch(tail) for glob in self._globs for tail in tails)


def _compiled(text: str) -> re.Pattern[str]:
    if len(text) > _LONGEST or _NESTED_REPEAT.search(text):
        raise NotUnderstoodError(f"the pattern {text[:60]!r} of the quantisation config is not one holddown will run")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotUnderstoodError(f"the pattern {text[:60]!r} of the quantisation config is no expression") from error
