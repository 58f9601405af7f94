"""The dequantised demo model against transformers and vLLM, which both read the same directory."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

_SCRIPT = Path(__file__).with_name("ask_demo_model.py")


@cache
def _asked(python: str, how: str, directory: Path, dtype: str = "bfloat16") -> Any:
    """What `how` (transformers or vllm) says of the model; asked once a session, a start takes a minute."""
    ended = subprocess.run(
        [python, str(_SCRIPT), how, str(directory), dtype],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    results = [line for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
    assert results, f"exit {ended.returncode}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    return json.loads(results[-1].removeprefix("RESULT "))


def test_it_knows_the_capital_of_france(vllm_python: str, demo_model: Path) -> None:
    """The prompt continues with Paris at about the log-probability of the original weights."""
    token, logprob = _asked(vllm_python, "transformers", demo_model)["top"][0][0]
    assert token == " Paris"
    assert logprob == pytest.approx(-0.25, abs=0.1)


def test_the_chat_template_is_smollms(vllm_python: str, demo_model: Path) -> None:
    """A question is wrapped as SmolLM2 was trained on it, its system prompt included."""
    assert _asked(vllm_python, "transformers", demo_model)["chat"] == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nName the capital city of France.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_chat_answer_is_right_and_ends(vllm_python: str, demo_model: Path) -> None:
    """The answer names Paris and stops at <|im_end|> by itself, which generation_config.json makes it do."""
    asked = _asked(vllm_python, "transformers", demo_model)
    assert "Paris" in asked["answer"]
    assert asked["ended_with"] == 2


def test_text_survives_the_tokenizer(vllm_python: str, demo_model: Path) -> None:
    """Digits, other scripts, emoji, white space and special tokens come back as they went in."""
    asked = _asked(vllm_python, "transformers", demo_model)
    assert asked["decoded"] == asked["texts"]


def test_digits_are_split_one_by_one(vllm_python: str, demo_model: Path) -> None:
    """The `smollm` pre-tokenizer is in force, not GPT-2's alone."""
    pieces = _asked(vllm_python, "transformers", demo_model)["pieces"][0]
    assert pieces == ["In", "Ġ", *"2024", "Ġthere", "Ġwere", "Ġ", *"1234567", "Ġof", "Ġthem", "."]


def test_special_tokens_are_single(vllm_python: str, demo_model: Path) -> None:
    """<|im_start|> and <|im_end|> are tokens 1 and 2, not spelled out."""
    ids = _asked(vllm_python, "transformers", demo_model)["ids"][3]
    assert (ids[0], ids[-2]) == (1, 2)


def _furthest(python: str, directory: Path, dtype: str) -> float:
    """The largest difference of a top-5 log-probability between vLLM and transformers, over all prompts.

    A token that one side leaves out is at most as likely there as the last of its five.
    """
    by_vllm = _asked(python, "vllm", directory, dtype)["top"]
    by_transformers = _asked(python, "transformers", directory, dtype)["top"]
    furthest = 0.0
    for one, other in zip(by_vllm, by_transformers, strict=True):
        ours, theirs = dict(one), dict(other)
        for token in ours.keys() | theirs.keys():
            apart = ours.get(token, min(ours.values())) - theirs.get(token, min(theirs.values()))
            furthest = max(furthest, abs(apart))
    return furthest


def test_vllm_agrees_with_transformers(vllm_python: str, demo_model: Path) -> None:
    """In float32 top-5 log-probabilities agree to 0.001: the same weights, tokens and positions are at work.

    Measured: 0.00003. An error of the conversion would show here, and not drown in rounding.
    """
    assert _furthest(vllm_python, demo_model, "float32") < 0.001


def test_vllm_agrees_as_it_is_served(vllm_python: str, demo_model: Path) -> None:
    """In bf16 they agree to two steps of a bf16 logit.

    The largest logits lie between 16 and 32, where bf16 has steps of 0.125. transformers alone moves by 0.12 between
    bf16 and float32, and 0.18 was measured between it and vLLM, so 0.1 cannot be asked for here.
    """
    assert _furthest(vllm_python, demo_model, "bfloat16") < 2 * 0.125


def test_vllm_answers_the_chat_question(vllm_python: str, demo_model: Path) -> None:
    """Through vLLM's own template and tokenizer handling the answer names Paris, and ends by itself."""
    asked = _asked(vllm_python, "vllm", demo_model)
    assert "Paris" in asked["answer"]
    assert asked["finish_reason"] == "stop"
