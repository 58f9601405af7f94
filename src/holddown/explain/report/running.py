"""What runs, where, by which command; why each setting is as it is; and why a start failed."""

from collections.abc import Callable
from typing import TypeVar

from holddown.base.evidence import Fact, Known, known_or
from holddown.base.finding import Finding
from holddown.base.units import count_text, duration_text, size_text
from holddown.explain.plan_text import command_text
from holddown.explain.report.markup import Html, joined, pairs, section, tag
from holddown.explain.report.told import Told, date_text
from holddown.explain.starts import failed_text
from holddown.facts.model import ModelFacts
from holddown.launch.phases import Phase
from holddown.plan.plan import Plan, Setting
from holddown.remember.record import Deployment

T = TypeVar("T")


def running(told: Told) -> Html:
    birth = told.deployment.birth
    plan, model = birth.plan, birth.model
    size = f"{_fact(model.parameters, count_text)} parameters, {size_text(model.weights_bytes)} of weights"
    rows = [
        ("model", joined([tag("div", tag("code", plan.model_path)), f"{size}, {_format(model)}"])),
        ("engine", f"{plan.engine}: {plan.engine_because}"),
        ("on", ": ".join(filter(None, (place(plan), plan.parallelism_because)))),
        ("answers at", joined([tag("code", f"{birth.spec.base_url}/v1"), f"as {plan.served_model_name}"], " ")),
        ("context", f"{plan.context:,} tokens" if plan.context else ""),
        ("attention", _kernels(told)),
        ("started", joined([date_text(birth.created_at), _ready_after(told)], ", ")),
        ("started by", tag("code", birth.up_again)),
    ]
    command = tag("pre", command_text(birth.spec, " \\\n  "))
    return section("runs", "What runs, and where", pairs(rows), tag("h3", "The command"), command)


def place(plan: Plan) -> str:
    """`TP2 on 2 x H200 SXM (GPU 0,1)`, or the CPU."""
    if not plan.gpus:
        return "the CPU"
    gpus = f"GPU {','.join(map(str, plan.gpus))}"
    kind = f"{len(plan.gpus)} x {plan.hardware.gpu} ({gpus})" if plan.hardware else gpus
    return f"{plan.parallelism.text} on {kind}"


def _format(model: ModelFacts) -> str:
    """How the weights are quantised; their type where they are not."""
    quantization = known_or(model.quantization, "none")
    return _fact(model.dtype) if quantization == "none" else quantization


def _fact(fact: Fact[T], show: Callable[[T], str] = str) -> str:
    return show(fact.value) if isinstance(fact, Known) else f"unknown ({fact.why})"


def _kernels(told: Told) -> str:
    plan, report = told.deployment.birth.plan, told.deployment.status.report
    if report is not None and report.attention:
        said = ", ".join((*report.attention, *(f"experts {each}" for each in report.experts)))
        return f"{said} (the engine's own word)"
    planned = ", ".join(plan.attention_backends)
    return f"{planned} (planned)" if planned else ""


def _ready_after(told: Told) -> str:
    served = next((each.at_s for each in told.deployment.status.phases if each.phase is Phase.SERVER), None)
    return f"serving after {duration_text(served)}" if served is not None else ""


# --- why --------------------------------------------------------------------------------------------------------------


def reasons(told: Told) -> Html:
    birth = told.deployment.birth
    names = {setting.name for setting in birth.plan.settings}
    variables = [_item(f"{each.name}={each.value}", each.because) for each in birth.spec.env if each.name not in names]
    return section(
        "why",
        "Why each setting is as it is",
        tag("ul", *(_setting(each) for each in birth.plan.settings), *variables, class_="items"),
        _starts(told),
    )


def _setting(setting: Setting) -> Html:
    flag = f"{setting.name}={setting.value}" if setting.name.isupper() else f"--{setting.name} {setting.value}"
    return _item(
        flag, setting.because, f"from {setting.source}", f"else {setting.alternative}" * bool(setting.alternative)
    )


def _item(flag: str, because: str, *more: str) -> Html:
    lines = (tag("p", text, class_="because") for text in more if text)
    return tag("li", tag("p", tag("code", flag), class_="flag"), tag("div", tag("p", because), *lines))


def _starts(told: Told) -> Html:
    """Where earlier starts failed, and what the next did otherwise; and after what it was started again as it was."""
    rows = [_start(each, last=each is told.starts[-1]) for each in told.starts] if len(told.starts) > 1 else []
    failures = [tag("li", failed_text(each)) for each in told.deployment.status.failures]
    led = [tag("h3", "The starts that led here"), tag("ol", *rows)] if rows else []
    again = [tag("h3", "After what it was started again"), tag("ol", *failures)] if failures else []
    return joined([*led, *again])


def _start(each: Deployment, *, last: bool) -> Html:
    cause = f": {each.status.cause.what}" if each.status.cause is not None else ""
    edits = " ".join(f"{name}={value}" for name, value in each.status.edits)
    then = joined(["; then ", tag("code", edits)]) if edits and not last else ""
    return tag("li", joined([f"{each.label} ({each.birth.id}){cause}", then]))


# --- why not ----------------------------------------------------------------------------------------------------------


def failure(told: Told) -> Html:
    """Nothing of one that did not fail."""
    birth, status = told.deployment.birth, told.deployment.status
    if status.cause is None:
        return Html()
    again = tag("p", "Asked for again with ", tag("code", birth.up_again), "; its log is ", tag("code", birth.log_path))
    return section("failed", "Why it failed", finding(status.cause), again)


def finding(one: Finding) -> Html:
    rows = [("seen", one.seen), ("do", one.do)]
    return joined([tag("p", tag("strong", one.what), " ", tag("code", one.code, class_="soft")), pairs(rows)])


def notes(told: Told) -> Html:
    """What the plan and the supervisor had to say; nothing where that is nothing."""
    found = (*told.deployment.birth.plan.findings, *told.deployment.status.notes)
    return section("notes", "What to know about it", *map(finding, found)) if found else Html()
