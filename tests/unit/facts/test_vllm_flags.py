"""Reading a vLLM's options and variables from the text of its files. The texts are ours, shaped like vLLM's."""

import ast

import pytest

from holddown.base.errors import EngineError
from holddown.facts.config_types import ON_OFF, SWITCH
from holddown.facts.engine import EnvironmentVariable, Flag, Takes
from holddown.facts.python_source import SourceFile, read_string, tree_of
from holddown.facts.registry_source import read_architectures, read_words
from holddown.facts.vllm_environment import read_environment
from holddown.facts.vllm_flags import read_flags

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


def read(arguments: str, config: str = CONFIG, **modules: str) -> dict[str, Flag]:
    def module(name: str) -> ast.Module | None:
        text = modules.get(name.removeprefix("vllm."))
        return ast.parse(text) if text is not None else None

    return {flag.name: flag for flag in read_flags([ast.parse(arguments)], [ast.parse(config)], module)}


def flags_of(arguments: str, config: str = CONFIG) -> dict[str, tuple[str, ...]]:
    return {name: flag.choices for name, flag in read(arguments, config).items()}


def option(arguments: str, config: str = CONFIG) -> Flag:
    """Of `--x`, the only one."""
    (flag,) = read(arguments, config).values()
    return flag


def test_every_way_to_declare_an_option_is_read() -> None:
    """Options from literals, spread keywords and dict displays are found, with the choices that their types list."""
    assert flags_of(ARGUMENTS) == {
        "--blocks": (),
        "--kv-dtype": ("auto", "a", "b"),
        "--mode": ("fast", "slow"),
        "--order": ("a", "b"),
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


@pytest.mark.parametrize("annotation", ["Unread | None", "str | Narrow", "list[str]", "int | None"])
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
    assert read_architectures(ast.parse(registry)) == ("LlamaForCausalLM", "QwenForCausalLM")


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
        tree_of(SourceFile("broken.py", "def ("))

    assert caught.value.seen.startswith("broken.py: ")


def test_one_option_in_two_files_is_one_option() -> None:
    """What two files both declare is listed once."""
    tree = ast.parse('p.add_argument("--x")')

    assert [flag.name for flag in read_flags([tree, tree], [], lambda name: None)] == ["--x"]


def test_the_words_of_a_literal() -> None:
    """Quantization methods are one `Literal`; a module without it has none."""
    tree = ast.parse('Methods = Literal["awq", "fp8"]\n')
    assert read_words(tree, "Methods") == ("awq", "fp8")
    assert read_words(tree, "Other") == ()


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        ("int = 3", Flag("--x", takes=Takes.INTEGER, default="3")),
        ("float = Field(default=0.92, gt=0)", Flag("--x", takes=Takes.NUMBER, default="0.92")),
        ("int = 1024 * 1024", Flag("--x", takes=Takes.INTEGER, default="1048576")),
        ("int = -1", Flag("--x", takes=Takes.INTEGER, default="-1")),
        ("str | None = None", Flag("--x", takes=Takes.TEXT, default="None")),
        ("Optional[int] = None", Flag("--x", takes=Takes.INTEGER, default="None")),
        ("Union[int, None] = None", Flag("--x", takes=Takes.INTEGER, default="None")),
        ("list[int] = field(default_factory=list)", Flag("--x", takes=Takes.INTEGER, several=True, default="[]")),
        ("dict[str, int] = {}", Flag("--x", takes=Takes.JSON, default="{}")),
        ("dict[str, int] | str = 'a'", Flag("--x", takes=Takes.TEXT, default="a")),
        ("Other | None = None", Flag("--x", takes=Takes.JSON, default="None")),
        ("'Other | None' = None", Flag("--x", takes=Takes.JSON, default="None")),
        ("bool | str | None = None", Flag("--x", takes=Takes.TEXT, optional=True, default="None")),
        ("Literal[8, 16] = 16", Flag("--x", ("8", "16"), Takes.INTEGER, default="16")),
        ("str = Other.y", Flag("--x", takes=Takes.TEXT, default="why")),
        ("str = envs.SOMETHING", Flag("--x", takes=Takes.TEXT, default=None)),
        ("int = 2 ** 99999", Flag("--x", takes=Takes.INTEGER, default=None)),
    ],
)
def test_what_an_option_takes_follows_the_field_it_stands_for(annotation: str, wanted: Flag) -> None:
    """Type, several values and default are those that vLLM's own function makes of the annotation."""
    config = f"class Other:\n    y: str = 'why'\nclass C:\n    x: {annotation}\n"

    assert option('kw = get_kwargs(C)\np.add_argument("--x", **kw["x"])', config) == wanted


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("type=int, default=4", Flag("--x", takes=Takes.INTEGER, default="4")),
        ("type=json.loads", Flag("--x", takes=Takes.JSON, default="None")),
        ("type=optional_type(json.loads), default=None", Flag("--x", takes=Takes.JSON, default="None")),
        ("type=lambda s: s.lower(), choices=['a']", Flag("--x", ("a",), Takes.UNKNOWN, default="None")),
        ("nargs='+'", Flag("--x", takes=Takes.TEXT, several=True, default="None")),
        ("nargs='?'", Flag("--x", takes=Takes.TEXT, optional=True, default="None")),
        ("action=argparse.BooleanOptionalAction", Flag("--x", ON_OFF, Takes.NOTHING, default="None")),
        ("action='store_true'", Flag("--x", SWITCH, Takes.NOTHING, default="false")),
        ("choices=get_args(Narrow)", Flag("--x", ("a", "b"), Takes.TEXT, default="None")),
        ("choices=listed()", Flag("--x", (), Takes.TEXT, default="None")),
        ("deprecated=True", Flag("--x", takes=Takes.TEXT, default="None", deprecated="deprecated")),
        (
            "help='Old. --x is deprecated, use --y. More.'",
            Flag("--x", takes=Takes.TEXT, default="None", deprecated="--x is deprecated, use --y."),
        ),
        ("help='Allow deprecated things.'", Flag("--x", takes=Takes.TEXT, default="None")),
    ],
)
def test_what_an_option_takes_when_its_keywords_say_it(call: str, wanted: Flag) -> None:
    """Keywords are read as argparse reads them."""
    assert option(f'p.add_argument("--x", {call})') == wanted


