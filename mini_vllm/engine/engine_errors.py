"""Errors between a submission and its last chunk, with the objects that they concern."""


class StreamingError(Exception):
    """Base of all errors of the engine."""


class StreamingSubmissionError(StreamingError):
    """A submission was refused as a whole. `index` is the request or channel at fault."""

    def __init__(self, index: int, detail: str) -> None:
        super().__init__(f"submission refused at index {index}: {detail}")
        self.index = index
        self.detail = detail


class EngineOverloadedError(StreamingSubmissionError):
    """The waiting line is full. Try again later."""


_MOST_DIGITS = 40


class ContextLengthError(StreamingError):
    """A prompt and its answer do not fit the model's context together.

    Args:
        max_model_len: the tokens that fit.
        prompt_tokens: the tokens of the prompt.
        max_tokens: the most tokens of the answer.

    Attributes:
        prompt_is_too_long: whether the prompt leaves no room for any answer.
    """

    def __init__(self, max_model_len: int, prompt_tokens: int, max_tokens: int) -> None:
        self._numbers = max_model_len, prompt_tokens, max_tokens
        self.prompt_is_too_long = prompt_tokens >= max_model_len
        super().__init__(self.message("prompt"))

    def message(self, field: str) -> str:
        """Return the refusal in OpenAI's words, because clients match on them.

        Args:
            field: the caller's name for the prompt, such as `messages`.
        """
        max_model_len, prompt_tokens, max_tokens = self._numbers
        requested, most = (_shortened(n) for n in (prompt_tokens + max_tokens, max_tokens))
        return (
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {requested} tokens ({prompt_tokens} in the {field}, "
            f"{most} in the completion). Please reduce the length of the {field} or "
            "completion."
        )


def _shortened(number: int) -> str:
    digits = str(number)
    return digits if len(digits) <= _MOST_DIGITS else f"{digits[:_MOST_DIGITS]}…"


class ChannelStateError(StreamingError):
    """A channel was used in a way that its state does not allow."""


class SlowConsumerError(StreamingError):
    """A channel with the policy CANCEL overflowed."""


class StreamError(StreamingError):
    """A stream ended with an error. `reason` is its finish reason, `__cause__` the error."""

    def __init__(self, reason: object, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class StructuredOutputError(StreamingError):
    """A model returned an id that the request's grammar does not allow."""


class ModelContractError(StreamingError):
    """A model broke the contract of `Model`."""


class RemoteModelError(StreamingError):
    """A remote model failed for one slot; the message has the URL and the reason."""


class EngineStateError(StreamingError):
    """The engine is in a state that does not allow the call."""


class EngineDeadError(EngineStateError):
    """The engine has failed and takes no more requests. `__cause__` is the reason."""
