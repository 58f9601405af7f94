"""What an engine's own selectors say, as a test wants it."""

from dataclasses import dataclass, field, replace

from holddown.base.evidence import Fact, Unknown, from_probe, known_or
from holddown.facts.asked import Asked, AskedAttention, AskedMoe, AttentionSaid, MoeAnswer, MoeQuery, Questions
from holddown.facts.attention_backends import AttentionBackends, BackendAnswer
from holddown.facts.engine import Engine, EngineFacts
from holddown.ports import Progress

MARLIN = MoeAnswer("MARLIN", (), "", "oracle/int_wna16.py")


@dataclass
class FakeSelector:
    """Port `EngineSelector`: says what was read, but that these backends refuse for these reasons.

    refuses: backend -> reason. takes: backends that take everything. experts: for each question about them. fails: why
    it gives no answer at all. asked: every set of questions that came.
    """

    refuses: dict[str, str] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    experts: Fact[MoeAnswer] = field(default_factory=lambda: from_probe(MARLIN, "fake"))
    fails: str = ""
    asked: list[Questions] = field(default_factory=list)

    def ask(self, engine: Engine, facts: EngineFacts, questions: Questions, progress: Progress) -> Fact[Asked]:
        self.asked.append(questions)
        if self.fails:
            return Unknown(self.fails)
        read = known_or(facts.attention_backends, AttentionBackends((), ()))
        attention, moe = [], []
        for query in questions.queries:
            if isinstance(query, MoeQuery):
                moe.append(AskedMoe(query, self.experts))
            else:
                said = AttentionSaid(tuple(self._said(each) for each in read.answers(query)), self.unsure)
                attention.append(AskedAttention(query, from_probe(said, "fake")))
        return from_probe(Asked(tuple(attention), tuple(moe)), "fake")

    def _said(self, read: BackendAnswer) -> BackendAnswer:
        if read.name in self.takes:
            return replace(read, reasons=())
        if read.name in self.refuses:
            return replace(read, reasons=(self.refuses[read.name],))
        return read
