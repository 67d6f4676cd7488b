"""What a client may ask of `/v1/completions`, `/tokenize` and `/detokenize`."""

from typing import Any

import msgspec

from mini_vllm.server.endpoints.chat_request import (
    ChatMessage,
    Tools,
    check_messages,
    check_template_kwargs,
    check_tools,
)
from mini_vllm.server.endpoints.limits import Limits, check_at_most
from mini_vllm.server.endpoints.protocol import decode_body
from mini_vllm.server.endpoints.sampling import GenerationRequest, check_generation
from mini_vllm.server.wire.api_errors import invalid

Prompt = str | list[int]


class CompletionRequest(GenerationRequest, kw_only=True):
    """Texts to be continued.

    Attributes:
        prompt: a text, its ids, or a list of either.
        logprobs: how many likeliest tokens to report for each token.
    """

    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    add_special_tokens: bool = True

    @property
    def prompts(self) -> list[Prompt]:
        """The prompts one by one."""
        prompt: Any = self.prompt
        return [prompt] if isinstance(prompt, str) or isinstance(prompt[0], int) else prompt

    @property
    def wanted_logprobs(self) -> tuple[str, int | None]:
        """The field that says how many likeliest tokens to report, and what it says."""
        return "logprobs", self.logprobs


def decode_completion_request(body: bytes, limits: Limits) -> CompletionRequest:
    """Return the request of a body.

    Raises:
        ApiError: 413 for a body that is too long, else 400; it names the field.
    """
    request = decode_body(body, CompletionRequest, limits)
    check_generation(request)
    if not request.prompt and not isinstance(request.prompt, str):
        raise invalid("prompt", "is an empty list; send a text or ids")
    if len({type(item) for item in request.prompt}) > 1:
        raise invalid("prompt", "mixes kinds; send one text, its ids, or a list of either")
    for prompt in request.prompts:
        check_prompt("prompt", prompt)
    length = sum(len(prompt) for prompt in request.prompts)
    check_at_most("prompt", length, limits.max_prompt_chars, "characters or ids in all")
    choices = len(request.prompts) * (request.n or 1)
    check_at_most("prompt", choices, limits.max_choices, "choices in all, prompts times n")
    return request


def check_prompt(param: str, prompt: Prompt) -> None:
    """Demand that a prompt has something, and no negative ids.

    Raises:
        ApiError: 400; it names the field.
    """
    if not prompt:
        raise invalid(param, "is empty; send a text or ids")
    if isinstance(prompt, list) and min(prompt) < 0:
        raise invalid(param, f"has the id {str(min(prompt))[:60]}; ids begin at 0")


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """A text or a conversation whose ids are wanted.

    Attributes:
        add_special_tokens: None is vLLM's default: true for a text, false for a conversation.
    """

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool = True
    tools: Tools | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizeResponse(msgspec.Struct):
    """The ids of a text, and of how many the model can make use."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """Ids whose text is wanted."""

    model: str | None = None
    tokens: list[int]


class DetokenizeResponse(msgspec.Struct):
    """The text of ids."""

    prompt: str


def decode_tokenize_request(body: bytes, limits: Limits) -> TokenizeRequest:
    """Return the request of a body.

    Raises:
        ApiError: 413 for a body that is too long, else 400; it names the field.
    """
    request = decode_body(body, TokenizeRequest, limits)
    if (request.prompt is None) == (request.messages is None):
        raise invalid("prompt", "send either prompt or messages")
    check_at_most("prompt", len(request.prompt or ""), limits.max_prompt_chars, "characters")
    if request.messages is not None:
        check_messages(request.messages, limits)
    request.tools = request.tools or None
    check_tools(request.tools, limits)
    check_template_kwargs(request.chat_template_kwargs, limits)
    return request


def decode_detokenize_request(body: bytes, limits: Limits) -> DetokenizeRequest:
    """Return the request of a body.

    Raises:
        ApiError: 413 for a body that is too long, else 400; it names the field.
    """
    request = decode_body(body, DetokenizeRequest, limits)
    check_at_most("tokens", len(request.tokens), limits.max_prompt_chars, "ids")
    if request.tokens and min(request.tokens) < 0:
        raise invalid("tokens", f"has the id {str(min(request.tokens))[:60]}; ids begin at 0")
    return request
