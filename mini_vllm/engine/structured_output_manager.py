"""Compiles structured outputs into grammars over a vocabulary's table of bytes.

The work is done by llguidance, the backend that vLLM calls "guidance".
"""

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mini_vllm.engine.engine_errors import StructuredOutputError
from mini_vllm.engine.request import StructuredOutputsParams
from mini_vllm.engine.structured_output import StructuredOutputGrammar, what_is_wrong
from mini_vllm.text.call_grammar import json_rule
from mini_vllm.tokenizer.protocols import Tokenizer

if TYPE_CHECKING:
    import llguidance

# Forced text may be cut into any tokens, so that a mask has all ids that the grammar accepts.
_HEADER = '%llguidance {"no_forcing": true}\n'
_NO_OPTIONS = re.compile(r"\A\s*%llguidance\s*\{\s*\}")
# A line number of the compiled grammar means nothing to the client that sent the request.
_PLACE = re.compile(r"\Aat \d+\(\d+\): ")
# Masks are computed on the engine's thread. An ambiguous grammar, whose masks take ever longer,
# ends its choice at a tenth of the backend's own limit.
_LIMITS = {"step_max_items": 5_000, "verbose_errors": False}
_MOST_COMPILED = 64


class MissingBackendError(Exception):
    """llguidance is not installed."""


CompileGrammar = Callable[[StructuredOutputsParams], StructuredOutputGrammar]


class StructuredOutputManager:
    """Compiles grammars over one vocabulary, and caches the latest. Any thread may use it.

    Args:
        tokenizer: the model's; its table of bytes is read for the first grammar.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._compiled = OrderedDict[StructuredOutputsParams, StructuredOutputGrammar]()

    def compile(self, params: StructuredOutputsParams) -> StructuredOutputGrammar:
        """Return a grammar at its beginning.

        For a vocabulary of 128,000 tokens the first call takes a quarter of a second. A large
        schema takes a tenth of a second, any other grammar some milliseconds.

        Raises:
            ValueError: the grammar is malformed, no text fits it, or this vocabulary cannot be
                constrained.
            MissingBackendError: llguidance is not installed.
        """
        with self._lock:
            grammar = self._compiled.get(params)
        if grammar is None:
            # Without the lock, so that no request waits for another request's grammar.
            grammar = self._compile(params)
        with self._lock:
            self._compiled[params] = grammar
            self._compiled.move_to_end(params)
            if len(self._compiled) > _MOST_COMPILED:
                self._compiled.popitem(last=False)
            return grammar.copy()

    @cached_property
    def _vocabulary(self) -> "llguidance.LLTokenizer":
        library, words = _library(), _Words(self._tokenizer)
        vocabulary: llguidance.LLTokenizer = library.LLTokenizer(
            library.TokenizerWrapper(words), eos_token=sorted(self._tokenizer.eos_token_ids)
        )
        return vocabulary

    @property
    def is_possible(self) -> bool:
        """Whether texts in this vocabulary can be constrained by a grammar."""
        pieces = self._tokenizer.pieces
        return pieces is not None and pieces.concatenates and bool(self._tokenizer.eos_token_ids)

    def spell(self, text: str) -> str:
        """Return a marker as a Lark expression: its special tokens, or its text in other tokens."""
        spelled = json.dumps(text)
        parts = [part for part in self._specials.split(text) if part]
        said = [self.special_id(part) for part in parts]
        if not any(token_id is not None for token_id in said):
            return spelled
        tokens = (
            json.dumps(part) if token_id is None else f"<[{token_id}]>"
            for part, token_id in zip(parts, said, strict=True)
        )
        return f"({' '.join(tokens)} | {spelled})"

    @cached_property
    def _specials(self) -> re.Pattern[str]:
        texts = {self._tokenizer.id_to_token(token_id) or "" for token_id in self._special_ids}
        longest_first = sorted(texts - {""}, key=lambda text: (-len(text), text))
        return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")

    def special_id(self, text: str) -> int | None:
        """Return the id of the special token with this text, or None."""
        token_id = self._tokenizer.token_to_id(text)
        return token_id if token_id in self._special_ids else None

    @property
    def _special_ids(self) -> frozenset[int]:
        pieces = self._tokenizer.pieces
        return frozenset() if pieces is None else pieces.special

    def _compile(self, params: StructuredOutputsParams) -> StructuredOutputGrammar:
        lark = _HEADER + lark_of(params)
        library = _library()
        matcher = library.LLMatcher(
            self._vocabulary, lark, log_level=0, limits=library.LLParserLimits(**_LIMITS)
        )
        if matcher.is_error():
            raise ValueError(_PLACE.sub("", what_is_wrong(matcher.get_error())))
        eos = self._tokenizer.eos_token_ids
        grammar = StructuredOutputGrammar(matcher, eos)
        try:
            mask = grammar.mask()
        except StructuredOutputError as error:
            why = "it is too large" if "limit" in str(error) else "no text fits"
            raise ValueError(f"{why}: {error}") from None
        if all(token_id in eos for token_id in mask):
            raise ValueError("only the empty text fits")
        return grammar


def lark_of(params: StructuredOutputsParams) -> str:
    """Return a grammar in llguidance's Lark, whose first rule is `start`.

    Raises:
        ValueError: the parameters are malformed.
        MissingBackendError: llguidance is not installed.
    """
    if params.choice is not None:
        # As a terminal, all choices together are one automaton.
        return f"start: CHOICE\nCHOICE: {expression_of(params)}\n"
    if params.grammar is None:
        return f"start: {expression_of(params)}\n"
    text = _NO_OPTIONS.sub("", str(_library().grammar_from("grammar", params.grammar)))
    if "%llguidance" in text:
        raise ValueError("sets options by %llguidance; leave that line out")
    return text


def expression_of(params: StructuredOutputsParams) -> str:
    """Return a structured output as one Lark expression.

    Raises:
        ValueError: the kind is `grammar`, which is not an expression.
        MissingBackendError: llguidance is not installed.
    """
    if params.grammar is not None:
        raise ValueError(
            "a grammar beside tools leaves no room for tool calls; set tool_choice to none, or set "
            "it to required to get a call instead"
        )
    if params.regex is not None:
        return f"/{_library().regex_to_lark(params.regex, 'dw')}/"
    if params.choice is not None:
        return f"({' | '.join(json.dumps(text) for text in params.choice)})"
    schema = json.loads(params.json or '{"type": "object"}')
    return json_rule(schema, white_space=not params.disable_any_whitespace)


def _library() -> Any:
    try:
        import llguidance
    except ImportError:
        raise MissingBackendError(
            "structured outputs need the package llguidance; install it with "
            "`pip install -r requirements/serve.txt`"
        ) from None
    return llguidance


class _Words:
    """A vocabulary in the form that llguidance reads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces, eos = tokenizer.pieces, tokenizer.eos_token_ids
        if pieces is None or not pieces.concatenates:
            raise ValueError(
                "this tokenizer's decoder rewrites across ids, so no id can be ruled out"
            )
        if not eos:
            raise ValueError("this tokenizer defines no token that ends a text")
        self.tokens = [
            piece or (tokenizer.id_to_token(token_id) or "").encode("utf-8", "replace")
            for token_id, piece in enumerate(pieces.rest)
        ]
        silent = {token_id for token_id, piece in enumerate(pieces.rest) if not piece}
        self.special_token_ids = sorted(pieces.special | eos | silent)
        self.eos_token_id = min(eos)
        self.bos_token_id = None

    def __call__(self, text: str) -> list[int]:
        raise TypeError("no text is encoded, because no_forcing is set")
