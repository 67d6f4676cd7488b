"""A model that plays a file: `--script FILE` of the server, for demonstrations and trials.

The file is TOML, a table `[[turn]]` for each answer:

    pace = 0.03                 # seconds between steps of turns without their own; default 0

    [[turn]]
    when = "weather"            # play it if the prompt contains this text; default: in turn
    text = "It is 20 °C. ☀️"    # or token_ids = [73, 116]; it ends with EOS
    tokens_per_step = 2         # default 1
    pace = 0.1
    error_after = 4             # a fault after that many ids; at most one of
                                # error_after   the request fails
                                # silent_after  no more ids, until the client disconnects
                                # crash_after   the engine fails, and with it the server
                                # garbage_after an id outside the vocabulary is returned

A request gets the first turn whose `when` is in its prompt. If no `when` is in the prompt, it gets
the next turn without `when`, or the next of all turns if each has a `when`. After the last of these
turns the first follows again.
"""

import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from mini_vllm.engine.model import News, SlotView
from mini_vllm.models.scripted import burst_with_logprobs
from mini_vllm.models.spelled import Speller, end_of
from mini_vllm.tokenizer.protocols import Tokenizer

FAULTS = ("error_after", "silent_after", "crash_after", "garbage_after")
# The longest wait of a model without new ids, in seconds: cancellations are seen between calls.
_LONGEST_WAIT = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of the file. `fault` is one of `FAULTS`, or ""; it happens at id `at`."""

    token_ids: tuple[int, ...]
    when: str = ""
    tokens_per_step: int = 1
    pace: float = 0.0
    fault: str = ""
    at: int = 0


class ScriptError(ValueError):
    """A script that cannot be played; the message names the file, the turn and the value."""


class ScriptFault(Exception):
    """A failure that the script demands."""


def read_script(path: str | Path, tokenizer: Tokenizer) -> list[Turn]:
    """Return the turns of a file, their text as ids of a tokenizer, each with its EOS.

    Raises:
        ScriptError: the file cannot be read or is invalid, or the tokenizer cannot spell every
            text.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        speller, end = Speller(tokenizer), end_of(tokenizer)
    except OSError as error:
        raise ScriptError(f"--script {path}: {error.strerror}") from None
    except ValueError as error:
        raise ScriptError(f"--script {path}: {error}") from None
    rows, pace = content.pop("turn", None), content.pop("pace", 0.0)
    if content:
        raise ScriptError(f"--script {path}: {min(content)} is not known; use pace and [[turn]]")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ScriptError(f'--script {path}: no turn; write [[turn]] and, below it, text = "Hello"')
    turns = []
    for number, row in enumerate(rows, start=1):
        try:
            turns.append(_turn({"pace": pace, **row}, speller, end, tokenizer.vocab_size))
        except ValueError as error:
            raise ScriptError(f"--script {path}: turn {number}: {error}") from None
    return turns


def _turn(row: dict[str, Any], speller: Speller, end: int, vocab_size: int) -> Turn:
    known = {field.name for field in fields(Turn)} - {"fault", "at"} | {"text", *FAULTS}
    unknown = sorted(set(row) - known)
    if unknown:
        raise ValueError(f"{unknown[0]} is not known; use {', '.join(sorted(known))}")
    if not isinstance(row["pace"], int | float) or not row["pace"] >= 0:
        raise ValueError(f"pace is {row['pace']!r}; it must be a number of seconds, at least 0")
    for name, least in (("tokens_per_step", 1), *((name, 0) for name in FAULTS)):
        value = row.get(name, least)
        if type(value) is not int or value < least:
            raise ValueError(f"{name} is {value!r}; it must be a whole number, at least {least}")
    if not isinstance(row.get("when", ""), str):
        raise ValueError(f'when is {row["when"]!r}; it must be a text like "weather"')
    faults = [(name, row.pop(name)) for name in FAULTS if name in row]
    if len(faults) > 1:
        raise ValueError(f"{faults[0][0]} and {faults[1][0]}; a turn has one fault at most")
    text, token_ids = row.pop("text", None), row.pop("token_ids", None)
    ids = (*_ids(text, token_ids, speller, vocab_size), end)
    fault, at = faults[0] if faults else ("", 0)
    if at > len(ids):
        raise ValueError(f"{fault} is {at}; the turn has {len(ids)} ids, its EOS included")
    return Turn(**row, token_ids=ids, fault=fault, at=at)


