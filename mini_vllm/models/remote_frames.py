"""Requests to an OpenAI-compatible server and its answers, with token ids instead of text.

Since 0.10.2 (pull request 22587), vLLM sends ids in a chunk's `token_ids` if `return_token_ids` is
set; so does SGLang (pull request 30917). Before that, vLLM wrote ids into the logprobs, as
`token_id:123`, if `return_tokens_as_token_ids` was set; top logprobs still have such keys.

Connections are opened in `remote.py`. This module converts a slot to a request body, bytes to
events, and an event to a burst.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from mini_vllm.engine.engine_errors import StreamingError
from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.engine.request import StructuredOutputsParams
from mini_vllm.text.whole_json import load_json

_ID_PREFIX = "token_id:"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DATA_FIELD = re.compile(rb"data(?:: ?(.*))?", re.DOTALL)


class Frame(NamedTuple):
    """The content of one event of the stream.

    Attributes:
        burst: the new ids, or None if the event has none.
        finish_reason: the server's reason for ending the stream, or None while it runs.
    """

    burst: Burst | None = None
    finish_reason: str | None = None


def request_body(slot: SlotView, model: str | None, *, ids_from_logprobs: bool) -> dict[str, Any]:
    """Return the JSON of a request to `/v1/completions` for one choice.

    Stop strings and stop ids are not sent: the engine finds them in the text that it decodes
    itself. `ignore_eos` and `min_tokens` are sent, because a server that ends at EOS sends no more.
    """
    params = slot.params
    body: dict[str, Any] = {
        "prompt": list(slot.prompt_token_ids),
        "stream": True,
        "max_tokens": params.max_tokens,
        "min_tokens": params.min_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "ignore_eos": params.ignore_eos,
        "skip_special_tokens": False,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    for name, neutral in _NEUTRAL.items():
        value = getattr(params, name)
        if value != neutral:
            body[name] = value
    if params.logit_bias:
        body["logit_bias"] = {str(token_id): bias for token_id, bias in params.logit_bias.items()}
    if model is not None:
        body["model"] = model
    if params.structured_outputs is not None:
        body["structured_outputs"] = _forwarded(params.structured_outputs)
    if params.seed is not None:
        # With one seed for all choices, all choices of a request would be equal.
        body["seed"] = params.seed + slot.choice_index
    if params.logprobs is not None:
        body["logprobs"] = params.logprobs
    elif ids_from_logprobs:
        body["logprobs"] = 0
    return body


def scoring_body(token_ids: Sequence[int], most: int, model: str | None) -> dict[str, Any]:
    """Return the JSON of a request for the logprobs of a prompt, by `echo`."""
    body: dict[str, Any] = {
        "prompt": list(token_ids),
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": most,
        "return_tokens_as_token_ids": True,
    }
    return body if model is None else {**body, "model": model}


def read_scores(data: str, token_ids: Sequence[int]) -> list[dict[int, float] | None]:
    """Return the logprobs by id for each id of a prompt; None if the server sent none for it.

    Raises:
        StreamingError: the data does not answer a `scoring_body`.
    """
    try:
        lists = load_json(data)["choices"][0]["logprobs"]
        rows = zip(token_ids, lists["token_logprobs"], lists["top_logprobs"], strict=False)
        scores = [
            None if logprob is None else _likely(token_id, logprob, top)
            for token_id, logprob, top in rows
        ]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise StreamingError(
            f"sent no logprobs of the prompt, {_shortened(data)} ({error!r})"
        ) from error
    if len(scores) != len(token_ids):
        raise StreamingError(f"sent {len(scores)} logprobs for a prompt of {len(token_ids)} tokens")
    return scores


def _likely(token_id: int, logprob: float, top: dict[str, float] | None) -> dict[int, float]:
    likely = {_id_of(token): float(value) for token, value in (top or {}).items()}
    return likely | {token_id: float(logprob)}


# Sent only with another value than this, because servers other than vLLM may not know the fields.
_NEUTRAL = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


def _forwarded(params: StructuredOutputsParams) -> dict[str, Any]:
    """Return vLLM's `structured_outputs`, whose fields have the same names."""
    return {name: value for name, value in asdict(params).items() if value}


