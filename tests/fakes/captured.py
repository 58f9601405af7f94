"""Checkpoints of the captures, as a directory that holds their config alone."""

import json
from functools import cache
from pathlib import Path

from holddown.facts.checkpoint import DirectorySeen, TextFile, directory_facts
from holddown.facts.model import ModelFacts
from holddown.facts.shard_index import WeightFiles

CONFIGS = Path(__file__).parents[1] / "captures" / "configs"
NAMES = tuple(sorted(path.stem for path in CONFIGS.glob("*.json")))


@cache
def captured_model(name: str) -> ModelFacts:
    """Facts of one of NAMES, computed from its shapes."""
    return config_model(name, CONFIGS)


def config_model(name: str, folder: Path) -> ModelFacts:
    """Facts of a config in `folder`: as it stands, or under "config" with its "quant" beside it."""
    capture = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    texts = [TextFile("config.json", json.dumps(capture.get("config", capture)))]
    if "quant" in capture:
        texts.append(TextFile("hf_quant_config.json", json.dumps(capture["quant"])))
    files = tuple(text.name for text in texts)
    seen = DirectorySeen(f"/models/{name}", files, tuple(texts), None, WeightFiles((), (), (), ""), ())
    return directory_facts(seen).model
