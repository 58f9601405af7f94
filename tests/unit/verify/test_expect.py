"""Which checks fit, and what they cost."""

from holddown.base.evidence import Fact, Unknown, from_file
from holddown.facts.answers import Ask
from holddown.facts.model import CheckpointFormat, ModelFacts
from holddown.plan.memory import MemoryBudget
from holddown.plan.parallelism import Parallelism
from holddown.plan.plan import Plan
from holddown.verify.expect import CHECK_NAMES, STOP_TOKENS, Check, Coherence, MaxTokens, Streaming, checks

NONE = Unknown("not said")


def fitting(chat_template: Fact[str]) -> tuple[Check, ...]:
    model = ModelFacts(
        path="/models/x", format=CheckpointFormat.SAFETENSORS, digest="d", architectures=NONE, model_type=NONE,
        parameters=NONE, weights_bytes=1, by_dtype=(), shards=1, dtype=NONE, quantization=NONE,
        max_position_embeddings=NONE, num_hidden_layers=NONE, hidden_size=NONE, num_attention_heads=NONE,
        num_key_value_heads=NONE, vocab_size=NONE, chat_template=chat_template,
    )  # fmt: skip
    plan = Plan(
        model_path="/models/x", model_digest="d", served_model_name="m", engine="e@1", engine_kind="vllm",
        engine_because="", gpus=(), parallelism=Parallelism(), settings=(), budget=MemoryBudget(1, 0, 0, 0),
        load_bytes=1, findings=(), rejected=(),
    )  # fmt: skip
    return checks(model, plan)


CHAT = fitting(from_file("{{ messages }}", "chat_template.jinja"))
BASE = fitting(Unknown("no chat template"))


def coherence_of(checks_: tuple[Check, ...]) -> Coherence:
    return next(check for check in checks_ if isinstance(check, Coherence))


def test_names_are_those_that_can_be_skipped() -> None:
    """`--skip-check` takes every check by the name it reports under, and no other."""
    assert tuple(check.name for check in CHAT) == CHECK_NAMES
    assert tuple(check.name for check in BASE) == CHECK_NAMES


def test_chat_questions_need_a_chat_template() -> None:
    """A base model is asked to continue text instead."""
    assert all(ask.messages and not ask.prompt for ask in coherence_of(CHAT).answers)
    assert all(ask.prompt and not ask.messages for ask in coherence_of(BASE).answers)


def test_everything_is_asked_of_the_served_name() -> None:
    """The served name is the one that clients will use."""
    assert {ask.model for ask in (*coherence_of(CHAT).sentences, *coherence_of(CHAT).answers)} == {"m"}


def test_at_most_110_tokens_are_generated() -> None:
    """Two CPU cores give 10 to 25 tokens per second."""
    asks: set[Ask] = set()
    streamed = 0
    for check in CHAT:
        if isinstance(check, Coherence):
            asks |= {check.next_token, *check.sentences, *check.answers}
        else:
            asks.add(check.ask)
        if isinstance(check, Streaming):
            streamed = check.ask.max_tokens
    assert sum(ask.max_tokens for ask in asks) + streamed + STOP_TOKENS <= 110


def test_max_tokens_cuts_an_answer_that_is_longer() -> None:
    """Three tokens of a question that takes a sentence."""
    short = next(check.ask for check in CHAT if isinstance(check, MaxTokens))
    assert short.max_tokens == 3
    assert short.messages == coherence_of(CHAT).answers[-1].messages
