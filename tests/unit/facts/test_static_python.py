"""Evaluating small functions without running them. The functions are ours, shaped like vLLM's."""

import ast
from collections.abc import Mapping
from typing import Any

import pytest

from holddown.facts.static_modules import Source
from holddown.facts.static_python import Evaluator
from holddown.facts.static_values import AnyOf, Capability, Class, Comparison, Config, Guard, Opaque

ASSUMED: Mapping[str, Any] = {
    "Capability": lambda _, major, minor=0: Capability(major, minor),
    "current_config": lambda _: Config(is_model=False),
    "device": lambda capability: capability,
}


def source(**modules: str) -> Source:
    return Source(lambda name: ast.parse(modules[name]) if name in modules else None)


def ask(body: str, capability: str = "9.0", **named: object) -> object:
    """What `class Backend: def rule(cls, capability, **named)` with this body gives."""
    parameters = "".join(f", {name}" for name in named)
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    text = f"class Backend:\n    @classmethod\n    def rule(cls, capability{parameters}):\n{lines}\n"
    modules, asked = evaluator(source(m=text), capability)
    return asked.ask(backend(modules), "rule", cap(capability), **named)


def cap(text: str) -> Capability:
    major, minor = text.split(".")
    return Capability(int(major), int(minor))


def backend(modules: Source, name: str = "Backend") -> Class:
    found = modules.find("m", name)
    assert isinstance(found, Class)
    return found


def evaluator(modules: Source, capability: str = "9.0") -> tuple[Source, Evaluator]:
    return modules, Evaluator(modules, cap(capability), ASSUMED)


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        ("return capability.major == 9", "9.0", "12.0"),
        ("return capability.major in [9, 10]", "10.3", "8.9"),
        ("return capability >= Capability(8, 0) and capability <= Capability(12, 1)", "12.1", "7.5"),
        ("return (capability.major, capability.minor) in ((12, 0), (12, 1))", "12.0", "11.0"),
        ("return not capability.major < 9", "9.0", "8.6"),
        ("if capability.major == 9:\n    return True\nelse:\n    return False", "9.0", "8.0"),
        ("low = 8\nreturn low < capability.major < 10", "9.0", "10.0"),
        ("return any(capability.major == n for n in (8, 9))", "8.0", "12.0"),
        ("return True if capability.major == 9 else False", "9.0", "8.0"),
        ("from elsewhere import x\nlog.info('said')\nreturn device().major * 10 == 90", "9.0", "8.0"),
    ],
)
def test_a_rule_over_capabilities_is_evaluated(rule: str, yes: str, no: str) -> None:
    """As Python would, for one that holds and one that does not."""
    assert ask(rule, yes) is True
    assert ask(rule, no) is False


@pytest.mark.parametrize(
    "rule",
    [
        "return probe_the_driver()",
        "for n in (1, 2):\n    pass\nreturn True",
        "if probe_the_driver():\n    return True\nreturn False",
        "return not probe_the_driver()",
        "return probe_the_driver() == 3",
        "return [x for x in y]",
        "return capability.major > 'nine'",
        "flag = 1\nif probe_the_driver():\n    flag = 2\nreturn flag == 1",
        "return undefined_name",
        "with open('x'):\n    return True",
    ],
)
def test_what_is_outside_of_the_subset_is_not_guessed(rule: str) -> None:
    """An answer that would depend on it is Opaque, never True or False."""
    assert isinstance(ask(rule), Opaque)


def test_what_does_not_matter_need_not_be_read() -> None:
    """`and` and `or` are decided by a side that is known."""
    assert ask("return probe_the_driver() and capability.major == 8") is False
    assert ask("return probe_the_driver() or capability.major == 9") is True


def test_a_function_that_calls_itself_ends() -> None:
    """Calls nest to a depth and no further."""
    text = "class Backend:\n    @classmethod\n    def rule(cls):\n        return cls.rule()\n"

    assert isinstance(evaluator(source(m=text))[1].ask(backend(source(m=text)), "rule"), Opaque)


BASE = """
class Base:
    sizes = [64]
    @classmethod
    def takes(cls, n):
        return n in cls.sizes
"""
DERIVED = """
from base.common import Base
class Backend(Base):
    sizes = [64, 128]
    @classmethod
    def takes(cls, n):
        if n == 1:
            return False
        return super().takes(n)
"""


def test_methods_are_inherited_and_super_is_followed() -> None:
    """Over modules, nearest class first."""
    modules, asked = evaluator(source(**{"base.common": BASE, "m": DERIVED}))

    assert asked.ask(backend(modules), "takes", 128) is True
    assert asked.ask(backend(modules), "takes", 256) is False
    assert asked.ask(backend(modules), "sizes") == [64, 128]


CALLER = """
class Backend:
    @classmethod
    def rule(cls):
        from help import works
        return works()[1]
"""
HELPER = """
def works(*, least=9):
    if device().major < least:
        return False, 'too old'
    return True, None
"""


def test_helpers_of_other_modules_are_followed() -> None:
    """A function imported inside of the method, with keyword-only defaults."""
    modules = source(m=CALLER, help=HELPER)

    assert evaluator(modules, "8.0")[1].ask(backend(modules), "rule") == "too old"
    assert evaluator(modules, "9.0")[1].ask(backend(modules), "rule") is None


REFUSES = """
config = current_config()
if config.model_config is not None:
    text = config.model_config.hf_text_config
    width = getattr(text, 'width', 1)
    if width not in [64, 128]:
        return f'needs width 64 or 128, got {width}'
    if text.rank != 512 or text.rope != 64:
        return 'needs rank 512 and rope 64'
if config.parallel_config.decode_size > 1:
    return 'no decode parallelism'
if not hasattr(config.model_config.hf_config, 'topk'):
    return 'needs topk'
if probe_the_driver():
    return 'not on this driver'
return None
"""


def test_reasons_that_hang_on_the_model_become_guards() -> None:
    """What the function would refuse is told with the condition, whose values are not known here."""
    text = "class Backend:\n    @classmethod\n    def rule(cls):\n" + "".join(
        f"        {line}\n" for line in REFUSES.splitlines()
    )
    modules, asked = evaluator(source(m=text))

    assert asked.ask(backend(modules), "rule") is None
    assert asked.guards == [
        Guard(Comparison("width", "not in", (64, 128)), "needs width 64 or 128, got {width}"),
        Guard(AnyOf((Comparison("rank", "!=", (512,)), Comparison("rope", "!=", (64,)))), "needs rank 512 and rope 64"),
        Guard(Comparison("decode_size", ">", (1,)), "no decode parallelism"),
        Guard(Comparison("topk", "missing", ()), "needs topk"),
        Guard(Opaque("probe_the_driver()"), "not on this driver"),
    ]


def test_a_package_that_is_not_brought_along_counts_as_not_installed() -> None:
    """Its own refusal is the answer of a stock installation."""
    body = "try:\n    import extra\nexcept ImportError:\n    return 'install extra'\nreturn None"

    assert ask(body) == "install extra"


def test_a_list_is_filled_in_place() -> None:
    """`append` and `insert` on a list of its own, and a star inside of a display."""
    body = "tail = ['a']\ntail.append('b')\nif capability.major == 9:\n    tail.insert(0, 'c')\nreturn ['x', *tail]"

    assert ask(body) == ["x", "c", "a", "b"]
