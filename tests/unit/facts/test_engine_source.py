"""Reading an engine's options from the text of its files. The texts are ours, shaped like vLLM's."""

import pytest

from holddown.base.errors import EngineError
from holddown.facts.engine import Flag
from holddown.facts.engine_source import (
    ON_OFF,
    SWITCH,
    SourceFile,
    read_architectures,
    read_field_default,
    read_flags,
    read_literal,
    read_string,
)

ARGUMENTS = """
class EngineArgs:
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        group = parser.add_argument_group(title="Cache")
        group.add_argument("--kv-dtype", **cache_kwargs["kv_dtype"])
        group.add_argument("--reuse", **{**cache_kwargs["reuse"], "default": None})
        group.add_argument("--blocks", "-b", **cache_kwargs["blocks"])
        group.add_argument("--quick", action="store_true")
        group.add_argument("--mode", choices=["fast", "slow"])
        group.add_argument("--order", type=to_order, **cache_kwargs["order"])
        group.add_argument("positional")
"""
CONFIG = """
Narrow = Literal["a", "b"]
Wide = Literal["auto", Narrow]

class CacheConfig:
    kv_dtype: Wide = "auto"
    reuse: bool = True
    blocks: int | None = None
    order: Narrow = "a"
    fill: Narrow | None = None
"""
FRONTEND_NEW = """
class BaseFrontendArgs:
    limit: ClassVar[int] = 3
    chat_template: str | None = None
    log_deltas: bool = False

class FrontendArgs(BaseFrontendArgs):
    host: str | None = None

class Other:
    not_an_option: int = 1
"""


def flags_of(arguments: str, config: str = CONFIG) -> dict[str, tuple[str, ...]]:
    found = read_flags([SourceFile("args.py", arguments)], [SourceFile("config.py", config)])
    return {flag.name: flag.choices for flag in found}


def test_every_way_to_declare_an_option_is_read() -> None:
    """Options from literals, spread keywords and dict displays are found, with the choices that their types list."""
    assert flags_of(ARGUMENTS) == {
        "--blocks": (),
        "--kv-dtype": ("auto", "a", "b"),
        "--mode": ("fast", "slow"),
        "--order": (),
        "--quick": SWITCH,
        "--reuse": ON_OFF,
    }


def test_frontend_options_are_dataclass_fields() -> None:
    """The server's own options come from the fields of its two classes and of no other class."""
    assert flags_of(FRONTEND_NEW) == {"--chat-template": (), "--host": (), "--log-deltas": ON_OFF}


def test_an_optional_choice_can_be_none() -> None:
    """A field that may be None takes the word None too, as vLLM's parser does."""
    arguments = 'kw = get_kwargs(CacheConfig)\nparser.add_argument("--fill", **kw["fill"])'

    assert flags_of(arguments) == {"--fill": ("a", "b", "None")}


@pytest.mark.parametrize("annotation", ["Unread | None", 'list[Literal["a"]]', "int | Narrow"])
def test_a_type_that_takes_more_than_words_lists_no_choices(annotation: str) -> None:
    """Choices are given only where they are all: a wrong list would refuse what the engine takes."""
    config = f'Narrow = Literal["a"]\nclass C:\n    x: {annotation}'

    assert flags_of('kw = get_kwargs(C)\nparser.add_argument("--x", **kw["x"])', config) == {"--x": ()}


def test_an_alias_that_names_itself_ends() -> None:
    """A circular alias in a file gives no choices instead of no end."""
    assert flags_of('kw = get_kwargs(C)\na("")\np.add_argument("--x", **kw["x"])', "A = A\nclass C:\n    x: A") == {
        "--x": ()
    }


def test_architectures_are_those_with_code() -> None:
    """Tables of pairs count; tables of removed models (to a version) and of plugins (to an address) do not."""
    registry = """
_TEXT = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), **_MORE}
_MORE: dict = {"QwenForCausalLM": ("qwen", "Q")}
_PREVIOUSLY = {"OldForCausalLM": "0.10.2"}
_PLUGIN = {"FarForCausalLM": "https://example.org"}
"""
    assert read_architectures(SourceFile("registry.py", registry)) == ("LlamaForCausalLM", "QwenForCausalLM")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("cuda = None", None),
        ("cuda: Optional[str] = '13.0'", "13.0"),
        ("cuda = other = '12.9'", "12.9"),
        ("cuda: Optional[str]", None),
        ("hip = '7'", None),
    ],
)
def test_a_string_is_read_from_any_kind_of_assignment(line: str, value: str | None) -> None:
    """torch's version file assigns with and without annotations; None stays None."""
    assert read_string(SourceFile("version.py", line), "cuda") == value


def test_a_file_that_is_not_python_is_named() -> None:
    """A damaged installation is an obstacle with the file's name, not a crash of ours."""
    with pytest.raises(EngineError, match="cannot be read as Python") as caught:
        read_flags([SourceFile("broken.py", "def (")], [])

    assert caught.value.seen.startswith("broken.py: ")


def test_one_option_in_two_files_is_one_option() -> None:
    """What two files both declare is listed once."""
    file = SourceFile("a.py", 'p.add_argument("--x")')

    assert read_flags([file, file], []) == (Flag("--x"),)


def test_the_words_of_a_literal() -> None:
    """Quantization methods are one `Literal`; a module without it has none."""
    file = SourceFile("q.py", 'Methods = Literal["awq", "fp8"]\n')
    assert read_literal(file, "Methods") == ("awq", "fp8")
    assert read_literal(file, "Other") == ()


@pytest.mark.parametrize(("text", "share"), [("0.9", 0.9), ("Field(default=0.92, gt=0)", 0.92), ("other()", None)])
def test_the_default_of_a_config_field(text: str, share: float | None) -> None:
    """Plain until 0.19, in a pydantic `Field` since; what is computed is not guessed."""
    file = SourceFile("cache.py", f"class CacheConfig:\n    gpu_memory_utilization: float = {text}\n")
    assert read_field_default(file, "CacheConfig", "gpu_memory_utilization") == share
