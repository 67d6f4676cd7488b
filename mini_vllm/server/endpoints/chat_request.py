"""The request to `/v1/chat/completions`, and its messages in the form of a chat template."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from mini_vllm.server.endpoints.request_body import check_at_most, check_depth, decode_body
from mini_vllm.server.endpoints.sampling import GenerationRequest, check_generation
from mini_vllm.server.service import Limits
from mini_vllm.server.wire.api_errors import ApiError, invalid
from mini_vllm.text.schemas import parameter_types
from mini_vllm.text.whole_json import JsonDepthError, check_json_depth


class ContentPart(msgspec.Struct):
    """One part of a message: text, or a refusal of the model, which is read as its text."""

    type: str
    text: str | None = None
    refusal: str | None = None

    def __post_init__(self) -> None:
        if self.type == "refusal":
            self.text = self.refusal


class MessageFunction(msgspec.Struct):
    """The called function. As in vLLM, the arguments may also be an object, or absent."""

    name: str
    arguments: str | dict[str, Any] | None = ""

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, str):
            self.arguments = msgspec.json.encode(self.arguments or {}).decode()


class MessageToolCall(msgspec.Struct):
    """A call in an earlier answer of the model."""

    function: MessageFunction
    id: str | None = None
    type: str = "function"


class ChatCompletionMessage(msgspec.Struct):
    """One turn of the conversation. Clients use three names for its reasoning.

    The role `function`, and `function_call`, are older names of `tool` and `tool_calls`.
    """

    role: str
    content: str | list[ContentPart] | None = None
    refusal: str | None = None
    function_call: MessageFunction | None = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    thinking: str | None = None
    reasoning: str | None = None

    def __post_init__(self) -> None:
        if self.role == "function":
            self.role = "tool"
        if self.function_call is not None:
            self.tool_calls = [*(self.tool_calls or ()), MessageToolCall(self.function_call)]
        if self.content is None:
            self.content = self.refusal


class FunctionName(msgspec.Struct):
    """The name of the function to call."""

    name: str


class NamedToolChoice(msgspec.Struct, tag_field="type", tag="function"):
    """The choice of one function by its name."""

    function: FunctionName


class AllowedTool(msgspec.Struct):
    """One of the tools that may be called."""

    function: FunctionName
    type: str = "function"


class AllowedTools(msgspec.Struct):
    """The tools that may be called, and whether a call is required."""

    mode: Literal["auto", "required"]
    tools: list[AllowedTool]


class AllowedToolChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """The choice of some of the tools."""

    allowed_tools: AllowedTools


ToolChoice = str | NamedToolChoice | AllowedToolChoice
Tools = list[dict[str, Any]]


class ChatCompletionRequest(GenerationRequest, kw_only=True):
    """A conversation to be continued.

    Attributes:
        tools: JSON schemas, kept whole because templates read more of them than this server.
        tool_choice: after `decode_chat_request`, a mode or a name. A choice of some tools becomes
            its mode, and `tools` then has only the tools that may be called. `required` and a name
            demand calls.
        parallel_tool_calls: false leaves out all calls but the first.
        max_completion_tokens: takes precedence over `max_tokens`, its old name.
        continue_final_message: continue the last message in the answer; only without
            `add_generation_prompt`.
        chat_template_kwargs: further variables of the chat template.
        reasoning_effort: one of those variables.
        say: a field of our own: the text that the model writes, as `say_id` reads it.
        tool_format: a field of our own, with `say`: the tool-call format in which to read the text.
    """

    supported = frozenset(["continue_final_message"])
    messages: list[ChatCompletionMessage]
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool | None = None
    add_special_tokens: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    say: str | None = None
    tool_format: str | None = None

    @property
    def max_tokens_param(self) -> tuple[str, int | None]:
        """The field that limits the tokens of the answer, and its value."""
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return "max_tokens", self.max_tokens

    @property
    def logprobs_param(self) -> tuple[str, int | None]:
        """The field with the number of likeliest tokens to report, and its value."""
        return "top_logprobs", (self.top_logprobs or 0) if self.logprobs else None

    @property
    def template_kwargs(self) -> dict[str, Any]:
        """The further variables of the chat template."""
        effort = self.reasoning_effort
        return {
            **({} if effort is None else {"reasoning_effort": effort}),
            **(self.chat_template_kwargs or {}),
        }


def decode_chat_request(body: bytes, limits: Limits) -> ChatCompletionRequest:
    """Return the request of a body.

    Raises:
        ApiError: 400; it names the field.
    """
    request = decode_body(body, ChatCompletionRequest)
    check_generation(request)
    check_messages(request.messages, limits)
    request.tools = request.tools or None
    check_tools(request.tools, limits)
    _restrict_tools(request)
    request.tool_choice = _tool_choice(request)
    if request.top_logprobs and not request.logprobs:
        raise invalid("top_logprobs", "needs logprobs; set that to true or leave this out")
    check_template_kwargs(request.chat_template_kwargs, limits)
    check_end(request.continue_final_message, request.add_generation_prompt)
    return request


def check_end(continue_final_message: bool | None, add_generation_prompt: bool) -> None:
    """Check that a prompt does not end both inside the final message and after it.

    Raises:
        ApiError: 400; it names the field.
    """
    if continue_final_message and add_generation_prompt:
        raise invalid("continue_final_message", "is set; also set add_generation_prompt to false")


def check_messages(messages: list[ChatCompletionMessage], limits: Limits) -> None:
    """Check that a conversation has only text and known roles, and is neither empty nor too long.

    Raises:
        ApiError: 400; it names the field.
    """
    if not messages:
        raise invalid("messages", "is empty; send at least one message")
    check_at_most("messages", len(messages), limits.max_messages, "messages")
    length = 0
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if message.role not in _ROLES:
            known = ", ".join(_ROLES)
            raise invalid(f"{at}.role", f"is {message.role!r:.60}; known roles: {known}")
        if message.content is None and message.role != "assistant":
            raise invalid(f"{at}.content", "is missing; add it")
        if isinstance(message.content, list):
            if not message.content:
                raise invalid(f"{at}.content", "is an empty list; send a text")
            for number, part in enumerate(message.content):
                check_part(part, f"{at}.content[{number}]", ("text", "refusal"))
        length += len(_text(message.content)) + sum(len(text) for _, text in _names(message))
        length += sum(len(call.function.arguments or "") for call in message.tool_calls or ())
    check_at_most("messages", length, limits.max_prompt_chars, "characters in all")


_ROLES = ("system", "developer", "user", "assistant", "tool")


def check_part(part: ContentPart, at: str, texts: Sequence[str]) -> None:
    """Check that a part of a content is a text.

    Args:
        part: the part.
        at: its path in the body.
        texts: the types of parts that are texts, the usual one first.

    Raises:
        ApiError: 400; it names the field.
    """
    if part.type not in texts:
        raise invalid(at, f"is of type {part.type!r:.60}; send {texts[0]}: no other part is read")
    if part.text is None:
        raise invalid(
            f"{at}.{part.type if part.type == 'refusal' else 'text'}", "is missing; add it"
        )


def check_tools(tools: Tools | None, limits: Limits) -> None:
    """Check that the engine and its parsers support the tools.

    Raises:
        ApiError: 400; it names the field.
    """
    check_at_most("tools", len(tools or ()), limits.max_tools, "tools")
    for index, tool in enumerate(tools or ()):
        # A level of a value takes two levels of its schema: `properties`, and the property.
        check_depth(f"tools[{index}]", tool, 2 * limits.max_schema_depth)
        if tool.get("type") != "function":
            problem = f'is {tool.get("type")!r:.60}; it must be "function", the only kind here'
            raise invalid(f"tools[{index}].type", problem)
    try:
        parameter_types(tools)
    except ValueError as error:
        param, _, problem = str(error).partition(" is ")
        raise invalid(param, f"is {problem}") from None


def check_template_kwargs(kwargs: dict[str, Any] | None, limits: Limits) -> None:
    """Check that variables are not nested too deeply and do not replace fields of the request.

    Raises:
        ApiError: 400; it names the field.
    """
    check_depth("chat_template_kwargs", kwargs, limits.max_schema_depth)
    taken = {"self", "messages", "tools", "add_generation_prompt"}.intersection(kwargs or ())
    for name in sorted(taken):
        raise invalid(f"chat_template_kwargs.{name}", "is taken; use the request's own fields")


def _restrict_tools(request: ChatCompletionRequest) -> None:
    """Reduce a request's tools to those that its choice allows, and its choice to the mode."""
    choice = request.tool_choice
    if not isinstance(choice, AllowedToolChoice):
        return
    allowed = choice.allowed_tools
    known = [tool["function"]["name"] for tool in request.tools or ()]
    if not allowed.tools:
        raise invalid("tool_choice.allowed_tools.tools", "is empty; name at least one tool")
    names = [tool.function.name for tool in allowed.tools]
    for index, name in enumerate(names):
        if name not in known:
            at = f"tool_choice.allowed_tools.tools[{index}].function.name"
            raise invalid(at, f"is {name!r:.60}, which is not among the tools")
    request.tools = [tool for tool in request.tools or () if tool["function"]["name"] in names]
    request.tool_choice = allowed.mode