def _ids(text: Any, token_ids: Any, speller: Speller, vocab_size: int) -> Iterable[int]:
    if (text is None) == (token_ids is None):
        raise ValueError("a turn has either text or token_ids")
    if text is not None:
        if not isinstance(text, str):
            raise ValueError(f"text is {text!r}; it must be a text in quotes")
        return speller.ids(text)
    if not isinstance(token_ids, list) or not all(type(token_id) is int for token_id in token_ids):
        raise ValueError(f"token_ids is {token_ids!r}; it must be a list of ids like [72, 105]")
    for place, token_id in enumerate(token_ids):
        if not 0 <= token_id < vocab_size:
            raise ValueError(
                f"token_ids[{place}] is {token_id}; the ids of this vocabulary are 0 to "
                f"{vocab_size - 1}. For an id outside it, write garbage_after = {place}"
            )
    return token_ids


@dataclass(slots=True)
class _Playing:
    """A slot's place in its turn; the next step is due at `due`."""

    turn: Turn
    due: float
    at: int = 0


class ScriptFileModel:
    """Plays turns.

    Args:
        turns: at least one.
        tokenizer: reads the prompts, for `when`.
        clock: returns the seconds of a monotonic clock.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        tokenizer: Tokenizer,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._turns = turns
        self._in_turn = cycle([turn for turn in turns if not turn.when] or turns)
        self._tokenizer = tokenizer
        self._clock = clock
        self._sleep = sleep
        self._playing: dict[tuple[str, int], _Playing] = {}

    def prefill(self, slots: Sequence[SlotView]) -> list[News]:
        """Choose the turns of new slots; return their first ids."""
        for slot in slots:
            turn = self._turn_for(slot)
            self._playing[slot.key] = _Playing(turn, self._clock() + turn.pace)
        return self.decode(slots)

    def decode(self, slots: Sequence[SlotView]) -> list[News]:
        """Return the ids that are due; wait a little if none are.

        Raises:
            ScriptFault: the script demands a crash.
        """
        now = self._clock()
        news = [self._news(slot, self._playing[slot.key], now) for slot in slots]
        if slots and not any(news):
            soonest = min(self._playing[slot.key].due for slot in slots)
            self._sleep(min(max(soonest - now, 0), _LONGEST_WAIT))
        return news

    def release(self, slot: SlotView) -> None:
        """Drop all state of a slot."""
        self._playing.pop(slot.key, None)

    def _turn_for(self, slot: SlotView) -> Turn:
        prompt = self._tokenizer.decode(slot.prompt_token_ids)
        fitting = (turn for turn in self._turns if turn.when and turn.when in prompt)
        return next(fitting, None) or next(self._in_turn)

    def _news(self, slot: SlotView, playing: _Playing, now: float) -> News:
        turn = playing.turn
        if now < playing.due:
            return None
        if turn.fault and playing.at == turn.at:
            return self._fault(slot, playing)
        end = playing.at + turn.tokens_per_step
        if turn.fault and playing.at < turn.at:
            end = min(end, turn.at)
        ids = turn.token_ids[playing.at : end]
        playing.at, playing.due = end, now + turn.pace
        # A request may ignore EOS; it then gets EOS again.
        return burst_with_logprobs(slot, ids or turn.token_ids[-1:], self._tokenizer.vocab_size)

    def _fault(self, slot: SlotView, playing: _Playing) -> News:
        fault = playing.turn.fault
        if fault == "silent_after":
            playing.due = float("inf")
            return None
        if fault == "garbage_after":
            playing.turn = replace(playing.turn, fault="")
            unknown = self._tokenizer.vocab_size
            return burst_with_logprobs(slot, (unknown,), unknown)
        error = ScriptFault(f"the script has {fault} = {playing.turn.at}")
        if fault == "crash_after":
            raise error
        return error
