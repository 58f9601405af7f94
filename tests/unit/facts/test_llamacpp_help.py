"""llama.cpp's own words into facts."""

from holddown.facts.engine import EnvironmentVariable, Flag, Takes
from holddown.facts.llamacpp_help import BuildNumber, ListedDevice, read_devices, read_help, read_version

HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
                                        (env: LLAMA_ARG_KV_OFFLOAD)
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, q8_0
                                        (default: f16)
                                        (env: LLAMA_ARG_CACHE_TYPE_K)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
-sm,   --split-mode {none,layer,row}    how to split the model across multiple GPUs, one of:
                                        - none: use one GPU only
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM, either an exact number,
                                        'auto', or 'all' (default: auto)
-dt,   --defrag-thold N                 KV cache defragmentation threshold (DEPRECATED)
--temp N                                temperature (default: 0.80)
--in-prefix STRING                      string to prefix user inputs with (default: empty)
--poll <0...100>                        use polling level to wait for work (0 - no polling, default: 50)


----- example-specific params -----

--metrics                               enable prometheus compatible metrics endpoint (default: disabled)
"""


def named(name: str) -> Flag:
    return next(flag for flag in read_help(HELP).flags if flag.name == name)


def test_an_option_has_its_names_and_its_default() -> None:
    """The first long name is its name; the others are aliases."""
    assert named("--ctx-size") == Flag("--ctx-size", (), Takes.INTEGER, default="0", aliases=("-c",))
    assert named("--gpu-layers").aliases == ("-ngl", "--n-gpu-layers")


def test_choices_are_read_however_they_are_written() -> None:
    """In braces, in brackets, and as allowed values; `on` has other words that mean it."""
    assert named("--split-mode").choices == ("none", "layer", "row")
    assert named("--flash-attn").choices[:3] == ("on", "off", "auto")
    assert set(named("--flash-attn").choices[3:]) == {"1", "true", "enabled", "0", "false", "disabled", "-1"}
    assert named("--flash-attn").default == "auto"
    assert named("--cache-type-k").choices == ("f32", "f16", "q8_0")


def test_a_range_is_no_choice() -> None:
    """`<0...100>` names two ends."""
    assert (named("--poll").choices, named("--poll").takes) == ((), Takes.TEXT)


def test_a_switch_with_two_forms_is_two_options() -> None:
    """The negative one by its own names."""
    assert named("--kv-offload").choices == ("true", "false")
    assert named("--kv-offload").default == "true"
    assert named("--kv-offload").aliases == ("-kvo",)
    assert named("--no-kv-offload").aliases == ("-nkvo",)
    assert named("--metrics").choices == ("true",)
    assert named("--metrics").takes is Takes.NOTHING


def test_numbers_are_whole_only_where_the_default_shows_it() -> None:
    """`N` stands for both; where the default is a word, anything may be right."""
    assert named("--temp").takes is Takes.NUMBER
    assert named("--gpu-layers").takes is Takes.UNKNOWN


def test_what_is_deprecated_says_so() -> None:
    """And nothing else does."""
    assert named("--defrag-thold").deprecated == "DEPRECATED"
    assert [flag.name for flag in read_help(HELP).flags if flag.deprecated] == ["--defrag-thold"]


def test_variables_set_options_and_their_negative_forms() -> None:
    """LLAMA_ARG_X and LLAMA_ARG_NO_X."""
    variables = read_help(HELP).environment

    assert EnvironmentVariable("LLAMA_ARG_CTX_SIZE", "0") in variables
    assert EnvironmentVariable("LLAMA_ARG_NO_KV_OFFLOAD") in variables


def test_another_programs_help_has_no_options_of_ours() -> None:
    """A usage text without options gives nothing."""
    assert read_help("usage: thing [-h]\n").flags == ()


def test_the_build_number_is_its_version() -> None:
    """As the project's releases are named; in the words of newer and of older builds."""
    newer = read_version("version: 0.6.0-dev (build 11434, commit 0123abcd)\nbuilt with GNU 12.2.0\n")
    older = read_version("version: 6789 (0123abcd)\nbuilt with GNU 12.2.0\n")

    assert newer == BuildNumber("b11434", "0123abcd")
    assert older == BuildNumber("b6789", "0123abcd")
    assert read_version("Python 3.11.7\n") is None


def test_a_source_without_its_history_has_the_version_that_it_names() -> None:
    """It was counted from no commits."""
    assert read_version("version: 0.6.0-dev (build 0, commit unknown)\n") == BuildNumber("0.6.0-dev", "")
    assert read_version("version: 0 (unknown)\n") is None


def test_devices_are_read_with_their_backend() -> None:
    """None for a build for the CPU."""
    each = "NVIDIA H200 (143771 MiB, 143000 MiB free)"
    listed = f"Available devices:\n  CUDA0: {each}\n  CUDA1: {each}\n"

    assert read_devices(listed) == (ListedDevice("CUDA", "NVIDIA H200"),) * 2
    assert read_devices("Available devices:\n  (none)\n") == ()
