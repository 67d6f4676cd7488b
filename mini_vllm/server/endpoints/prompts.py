"""From messages or text to the ids that a model continues.

Long texts, and templates that are not trusted, take their time on a thread and not on the event
loop. Short texts stay on the loop: under load the way to a thread and back costs many times more
than the work, because the thread has to wait for the interpreter's lock.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from mini_vllm.chat_template.template import Rendered
from mini_vllm.engine import SamplingParams
from mini_vllm.server.endpoints.chat_request import (
    ChatCompletionMessage,
    template_messages,
    with_objects,
)
from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import invalid
from mini_vllm.tokenizer import AllowedSpecial, At, ChatTemplateError, TokenizerError

# The most characters of a short text. It is encoded in one to three milliseconds.
_MOST_SHORT = 2000


class Prompt(NamedTuple):
    """A prompt as text and as ids."""

    text: str
    token_ids: tuple[int, ...]


async def chat_prompt(
    service: Service,
    messages: list[ChatCompletionMessage],
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    add_generation_prompt: bool,
    continue_final_message: bool = False,
    add_special_tokens: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> Prompt:
    """Return the prompt of a conversation, rendered by the model's template.

    A special token is special only if the template writes it. In a message it is text, so a user
    cannot end a message by typing it.

    Args:
        service: has the template.
        messages: the conversation.
        tools: the tools that the model may call.
        add_generation_prompt: end with the opening of the assistant's turn.
        continue_final_message: end with the content of the last message, whose turn stays open.
        add_special_tokens: add the special tokens that the tokenizer puts around a text.
        variables: further variables of the template.

    Raises:
        ApiError: 400; the template refuses the conversation, or its text cannot be encoded.
    """
    turns = template_messages(messages, service.limits)
    # It marks the end of the final message, and is removed together with all text after it.
    mark = f"continue-{secrets.token_hex(8)}" if continue_final_message else ""
    turns[-1]["content"] += mark

    def make() -> Prompt:
        render = partial(
            service.chat_template.render,
            add_generation_prompt=add_generation_prompt, tools=tools, **(variables or {}),
        )  # fmt: skip
        try:
            rendered = render_either(render, turns)
        except ChatTemplateError as error:
            raise invalid("messages", f"do not fit the model's chat template: {error}") from error
        if mark not in rendered.text:
            problem = "the model's chat template does not show the end of the final message"
            raise invalid("continue_final_message", problem)
        text = rendered.text[: rendered.text.rindex(mark)] if mark else rendered.text
        spans = tuple(span for span in rendered.special_spans if span[1] <= len(text))
        # Special tokens in messages never count; if no message has any, all are allowed.
        allowed: AllowedSpecial = "all" if rendered.clean else At(spans)
        return Prompt(text, _encode(service, "messages", text, add_special_tokens, allowed))

    quick = service.chat_template.trusted and _are_short(turns, tools, variables)
    return make() if quick else await run_in_threadpool(make)


def _are_short(*values: Any) -> bool:
    """Return whether JSON values are as short as a short text, with every value and key."""
    todo, left = [*values], _MOST_SHORT
    while todo and left > 0:
        value = todo.pop()
        left -= len(value) if isinstance(value, str) else 8
        if isinstance(value, Mapping):
            todo += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            todo += value
    return left > 0


def render_either(render: Callable[[Any], Rendered], turns: list[dict[str, Any]]) -> Rendered:
    """Render a conversation; if the template refuses it, retry with calls' arguments as objects.

    Raises:
        ChatTemplateError: the template refuses the conversation.
    """
    try:
        return render(turns)
    except ChatTemplateError:
        objects = with_objects(turns)
        if objects == turns:
            raise
        return render(objects)


async def text_prompt(service: Service, text: str, *, add_special_tokens: bool) -> Prompt:
    """Return the prompt of a text. As in vLLM, special tokens in the text are special.

    Raises:
        ApiError: 400; the text cannot be encoded.
    """
    encode = partial(_encode, service, "prompt", text, add_special_tokens, "all")
    ids = encode() if len(text) <= _MOST_SHORT else await run_in_threadpool(encode)
    return Prompt(text, ids)


def check_logit_bias(service: Service, params: SamplingParams) -> None:
    """Check that the model can use the bias, and knows its ids.

    Raises:
        ApiError: 400.
    """
    if not params.logit_bias:
        return
    if not service.takes_logit_bias:
        problem = "is about tokens, and this model samples bytes; leave it out"
        raise invalid("logit_bias", problem, code="unsupported_parameter")
    check_known(service, "logit_bias", list(params.logit_bias))


def check_known(service: Service, param: str, token_ids: Sequence[int]) -> None:
    """Check that the model knows the ids.

    Raises:
        ApiError: 400; it names the field and the id.
    """
    highest, size = max(token_ids, default=0), service.tokenizer.vocab_size
    if highest >= size:
        raise invalid(param, f"has the id {str(highest)[:60]}; ids are below {size}")


def _encode(
    service: Service, param: str, text: str, special: bool, allowed: AllowedSpecial
) -> tuple[int, ...]:
    try:
        return service.tokenizer.encode(
            text, add_special_tokens=special, allowed_special=allowed
        ).ids
    except TokenizerError as error:
        raise invalid(param, f"cannot be encoded: {error}") from error
