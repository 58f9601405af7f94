"""An engine's Python path with the plug-in that says what it resolved."""

from holddown.launch.reporter import with_reporter
from holddown.launch.spec import EnvVar, LaunchSpec


def spec(*env: EnvVar) -> LaunchSpec:
    return LaunchSpec(("/p",), env, (), "127.0.0.1", 8000)


def path_of(found: LaunchSpec) -> list[str]:
    return [each.value for each in found.env if each.name == "PYTHONPATH"]


def test_the_plug_in_comes_after_what_the_engine_has_on_its_path() -> None:
    """A source checkout stays first."""
    assert path_of(with_reporter(spec(), "vllm", "/r")) == ["/r"]
    assert path_of(with_reporter(spec(EnvVar("PYTHONPATH", "/src", "registered")), "vllm", "/r")) == ["/src:/r"]


def test_only_vllm_has_such_plug_ins() -> None:
    """SGLang's command stays as it is; so does vLLM's where there is no folder."""
    assert with_reporter(spec(), "sglang", "/r") == spec()
    assert with_reporter(spec(), "vllm", "") == spec()
