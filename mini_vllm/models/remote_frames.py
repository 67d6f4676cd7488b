"""What goes to an OpenAI-compatible server and comes back, where ids are wanted and not text.

vLLM gives ids since 0.10.2 (pull request 22587) when `return_token_ids` is set, in a chunk's
`token_ids`; so does SGLang (pull request 30917). Before that, vLLM wrote them into the logprobs, as
`token_id:123`, when `return_tokens_as_token_ids` was set; top logprobs are keyed like this still.

But: it knows nothing of connections. A slot goes in and a request body comes out; an event goes in
and a burst comes out.
"""

import json
from typing import Any, NamedTuple

from mini_vllm.engine.engine_errors import StreamingError
from mini_vllm.engine.model import Burst, SlotView

_ID_PREFIX = "token_id:"


class Frame(NamedTuple):
    """What one event of the stream says.

    Attributes:
        burst: the new ids, or None where it has none.
        finish_reason: the server's word for why the stream ends, or None while it runs.
    """

    burst: Burst | None = None
    finish_reason: str | None = None


def request_body(slot: SlotView, model: str | None, *, ids_from_logprobs: bool) -> dict[str, Any]:
    """Return the JSON of a request to `/v1/completions` for one choice.

    Stop strings and stop ids stay here: the engine finds them itself, in the text that it decodes
    itself. `ignore_eos` and `min_tokens` go along, for nothing comes after the EOS of a server that
    does not know them.
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
    if model is not None:
        body["model"] = model
    if params.seed is not None:
        # With one seed for all, all choices of a request would be the same.
        body["seed"] = params.seed + slot.choice_index
    if params.logprobs is not None:
        body["logprobs"] = params.logprobs
    elif ids_from_logprobs:
        body["logprobs"] = 0
    return body


def read_frame(data: str, *, with_logprobs: bool) -> Frame:
    """Return what the data of one event says.

    Args:
        data: of one event.
        with_logprobs: whether the burst must have logprobs; otherwise it has none.

    Raises:
        StreamingError: the event reports an error, or is not what a server that gives ids sends.
    """
    if data == "[DONE]":
        # Some servers never name a reason (waybarrios/vllm-mlx issue 628).
        return Frame(finish_reason="stop")
    try:
        frame = json.loads(data)
        if frame.get("error"):
            raise StreamingError(f"reported an error: {error_message(data)}")
        choices = frame["choices"]
        if not choices:
            return Frame()
        return Frame(_burst(choices[0], with_logprobs), choices[0].get("finish_reason"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StreamingError(
            f"sent an event that is no completion chunk, {_shortened(data)} ({error!r})"
        ) from error


def error_message(body: str) -> str:
    """Return the message in the body of an error, or the body if it has none of the usual form."""
    try:
        answer = json.loads(body)
        answer = answer.get("error") or answer
        return str(answer.get("message") or answer["detail"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return _shortened(body)


def _burst(choice: dict[str, Any], with_logprobs: bool) -> Burst | None:
    logprobs = choice.get("logprobs") or {}
    ids = choice.get("token_ids")
    if ids is None:
        # vLLM's Rust server opens and closes a stream with chunks that have neither ids nor text.
        written = logprobs.get("tokens") or []
        if choice.get("text") and not written:
            raise StreamingError(
                "sent text without token ids. vLLM gives them from 0.10.2 on, an older one with "
                "RemoteModel(ids_from_logprobs=True); other servers may have no such option"
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
            {_id_of(token): float(value) for token, value in (likeliest or {}).items()}
            | {token_id: float(logprob)}
            for token_id, logprob, likeliest in zip(ids, chosen, top, strict=True)
        ),
    )


def _id_of(token: str) -> int:
    if not token.startswith(_ID_PREFIX):
        raise StreamingError(
            f"wrote a token of its logprobs as text, {token!r}, where {_ID_PREFIX}123 was asked "
            f"for; it does not know return_tokens_as_token_ids"
        )
    return int(token.removeprefix(_ID_PREFIX))


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 300 else f"{text[:300]}...")
