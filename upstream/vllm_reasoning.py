"""The course's reasoning splitters in vLLM: each family is a parser `mini_<family>` there.

    PYTHONPATH=. vllm serve MODEL --enable-auto-tool-choice \\
        --tool-call-parser mini_qwen3_coder --tool-parser-plugin upstream/vllm_plugin.py \\
        --reasoning-parser mini_qwen3 --reasoning-parser-plugin upstream/vllm_reasoning.py

vLLM does not tell a reasoning parser which tool parser is used, nor in a stream whether there are
tools. So reasoning that is left open ends at the openers of the tool formats that the family's
models write (`ReasoningFormat.ends_at`), as with vLLM's own parsers.

But: vLLM passes on what follows the reasoning without asking again, so what frames an answer stays
in it; the tool parsers of such families read the frame. Reasoning tokens are not counted.

Written for vLLM 0.33.0.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, ClassVar

from mini_vllm.text.events import Event, ReasoningDelta
from mini_vllm.text.reasoning import ANSWER, create_reasoning_splitter, prompt_in_reasoning
from mini_vllm.text.reasoning_formats import REASONING_FORMATS, find_reasoning_format
from mini_vllm.text.stream_parser import StreamParser

_base = import_module("vllm.reasoning.abs_reasoning_parsers")
_messages = import_module("vllm.entrypoints.generate.base.protocol")

# More ids than a marker can have, with white space behind it.
_LONGEST_MARKER = 64


class MiniReasoningParser(_base.ReasoningParser):
    """One family's reasoning as vLLM wants it: one object for each choice of a request.

    Args:
        tokenizer: decodes the ends of prompts.
        *more: passed on to vLLM's base class.
        **options: likewise.
    """

    format: ClassVar[str]
    # With this, vLLM asks whether the reasoning has ended, and calls `finish_streaming` then.
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *more: Any, **options: Any) -> None:
        super().__init__(tokenizer, *more, **options)
        self._inside: bool | None = None
        self._ended = False
        self._stream: StreamParser | None = None

    @property
    def reasoning_start_str(self) -> str:
        """The marker before the reasoning."""
        return find_reasoning_format(self.format).openings[0]

    @property
    def reasoning_end_str(self) -> str:
        """The marker behind the reasoning."""
        return find_reasoning_format(self.format).closings[0]

    def adjust_request(self, request: Any) -> Any:
        """Let markers through that are special tokens."""
        request.skip_special_tokens = False
        return request

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Begin where the prompt ends."""
        self._inside = self._shown(prompt_token_ids)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Return whether ids end where the reasoning does, as prompts without reasoning do."""
        return self._shown(input_ids) is False

    def is_reasoning_end_streaming(
        self, input_ids: Sequence[int], delta_ids: Iterable[int]
    ) -> bool:
        """Return whether the reasoning ends within the last ids, for constrained generation."""
        format = find_reasoning_format(self.format)
        ends = (*format.closings, *format.ends_at, *(format.frame[0] if format.special else ()))
        new = len(list(delta_ids))
        window = list(input_ids)[-_LONGEST_MARKER - new :]
        before = self.model_tokenizer.decode(window[: len(window) - new])
        text = self.model_tokenizer.decode(window)
        return any(text.find(marker, max(len(before) - len(marker) + 1, 0)) >= 0 for marker in ends)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """Return the ids: they are not sorted, and our tool parsers read the text."""
        return input_ids

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Return the reasoning in a whole text, and the rest."""
        splitter = self._splitter()
        reasoning, content = _sorted(splitter.feed(model_output) + splitter.flush())
        return reasoning or None, content or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        """Return what is certain after the next piece of a stream, or None."""
        if self._stream is None:
            self._stream = self._splitter()
        events = self._stream.feed(delta_text)
        states = self._stream.format.states
        self._ended = self._stream.state in [states[name] for name in ANSWER]
        return _message(events)

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Return whether the answer has begun."""
        return self._ended

    def finish_streaming(self) -> Any:
        """End the stream: return what was held, or None."""
        return _message(self._stream.flush()) if self._stream else None

    def _splitter(self) -> StreamParser:
        ends_at = find_reasoning_format(self.format).ends_at
        return create_reasoning_splitter(self.format, in_reasoning=self._inside, ends_at=ends_at)

    def _shown(self, token_ids: Sequence[int]) -> bool | None:
        end = self.model_tokenizer.decode(list(token_ids)[-_LONGEST_MARKER:])
        return prompt_in_reasoning(self.format, end)


def _sorted(events: Iterable[Event]) -> tuple[str, str]:
    """Return the reasoning and the other text of some events."""
    reasoning, content = [], []
    for event in events:
        (reasoning if isinstance(event, ReasoningDelta) else content).append(event.text)
    return "".join(reasoning), "".join(content)


def _message(events: Iterable[Event]) -> Any:
    reasoning, content = _sorted(events)
    # Fields that are left out are not sent; a null would replace what the client has.
    fields = {"reasoning": reasoning} if reasoning else {}
    if content:
        fields["content"] = content
    return _messages.DeltaMessage(**fields) if fields else None


for _name in REASONING_FORMATS:
    _base.ReasoningParserManager.register_module(
        f"mini_{_name}", module=type(f"Mini_{_name}", (MiniReasoningParser,), {"format": _name})
    )
