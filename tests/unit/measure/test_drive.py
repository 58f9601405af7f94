"""What requests look like: exact lengths, and nothing in common but what is stated."""

from dataclasses import replace

import pytest

from holddown.measure.drive import OPENING, Drive, Language, shot_of
from holddown.measure.shapes import SHAPES, Shape, shape_of
from holddown.measure.words import COMMON, NEEDED

LANGUAGE = Language(COMMON[:NEEDED], overhead=6, per_word=1.0, chat=True, exact=True)


def a_drive(shape: Shape = SHAPES["chat"], users: int = 4, seed: int = 0) -> Drive:
    return Drive("m", LANGUAGE, shape, seed, True, users, 0, 10.0, first_session=100, patience_s=60.0)


def tokens(text: str) -> int:
    """As the tokenizer would count that `LANGUAGE` was measured with: `OPENING` is in the overhead."""
    return len(text.split()) - len(OPENING.split()) + LANGUAGE.overhead


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_lengths_are_exact(shape: Shape) -> None:
    """Of every turn of every workload."""
    drive = a_drive(shape)
    for number in range(2 * shape.turns):
        shot = drive.shot(1, number)
        assert tokens(drive.text(shot)) == shot.input_tokens == shape.input_at(number % shape.turns)


def test_no_two_texts_begin_alike() -> None:
    """Of other users, of later requests, of another seed: a prefix cache would answer for the prefill."""
    texts = [a_drive().text(a_drive().shot(user, number)) for user in range(4) for number in range(8)]
    texts += [a_drive(seed=1).text(a_drive(seed=1).shot(0, 0))]
    assert len({text.split(" ", 17)[16:17][0] + text[:100] for text in texts}) == len(texts)
    assert len({text[:60] for text in texts}) == len(texts)


def test_a_turn_goes_on_from_the_one_before() -> None:
    """The whole text of the last turn, and more; another session shares the stated beginning only."""
    drive = a_drive(SHAPES["agent"], users=2)
    first, second = (drive.text(drive.shot(0, number)) for number in (0, 1))
    assert second.startswith(first + " ")
    other = drive.text(drive.shot(1, 0)).split()
    shared = next(at for at, (a, b) in enumerate(zip(first.split(), other, strict=False)) if a != b)
    assert shared >= SHAPES["agent"].shared_tokens


def test_sessions_of_users_are_their_own() -> None:
    """No session twice, whatever the number of users and turns."""
    drive = a_drive(replace(SHAPES["agent"], turns=3), users=3)
    seen = [drive.shot(user, number).session for user in range(3) for number in range(0, 9, 3)]
    assert len(set(seen)) == len(seen) and min(seen) >= 100


def test_the_stated_hit_rate_is_what_the_texts_have() -> None:
    """Tokens of a session's prompts that were in an earlier prompt, with the shared beginning there already."""
    shape = Shape("x", 100, 10, shared_tokens=20, turns=3, turn_tokens=30)
    assert [shape.input_at(turn) for turn in range(3)] == [40, 70, 100]
    assert shape.hit_share == pytest.approx((20 + 40 + 70) / 210)
    assert Shape("x", 100, 10).hit_share == 0


@pytest.mark.parametrize("word", ["", "12", "0:5", "5:0", "a:b", "1:2:3", "chats", "-1:5"])
def test_other_words_are_no_workload(word: str) -> None:
    """Neither a name nor sizes."""
    assert shape_of(word) is None


def test_sizes_are_a_workload() -> None:
    """Tokens in and out."""
    assert shape_of("128:32") == Shape("128:32", 128, 32)
    assert shot_of(Shape("128:32", 128, 32), 7, 0).output_tokens == 32


def test_words_that_are_longer_tokens() -> None:
    """With 1.5 tokens a word there are fewer words."""
    drive = replace(a_drive(Shape("x", 306, 8)), language=replace(LANGUAGE, per_word=1.5))
    assert len(drive.text(drive.shot(0, 0)).split()) == 1 + 200
