"""A caller of the tokenizer: it makes all calls on one tokenizer, and uses its lists further."""

from collections.abc import Sequence
from typing import Any

PAD = 258


class Caller:
    """A caller with one tokenizer, such as a server.

    Args:
        tokenizer: the tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lists: list[Any] = []
        self._own: list[int] = []

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Any:
        """Encode a text, return a copy of the ids, and append a PAD to the tokenizer's list."""
        ids = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        if type(ids) is not list:
            return ids
        copy = ids[:]
        ids.append(PAD)
        self._lists.append(ids)
        return copy

    @property
    def lists(self) -> list[Any]:
        """The lists that the tokenizer has returned, as they are now."""
        return [ids[:] for ids in self._lists]

    def rewrite(self, start: int, ids: Sequence[int]) -> Any:
        """Replace the end of the caller's own list, from `start` on; return the list's text."""
        self._own[start:] = ids
        return self._tokenizer.decode(self._own)

    def call_silently(
        self, texts: Sequence[str], lists: Sequence[Sequence[int]], *, special: bool = False
    ) -> None:
        """Encode texts, decode lists, and drop all output; if `special`, add and show special ids.

        By default, the methods' own defaults apply.
        """
        bos, shown = {"add_special_tokens": True}, {"skip_special_tokens": False}
        for text in texts:
            self._tokenizer.encode(text, **(bos if special else {}))
        for ids in lists:
            self._tokenizer.decode(ids, **(shown if special else {}))

    def attempt(self, method: str, argument: Any, **options: Any) -> list[Any]:
        """Call a method; return its value, or "ValueError" if it raises that error, and the
        argument as it is afterwards.
        """
        try:
            value = getattr(self._tokenizer, method)(argument, **options)
        except ValueError:
            value = "ValueError"
        return [value, argument]

    def messages(self, method: str, arguments: Sequence[Any], **options: Any) -> list[str | None]:
        """Call a method with each argument; return the message of each ValueError, None for any
        other outcome.
        """
        return [self._message(method, argument, options) for argument in arguments]

    def _message(self, method: str, argument: Any, options: dict[str, Any]) -> str | None:
        try:
            getattr(self._tokenizer, method)(argument, **options)
        except ValueError as error:
            return str(error)
        except Exception:
            return None
        return None
