"""Records what transformers builds from a config.json: how many tensors of which name pattern, and their elements.

    python tools/record_shapes.py tests/captures/shapes tests/captures/configs/*.json

Each input is a JSON object whose `config` is a config.json. Needs transformers and torch, and no weights: models are
built on the `meta` device. One JSON file is written for each input that this transformers can build.
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


def recorded(path: Path) -> dict[str, Any]:
    """The parameters and persistent buffers by pattern: how many tensors, their elements together."""
    config_text = json.loads(path.read_text())["config"]
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


def _text(record: dict[str, Any]) -> str:
    """A line for each pattern."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in record.pop("tensors").items())
    head = json.dumps(record, indent=1)
    return head.removesuffix("\n}") + ',\n "tensors": {\n' + rows + "\n }\n}\n"


def main(out: Path, paths: list[Path]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        try:
            record = recorded(path)
        except (ValueError, TypeError, AttributeError) as error:  # a family that this transformers cannot build
            sys.stderr.write(f"{path.stem}: {type(error).__name__}: {str(error)[:200]}\n")
            continue
        (out / path.name).write_text(_text(record))
        sys.stdout.write(f"{path.stem}: {record['architecture']} {record['parameters']:,}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
