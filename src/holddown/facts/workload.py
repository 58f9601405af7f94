"""What will be asked of a deployment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper limits, 0 where there is none. ttft_ms: to the first token; tpot_ms: per output token after it."""

    ttft_ms: float = 0
    tpot_ms: float = 0


NO_SLO = Slo()


@dataclass(frozen=True, slots=True)
class Workload:
    """input_tokens, output_tokens: of one request. concurrency: requests in flight, 0 for as many as fit.

    rate: requests per second in place of a concurrency, 0 where none is given.
    """

    name: str
    input_tokens: int
    output_tokens: int
    concurrency: int
    rate: float = 0.0
    slo: Slo = NO_SLO

    @property
    def users_text(self) -> str:
        """`32 users`, `one user`, `4 requests a second`, `as many users as fit`."""
        if self.rate:
            return f"{self.rate:g} requests a second"
        if self.concurrency == 1:
            return "one user"
        return f"{self.concurrency} users" if self.concurrency else "as many users as fit"


CHAT = Workload("chat", 1024, 512, 32)
AGENT = Workload("agent", 16384, 1024, 8)
BATCH = Workload("batch", 1024, 1024, 0)
WORKLOADS = {workload.name: workload for workload in (CHAT, AGENT, BATCH)}
