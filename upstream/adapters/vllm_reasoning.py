"""A reasoning splitter of this course in vLLM 0.33.0.

But: vLLM passes on what follows the reasoning without asking again. Reasoning tokens are not
counted.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, ClassVar

from upstream.adapters.guarded_parser import GuardedParser, ParsedPiece

_base = import_module("vllm.reasoning.abs_reasoning_parsers")
_messages = import_module("vllm.entrypoints.generate.base.protocol")

# More ids than a marker can have, with white space behind it.
_LONGEST_MARKER = 64


class VllmReasoning(_base.ReasoningParser):
    """One reasoning splitter as vLLM wants it: one object for each choice of a request.

    Args:
        tokenizer: decodes the ends of prompts.
        *more: passed on to vLLM's base class.
        **options: likewise.
    """

    # The markers of the reasoning; the first of each is the usual one.
    openings: ClassVar[tuple[str, ...]] = ("<think>",)
    closings: ClassVar[tuple[str, ...]] = ("</think>",)
    # What also ends the reasoning, and is part of the answer.
    ends_at: ClassVar[tuple[str, ...]] = ()
    # With this, vLLM asks whether the reasoning has ended, and calls `finish_streaming` then.
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *more: Any, **options: Any) -> None:
        super().__init__(tokenizer, *more, **options)
        self._inside: bool | None = None
        self._ended = False
        self._stream: GuardedParser | None = None

    def make_splitter(self, inside: bool | None) -> Any:
        """Return a fresh splitter.

        Args:
            inside: whether the stream begins with reasoning; None if the prompt does not show it.
        """
        raise NotImplementedError

    def prompt_inside(self, prompt: str) -> bool | None:
        """Return whether a prompt leaves the reasoning open; None if it ends in no marker."""
        end = prompt.rstrip()
        if end.endswith(self.openings):
            return True
        return False if end.endswith(self.closings) else None

    @property
    def reasoning_start_str(self) -> str:
        """The marker before the reasoning."""
        return self.openings[0]

    @property
    def reasoning_end_str(self) -> str:
        """The marker behind the reasoning."""
        return self.closings[0]

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
        new = len(list(delta_ids))
        window = list(input_ids)[-_LONGEST_MARKER - new :]
        before = self.model_tokenizer.decode(window[: len(window) - new])
        text = self.model_tokenizer.decode(window)
        return any(
            text.find(marker, max(len(before) - len(marker) + 1, 0)) >= 0
            for marker in (*self.closings, *self.ends_at)
        )

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """Return the ids: they are not sorted, and our tool parsers read the text."""
        return input_ids

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Return the reasoning in a whole text, and the rest."""
        piece = self._splitter().parse(model_output)
        return piece.reasoning or None, piece.text or None

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
        piece = self._stream.feed(delta_text)
        self._ended = self._ended or piece.has_text
        return _message(piece)

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Return whether the answer has begun."""
        return self._ended

    def finish_streaming(self) -> Any:
        """End the stream: return what was held, or None."""
        return _message(self._stream.flush()) if self._stream else None

    def _splitter(self) -> GuardedParser:
        return GuardedParser(lambda: self.make_splitter(self._inside))

    def _shown(self, token_ids: Sequence[int]) -> bool | None:
        return self.prompt_inside(self.model_tokenizer.decode(list(token_ids)[-_LONGEST_MARKER:]))


def _message(piece: ParsedPiece) -> Any:
    # Fields that are left out are not sent; a null would replace what the client has.
    fields = {"reasoning": piece.reasoning} if piece.reasoning else {}
    if piece.text:
        fields["content"] = piece.text
    return _messages.DeltaMessage(**fields) if fields else None


def register(name: str, parser: type) -> None:
    """Give vLLM a subclass of `VllmReasoning` under a name."""
    _base.ReasoningParserManager.register_module(name, module=parser)
