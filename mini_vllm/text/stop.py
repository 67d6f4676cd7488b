"""Stop strings: a match ends the text, and no part of a hidden stop is ever shown.

This layer works on decoded text; stop token ids are handled where the ids are.
"""

from collections.abc import Iterable
from functools import lru_cache

from mini_vllm.text.markers import MarkerScanner
from mini_vllm.text.memory import LONGEST_PIECE, MEMORY, NOWHERE, Machine

# The identity of an automaton, and its state.
Position = tuple[object, int]


class StopMatcher(Machine):
    """Pass text through until a stop string completes.

    The stop that ends first wins. If several stops end at the same character, the longest wins.
    Only the longest suffix of the text that begins a hidden stop is held.

    Args:
        stops: hidden stops, which are cut off; any iterable of non-empty strings.
        visible: stops that are shown, unless they are also in `stops`.
        include_stop_str_in_output: show all stops. Then nothing is ever held.
        min_end: a match counts only if it ends after this many characters of the whole text. A
            server with a minimum number of tokens sets `min_end` to infinity, and to `length` once
            it has fed these tokens.

    Attributes:
        matched: the stop that ended the text, or None.
        length: the number of characters fed so far, counted while a match may be too early.

    Raises:
        ValueError: `stops` or `visible` is a bare str, or one of the stops is empty.
    """

    _shared = Machine._shared | {"_scanner", "_early", "_guard"}

    def __init__(
        self,
        stops: Iterable[str] = (),
        *,
        visible: Iterable[str] = (),
        include_stop_str_in_output: bool = False,
        min_end: float = 0,
    ) -> None:
        hidden, shown = _checked(stops, "stops"), _checked(visible, "visible")
        if include_stop_str_in_output:
            hidden, shown = (), hidden + shown
        self._scanner = _scanner(hidden, shown)
        self.matched: str | None = None
        self.min_end = min_end
        # While early matches are ignored, a stop that contains another stop may win after all.
        self._early = _scanner(hidden, shown, keep_hopeless=True) if min_end > 0 else None
        self._restart()

    def _restart(self) -> None:
        self.length = 0
        self._guard = self._early
        self._state = 0
        self._node = MEMORY.node(self.position)

    @property
    def held(self) -> str:
        """The text that is held back, a proper prefix of a stop."""
        if self._state == 0 and self._node is NOWHERE:
            # The usual case: the pipeline reads `held` after many steps.
            return ""
        self._settle()
        return (self._guard or self._scanner).held(self._state)

    @property
    def position(self) -> Position | None:
        """The value that decides the output for the next piece, or None.

        It is None after a match, while matches are too early, and while the held text is long,
        since a client may send a stop of any length.
        """
        if self._guard is not None or self.matched is not None:
            return None
        if len(self._scanner.held(self._state)) > LONGEST_PIECE:
            return None
        return self._scanner.identity, self._state

    @position.setter
    def position(self, position: Position) -> None:
        self._state = position[1]

    def feed(self, text: str) -> str:
        """Feed the next piece; return the text that may be shown, always `""` after a match."""
        known = self._node.get(text)
        if known is None:
            return self._feed_new(text)
        shown: str
        shown, self._node = known
        return shown

    def _feed_new(self, text: str) -> str:
        """Feed a piece that is new in this position."""
        before, shown = self.leave(), self.step(text)
        self._node = MEMORY.learn(before, text, shown, self.position)
        return shown

    def step(self, text: str) -> str:
        """Do the work of `feed` without looking the step up; the matcher has left its node."""
        if self.matched is not None:
            return ""
        if self._guard is not None:
            return self._step_guarded(text)
        shown, self._state, self.matched, _ = self._scanner.scan(self._state, text)
        return shown

    def _step_guarded(self, text: str) -> str:
        assert self._guard is not None
        ignored = min(max(self.min_end - self.length, 0), len(text))
        self.length += len(text)
        scan = self._guard.scan(self._state, text, int(ignored))
        shown, self._state, self.matched, _ = scan
        matching = self._guard.matching(self._state)
        if self.matched is None and self.length - len(matching) >= self.min_end:
            # Every match counts from here on, so the smaller automaton takes over: it holds the
            # least text.
            held = self.held
            self._guard, self._state = None, self._scanner.scan(0, matching)[1]
            shown += held[: len(held) - len(self.held)]
        return shown

    def flush(self) -> str:
        """End the text: return the held text, once. Without a match, the matcher is then fresh."""
        held = self.held
        if self.matched is None:
            self._restart()
        return held


def _checked(stops: Iterable[str], name: str) -> tuple[str, ...]:
    if isinstance(stops, str):
        raise ValueError(f'{name} is the str {stops!r}; for one stop write ["END"], a list')
    stops = tuple(stops)
    if "" in stops:
        raise ValueError(f"{name}[{stops.index('')}] is empty: it would match everywhere")
    return stops


@lru_cache(maxsize=64)
def _scanner(
    hidden: tuple[str, ...], visible: tuple[str, ...], *, keep_hopeless: bool = False
) -> MarkerScanner:
    """Return the automaton of a set of stops; requests with equal stops share it."""
    return MarkerScanner(hidden, visible, keep_hopeless=keep_hopeless)
