"""Whatever an engine's source says: evaluating it ends, and raises nothing."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from holddown.facts.attention_rules import ASSUMED
from holddown.facts.static_modules import Source
from holddown.facts.static_python import Evaluator
from holddown.facts.static_values import Capability, Class

ATOMS = st.sampled_from(
    [
        *("capability", "capability.major", "cls", "cls.sizes", "cls.rule", "size", "(9)", "(-1)", "(0)", "'fp8'"),
        *("None", "True", "[9, 10]", "(1, 2)", "{3}", "unknown", "unknown.part", "get_current_vllm_config()"),
        *("get_current_vllm_config().model_config.hf_config.n", "torch.float16", "DeviceCapability(9, 0)"),
        *("super()", "(lambda: 1)", "x[0]", "f'{size} {unknown}'", "AttentionBackendEnum.NAME", "MultipleOf(16)"),
    ]
)
OPERATORS = st.sampled_from(["==", "!=", "<", ">=", "in", "not in", "is", "and", "or", "+", "%", "//"])


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, OPERATORS, inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda text: f"(not {text})"),
        inner.map(lambda text: f"{text}()"),
        pair.map(lambda parts: f"{parts[0]}({parts[1]}, n={parts[1]})"),
        pair.map(lambda parts: f"getattr({parts[0]}, 'n', {parts[1]})"),
        pair.map(lambda parts: f"({parts[0]} if {parts[1]} else 1)"),
        pair.map(lambda parts: f"[*{parts[0]}, {parts[1]}]"),
        pair.map(lambda parts: f"any({parts[0]} == n for n in {parts[1]})"),
        inner.map(lambda text: f"(any({text}) or all())"),
        inner.map(lambda text: f"int({text})"),
        inner.map(lambda text: f"{text}[1]"),
        inner.map(lambda text: f"{text}.startswith('fp8')"),
    )


EXPRESSIONS = st.recursive(ATOMS, _combined, max_leaves=8)
SIMPLE = st.one_of(
    EXPRESSIONS.map(lambda text: f"return {text}"),
    EXPRESSIONS.map(lambda text: f"size = {text}"),
    EXPRESSIONS.map(lambda text: f"a, b = {text}"),
    st.sampled_from(["pass", "import x", "from . import y", "raise ValueError", "x.append(1)", "del size"]),
)
STATEMENTS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(EXPRESSIONS, inner).map(lambda parts: f"if {parts[0]}:\n{_indented(parts[1])}"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}\n{parts[1]}"),
        inner.map(lambda text: f"try:\n{_indented(text)}\nexcept ImportError:\n    return 'no'"),
        inner.map(lambda text: f"for n in size:\n{_indented(text)}"),
    ),
    max_leaves=5,
)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


@given(STATEMENTS)
def test_evaluating_any_function_ends_and_raises_nothing(body: str) -> None:
    """A value, or Opaque: never an exception, never a loop."""
    method = f"@classmethod\ndef rule(cls, capability, size=8):\n{_indented(body)}"
    tree = ast.parse(f"class Backend(Base):\n    sizes = [64]\n{_indented(method)}\n")
    source = Source(lambda name: tree if name == "m" else None)
    backend = source.find("m", "Backend")
    assert isinstance(backend, Class)

    Evaluator(source, Capability(9, 0), ASSUMED).ask(backend, "rule", Capability(9, 0))
