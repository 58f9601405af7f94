"""A command's arguments, read as the build's own parser reads them."""

import pytest

from fakes.lint import build, case, words
from holddown.lint.argv import Fault, Given
from holddown.lint.case import case_of


def given(text: str) -> list[Given]:
    return list(case(f"vllm serve m {text}").arguments.given)


def one(text: str) -> Given:
    (found,) = given(text)
    return found


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("--max-model-len 8k", "max-model-len", ["8k"]),
        ("--max-model-len=8k", "max-model-len", ["8k"]),
        ("--max_model_len 8k", "max-model-len", ["8k"]),
        ("--max-model 8k", "max-model-len", ["8k"]),
        ("--max-model-len -1", "max-model-len", ["-1"]),
        ("-tp 8", "tensor-parallel-size", ["8"]),
        ("-tp=8", "tensor-parallel-size", ["8"]),
        ("-O3", "optimization-level", ["3"]),
        ("-O=3", "optimization-level", ["3"]),
        ("-O 3", "optimization-level", ["3"]),
        ("--served-model-name a b", "served-model-name", ["a", "b"]),
        ("--rope-note", "rope-note", []),
        ("--enforce-eager", "enforce-eager", []),
        ("--speculative-config '{\"a\": -1}'", "speculative-config", ['{"a": -1}']),
        ("--rope-note '- a note'", "rope-note", ["- a note"]),
    ],
)
def test_every_way_to_write_an_option_is_one_option(text: str, name: str, values: list[str]) -> None:
    """Source: argparse of CPython 3.12, vLLM 0.32.0 utils/argparse_utils.py."""
    found = one(text)

    assert (found.name, [value.text for value in found.values], found.fault) == (name, values, None)


def test_dots_reach_into_a_json_option() -> None:
    """`--attention-config.backend X` and `--attention_config.a.b=3` are keys of one option; its underscores stay."""
    first, second = given("-ac.backend X --attention_config.use_it.now=3")

    assert (first.name, first.key) == ("attention-config", "backend")
    assert (second.name, second.key) == ("attention-config", "use_it.now")


def test_a_switch_can_be_turned_off_by_its_no() -> None:
    """`--no-x` where it has one; `store_true` has none."""
    assert one("--no-enforce-eager").on is False
    assert one("--no-trust-remote-code").fault is Fault.UNKNOWN


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("--max-model-lenght 8", Fault.UNKNOWN),
        ("--max 8", Fault.UNCLEAR),
        ("--max-model-len", Fault.NO_VALUE),
        ("--max-model-len --port 1", Fault.NO_VALUE),
        ("--enforce-eager=true", Fault.NEEDS_NO_VALUE),
        ("-zz 3", Fault.UNKNOWN),
    ],
)
def test_what_the_parser_refuses_is_a_fault(text: str, fault: Fault) -> None:
    """Each kind of refusal has a name."""
    assert given(text)[0].fault is fault


def test_an_inverse_is_there_only_where_the_parser_makes_it() -> None:
    """`--disable-x` of `--enable-x`, from 0.33.0 on."""
    for version, fault in (("0.32.0", Fault.UNKNOWN), ("0.33.0", None)):
        found = case("vllm serve m --disable-log-requests", version).arguments.given[0]
        assert found.fault is fault
    assert found.on is False


def test_words_after_two_dashes_are_no_options() -> None:
    """`--` ends them."""
    found = case_of(words("vllm", "serve", "m", "--port", "1", "--", "--x"), build()).arguments

    assert [each.name for each in found.given] == ["port"]
    assert [word.text for _, word in found.positional] == ["m", "--x"]


def test_without_facts_an_option_takes_the_next_word_unless_it_is_one() -> None:
    """Of an engine that nothing is recorded of, roles can still be read."""
    found = case_of(words("llama-server", "-m", "x.gguf", "--jinja", "--host", "0.0.0.0"), None)

    assert [(each.name, [v.text for v in each.values]) for each in found.arguments.given] == [
        ("m", ["x.gguf"]),
        ("jinja", []),
        ("host", ["0.0.0.0"]),
    ]
    assert found.model is not None and found.model.text == "x.gguf"


def test_what_only_a_shell_knows_is_unread() -> None:
    """`$ARGS` may hold anything: it is neither the model nor a stray word."""
    found = case("vllm serve $ARGS m").arguments

    assert [word.text for word in found.unread] == ["$ARGS"]
    assert [word.text for _, word in found.positional] == ["m"]
