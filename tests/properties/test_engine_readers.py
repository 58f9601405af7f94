"""Whatever an engine or an interpreter prints, our readers give an answer or none; they never fail."""

from hypothesis import example, given
from hypothesis import strategies as st

from holddown.base.errors import EngineError
from holddown.facts.engine import version_key
from holddown.facts.engine_locate import Located, located
from holddown.facts.llamacpp_help import read_devices, read_help, read_version
from holddown.facts.llamacpp_source import missing_instructions
from holddown.facts.llamacpp_source import read_architectures as read_llamacpp_architectures
from holddown.facts.python_source import SourceFile, tree_of
from holddown.facts.registry_source import read_architectures
from holddown.facts.sglang_registry import read_entry_classes, read_quantization_methods, read_tool_parsers
from holddown.facts.sglang_registry import read_environment as read_sglang_environment
from holddown.facts.sglang_source import read_server_flags
from holddown.facts.static_modules import Source
from holddown.facts.vllm_environment import read_environment
from holddown.facts.vllm_flags import read_flags
from holddown.launch.engines import ADAPTERS
from holddown.launch.phases import PhaseSeen

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(st.text())
@example("Loading safetensors checkpoint shards: | 1/" + "9" * 5000 + " [")
def test_any_line_has_a_phase_or_none(line: str) -> None:
    """A log line of any engine is a phase with sane counts, or nothing."""
    for engine in ADAPTERS.values():
        seen = engine.phase(line)
        assert seen is None or (isinstance(seen, PhaseSeen) and seen.done >= 0 and seen.total >= 0)


@given(st.text())
@example("[" * 100_000)
def test_any_output_is_an_answer_or_none(output: str) -> None:
    """What a program that is no Python prints does not break us."""
    assert isinstance(located(output), Located | None)


@given(st.text())
@example("(" * 300)
@example("x" + "+x" * 20_000)
def test_any_text_is_source_or_an_obstacle(text: str) -> None:
    """A damaged file of an engine is an EngineError, never a crash of ours."""
    try:
        tree = tree_of(SourceFile("a", text))
        read_flags([tree], [tree], lambda name: tree)
        read_architectures(tree)
        read_environment(tree)
        read_entry_classes([text])
        source = Source(lambda name: tree)
        read_server_flags(source, ["sglang.srt.arg_groups.fields.any"], [text])
        read_tool_parsers(source)
        read_quantization_methods(source)
        read_sglang_environment(source, [text])
    except EngineError as error:
        assert error.code == "engine.source"


@given(st.lists(NAMES, unique=True))
def test_every_declared_option_is_read_once(names: list[str]) -> None:
    """As many options as the parser adds, sorted."""
    lines = [f'p.add_argument("--{name}")' for name in names] * 2

    flags = read_flags([tree_of(SourceFile("a", "\n".join(lines)))], [], lambda name: None)

    assert [flag.name for flag in flags] == sorted(f"--{name}" for name in names)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.sampled_from(["", "rc1", ".dev3", ".post2"]))
def test_a_version_equals_itself_with_a_build_label(release: list[int], rest: str) -> None:
    """A local label never changes the order."""
    version = ".".join(map(str, release)) + rest

    assert version_key(version) == version_key(version + "+cu130")


@given(st.lists(NAMES, unique=True), st.booleans())
def test_every_option_of_a_server_args_is_read_once(names: list[str], late: bool) -> None:
    """In SGLang's early layout and in its late one."""
    if late:
        fields = "".join(f"    f_{name}: A[int, 'help'] = 1\n" for name in names)
        text = f"class ServerArgs:\n    def add_cli_args(parser): ...\nclass Any:\n    _NS_PATH = 'any'\n{fields}"
    else:
        calls = "".join(f"        parser.add_argument('--f-{name}', type=int, default=1)\n" for name in names)
        text = f"class ServerArgs:\n    def add_cli_args(parser):\n        ...\n{calls}"
    tree = tree_of(SourceFile("a", text))

    flags = read_server_flags(Source(lambda name: tree), ["any"] if late else [])

    assert [flag.name for flag in flags] == sorted(f"--f-{name.replace('_', '-') if late else name}" for name in names)


@given(st.text(alphabet=st.sampled_from("-,= \n[]{}<>|()'aN0.:é")) | st.text())
@example("version: " + "9" * 5000 + " (0123abc)")
@example("version: x (build " + "9" * 5000 + ", commit 0)")
@example("-c, --ctx N \n" + " " * 40 + "(default: " + "9" * 5000 + ")")
def test_any_text_is_help_of_some_options_or_none(text: str) -> None:
    """Options that are read have names; what is no version is none."""
    flags = read_help(text).flags

    assert all(flag.name.startswith("-") for flag in flags)
    assert read_version(text) is None or read_devices(text) is not None
    assert isinstance(read_llamacpp_architectures(text), tuple)
    assert set(missing_instructions(("avx2",), text)) <= {"avx2"}
