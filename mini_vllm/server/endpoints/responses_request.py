"""The request to `/v1/responses`, and its conversion to an equivalent chat request.

Each request contains the whole conversation; a reference by id may replace an item of a recent
response. Other fields that need a server with a memory or with built-in tools are refused by name.
All other fields mean the same as in a chat, and are checked there.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from mini_vllm.server.endpoints.chat_request import (
    ChatCompletionRequest,
    ContentPart,
    check_part,
    decode_chat_request,
)
from mini_vllm.server.endpoints.request_body import check_at_most, convert_value, decode_body
from mini_vllm.server.item_store import ItemStore
from mini_vllm.server.service import Limits
from mini_vllm.server.wire.api_errors import ApiError, invalid


class Reasoning(msgspec.Struct):
    """How much the model should reason, and whether to summarize that, which is not implemented."""

    effort: str | None = None
    summary: str | None = None


class TextConfig(msgspec.Struct):
    """The form of the answer's text."""

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesRequest(msgspec.Struct):
    """The fields that a chat has under another name, or does not have.

    Attributes:
        input: the user's text, or the items of the conversation.
        instructions: a system message before these.
        include: further output; any other than `reasoning.encrypted_content` is refused.
        metadata: returned with the answer, unchanged.
        store: whether later requests may refer to the items of the answer.
    """

    input: str | list[dict[str, Any]]
    model: str | None = None
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Any = None
    reasoning: Reasoning | None = None
    text: TextConfig | None = None
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    stream: bool | None = None
    store: bool | None = None


class AllowedTools(msgspec.Struct):
    """The choice of some of the tools."""

    mode: str
    tools: list[dict[str, Any]]


class Message(msgspec.Struct):
    """One turn of the conversation."""

    role: str
    content: str | list[ContentPart]


class FunctionCall(msgspec.Struct):
    """A call in an earlier answer of the model."""

    call_id: str
    name: str
    arguments: str


class FunctionCallOutput(msgspec.Struct):
    """The result of a call."""

    call_id: str
    output: str | list[ContentPart]


class ItemReference(msgspec.Struct):
    """The id of an item of an earlier response."""

    id: str


class ReasoningItem(msgspec.Struct):
    """The reasoning of an earlier answer: its text, or a summary of it."""

    summary: list[ContentPart] = []
    content: list[ContentPart] | None = None
    encrypted_content: str | None = None


def decode_responses_request(
    body: bytes, limits: Limits, stored: ItemStore
) -> tuple[ResponsesRequest, ChatCompletionRequest]:
    """Return the request of a body, and the equivalent chat request.

    Args:
        body: JSON.
        limits: how much the request may ask for.
        stored: the items to which the request may refer.

    Raises:
        ApiError: 400; it names the field.
    """
    request = decode_body(body, ResponsesRequest)
    fields: dict[str, Any] = msgspec.json.decode(body)
    _check_there(request, fields)
    for name in (*ResponsesRequest.__struct_fields__, *_WITHOUT_INFLUENCE):
        fields.pop(name, None)
    text, reasoning = request.text or TextConfig(), request.reasoning or Reasoning()
    chat = {
        **fields,
        "model": request.model,
        "messages": _messages(request, limits, stored),
        "tools": [_tool(tool, f"tools[{index}]") for index, tool in enumerate(request.tools or ())],
        "tool_choice": _tool_choice(request.tool_choice),
        "parallel_tool_calls": request.parallel_tool_calls,
        "max_completion_tokens": request.max_output_tokens,
        "reasoning_effort": reasoning.effort,
        "response_format": _response_format(text.format),
        "verbosity": text.verbosity,
    }
    with chat_names():
        return request, decode_chat_request(msgspec.json.encode(chat), limits)


@contextmanager
def chat_names() -> Iterator[None]:
    """Replace the names of fields in errors by their names in `/v1/responses`.

    Raises:
        ApiError: the error that was raised, with the other name.
    """
    try:
        yield
    except ApiError as error:
        param = error.param
        for chat, here in _NAMES:
            param = param and re.sub(f"^{chat}", here, param)
        message = error.message
        if error.param and message.startswith(f"{error.param}: "):
            message = f"{param}{message.removeprefix(error.param)}"
        raise ApiError(
            error.status, message, type=error.type, param=param, code=error.code
        ) from None


