"""Run with an engine environment's interpreter: asks the demo model through transformers or vLLM, prints JSON.

    PYTHON ask_demo_model.py transformers DIRECTORY DTYPE
    PYTHON ask_demo_model.py vllm DIRECTORY DTYPE

Both give, per prompt, the five likeliest next tokens with their log-probabilities, from the same weights. DTYPE
(bfloat16 or float32) is what they compute in.
"""

import json
import sys
from typing import Any

PROMPTS = ("The capital of France is", "Water boils at 100 degrees", "def add(a, b):\n    return", "Once upon a time")
QUESTION = [{"role": "user", "content": "Name the capital city of France."}]
TEXTS = (
    "In 2024 there were 1234567 of them.",
    "naïve café — 北京, Привет, 👩‍🚀!",
    "  two  spaces\n\n\ttab and 3.14",
    "<|im_start|>user\nhello<|im_end|>\n",
    "it's we'll I'm don't",
)


def by_transformers(directory: str, dtype: str) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()
    top = []
    with torch.no_grad():
        for prompt in PROMPTS:
            logits = model(tokenizer(prompt, return_tensors="pt").input_ids).logits[0, -1].float()
            best = torch.log_softmax(logits, -1).topk(5)
            rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            top.append([[tokenizer.decode([token]), logprob] for token, logprob in rows])
        chat = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=False)
        asked = tokenizer(chat, return_tensors="pt", add_special_tokens=False).input_ids
        answered = model.generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=32, do_sample=False)
    ids = [tokenizer(text).input_ids for text in TEXTS]
    return {
        "top": top,
        "chat": chat,
        "answer": tokenizer.decode(answered[0, asked.shape[1] :], skip_special_tokens=True),
        "ended_with": answered[0, -1].item(),
        "texts": TEXTS,
        "ids": ids,
        "pieces": [tokenizer.convert_ids_to_tokens(row) for row in ids],
        "decoded": [tokenizer.decode(row) for row in ids],
    }


def by_vllm(directory: str, dtype: str) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    engine = LLM(directory, dtype=dtype, max_model_len=512, enforce_eager=True, max_logprobs=5)
    one = SamplingParams(temperature=0, max_tokens=1, logprobs=5)
    top = []
    for output in engine.generate(list(PROMPTS), one, use_tqdm=False):
        row = output.outputs[0].logprobs[0].values()
        top.append([[entry.decoded_token, entry.logprob] for entry in sorted(row, key=lambda entry: entry.rank)[:5]])
    chat = engine.chat(QUESTION, SamplingParams(temperature=0, max_tokens=32), use_tqdm=False)[0].outputs[0]
    return {"top": top, "answer": chat.text, "finish_reason": chat.finish_reason}


if __name__ == "__main__":
    ask = {"transformers": by_transformers, "vllm": by_vllm}[sys.argv[1]]
    print("RESULT " + json.dumps(ask(sys.argv[2], sys.argv[3])))  # noqa: T201 - its answer, read by the test
