"""Records what transformers builds from a config.json: how many tensors of which name pattern, and their elements.

    python tools/record_shapes.py OUT_DIR CONFIG_DIR...

Needs transformers and torch, and no weights: models are built on the `meta` device. One JSON file for each directory.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import transformers

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def recorded(directory: Path) -> dict[str, Any]:
    """The parameters and persistent buffers by pattern: how many tensors, their elements together."""
    config_text = json.loads((directory / "config.json").read_text())
    for part in (config_text, config_text.get("text_config") or {}):
        part.pop("quantization_config", None)
        part.pop("auto_map", None)
    model_type = config_text.pop("model_type")
    config = transformers.AutoConfig.for_model(model_type, **config_text)
    with torch.device("meta"):
        model = _model(config, config_text.get("architectures", []))
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, tensor in model.state_dict(keep_vars=True).items():
        if name in tied:
            continue
        row = sums[_NUMBER.sub("*", name)]
        row[0] += 1
        row[1] += tensor.numel()
    return {
        "transformers": transformers.__version__,
        "architecture": type(model).__name__,
        "parameters": sum(elements for _, elements in sums.values()),
        "tensors": dict(sorted(sums.items())),
    }


def _model(config: Any, architectures: list[str]) -> Any:
    """By the class that the config names, where this transformers has it."""
    for name in architectures:
        if hasattr(transformers, name):
            return getattr(transformers, name)(config)
    if getattr(config, "vision_config", None) is not None:
        return transformers.AutoModelForImageTextToText.from_config(config)
    return transformers.AutoModelForCausalLM.from_config(config)


def main(out: Path, directories: list[Path]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for directory in directories:
        try:
            record = recorded(directory)
        except Exception as error:  # noqa: BLE001 - one family that this transformers cannot build is told and passed over
            print(f"{directory.name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            continue
        (out / f"{directory.name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"{directory.name}: {record['architecture']} {record['parameters']:,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