# The name of a field in chats, as the beginning of a path, and its name here.
_NAMES = (
    (r"messages.*", "input"),
    (r"max_completion_tokens", "max_output_tokens"),
    (r"reasoning_effort", "reasoning.effort"),
    (r"response_format(\.json_schema)?", "text.format"),
    (r"verbosity", "text.verbosity"),
    (r"tool_choice\.(function|allowed_tools)", "tool_choice"),
    (r"((tool_choice\.)?tools\[\d+\])\.function", r"\1"),
)

# Fields without influence on the answer.
_WITHOUT_INFLUENCE = ("stream_options", "user", "max_tool_calls")

# Neutral values; other values are refused, not ignored.
_NOT_THERE = {
    "background": False,
    "context_management": [],
    "conversation": None,
    "moderation": None,
    "previous_response_id": None,
    "prompt": None,
    "top_logprobs": 0,
    "truncation": "disabled",
}
_STATELESS = "no conversation is stored here; send the whole conversation as input"
_BY_AI_SDK = "as the AI SDK does with providerOptions: { openai: { store: false } }"
_WHY = {"previous_response_id": _STATELESS, "conversation": _STATELESS}
# Fields of chats that would change the answer, and advice for each.
_OF_CHATS = {
    "messages": "use input",
    "max_tokens": "use max_output_tokens",
    "max_completion_tokens": "use max_output_tokens",
    "response_format": "use text.format",
    "reasoning_effort": "use reasoning.effort",
    **dict.fromkeys(("n", "logprobs", "return_held", "return_token_ids"), "leave it out"),
}
_INCLUDED = "reasoning.encrypted_content"


def _check_there(request: ResponsesRequest, fields: dict[str, Any]) -> None:
    for name, neutral in _NOT_THERE.items():
        if fields.get(name) is not None and fields[name] != neutral:
            why = _WHY.get(name, "is not implemented; leave it out")
            raise invalid(name, why, code="unsupported_parameter")
    for name, instead in _OF_CHATS.items():
        if fields.get(name) is not None:
            raise invalid(
                name,
                f"is a field of /v1/chat/completions; {instead}",
                code="unsupported_parameter",
            )
    for index, name in enumerate(request.include or ()):
        # Reasoning is sent and accepted in plain text.
        if name != _INCLUDED:
            raise invalid(f"include[{index}]", f"is {name!r:.60}; it must be {_INCLUDED!r}")
    for key, value in (request.metadata or {}).items():
        if not isinstance(value, str):
            raise invalid(f"metadata.{key:.60}", f"is {value!r:.60}; it must be a text")
    summary = request.reasoning and request.reasoning.summary
    if summary not in (None, "auto"):
        raise invalid("reasoning.summary", f"is {summary!r:.60}; only the whole reasoning is sent")


def _messages(request: ResponsesRequest, limits: Limits, stored: ItemStore) -> list[dict[str, Any]]:
    """Return the conversation in a chat's form: the model's items of one turn are one message."""
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    if not request.input:
        raise invalid("input", "is an empty list; send a text or at least one item")
    check_at_most("input", len(request.input), limits.max_messages, "items")
    for index, item in enumerate(request.input):
        message = _message(_resolved(item, f"input[{index}]", stored), f"input[{index}]")
        if not (messages and _continues(message, messages[-1])):
            messages.append(message)
        elif "tool_calls" in message:
            messages[-1].setdefault("tool_calls", []).extend(message["tool_calls"])
        else:
            messages[-1]["content"] = messages[-1].get("content", "") + message["content"]
    return messages


def _continues(message: dict[str, Any], turn: dict[str, Any]) -> bool:
    """Return whether a message continues the model's turn: reasoning, text and calls, in order.

    Text may also follow calls, since the results of calls follow the whole turn.
    """
    if not message["role"] == turn["role"] == "assistant" or "reasoning_content" in message:
        return False
    return "tool_calls" in message or "content" not in turn or "tool_calls" in turn


