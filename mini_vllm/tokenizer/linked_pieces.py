"""Tables of decoders in which the text of a token depends on the token before it.

But: on that one token and no more, so that a stream still needs no `decode`.
"""

from collections.abc import Sequence

from mini_vllm.tokenizer.pieces import Piece, State, StreamTable


class RepeatTable(StreamTable):
    """CTC: a token equal to the one before it is no text. The state is the id before."""

    def __init__(self, rest: list[Piece], first: list[Piece]) -> None:
        super().__init__(rest, first)
        self.idle = self.start = None

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the last id of the prompt that is not left out."""
        known = (i for i in reversed(prompt) if 0 <= i < len(self._rest))
        return next((i for i in known if self._rest[i] is not None), None)

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the id's text, or none if it repeats, and the id."""
        piece = self._rest[token_id]
        if piece is None:
            return "", state
        return "" if state == token_id else piece.decode(), token_id


class OwedSpaceTable(StreamTable):
    """BPE with an end-of-word suffix: a space if another token follows, and nothing if none does.

    The state is what the last token owes from its first suffix on.
    """

    def __init__(self, rest: list[Piece], first: list[Piece], *, suffix: str) -> None:
        super().__init__(rest, first)
        self._suffix = suffix
        self.idle = self.start = ""

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return what the last token of the prompt owes."""
        known = (i for i in reversed(prompt) if 0 <= i < len(self._rest))
        last = next((piece for i in known if (piece := self._rest[i]) is not None), b"")
        return self._split(last.decode())[1]

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Pay what is owed, and return the id's text up to its first suffix."""
        piece = self._rest[token_id]
        if piece is None:
            return "", state
        text, owed = self._split(piece.decode())
        return str(state).replace(self._suffix, " ") + text, owed

    def held(self, state: State) -> bytes:
        """Return what the state owes if nothing follows."""
        return str(state).replace(self._suffix, "").encode()

    def _split(self, token: str) -> tuple[str, str]:
        cut = token.find(self._suffix)
        return (token, "") if cut < 0 else (token[:cut], token[cut:])