class SseReader:
    r"""A reader of server-sent events: bytes in pieces of any size in, the data of events out.

    A line ends with LF, CR or CRLF, and an empty line ends an event. Only the unfinished event is
    held; if the stream ends there, the event is dropped. Event names, ids and retry times, which no
    OpenAI-compatible server needs, are ignored.

    Source: the HTML standard, section 9.2.6, "Interpreting an event stream".

    >>> reader = SseReader()
    >>> reader.feed(b"data: on"), reader.feed(b"e\r\n: ping\r\n\r"), reader.feed(b"\ndata:two\n\n")
    ([], ['one'], ['two'])
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._after_cr = False
        # The mark that may precede the text of the next line; only the first line has one.
        self._mark = _BYTE_ORDER_MARK

    def feed(self, data: bytes) -> list[str]:
        """Feed the next bytes; return the data of each event that is complete now."""
        # A CR has already ended its line, so no event is held until the next byte.
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        events = []
        *ends, rest = _LINE_END.split(data)
        for end in ends:
            self._line += end
            line = bytes(self._line).removeprefix(self._mark)
            self._line.clear()
            self._mark = b""
            if field := _DATA_FIELD.fullmatch(line):
                # Lines are cut at ASCII bytes, never inside a character.
                self._data.append(str(field[1] or b"", "utf-8", "replace"))
            elif not line and self._data:
                events.append("\n".join(self._data))
                self._data = []
        self._line += rest
        return events


def read_frame(data: str, *, with_logprobs: bool) -> Frame:
    """Return the frame of one event.

    Args:
        data: of the event.
        with_logprobs: whether the burst must have logprobs; otherwise they are left out.

    Raises:
        StreamingError: the event reports an error, or is not a completion chunk with ids.
    """
    if data == "[DONE]":
        # Some servers never send a finish_reason (waybarrios/vllm-mlx issue 628).
        return Frame(finish_reason="stop")
    try:
        frame = load_json(data)
        if frame.get("error"):
            raise StreamingError(f"reported an error: {error_message(data)}")
        choices = frame["choices"]
        if not choices:
            return Frame()
        return Frame(_burst(choices[0], with_logprobs), choices[0].get("finish_reason"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StreamingError(
            f"sent an event that is not a completion chunk, {_shortened(data)} ({error!r})"
        ) from error


def error_message(body: str) -> str:
    """Return the message in the body of an error, or the body if its form is unknown."""
    try:
        answer = load_json(body)
        answer = answer.get("error") or answer
        return str(answer.get("message") or answer["detail"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return _shortened(body)


def _burst(choice: dict[str, Any], with_logprobs: bool) -> Burst | None:
    logprobs = choice.get("logprobs") or {}
    ids = choice.get("token_ids")
    if ids is None:
        # vLLM's Rust server begins and ends a stream with chunks that have neither ids nor text.
        written = logprobs.get("tokens") or []
        if choice.get("text") and not written:
            raise StreamingError(
                "sent text without token ids. vLLM sends them from 0.10.2 on, and an older vLLM "
                "with RemoteModel(ids_from_logprobs=True); other servers may have no such option"
            )
        ids = [_id_of(token) for token in written]
    if not all(type(token_id) is int for token_id in ids):
        raise TypeError(f"token_ids are {ids}")
    if not ids:
        return None
    if not with_logprobs:
        return Burst(tuple(ids))
    chosen, top = logprobs.get("token_logprobs") or [], logprobs.get("top_logprobs") or []
    if not len(ids) == len(chosen) == len(top):
        raise StreamingError(
            f"sent {len(ids)} ids with {len(chosen)} logprobs and {len(top)} lists of the likeliest"
        )
    return Burst(
        tuple(ids),
        tuple(
            _likely(token_id, logprob, likeliest)
            for token_id, logprob, likeliest in zip(ids, chosen, top, strict=True)
        ),
    )


def _id_of(token: str) -> int:
    if not token.startswith(_ID_PREFIX):
        raise StreamingError(
            f"wrote a token of its logprobs as text, {token!r}, although {_ID_PREFIX}123 was asked "
            f"for; it does not know return_tokens_as_token_ids"
        )
    return int(token.removeprefix(_ID_PREFIX))


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 300 else f"{text[:300]}...")
