"""Cheats whose answers are to cost or to confuse whoever reads them, and shows them to people."""

_FORGE = """
import json, os, sys
worker = sys.modules["labkit.isolation.worker"]
packed, first = worker.pack, [True]
def pack(value, kind=0):
    imported = value[2:] == [None]
    return forged(value) if not imported and first and first.pop() else packed(value, kind)
LONG, EMPTY = (json.dumps([text] * 4) for text in ("x" * 900_000, ""))
UNREADABLE = '{"unreadable":%s}'
worker.pack = pack
"""
_FRAME = """
def frame(text, kind=0):
    return worker.HEAD.pack(len(text), kind) + text.encode()
"""
_ANSWER = """
def answer(value, result='""', held='""', raised="null"):
    return frame(f"[{value[0]},null,[{result}],[{held}],{raised}]")
"""
_EVENTS = """
import sys
events = sys.modules["mini_vllm.text.events"]
"""


def once(value, setup=""):
    """Return a cheat whose first answer is a value, and that is lazy then."""
    return (
        setup
        + f"""
FIRST = [{value}]
def feed(self, text):
    return FIRST.pop() if FIRST else text
"""
    )


def forge(data):
    """Return a cheat that says some bytes in place of its first answer, and is lazy then."""
    helpers = _ANSWER * ("answer(" in data)
    helpers += _FRAME * ("frame(" in helpers + data)
    return f"{_FORGE}{helpers}def forged(value):\n    data = {data}\n    return data\n"


# The first answer is read, and found to be wrong.
READ = {
    # Many values, each of which takes far more memory than it is long.
    "empty_texts": once('[""] * 300_000'),
    "empty_lists": once("[[]] * 100_000"),
    "many_numbers": once("[300] * 300_000"),
    "many_events": once('[events.TextDelta("")] * 20_000', _EVENTS),
    # As long a text as is read, to be compared, cut, wrapped and escaped.
    "four_megabytes": once('"ab" * 2_000_000'),
    "million_lines": once(r'"\n" * 1_000_000'),
    "no_spaces": once('"界" * 300_000'),
    "one_character": once(r'"a" + "\u0301" * 300_000'),
    # What moves a terminal's cursor, turns texts around, or is no text.
    "escapes": once(r'"\ud800\udfff\0\u202e\x1b[2J\u200b\ufeff\r" * 9_000'),
    # Numbers that take quadratic time where they are written, as fields of events too.
    "huge_digits": once("1 << 4_000_000"),
    "digits_in_events": once('[events.ToolCall(10**3_000, "x", "")] * 500', _EVENTS),
    # Keys that all fall into one place.
    "colliding_keys": once('{number * (2**61 - 1): "" for number in range(256)}'),
    # An error, and a value that cannot be read, whose every text is long or empty.
    "forged_error": forge('answer(value, "", "", LONG)'),
    "forged_empty_error": forge('answer(value, "", "", EMPTY)'),
    "forged_unreadable": forge("answer(value, UNREADABLE % LONG)"),
    "forged_empty_unreadable": forge("answer(value, UNREADABLE % EMPTY)"),
    # Numbers in other spellings than their own.
    "minus_zero": forge('answer(value, "-0")'),
    "hex_million": forge("""answer(value, '{"int":"-0x%s"}' % ("f" * 1_000_000))"""),
    "number_twice": forge("""answer(value, '{"int":"0x1","int":"-0x0"}')"""),
}
# Each worker ends at its first answer.
BROKEN = {
    # Errors without names and words, and with endless ones.
    "nameless_error": """
class Nothing(Exception):
    __str__ = lambda self: ""
Nothing.__name__ = ""
def feed(self, text):
    raise Nothing
""",
    "endless_error": r"""
class Endless(ValueError):
    __str__ = lambda self: "\x1b]0;\u202e\n" * 100_000
Endless.__name__ = Endless.__qualname__ = "E" * 100_000
def feed(self, text):
    raise Endless
""",
    # An error that cannot be told, and one that asks a grader to end.
    "error_in_error": """
import sys
class Untold(ValueError):
    __str__ = __repr__ = lambda self: sys.exit("x" * 1_000_000)
def feed(self, text):
    raise Untold
""",
    "interrupts": """
def feed(self, text):
    raise KeyboardInterrupt
""",
    # Nests as deep as Python reads, and deeper.
    "brackets": forge('frame("[" * 900_000)'),
    # A text without an end, numbers that are none, and what is not ASCII.
    "endless_text": forge(r"""frame('"' + r'\"' * 2_000_000)"""),
    "no_number": forge('answer(value, "NaN,1e999")'),
    "decimal_million": forge('answer(value, "9" * 1_000_000)'),
    "not_ascii": forge(r'frame("[1]")[:-1] + b"\xc3"'),
    # Frames of another kind, without content, with more than there is, and more than were asked.
    "asks_parts": forge('frame("[]", 1)'),
    "empty_frames": forge('frame("") * 10_000'),
    "endless_frame": forge(r'b"\xff" * 9'),
    "answers_ahead": forge("packed(value) + packed([value[0] + 1, *value[1:]])"),
    # Says where a frame ends, and ends before.
    "half_a_frame": _FORGE
    + """
def forged(value):
    os.write(max(end for end in range(3, 9) if is_open(end)), packed(value)[:9])
    os._exit(0)
def is_open(end):
    try:
        return os.fstat(end)
    except OSError:
        return None
""",
}
# A grader waits for these until a limit.
SLOW = {
    # Says where a frame ends, and no more.
    "head_alone": """
import os, time
def feed(self, text):
    for end in range(3, 9):
        try:
            os.write(end, bytes(2) + b"xx")
        except OSError:
            pass
    time.sleep(1000)
""",
    # A byte a second.
    "drips": _FORGE
    + """
import time
def forged(value):
    for byte in packed(value):
        for end in range(3, 9):
            try:
                os.write(end, bytes([byte]))
            except OSError:
                pass
        time.sleep(1)
""",
    # Stops, so that it neither computes nor sleeps.
    "stops_itself": """
import os, signal
def feed(self, text):
    os.kill(os.getpid(), signal.SIGSTOP)
""",
    # Computes where no signal and no other thread of Python gets a word in.
    "backtracks": """
import re
def feed(self, text):
    re.match("(a*)*b", "a" * 60)
""",
}
