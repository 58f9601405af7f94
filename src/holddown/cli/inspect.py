"""`holddown inspect`."""

import click

from holddown import wiring
from holddown.app.inspect import inspect
from holddown.base.evidence import Fact, Known
from holddown.base.finding import blocking
from holddown.base.units import count_text, size_text
from holddown.cli.output import answer, bold, fact_text, findings_text, json_option
from holddown.facts.model import Inspection, ModelFacts


@click.command()
@click.argument("path")
@json_option
@click.pass_context
def command(ctx: click.Context, path: str, as_json: bool) -> None:
    """What a checkpoint directory or GGUF file is, and whether it is whole.

    PATH is a directory with config.json and *.safetensors, a .gguf file (any part of a split one), a repository
    ORG/NAME in the local Hugging Face cache, or `demo`. Only headers are read, so size does not matter.

    Exit code 1 when a finding says that it cannot be served as it is.
    """
    inspection = inspect(wiring.checkpoints(), wiring.checkpoint_path(path))
    answer(inspection, card(inspection), as_json=as_json)
    if blocking(inspection.findings):
        ctx.exit(1)


def card(inspection: Inspection) -> str:
    """The facts in one screen, then the findings."""
    model = inspection.model
    rows = (
        ("architecture", fact_text(model.architectures, ", ".join)),
        ("parameters", fact_text(model.parameters, count_text)),
        ("weights", _weights(model)),
        ("dtype", fact_text(model.dtype)),
        ("quantisation", fact_text(model.quantization)),
        ("context", fact_text(model.max_position_embeddings, lambda tokens: f"{tokens} tokens")),
        ("shape", _shape(model)),
        ("chat template", "yes" if isinstance(model.chat_template, Known) else f"no: {model.chat_template.why}"),
        ("remote code", ", ".join(model.remote_code_files) or "none"),
        ("digest", model.digest[:16]),
    )
    lines = [bold(model.path), *(f"  {name:<14} {value}" for name, value in rows)]
    if inspection.findings:
        lines += ["", findings_text(inspection.findings)]
    return "\n".join(lines)


def _weights(model: ModelFacts) -> str:
    parts = ", ".join(f"{part.dtype} {size_text(part.size_bytes)}" for part in model.by_dtype)
    files = f"{model.shards} {model.format} file{'' if model.shards == 1 else 's'}"
    return f"{size_text(model.weights_bytes)} in {files}" + (f": {parts}" if parts else "")


def _shape(model: ModelFacts) -> str:
    def number(fact: Fact[int]) -> str:
        return str(fact.value) if isinstance(fact, Known) else "?"

    return (
        f"{number(model.num_hidden_layers)} layers x {number(model.hidden_size)}, "
        f"{number(model.num_attention_heads)} heads ({number(model.num_key_value_heads)} kv) "
        f"x {number(model.head_dim)}, vocabulary {number(model.vocab_size)}"
    )
