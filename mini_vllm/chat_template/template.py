"""Chat templates turn a conversation into the one string that a model was trained to continue.

Templates are jinja2 programs that are shipped with a model, so they are untrusted, and jinja's
sandbox limits neither time nor memory: `{{ 'a' * 10**10 }}` kills a process before it renders
anything. Each `ChatTemplate` therefore compiles and renders in a child process of its own. The
process is started at first use, kept warm, and killed when it exceeds a limit; the next call starts
another process. The templates of this package are trusted, and are rendered in the caller's
process: a message to a child process costs more than a short conversation.

But:
- Variables are sent as JSON, so tuples arrive as lists, and numeric keys as strings.
- As in transformers 5.23, None values in a message are left out. A message's reasoning may be
  called `reasoning_content`, `thinking` or `reasoning`; templates find it under the first two.
- The memory limit holds if the system enforces RLIMIT_AS: on Linux, but not on macOS.
"""

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from mini_vllm.chat_template.process import WorkerProcess
from mini_vllm.text.whole_json import check_json_depth
from mini_vllm.tokenizer_errors import ChatTemplateError

SIMPLE_TEMPLATE = """\
{%- for message in messages %}
{{- message['role'] }}: {{ message['content'] if message['content'] is string
    else (message['content'] or []) | map(attribute='text') | join }}{{ '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn: its role, and a text or a list of parts like `{"type": "text", "text": "Hi"}`."""

    role: str
    content: str | Sequence[Mapping[str, Any]]

    @classmethod
    def system(cls, content: str | Sequence[Mapping[str, Any]]) -> "ChatMessage":
        """Return an instruction to the model."""
        return cls("system", content)

    @classmethod
    def user(cls, content: str | Sequence[Mapping[str, Any]]) -> "ChatMessage":
        """Return a message of the user."""
        return cls("user", content)

    @classmethod
    def assistant(cls, content: str | Sequence[Mapping[str, Any]]) -> "ChatMessage":
        """Return a message of the model."""
        return cls("assistant", content)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as the string that a model continues.

    Attributes:
        text: the string.
        special_spans: the spans of the special tokens that the template itself wrote, in
            characters. There are none if a variable has a lone surrogate: then these tokens cannot
            be distinguished from others, and such a text cannot be encoded anyway.
        clean: whether the text has no other special tokens. If it is not clean, a message contains
            text that looks like a special token.
    """

    text: str
    special_spans: tuple[tuple[int, int], ...] = ()
    clean: bool = True


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """The resources that a template may use.

    Attributes:
        template_size: characters of its source.
        output_size: characters of one rendered text.
        seconds: wall-clock time of one call, including compiling.
        memory: bytes of the worker's address space; the worker itself needs some 25 MiB.
    """

    template_size: int = 1 << 20
    output_size: int = 8 << 20
    seconds: float = 5.0
    memory: int = 512 << 20


DEFAULT_LIMITS = TemplateLimits()
Message = ChatMessage | Mapping[str, Any]


class ChatTemplate:
    """A chat template as Hugging Face transformers renders it, within limits.

    Threads may share it; their calls take turns.

    Args:
        template: the jinja2 source. An invalid template raises when it is used, not when it is
            made.
        bos_token: the text of BOS; None is undefined in the template.
        eos_token: the text of EOS; None is undefined in the template.
        variables: further variables of every call, such as other special tokens.
        special_tokens: the tokens to find in the rendered text; see `Rendered`.
        limits: the resources that the template may use.
        trusted: whether the template needs time and memory only in proportion to its variables. It
            is then rendered in this process; of the limits, only those of sizes apply.

    Raises:
        ChatTemplateError: the source is longer than its limit, or a variable is not JSON.
    """

    def __init__(
        self,
        template: str,
        *,
        bos_token: str | None = None,
        eos_token: str | None = None,
        variables: Mapping[str, Any] | None = None,
        special_tokens: Iterable[str] = (),
        limits: TemplateLimits = DEFAULT_LIMITS,
        trusted: bool = False,
    ) -> None:
        if len(template) > limits.template_size:
            raise ChatTemplateError(
                f"the template has {len(template)} characters, "
                f"over its limit of {limits.template_size}"
            )
        self.template = template
        self.limits = limits
        self.trusted = trusted
        tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._variables = {
            **(variables or {}),
            **{name: token for name, token in tokens.items() if token is not None},
        }
        self.special_tokens = tuple(special_tokens)
        self._setup = _encode(
            {
                "template": template,
                "output_size": limits.output_size,
                "memory": limits.memory,
                # The worker's own alarm strikes only if the parent has not killed it.
                "seconds": limits.seconds + 1,
                "reply_size": _reply_size(limits),
                "special_tokens": self.special_tokens,
                "variables": self._variables,
            }
        )
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        _TEMPLATES.add(self)

    @classmethod
    def simple(cls) -> "ChatTemplate":
        """Return the format for models without a template of their own: `role: content` lines."""
        return cls(SIMPLE_TEMPLATE, trusted=True)

    def with_special_tokens(self, special_tokens: Iterable[str]) -> "ChatTemplate":
        """Return the same template for a vocabulary with these special tokens."""
        special_tokens = tuple(special_tokens)
        if special_tokens == self.special_tokens:
            return self
        return ChatTemplate(
            self.template,
            variables=self._variables,
            special_tokens=special_tokens,
            limits=self.limits,
            trusted=self.trusted,
        )

    def apply_chat_template(
        self,
        messages: Iterable[Message],
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str:
        """Return the prompt for a conversation. Arguments and errors are those of `render`."""
        return self.render(messages, add_generation_prompt, **variables).text

    def render(
        self,
        messages: Iterable[Message],
        add_generation_prompt: bool = False,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Rendered:
        """Return the prompt for a conversation, and where its special tokens are.

        Args:
            messages: the turns, as `ChatMessage` or as dicts with the keys that the template reads.
            add_generation_prompt: end with the opening of the assistant's turn.
            tools: JSON schemas of the functions that the model may call.
            documents: texts that the model may use.
            **kwargs: further variables; they override those of the template.

        Raises:
            ChatTemplateError: the template is invalid, raises, or exceeds a limit, or a variable is
                not JSON. The text of `raise_exception` is passed through unchanged.
        """
        variables = {
            "messages": _checked(messages),
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
            **kwargs,
        }
        reply = self._ask(_encode(variables))
        spans = tuple((start, end) for start, end in reply["special"])
        return Rendered(reply["text"], spans, reply["clean"])

    def validate(self) -> None:
        """Compile the template without rendering it.

        Raises:
            ChatTemplateError: the template does not compile within its limits.
        """
        self._ask(b"null")

    def close(self) -> None:
        """End the child process now, not only with this object; a later call starts another."""
        with self._lock:
            self._end()

    def _ask(self, request: bytes) -> dict[str, Any]:
        reply = self._render_here(request) if self.trusted else self._exchange(request)
        if "limit" in reply:
            raise ChatTemplateError(_overstepped(reply["limit"], self.limits))
        if "error" in reply:
            raise ChatTemplateError(reply["error"])
        return reply

    @cached_property
    def _render_here(self) -> Callable[[bytes], dict[str, Any]]:
        # Imported late: most programs with a tokenizer render nothing, and jinja2 is large.
        from mini_vllm.chat_template.worker import Renderer, reply_to

        size = self.limits.output_size
        return partial(
            reply_to, Renderer(self.template, size, self.special_tokens, self._variables)
        )

    def _exchange(self, request: bytes) -> dict[str, Any]:
        """Return the reply of the child process; end the process if it exceeded a limit."""
        with self._lock:
            if self._process is None or not self._process.alive():
                self._end()
                self._process = WorkerProcess(self._setup, _reply_size(self.limits))
            try:
                reply = self._process.exchange(request, self.limits.seconds)
            except TimeoutError:
                reply = {"limit": "time"}
            except (EOFError, OSError, ValueError):
                reply = {"error": f"the template's process {self._process.fate()}"}
                self._end()
            except BaseException:
                # A late reply would be mistaken for the reply to the next request.
                self._end()
                raise
            if "limit" in reply:
                self._end()
        return reply

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _forget(self) -> None:
        """In a forked child: leave the process to the parent, which owns it."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._process.forget()
            self._process = None


