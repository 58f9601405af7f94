"""An engine that is asked to say what it resolved."""

from dataclasses import replace

from holddown.launch.spec import EnvVar, LaunchSpec

_PATH = "PYTHONPATH"
_BECAUSE = "vLLM finds a plug-in of holddown's there, which writes what it resolved into its private folder"


def with_reporter(spec: LaunchSpec, kind: str, folder: str) -> LaunchSpec:
    """folder: where the plug-in lies; empty for none. It comes last on the path: it hides nothing of the engine's."""
    if kind != "vllm" or not folder:
        return spec
    there = next((each for each in spec.env if each.name == _PATH), None)
    if there is None:
        return replace(spec, env=(*spec.env, EnvVar(_PATH, folder, _BECAUSE)))
    longer = EnvVar(_PATH, f"{there.value}:{folder}", f"{there.because}; {_BECAUSE}")
    return replace(spec, env=tuple(longer if each is there else each for each in spec.env))
