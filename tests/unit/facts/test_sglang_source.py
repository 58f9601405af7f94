"""Reading SGLang's options from the text of its files. The texts are ours, shaped like both of its layouts."""

import ast
from collections.abc import Mapping

from holddown.facts.config_types import ON_OFF, SWITCH
from holddown.facts.engine import Flag, Takes
from holddown.facts.sglang_source import SERVER_ARGS, read_server_flags
from holddown.facts.static_modules import Source

FIELDS = "sglang.srt.arg_groups.fields.memory"
EARLY = {
    SERVER_ARGS: """
KINDS = ["soft", "hard"]
class ServerArgs:
    path: str
    size: int = 1
    kind: str = "soft"
    share: Optional[float] = None
    many: Optional[int] = None
    def settle(self):
        if self.share is None:
            self.share = 0.9
    @staticmethod
    def add_cli_args(parser):
        names = list(Parsers.Table.keys())
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--parallel-size", "--size", type=int, default=ServerArgs.size)
        parser.add_argument("--kind", type=str, default=ServerArgs.kind, choices=KINDS)
        parser.add_argument("--share", type=float, default=ServerArgs.share)
        parser.add_argument("--many", type=int, default=ServerArgs.many)
        parser.add_argument("--parser", choices=names, default=None)
        parser.add_argument("--quick", action="store_true")
        parser.add_argument("--level", type=int, default=2, choices=[0, 1, 2])
        parser.add_argument("--buckets", type=float, nargs="+", default=None)
        parser.add_argument("--hidden", type=str, nargs="*", default=list(()))
        parser.add_argument("--config", type=json.loads)
        parser.add_argument("--strange", type=own_type)
        parser.add_argument("--old", action=DeprecatedAction, help="Note: --old is deprecated now. Use --kind.")
class Parsers:
    Table: dict = {"one": One, "two": Two}
"""
}
LATE = {
    FIELDS: """
from sglang.srt.arg_groups.choices import KINDS
class Memory(msgspec.Struct):
    _NS_PATH = "memory"
    tp_size: A[int, Arg(help="Width.", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 1
    share: A[Optional[float], Arg(help="Share.", resolvable=True)] = None
    ratio: A[Optional[float], Arg(help="Ratio.", fallback=2.0)] = None
    limit: A[int | None, "The limit."] = None
    kind: A[str, Arg(help="Kind.", choices=KINDS)] = "soft"
    quick: A[bool, "Be quick."] = False
    twin: A[bool, Arg(help="Twin.", action=argparse.BooleanOptionalAction)] = True
    mode: A[Literal["fast", "slow"], Arg(help="Mode.")] = "fast"
    level: A[int, Arg(help="Level.", choices=[0, 1])] = 0
    urls: A[List[str], Arg(help="Where.", nargs="*")] = msgspec.field(default_factory=list)
    window: A[Optional[int], Arg(help="Window.", type_parser=human_readable_int)] = None
    extra: A[Optional[Dict[str, Any]], Arg(help="Extra.", type_parser=json.loads)] = None
    sampler: A[Optional[str], Arg(help="Sampler.", no_cli=True)] = "own"
    legacy: A[bool, "(Deprecated, use --kind) Old way."] = False
    path: A[str, Arg(help="Where it is.", aliases=["--model"])]
    rank = Derived(doc="Not an option.")
    plain: int = 3
class NoNamespace:
    other: A[int, "Never an option."] = 1
""",
    "sglang.srt.arg_groups.choices": 'KINDS = ["soft", "hard"]\n',
    SERVER_ARGS: """
class ServerArgs:
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        words = set(["b", "a"])
        parser.add_argument("--sampler", type=str, choices=words, default=_declared_default("sampler"))
        parser.add_argument("--no-graph", action=DeprecatedStoreTrueAction, new_flag="--graph=off")
        parser.add_argument("--backend", action=DeprecatedStoreConstAction, nargs=None, choices=["amd"], default=False)
ServerArgs = msgspec.defstruct("ServerArgs", fields)
""",
}


def flags(modules: Mapping[str, str], *field_modules: str) -> dict[str, Flag]:
    trees = {name: ast.parse(text) for name, text in modules.items()}
    return {flag.name: flag for flag in read_server_flags(Source(trees.get), field_modules)}


def test_the_early_layout_names_every_option() -> None:
    """By its first long name, sorted; the others are aliases."""
    found = flags(EARLY)

    assert list(found) == sorted(found)
    assert len(found) == 13
    assert found["--parallel-size"] == Flag("--parallel-size", (), Takes.INTEGER, default="1", aliases=("--size",))
    assert found["--model-path"].default is None