def _resolved(item: dict[str, Any], at: str, stored: ItemStore) -> dict[str, Any]:
    """Return an item, or the stored item to which it refers."""
    # OpenAI's specification lets a reference leave its type out, as a message may.
    untyped = item.get("type") is None and "id" in item and "role" not in item
    if item.get("type") != "item_reference" and not untyped:
        return item
    reference = convert_value(item, ItemReference, at)
    known = stored.get(reference.id)
    if known is None:
        why = f"is {reference.id!r:.60}, which is not stored here"
        if stored.most:
            why += f": only the items of the last {stored.most} responses are"
        raise invalid(f"{at}.id", f"{why}; send the item itself, {_BY_AI_SDK}")
    return dict(known)


def _message(item: dict[str, Any], at: str) -> dict[str, Any]:
    kind = item.get("type") or "message"
    if kind == "message":
        message = convert_value(item, Message, at)
        if message.role not in _ROLES:
            known = ", ".join(_ROLES)
            raise invalid(f"{at}.role", f"is {message.role!r:.60}; known roles: {known}")
        return {"role": message.role, "content": _text(message.content, f"{at}.content")}
    if kind == "function_call":
        call = convert_value(item, FunctionCall, at)
        function = {"name": call.name, "arguments": call.arguments}
        entry = {"id": call.call_id, "type": "function", "function": function}
        return {"role": "assistant", "tool_calls": [entry]}
    if kind == "function_call_output":
        result = convert_value(item, FunctionCallOutput, at)
        text = _text(result.output, f"{at}.output")
        return {"role": "tool", "tool_call_id": result.call_id, "content": text}
    if kind == "reasoning":
        return {"role": "assistant", "reasoning_content": _reasoning(item, at)}
    known = "message, function_call, function_call_output, reasoning, item_reference"
    raise invalid(f"{at}.type", f"is {kind!r:.60}; known types: {known}")


_ROLES = ("system", "developer", "user", "assistant")
_TEXTS = ("input_text", "output_text", "reasoning_text", "summary_text", "text", "refusal")


def _reasoning(item: dict[str, Any], at: str) -> str:
    reasoning = convert_value(item, ReasoningItem, at)
    if reasoning.content:
        return _text(reasoning.content, f"{at}.content")
    if reasoning.encrypted_content and not reasoning.summary:
        raise invalid(f"{at}.encrypted_content", "cannot be read here; leave the item out")
    # Clients send back the empty summary of this server's own items, some without their content.
    return _text(reasoning.summary, f"{at}.summary") if reasoning.summary else ""


def _text(content: str | Sequence[ContentPart], at: str) -> str:
    """Return a content as text; its parts are joined by line breaks, as in a chat."""
    if isinstance(content, str):
        return content
    if not content:
        raise invalid(at, "is an empty list; send a text")
    for index, part in enumerate(content):
        check_part(part, f"{at}[{index}]", _TEXTS)
    return "\n".join(part.text or "" for part in content)


# Settings of the Codex CLI that remove a tool from its requests.
_BY_CODEX = {
    "namespace": " (codex -c features.multi_agent=false)",
    "web_search": " (codex -c 'web_search=\"disabled\"')",
}


def _tool(tool: dict[str, Any], at: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind != "function":
        why = f"is {kind!r:.60}; only functions are supported, not built-in tools"
        raise invalid(f"{at}.type", why + _BY_CODEX.get(str(kind), ""))
    return {"type": "function", "function": _but_type(tool)}


def _tool_choice(choice: str | dict[str, Any] | None) -> Any:
    """Return a choice in a chat's form, which nests its members one level deeper."""
    if not isinstance(choice, dict):
        return choice
    kind = choice.get("type")
    if kind == "function":
        return {"type": kind, "function": _but_type(choice)}
    if kind == "allowed_tools":
        named = convert_value(choice, AllowedTools, "tool_choice")
        tools = [{"type": tool.get("type"), "function": _but_type(tool)} for tool in named.tools]
        return {"type": kind, kind: {"mode": named.mode, "tools": tools}}
    raise invalid("tool_choice.type", f"is {kind!r:.60}; it must be function or allowed_tools")


def _response_format(format: dict[str, Any] | None) -> Any:
    """Return a format in a chat's form; the chat endpoint checks whether it is supported."""
    if format is None or format.get("type") != "json_schema":
        return format
    return {"type": "json_schema", "json_schema": _but_type(format)}


def _but_type(value: dict[str, Any]) -> dict[str, Any]:
    """Return all members but `type` that are not null; null means the same as an absent member."""
    return {name: member for name, member in value.items() if name != "type" and member is not None}