def _tool_choice(request: ChatCompletionRequest) -> ToolChoice:
    choice = request.tool_choice
    if choice is None:
        return "auto" if request.tools else "none"
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            known = "none, auto, required, or an object of the type function or allowed_tools"
            raise invalid("tool_choice", f"is {choice!r:.60}; it must be {known}")
        if choice == "required" and not request.tools:
            raise invalid("tool_choice", "is required, but there are no tools; add them")
        return choice
    assert isinstance(choice, NamedToolChoice)
    name = choice.function.name
    if not any(tool["function"]["name"] == name for tool in request.tools or ()):
        raise invalid("tool_choice.function.name", f"is {name!r:.60}, which is not among the tools")
    return choice


def template_messages(
    messages: list[ChatCompletionMessage], limits: Limits
) -> list[dict[str, Any]]:
    """Return a conversation in the form that chat templates read.

    As in vLLM, the parts of a content are joined by line breaks, missing content is `""`, and the
    arguments of a call are passed as an object, not as its JSON text. Arguments that are not a JSON
    object, or are nested too deeply, are passed as text, unchanged.
    """
    turns = []
    for message in messages:
        turn: dict[str, Any] = {"role": message.role, "content": _text(message.content)}
        turn.update(_names(message))
        if message.tool_calls:
            turn["tool_calls"] = [
                _template_call(call, limits.max_schema_depth) for call in message.tool_calls
            ]
        turns.append(turn)
    return turns


def _names(message: ChatCompletionMessage) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a message that are passed to the template unchanged."""
    for name in ("name", "tool_call_id", "reasoning_content", "thinking", "reasoning"):
        text = getattr(message, name)
        if text is not None:
            yield name, text


def _text(content: str | list[ContentPart] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part.text or "" for part in content)
    return content or ""


def _template_call(call: MessageToolCall, most: int) -> dict[str, Any]:
    arguments: Any = call.function.arguments
    try:
        check_json_depth(arguments or "")
        arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        check_depth("arguments", arguments, most)
    except (msgspec.DecodeError, JsonDepthError, ApiError):
        # Any text of a model is accepted: a refused conversation would be refused forever.
        arguments = call.function.arguments
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": call.type, "function": function}


def with_objects(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation whose calls all have an object as arguments.

    Arguments that are a text become the member `arguments` of an object, for templates that iterate
    over the members.
    """
    objects = []
    for turn in turns:
        calls = [_with_object(call) for call in turn.get("tool_calls", ())]
        objects.append({**turn, "tool_calls": calls} if calls else turn)
    return objects


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        return call
    return {**call, "function": {**function, "arguments": {"arguments": arguments}}}
