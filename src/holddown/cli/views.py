"""One deployment, or several, as text."""

from collections.abc import Sequence
from datetime import datetime

from holddown.app.watch import Load
from holddown.base.units import duration_text
from holddown.cli.output import finding_text, findings_text
from holddown.explain.drawing import columns
from holddown.explain.engine_report import report_lines
from holddown.explain.happening import measured_text, verdict_text
from holddown.explain.starts import restart_lines
from holddown.launch.lifecycle import State
from holddown.launch.restart import Restart
from holddown.measure.metrics import Measurement
from holddown.remember.record import Comparison, Deployment

_ALL = 10


def released_text(deployment: Deployment) -> str:
    """What a person needs after `up`: where it is, what was proven, how fast it is, how to ask, how to stop."""
    birth, status = deployment.birth, deployment.status
    if status.state is not State.RELEASED:
        return failed_text(deployment)
    url = f"{birth.spec.base_url}/v1"
    header = ' -H "Authorization: Bearer $(cat ' + birth.spec.secrets[0].path + ')"' if birth.spec.secrets else ""
    body = f'{{"model": "{birth.plan.served_model_name}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    path = "chat/completions"
    return "\n".join(
        [
            f"{birth.name} is {deployment.label}",
            f"  url       {url}",
            f"  model     {birth.plan.served_model_name}",
            f"  verified  {', '.join(v.check for v in status.verdicts if v.outcome == 'passed')}",
            *(f"  NOT verified: {v.check} ({v.outcome})" for v in status.verdicts if v.check in status.unverified),
            *report_lines(status.report, birth.plan),
            *_measurement_lines(status.measurements),
            *_comparison_lines(status.comparisons),
            f"  ask       curl -s {url}/{path}{header} -H 'Content-Type: application/json' -d '{body}'",
            f"  why       holddown explain {birth.name}",
            f"  stop      holddown down {birth.name}",
        ]
    )


def failed_text(deployment: Deployment) -> str:
    birth, status = deployment.birth, deployment.status
    lines = [f"{birth.name} is {deployment.label}" + (f": {status.why}" if status.why else "")]
    if status.cause is not None:
        lines.append(finding_text(status.cause))
    failed = [verdict for verdict in status.verdicts if verdict.outcome == "failed"]
    lines += [findings_text(verdict.findings) or verdict_text(verdict) for verdict in failed]
    lines += restart_lines(status, _ALL) if status.state is State.FAILED else []
    return "\n".join([*lines, f"  log:  holddown logs {birth.name}"])


def status_text(deployment: Deployment, now: float, restarts: int = 1) -> str:
    """One deployment in full. restarts: how many of the last are told."""
    birth, status = deployment.birth, deployment.status
    if status.state is State.RELEASED:
        text = released_text(deployment)
    elif status.state in (State.FAILED, State.STUCK):
        text = failed_text(deployment)
    else:
        text = f"{birth.name} is {deployment.label}" + (f": {status.why}" if status.why else "")
    engine = f"pid {status.engine.pid}" if status.engine else "not started"
    lines = [
        text,
        f"  id        {birth.id}, {status.state} for {duration_text(max(0, now - status.since))}",
        f"  engine    {birth.plan.engine}, {engine}",
        f"  model     {birth.plan.model_path}",
        f"  log       {birth.log_path}",
    ]
    if status.stacks:
        lines.append(f"  stacks    {status.stacks}")
    if birth.restart is not Restart.NEVER:
        lines.append(f"  restart   {birth.restart}" + (f"; start {status.starts}" if status.starts > 1 else ""))
    if status.state is not State.FAILED:
        lines += restart_lines(status, restarts)
    return "\n".join([*lines, findings_text(status.notes)]) if status.notes else "\n".join(lines)


def load_lines(load: Load | None) -> list[str]:
    """`  load      8 running, 3 waiting, 97 % of the KV cache in use: saturated`; none where it is not told."""
    if load is None:
        return []
    kv = f", {load.kv_share:.0%} of the KV cache in use" if load.kv_share is not None else ""
    waiting = f", {load.waiting} waiting" if load.waiting else ""
    more = ": saturated, it works and more is asked of it than it takes at once" if load.saturated else ""
    return [f"  load      {load.running} running{waiting}{kv}{more}"]


def table_text(deployments: Sequence[Deployment]) -> str:
    """A line each: name, state, engine, address, when."""
    if not deployments:
        return "no deployments"
    rows = [("NAME", "STATE", "ENGINE", "ADDRESS", "CREATED", "ID")]
    rows += [
        (
            each.birth.name,
            each.label,
            each.birth.plan.engine,
            each.birth.spec.base_url,
            datetime.fromtimestamp(each.birth.created_at).strftime("%Y-%m-%d %H:%M"),
            each.birth.id,
        )
        for each in deployments
    ]
    return "\n".join(columns(rows))


def _measurement_lines(measurements: Sequence[Measurement]) -> list[str]:
    if not measurements:
        return []
    lines = [f"  {measured_text(tuple(measurements)).replace(' ', '  ', 1)}"]
    for concurrency in sorted({each.concurrency for each in measurements}):
        here = [each for each in measurements if each.concurrency == concurrency and each.percentile]
        metrics = [_metric_text(metric, here) for metric in dict.fromkeys(each.metric for each in here)]
        lines.append(f"            {concurrency} at once: {', '.join(metrics)}")
    return lines


def _comparison_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """Predicted beside measured: how far to trust the next plan."""
    if not comparisons:
        return []
    texts = [
        f"{one.concurrency} at once: predicted {one.predicted.value:.0f} ({one.predicted.low:.0f} to "
        f"{one.predicted.high:.0f}), measured {one.measured:.0f} tok/s ({one.measured / one.predicted.value - 1:+.0%})"
        for one in comparisons
    ]
    return [f"  predicted {texts[0]}", *(f"            {text}" for text in texts[1:])]


def _metric_text(metric: str, measurements: Sequence[Measurement]) -> str:
    """`itl p50 66, p90 75 ms (n=93)`: a percentile is worth as much as its n."""
    here = [each for each in measurements if each.metric == metric]
    figures = ", ".join(f"p{each.percentile} {each.value:.{1 if each.value < 10 else 0}f}" for each in here)
    return f"{metric} {figures} {here[0].unit} (n={here[0].n})"
