"""Whether an engine build has code for a checkpoint: its architecture, its file format, its quantisation."""

from collections.abc import Iterator

from holddown.base.evidence import Known
from holddown.base.finding import Finding, Severity
from holddown.facts.engine import EngineFacts, GoneArchitecture, version_key
from holddown.facts.model import CheckpointFormat, ModelFacts
from holddown.tables.load import engine_table, recorded_build, recorded_versions, to_have


def build_findings(model: ModelFacts, facts: EngineFacts, compute_capability: str) -> tuple[Finding, ...]:
    """What of the checkpoint this build cannot run on this compute capability (`12.0`, or `cpu`). Each blocks."""
    if model.format is CheckpointFormat.GGUF:
        return tuple(_gguf(model, facts))
    return (*_architecture(model, facts), *_quantization(model, facts, compute_capability))


def _build(facts: EngineFacts) -> str:
    return f"{facts.kind} {facts.version}"


def _block(code: str, subject: str, what: str, seen: str, do: str) -> Finding:
    return Finding(code, Severity.BLOCK, subject, what, seen, do)


# --- architecture ------------------------------------------------------------------------------------------------


def _architecture(model: ModelFacts, facts: EngineFacts) -> Iterator[Finding]:
    if not isinstance(model.architectures, Known) or not facts.architectures:
        return  # not known is no reason to refuse: the engine will say
    names = model.architectures.value
    if set(names) & set(facts.architectures):
        return
    seen = f"{model.architectures.source.where}; {len(facts.architectures)} architectures in its registry"
    what = f"{_build(facts)} has no code for {', '.join(names)}"
    gone = next((each for each in facts.gone_architectures if each.name in names), None)
    if gone is not None:
        yield _gone(gone, facts, what, seen)
        return
    newer = _first_with(facts, names)
    what += (
        f"; {facts.kind}@{newer} has"
        if newer
        else f"; nor has any recorded release up to {recorded_versions(facts.kind)[-1]}"
    )
    yield _block("compat.architecture", names[0], what, seen, to_have(facts.kind, newer) if newer else "")


def _gone(gone: GoneArchitecture, facts: EngineFacts, what: str, seen: str) -> Finding:
    if gone.plugin:
        return _block("compat.architecture", gone.name, f"{what} any more: a plug-in brings it", gone.plugin, "")
    command = to_have(facts.kind, gone.last_version)
    return _block("compat.architecture", gone.name, f"{what} any more: {gone.last_version} was the last", seen, command)


def _first_with(facts: EngineFacts, names: tuple[str, ...]) -> str:
    """The recorded release nearest after this one, else before it, that has one of the architectures."""
    own = version_key(facts.version)
    versions = recorded_versions(facts.kind)
    later = [version for version in versions if version_key(version) > own]
    earlier = [version for version in reversed(versions) if version_key(version) < own]
    for version in (*later, *earlier):
        if set(names) & set(recorded_build(facts.kind, version).facts.architectures):
            return version
    return ""


# --- GGUF --------------------------------------------------------------------------------------------------------


def _gguf(model: ModelFacts, facts: EngineFacts) -> Iterator[Finding]:
    table = engine_table(facts.kind)
    instead = "holddown engine install llamacpp   serves it; or take the checkpoint in safetensors"
    if "gguf" not in facts.quantization_methods:
        what = f"{_build(facts)} reads GGUF only with the plug-in {table.gguf_plugin}, which it does not have"
        yield _block("compat.gguf", model.name, what, "gguf is not among its quantisation methods", instead)
        return
    built_in = not table.gguf_plugin or any(each.method == "gguf" for each in facts.quantization_minimums)
    architecture = model.model_type
    if built_in and isinstance(architecture, Known) and architecture.value not in table.gguf_architectures:
        what = f"{_build(facts)} reads GGUF, but none of the architecture {architecture.value}"
        seen = f"{architecture.source.where}; {table.gguf_source}"
        yield _block("compat.gguf-architecture", architecture.value, what, seen, instead)


# --- quantisation ------------------------------------------------------------------------------------------------


def _quantization(model: ModelFacts, facts: EngineFacts, compute_capability: str) -> Iterator[Finding]:
    method = model.quantization
    if not isinstance(method, Known) or method.value == "none" or not facts.quantization_methods:
        return
    where = method.source.where
    if method.value not in facts.quantization_methods:
        newer = _first_quantized(facts, method.value)
        what = f"{_build(facts)} does not know the quantisation {method.value}"
        what += f"; {facts.kind}@{newer} does" if newer else ""
        command = to_have(facts.kind, newer) if newer else ""
        yield _block("compat.quantization", method.value, what, where, command)
        return
    least = next((each for each in facts.quantization_minimums if each.method == method.value), None)
    if (
        least is not None
        and compute_capability not in ("", "cpu")  # a driver too old to tell is no reason to refuse
        and _number(compute_capability) < _number(least.compute_capability)
    ):
        what = (
            f"{method.value} needs compute capability {least.compute_capability} in {_build(facts)}; "
            f"these GPUs have {compute_capability}"
        )
        seen = f"{where}; model_executor/layers/quantization get_min_capability"
        yield _block("compat.quantization-capability", method.value, what, seen, "")


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


def _first_quantized(facts: EngineFacts, method: str) -> str:
    for version in recorded_versions(facts.kind):
        if method in recorded_build(facts.kind, version).facts.quantization_methods:
            return version
    return ""
