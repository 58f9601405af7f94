"""What requests look like: how long, what they share, how they grow."""

from dataclasses import dataclass

from holddown.facts.workload import AGENT, BATCH, CHAT


@dataclass(frozen=True, slots=True)
class Shape:
    """Tokens of one request. shared_tokens: a beginning that all requests have in common. turns: requests of one
    session; each takes the whole text of the one before it, and goes on by `turn_tokens`. input_tokens: of the last."""

    name: str
    input_tokens: int
    output_tokens: int
    shared_tokens: int = 0
    turns: int = 1
    turn_tokens: int = 0

    def input_at(self, turn: int) -> int:
        """Tokens of that turn's prompt; the first turn is 0."""
        return self.input_tokens - (self.turns - 1 - turn) * self.turn_tokens

    @property
    def hit_share(self) -> float:
        """The most that a prefix cache can hit: prompt tokens that were in an earlier prompt / all prompt tokens, once
        the shared beginning is there."""
        seen = self.shared_tokens + sum(self.input_at(turn) for turn in range(self.turns - 1))
        return seen / sum(self.input_at(turn) for turn in range(self.turns))

    @property
    def text(self) -> str:
        """`agent: 2304 to 16384 tokens in over 12 turns, 1024 out; at most 91 % of the prompts were seen before`."""
        name = "" if ":" in self.name else f"{self.name}: "
        first = f"{self.input_at(0)} to " if self.turns > 1 else ""
        over = f" over {self.turns} turns" if self.turns > 1 else ""
        seen = self.hit_share
        hits = f"at most {seen:.0%} of the prompts were seen before" if seen else "no prompt begins like another"
        return f"{name}{first}{self.input_tokens} tokens in{over}, {self.output_tokens} out; {hits}"


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(CHAT.name, CHAT.input_tokens, CHAT.output_tokens),
        Shape(AGENT.name, AGENT.input_tokens, AGENT.output_tokens, shared_tokens=2048, turns=12, turn_tokens=1280),
        Shape("rag", 8192, 256, shared_tokens=256),
        Shape(BATCH.name, BATCH.input_tokens, BATCH.output_tokens),
    )
}


def shape_of(word: str) -> Shape | None:
    """A name, or sizes as `IN:OUT`; None for any other word."""
    if word in SHAPES:
        return SHAPES[word]
    given, colon, wanted = word.partition(":")
    if not colon or not given.isdecimal() or not wanted.isdecimal() or not int(given) or not int(wanted):
        return None
    return Shape(word, int(given), int(wanted))
