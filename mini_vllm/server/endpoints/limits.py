"""How much one request may ask for.

But: how long prompt and answer may be together is the model's limit, and is counted in tokens.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mini_vllm.server.wire.api_errors import invalid


@dataclass(frozen=True, slots=True)
class Limits:
    """The most of each thing that one request may have.

    Attributes:
        max_body_bytes: of the body; more is status 413, everything else 400.
        max_messages: messages of a conversation.
        max_prompt_chars: characters of all prompts or messages together; ids count as one each.
        max_stops: stop strings. OpenAI allows 4.
        max_stop_chars: characters of one stop string.
        max_tools: tools. OpenAI allows 128.
        max_schema_depth: how deep a tool, and what a template gets, may be nested.
        max_n: choices for each prompt.
        max_choices: choices of all prompts together.
        max_top_logprobs: likeliest tokens to report for each token. OpenAI allows 20.
    """

    max_body_bytes: int = 4 * 2**20
    max_messages: int = 2048
    max_prompt_chars: int = 1_000_000
    max_stops: int = 4
    max_stop_chars: int = 256
    max_tools: int = 128
    max_schema_depth: int = 16
    max_n: int = 8
    max_choices: int = 32
    max_top_logprobs: int = 20


DEFAULT_LIMITS = Limits()


def check_at_most(param: str, found: int, most: int, what: str) -> None:
    """Demand that there are not too many of something.

    Raises:
        ApiError: 400; it names the field, what was found, and the limit.
    """
    if found > most:
        raise invalid(param, f"has {found} {what}; at most {most} are allowed")


def check_depth(param: str, value: Any, most: int) -> None:
    """Demand that a JSON value is not nested too deep. A value without members has the depth 0.

    Raises:
        ApiError: 400; it names the field, what was found, and the limit.
    """
    level: list[Any] = [value]
    for _ in range(most + 1):
        # Level by level, not by recursion: the value may be deeper than Python's stack.
        level = [member for outer in level for member in _members(outer)]
        if not level:
            return
    raise invalid(param, f"is nested deeper than {most}; flatten it")


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
