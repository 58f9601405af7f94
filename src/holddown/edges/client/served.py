"""What a server says of itself, from the endpoints that each engine has for it.

Source: `owned_by` of /v1/models: vLLM 0.32.0 entrypoints/openai/engine/protocol.py ModelCard, SGLang 0.5.16
entrypoints/openai/protocol.py ModelCard, llama.cpp b11434 tools/server/server-context.cpp. Versions: vLLM's /version,
SGLang's /get_server_info, llama.cpp's /props.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holddown.base.evidence import Fact, Unknown, from_probe
from holddown.facts.served import Served

Json = Mapping[str, Any]
Get = Callable[[str], Json]
"""Path -> the JSON object there, empty where there is none."""

_BY_OWNER = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp"}
_VERSION_AT = {
    "vllm": ("/version", "version"),
    "sglang": ("/get_server_info", "version"),
    "llamacpp": ("/props", "build_info"),
}


def served(models: Json, get: Get) -> Served:
    """models: what /v1/models gave."""
    cards = [card for card in models.get("data") or () if isinstance(card, dict) and isinstance(card.get("id"), str)]
    owner = next((str(card.get("owned_by")) for card in cards), "nobody")
    engine = _BY_OWNER.get(owner, "")
    lengths = [card["max_model_len"] for card in cards if isinstance(card.get("max_model_len"), int)]
    return Served(
        models=tuple(card["id"] for card in cards),
        engine=from_probe(engine, "/v1/models owned_by") if engine else Unknown(f"its models are owned by {owner}"),
        version=_version(engine, get) if engine else Unknown("its engine is not known"),
        max_model_len=_context(engine, lengths, get),
    )


def _version(engine: str, get: Get) -> Fact[str]:
    path, key = _VERSION_AT[engine]
    said = get(path).get(key)
    return from_probe(said, path) if isinstance(said, str) and said else Unknown(f"{path} does not tell it")


def _context(engine: str, lengths: list[int], get: Get) -> Fact[int]:
    if lengths:
        return from_probe(lengths[0], "/v1/models max_model_len")
    if engine == "llamacpp":
        settings = get("/props").get("default_generation_settings")
        said = settings.get("n_ctx") if isinstance(settings, dict) else None
        if isinstance(said, int):
            return from_probe(said, "/props n_ctx")
    return Unknown("the server does not tell its context length")