def test_choices_come_from_constants_and_tables() -> None:
    """A module's list, a class's dict, numbers."""
    found = flags(EARLY)

    assert found["--kind"].choices == ("soft", "hard")
    assert found["--parser"].choices == ("one", "two")
    assert found["--level"].choices == ("0", "1", "2")
    assert found["--quick"].choices == SWITCH
    assert found["--quick"].default == "false"


def test_a_default_that_is_worked_out_at_start_is_not_given() -> None:
    """None that a method replaces is no default; None that nobody touches is one."""
    found = flags(EARLY)

    assert found["--share"].default is None
    assert found["--many"].default == "None"
    assert found["--hidden"].default == ""


def test_what_an_option_takes() -> None:
    """Numbers, JSON, several values; a type of the engine's own is not guessed at."""
    found = flags(EARLY)

    assert (found["--buckets"].takes, found["--buckets"].several, found["--buckets"].optional) == (
        Takes.NUMBER,
        True,
        False,
    )
    assert (found["--hidden"].several, found["--hidden"].optional) == (True, True)
    assert found["--config"].takes is Takes.JSON
    assert found["--strange"].takes is Takes.UNKNOWN
    assert found["--parser"].takes is Takes.TEXT


def test_what_the_engine_says_of_old_options_is_kept() -> None:
    """In its own words, or what it names in its place."""
    assert flags(EARLY)["--old"].deprecated.startswith("Note: --old is deprecated")
    late = flags(LATE, FIELDS)
    assert late["--no-graph"].deprecated == "use --graph=off"
    assert late["--legacy"].deprecated == "(Deprecated, use --kind) Old way."
    assert late["--backend"] == Flag("--backend", ("amd",), Takes.TEXT, default="false", deprecated="deprecated")
    assert [each.name for each in late.values() if each.deprecated] == ["--backend", "--legacy", "--no-graph"]


def test_fields_with_annotations_become_options() -> None:
    """Those of classes with a namespace, except what says that it is none."""
    found = flags(LATE, FIELDS)

    assert found["--tensor-parallel-size"].aliases == ("--tp-size",)
    assert found["--path"].default is None
    assert set(found) == {
        *("--tensor-parallel-size", "--share", "--ratio", "--limit", "--kind", "--quick", "--twin", "--mode"),
        *("--level", "--urls", "--window", "--extra", "--legacy", "--path", "--sampler", "--no-graph", "--backend"),
    }


def test_the_types_of_fields_are_read() -> None:
    """As the engine's own generator of options reads them."""
    found = flags(LATE, FIELDS)

    assert (found["--quick"].choices, found["--twin"].choices) == (SWITCH, ON_OFF)
    assert (found["--mode"].choices, found["--kind"].choices) == (("fast", "slow"), ("soft", "hard"))
    assert (found["--window"].takes, found["--extra"].takes) == (Takes.SIZE, Takes.JSON)
    assert (found["--urls"].several, found["--urls"].optional, found["--urls"].default) == (True, True, "")
    assert found["--limit"].takes is Takes.INTEGER


def test_defaults_of_fields_count_only_where_they_stand() -> None:
    """A fallback is the default; a field that the engine resolves has none."""
    found = flags(LATE, FIELDS)

    assert found["--share"].default is None
    assert found["--ratio"].default == "2.0"
    assert found["--limit"].default == "None"
    assert (found["--sampler"].default, found["--sampler"].choices) == ("own", ("a", "b"))


def test_what_the_code_at_start_sets_has_no_default() -> None:
    """By keyword, by key or by item; a comparison sets nothing, and neither does a default that is a value."""
    texts = ('declare(args, limit=4)\n{"extra": 1, "kind": "hard"}\n', 'if window == 3: ...\nfound["ratio"] = 2\n')
    trees = {name: ast.parse(text) for name, text in LATE.items()}
    found = {flag.name: flag.default for flag in read_server_flags(Source(trees.get), [FIELDS], texts)}

    assert (found["--limit"], found["--extra"], found["--ratio"]) == (None, None, None)
    assert (found["--window"], found["--kind"]) == ("None", "soft")


def test_files_that_are_something_else_give_no_options() -> None:
    """Nothing to be read is said by the caller."""
    assert flags({SERVER_ARGS: "class Other: ...\n"}) == {}
    assert flags({}) == {}
