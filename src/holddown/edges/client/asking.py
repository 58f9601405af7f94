"""Questions as an OpenAI-compatible endpoint takes them.

Source: https://platform.openai.com/docs/api-reference for both completions endpoints; `echo`, `ignore_eos` and
`/tokenize` as vLLM defines them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holddown.facts.answers import Ask, Message, Tool

Json = Mapping[str, Any]


def counting(ask: Ask) -> Iterator[tuple[str, Json]]:
    """Questions for the number of the prompt's tokens: vLLM's and SGLang's first, then llama.cpp's, which gives no
    count to theirs.

    Source: llama.cpp b11434 tools/server/server-context.cpp post_tokenize, handle_count_tokens.
    """
    if ask.messages:
        messages = {"model": ask.model, "messages": _messages(ask)}
        yield "/tokenize", {**messages, "add_generation_prompt": True}
        yield "/v1/chat/completions/input_tokens", messages
    else:
        yield "/tokenize", {"model": ask.model, "prompt": ask.prompt}
        yield "/tokenize", {"content": ask.prompt, "add_special": True}


def path(ask: Ask) -> str:
    return "/v1/chat/completions" if ask.messages else "/v1/completions"


def _messages(ask: Ask) -> list[dict[str, Any]]:
    return [_message(message) for message in ask.messages]


def _message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.image:
        shown = {"type": "image_url", "image_url": {"url": message.image}}
        body["content"] = [shown, {"type": "text", "text": message.content}]
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        body["tool_call_id"] = message.tool_call_id
    return body


def body(ask: Ask) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": ask.model,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "seed": ask.seed,
    }
    if ask.messages:
        asked["messages"] = _messages(ask)
        if ask.logprobs:
            asked |= {"logprobs": True, "top_logprobs": ask.logprobs}
    else:
        asked["prompt"] = list(ask.token_ids) or ask.prompt
        if ask.logprobs:
            asked["logprobs"] = ask.logprobs
        if ask.echo:
            asked["echo"] = True
    if ask.n > 1:
        asked["n"] = ask.n
    if ask.tools:
        asked["tools"] = [_tool(tool) for tool in ask.tools]
        asked |= _choice_of_tool(ask.tool_choice)
    if ask.schema:
        schema = {"name": "answer", "schema": json.loads(ask.schema), "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    if ask.stop:
        asked["stop"] = list(ask.stop)
    if ask.ignore_eos:
        asked["ignore_eos"] = True
    return asked | _thinking(ask)


def _thinking(ask: Ask) -> dict[str, Any]:
    """In the words of every engine at once: each passes over those of the others.

    Source: vLLM 0.32.0 entrypoints/openai/chat_completion/protocol.py thinking_token_budget; llama.cpp b11434
    tools/server/server-common.cpp thinking_budget_tokens; SGLang 0.5.16 srt/constrained/grammar_manager.py
    thinking_budget. Templates call it `enable_thinking` (Qwen, GLM, Gemma) or `thinking` (DeepSeek, Kimi).
    """
    asked: dict[str, Any] = {}
    if ask.thinking:
        asked["chat_template_kwargs"] = {"enable_thinking": True, "thinking": True}
    if ask.thinking_budget:
        asked |= dict.fromkeys(("thinking_token_budget", "thinking_budget_tokens"), ask.thinking_budget)
        asked["custom_params"] = {"thinking_budget": ask.thinking_budget}
    return asked


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": described}


def _choice_of_tool(choice: str) -> dict[str, Any]:
    if not choice:
        return {}
    named = choice not in ("auto", "none", "required")
    return {"tool_choice": {"type": "function", "function": {"name": choice}} if named else choice}
