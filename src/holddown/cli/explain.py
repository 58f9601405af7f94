"""`holddown explain NAME [FLAG]`."""

import click

from holddown.base.errors import UsageError
from holddown.cli.deployments import attended, named
from holddown.cli.output import answer, findings_text, json_option
from holddown.cli.views import status_text
from holddown.explain.plan_text import plan_text, setting_lines
from holddown.explain.starts import starts_of, starts_text


@click.command(name="explain")
@click.argument("name")
@click.argument("flag", required=False)
@json_option
def command(name: str, flag: str | None, as_json: bool) -> None:
    """Why the deployment NAME runs as it does, or why it has this FLAG: its because, its source, the alternative."""
    doors = attended()
    deployment = named(name, doors.store)
    plan = deployment.birth.plan
    if flag is None:
        parts = [
            status_text(deployment, doors.clock.now(), restarts=10),
            starts_text(starts_of(deployment, doors.store.get)),
            plan_text(plan, deployment.birth.spec),
            findings_text(plan.findings),
        ]
        answer(deployment, "\n\n".join(part for part in parts if part), as_json=as_json)
        return
    wanted = flag.lstrip("-").replace("_", "-")
    setting = plan.setting(wanted) or plan.setting(flag)
    if setting is not None:
        answer(setting, "\n".join(setting_lines(setting)), as_json=as_json)
        return
    variable = next((each for each in deployment.birth.spec.env if each.name == flag), None)
    if variable is None:
        names = [each.name for each in plan.settings] + [each.name for each in deployment.birth.spec.env]
        raise UsageError(
            f"{name} was not given {flag}: the engine's default holds",
            code="usage.no-such-setting",
            seen=f"it was given {', '.join(names)}",
        )
    answer(variable, f"{variable.name}={variable.value}\n    because {variable.because}", as_json=as_json)
