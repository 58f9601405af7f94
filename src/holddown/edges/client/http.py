"""An OpenAI-compatible endpoint over HTTP. Whatever goes wrong there comes back as a `Refusal`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from httpx_sse import EventSource

from holddown.edges.client.asking import body, counting, path
from holddown.edges.client.reading import (
    Json,
    NotAnAnswer,
    StreamParts,
    counted,
    error_text,
    object_of,
    summed,
    token_ids,
    whole_answer,
)
from holddown.edges.client.served import served
from holddown.facts.answers import Ask, Refusal, Reply
from holddown.facts.served import Served

_CONNECT_SECONDS = 10.0
_HEALTH_SECONDS = 5.0
# uvicorn closes idle connections after 5 s; reusing one at that very moment would look like an engine that hangs up
_KEEPALIVE_SECONDS = 2.0
# for a request that no server should have to think about for long
_RAW_SECONDS = 30.0


class HttpClient:
    """Asks one endpoint. Safe to use from several threads at once.

    base_url: scheme, host and port; a trailing `/v1` is accepted. timeout_s: how long the endpoint may stay silent:
    for a plain answer that is the whole generation, for a stream the pause between two deltas.
    """

    def __init__(self, base_url: str, api_key: str = "", timeout_s: float = 600.0) -> None:
        self._base_url = base_url.rstrip("/").removesuffix("/v1")
        self._api_key = api_key
        # trust_env: a proxy named in the environment must not stand between us and an engine on this machine.
        # verify: reading the CA certificates takes 60 ms of CPU, for nothing where there is no TLS; redirects, which
        # could lead from http to https, are not followed.
        self._http = httpx.Client(
            verify=self._base_url.startswith("https:"),
            timeout=httpx.Timeout(timeout_s, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEPALIVE_SECONDS),
            trust_env=False,
        )

    def close(self) -> None:
        """Gives the connections back; asking again opens new ones."""
        self._http.close()

    def healthy(self) -> bool:
        """GET /health answered 200."""
        try:
            response = self._http.get(f"{self._base_url}/health", headers=self._headers(), timeout=_HEALTH_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return False
        return response.status_code == httpx.codes.OK

    def gauges(self, *metrics: str) -> tuple[float | None, ...]:
        """GET /metrics in Prometheus' text form, where a line is `name{labels} value`."""
        try:
            response = self._http.get(f"{self._base_url}/metrics", headers=self._headers(), timeout=_HEALTH_SECONDS)
            lines = response.text.splitlines() if response.status_code == httpx.codes.OK else []
            return tuple(summed(metric, lines) for metric in metrics)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            return (None,) * len(metrics)

    def ask(self, ask: Ask) -> Reply:
        """One whole answer."""
        try:
            with self._obstacles():
                sent_at = time.monotonic()
                response = self._http.post(self._base_url + path(ask), json=body(ask), headers=self._headers())
                ended_at = time.monotonic()
                _expect_ok(response)
                return whole_answer(object_of(response.text), sent_at, ended_at)
        except NotAnAnswer as obstacle:
            return self._refusal(obstacle)

    def stream(self, ask: Ask) -> Reply:
        """The same as a stream, with the arrival time of every delta that carried text or tokens."""
        parts = StreamParts(sent_at=time.monotonic())
        try:
            with self._obstacles(), self._open(ask) as events:
                for event in events:
                    arrived_at = time.monotonic()
                    if event == "[DONE]":
                        parts.done = True
                        break
                    parts.take(object_of(event), arrived_at)
            return parts.answer(time.monotonic())
        except NotAnAnswer as obstacle:
            seen = parts.so_far()
            return self._refusal(NotAnAnswer(obstacle.status, f"{obstacle.message}{seen}"))

    @contextmanager
    def _open(self, ask: Ask) -> Iterator[Iterator[str]]:
        """The data of a stream's events. Leaving it closes the connection, read to its end or not."""
        asked = {**body(ask), "stream": True, "stream_options": {"include_usage": True}}
        with self._http.stream("POST", self._base_url + path(ask), json=asked, headers=self._headers()) as response:
            if not response.is_success:
                response.read()
            _expect_ok(response)
            yield (event.data.strip() for event in EventSource(response).iter_sse())

    def served(self) -> Served | Refusal:
        """What it says of itself."""
        try:
            return served(self._get("/v1/models"), self._get_if_there)
        except NotAnAnswer as obstacle:
            return self._refusal(obstacle)

    def _get(self, path: str) -> Json:
        with self._obstacles():
            response = self._http.get(self._base_url + path, headers=self._headers(), timeout=_CONNECT_SECONDS)
            _expect_ok(response)
            return object_of(response.text)

    def _get_if_there(self, path: str) -> Json:
        try:
            return self._get(path)
        except NotAnAnswer:
            return {}

    def prompt_tokens(self, ask: Ask) -> int | None:
        """How many tokens the engine's own tokenizer makes of this prompt; None where it has no such endpoint."""
        counts = (counted(tokenized) for tokenized in self._tokenized(ask))
        return next((count for count in counts if count is not None), None)

    def token_ids(self, ask: Ask) -> tuple[int, ...]:
        """Of the prompt; empty where the endpoint does not tell them."""
        return next((ids for tokenized in self._tokenized(ask) if (ids := token_ids(tokenized))), ())

    def abandon(self, ask: Ask, deltas: int) -> Refusal | None:
        """Reads so many deltas of a stream, and hangs up."""
        try:
            with self._obstacles(), self._open(ask) as events:
                for number, event in enumerate(events):
                    object_of(event)
                    if number + 1 >= deltas:
                        return None
        except NotAnAnswer as obstacle:
            return self._refusal(obstacle)
        return Refusal(0, "the stream ended before it could be cut")

    def post(self, path: str, content: bytes) -> Refusal:
        """Sends that as it is. The status is whatever came; the message the beginning of what was said."""
        # servers close a connection that brought nonsense; the next request on it would look like one that they lost
        headers = {**self._headers(), "Content-Type": "application/json", "Connection": "close"}
        try:
            with self._obstacles():
                url = self._base_url + path
                response = self._http.post(url, content=content, headers=headers, timeout=_RAW_SECONDS)
                return Refusal(response.status_code, error_text(response.text))
        except NotAnAnswer as obstacle:
            return self._refusal(obstacle)

    def _tokenized(self, ask: Ask) -> Iterator[Json]:
        for where, question in counting(ask):
            try:
                with self._obstacles():
                    response = self._http.post(self._base_url + where, json=question, headers=self._headers())
                    _expect_ok(response)
                    yield object_of(response.text)
            except NotAnAnswer:
                continue

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}

    @contextmanager
    def _obstacles(self) -> Iterator[None]:
        """Turns what httpx raises into one exception with words for a person."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise NotAnAnswer(0, f"no answer in time ({type(error).__name__})") from error
        except httpx.ConnectError as error:
            raise NotAnAnswer(0, f"cannot connect to {self._base_url}: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise NotAnAnswer(0, f"{type(error).__name__}: {error}") from error

    def _refusal(self, obstacle: NotAnAnswer) -> Refusal:
        # some endpoints quote the rejected key back
        message = obstacle.message.replace(self._api_key, "***") if self._api_key else obstacle.message
        return Refusal(obstacle.status, message)


def _expect_ok(response: httpx.Response) -> None:
    if not response.is_success:
        raise NotAnAnswer(response.status_code, error_text(response.text))