def test_other_names_of_an_option() -> None:
    """Short ones and a second long one are its aliases."""
    assert read('p.add_argument("--long-name", "-ln", "--older-name", type=int)')["--long-name"].aliases == (
        "-ln",
        "--older-name",
    )


def test_what_the_parser_changes_before_it_adds() -> None:
    """Keywords that the code sets, deletes or takes a choice from count as changed."""
    arguments = """
GONE = "b"
kw = get_kwargs(CacheConfig)
kw["order"]["choices"].remove(GONE)
parser.add_argument("--order", **kw["order"])
fill_kwargs = kw["fill"]
fill_kwargs["type"] = lambda s: s.lower()
parser.add_argument("--fill", **fill_kwargs)
class FrontendArgs:
    origins: list[str] = []
    def customise(frontend_kwargs):
        frontend_kwargs["origins"]["type"] = json.loads
        del frontend_kwargs["origins"]["nargs"]
"""
    found = read(arguments)

    assert found["--order"].choices == ("a",)
    assert (found["--fill"].takes, found["--fill"].choices) == (Takes.UNKNOWN, ("a", "b", "None"))
    assert (found["--origins"].takes, found["--origins"].several) == (Takes.JSON, False)


def test_options_that_a_loop_adds() -> None:
    """Their names and types stand in the loop's list."""
    arguments = """
for arg, type in [("--old-way", str), ("--older-way", int)]:
    group.add_argument(arg, type=type, help=f"[DEPRECATED] {arg} will go.", deprecated=True)
"""
    assert read(arguments) == {
        "--old-way": Flag("--old-way", takes=Takes.TEXT, default="None", deprecated="deprecated"),
        "--older-way": Flag("--older-way", takes=Takes.INTEGER, default="None", deprecated="deprecated"),
    }


def test_numbers_that_may_have_a_letter() -> None:
    """A field that the code chooses `human_readable_int` for takes `8k`."""
    arguments = """
def _compute_kwargs(cls):
    readable = {"blocks"}
    if name in readable:
        kwargs["type"] = human_readable_int
kw = get_kwargs(CacheConfig)
parser.add_argument("--blocks", **kw["blocks"])
"""
    assert read(arguments)["--blocks"].takes is Takes.SIZE


def test_a_type_from_another_module_is_looked_up() -> None:
    """The server's options name types of modules that hold no options."""
    arguments = "from vllm.chat import Format\nclass FrontendArgs:\n    content: Format = 'auto'\n"

    assert read(arguments, chat='Format = Literal["auto", "string"]')["--content"].choices == ("auto", "string")


@pytest.mark.parametrize(
    ("flag", "value", "allowed"),
    [
        (Flag("--x", ("a_b",), Takes.TEXT), "A-B", False),
        (Flag("--x", ("a_b",), Takes.UNKNOWN), "A-B", True),
        (Flag("--x", SWITCH), "false", True),
        (Flag("--x", ON_OFF), "maybe", False),
        (Flag("--x"), "anything", True),
    ],
)
def test_which_values_an_option_allows(flag: Flag, value: str, allowed: bool) -> None:
    """Choices are words, but for an option whose reader changes the case first."""
    assert flag.allows(value) is allowed


def test_variables_with_their_defaults() -> None:
    """Each key is a variable; its default stands beside it where its reader is asked."""
    envs = """
environment_variables: dict[str, Any] = {
    "VLLM_A": lambda: os.getenv("VLLM_A", "auto").lower(),
    "VLLM_B": lambda: bool(int(os.environ.get("VLLM_B", "0"))),
    "VLLM_C": env_with_choices("VLLM_C", None, ["a"]),
    "VLLM_D": get_port,
}
"""
    assert read_environment(ast.parse(envs)) == (
        EnvironmentVariable("VLLM_A", "auto"),
        EnvironmentVariable("VLLM_B", "0"),
        EnvironmentVariable("VLLM_C"),
        EnvironmentVariable("VLLM_D"),
    )
    assert read_environment(ast.parse("x = 1")) == ()
