"""The server that a verb asks: a deployment of ours by its name, or any OpenAI-compatible server by its URL."""

from collections.abc import Callable
from dataclasses import dataclass

from holddown import ports
from holddown.base.errors import FactError, UsageError
from holddown.base.evidence import Fact, Unknown, derived, from_file, from_probe
from holddown.facts.answers import Refusal
from holddown.facts.served import Served, Subject
from holddown.remember.record import Birth, Deployment


@dataclass(frozen=True, slots=True)
class Target:
    """served: what it says of itself now. deployment: None where it is not ours. api_key: secret; never on record."""

    subject: Subject
    served: Served
    client: ports.Client
    deployment: Deployment | None
    api_key: str = ""


@dataclass(frozen=True, slots=True)
class Doors:
    """named: the deployment of that name; raises UsageError. client: (base URL, API key) -> a client. key_of: the key
    of a deployment of ours, empty for none."""

    named: Callable[[str], Deployment]
    client: Callable[[str, str], ports.Client]
    key_of: Callable[[Birth], str]


def is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


def target(word: str, model: str, api_key: str, doors: Doors) -> Target:
    """model: which of its models; empty for the only one. api_key: for a URL.

    Raises: UsageError where the words do not fit; FactError where the server does not answer.
    """
    return _of_url(word, model, api_key, doors) if is_url(word) else _of_name(word, model, doors)


def _of_name(name: str, model: str, doors: Doors) -> Target:
    deployment = doors.named(name)
    birth, state = deployment.birth, deployment.status.state
    if state.over:
        what = f"{name} is {state}, so there is nobody to ask"
        raise UsageError(what, code="target.not-up", seen=deployment.status.why, do=birth.up_again)
    key = doors.key_of(birth)
    base_url = birth.spec.base_url
    client = doors.client(base_url, key)
    served = _asked(base_url, client, own=name)
    subject = subject_of(deployment, _model(model or birth.plan.served_model_name, served, base_url))
    return Target(subject, served, client, deployment, key)


def subject_of(deployment: Deployment, model: str) -> Subject:
    """A deployment of ours, as its record has it."""
    birth = deployment.birth
    return Subject(
        name=birth.name,
        base_url=birth.spec.base_url,
        model=model,
        deployment=birth.id,
        engine=from_probe(birth.engine.kind, "its record"),
        version=from_probe(birth.engine.version, "its record"),
        checkpoint=from_file(birth.plan.model_digest, birth.plan.model_path),
        machine=_machine(birth),
    )


def _of_url(url: str, model: str, api_key: str, doors: Doors) -> Target:
    base_url = url.rstrip("/").removesuffix("/v1")
    client = doors.client(base_url, api_key)
    served = _asked(base_url, client)
    subject = Subject(
        name=base_url,
        base_url=base_url,
        model=_model(model, served, base_url),
        deployment="",
        engine=served.engine,
        version=served.version,
        checkpoint=Unknown("the server is not ours, and does not tell which checkpoint it serves"),
        machine=Unknown("the server is not ours, and does not tell where it runs"),
    )
    return Target(subject, served, client, None, api_key)


def _asked(base_url: str, client: ports.Client, own: str = "") -> Served:
    served = client.served()
    if isinstance(served, Refusal):
        raise FactError(
            f"{base_url} does not say which models it serves",
            code="target.no-answer",
            seen=f"GET /v1/models: {f'HTTP {served.status}: ' if served.status else ''}{served.message}",
            do=f"holddown status {own}"
            if own
            else "is it the server's address, without a path? does it take a key: --api-key-file FILE",
        )
    return served


def _model(wanted: str, served: Served, base_url: str) -> str:
    """Raises: UsageError."""
    there = ", ".join(served.models) or "none"
    if wanted and wanted not in served.models:
        what = f"{base_url} serves no model {wanted}"
        raise UsageError(what, code="target.model", seen=f"its models: {there}", do="--model NAME")
    if wanted:
        return wanted
    if len(served.models) != 1:
        what = f"{base_url} serves {len(served.models)} models; say which"
        raise UsageError(what, code="target.model", seen=f"its models: {there}", do="--model NAME")
    return served.models[0]


def _machine(birth: Birth) -> Fact[str]:
    hardware = birth.plan.hardware
    if hardware is None:
        return Unknown("its plan rests on no known GPU")
    return derived(f"{len(birth.plan.gpus)}x {hardware.gpu}", "its plan")