_TEMPLATES: "weakref.WeakSet[ChatTemplate]" = weakref.WeakSet()


def _forget_all() -> None:
    for template in _TEMPLATES:
        template._forget()


os.register_at_fork(after_in_child=_forget_all)


def _checked(messages: Iterable[Message]) -> list[Message]:
    # A str and a dict are iterable as well, and would render as nonsense.
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise ChatTemplateError(f"messages must be a list, not {type(messages).__name__}")
    turns = list(messages)
    for index, turn in enumerate(turns):
        if not isinstance(turn, ChatMessage | Mapping):
            raise ChatTemplateError(
                f"messages[{index}] must be a dict or a ChatMessage, not {type(turn).__name__}"
            )
    return list(map(_as_templates_read, turns))


# The names of a message's reasoning in clients and templates; the first that is set counts.
_REASONING = ("reasoning_content", "thinking", "reasoning")


def _as_templates_read(turn: Message) -> Message:
    if isinstance(turn, ChatMessage):
        return turn
    said = {name: value for name, value in turn.items() if value is not None}
    reasoning = next((said[name] for name in _REASONING if name in said), None)
    if reasoning is None:
        return said
    return {"thinking": reasoning, **said, "reasoning_content": reasoning}


def _plain(value: Any) -> Any:
    if isinstance(value, ChatMessage):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


def _dump(value: Any) -> bytes:
    # surrogatepass: a lone surrogate in a message reaches the template unchanged.
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    check_json_depth(text)
    return text.encode("utf-8", "surrogatepass")


def _encode(variables: Mapping[str, Any]) -> bytes:
    try:
        return _dump(variables)
    except (TypeError, ValueError, RecursionError) as error:
        name, problem = next(_faults(variables), ("the variables", error))
        raise ChatTemplateError(f"{name}: {problem}") from None


def _faults(variables: Mapping[str, Any]) -> Iterator[tuple[str, Exception]]:
    for name, value in variables.items():
        listed = isinstance(value, list | tuple)
        for index, item in enumerate(value if listed else [value]):
            try:
                _dump(item)
            except (TypeError, ValueError, RecursionError) as error:
                yield (f"{name}[{index}]" if listed else name), error


def _reply_size(limits: TemplateLimits) -> int:
    # A character takes at most six bytes of JSON; the other bytes are for the spans.
    return 8 * limits.output_size + (1 << 16)


def _overstepped(limit: str, limits: TemplateLimits) -> str:
    return {
        "time": f"the template ran over its time limit of {limits.seconds:g} s",
        "memory": f"the template ran over its memory limit of {limits.memory} bytes",
        "output": f"the template ran over its output limit of {limits.output_size} characters",
    }.get(limit, "the template nests or recurses too deeply")
