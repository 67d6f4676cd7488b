"""The common mistakes of this lab, each with a probe that answers to it alone."""

import json

from labkit.testing import mistake
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

BAD = "\ufffd"
ROLE = {"role": "assistant", "content": ""}
START, END = ("start",), ("finish", "stop")
A, B = TextDelta("a"), TextDelta("b")
SHOWN_A, SHOWN_B = {"content": "a"}, {"content": "b"}
CALL, REST = CallStart(0, "c1", "f"), ArgsDelta(0, "{}")
OPENED = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": ""},
}
FILLED = {"index": 0, "function": {"arguments": "{}"}}
STOP = {"finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
WRONG = {"error": {"message": "no memory", "type": "server_error"}}


def raw(lab, *calls, **options):
    """Return what some calls on a new stream return; an event means a `feed`."""
    calls = [call if isinstance(call, tuple) else ("feed", call) for call in calls]
    return lab.script(lab.new("ChatStream", "x", 1, "m", **options), calls, watch="").outputs


def payloads(output):
    """Return the contents of the frames of one output; anything else is an error."""
    parts = output.decode().split("\n\n")
    if parts.pop() or not all(part.startswith("data:") for part in parts):
        raise ValueError
    return [part[6:] if part[6:] == "[DONE]" else json.loads(part[5:]) for part in parts]


def whole(lab, *calls, **options):
    """Return the payloads of all calls."""
    outputs = raw(lab, *calls, **options)
    return [payload for output in outputs for payload in payloads(output)]


def news(lab, *calls, **options):
    """Return the deltas of all calls, with the reason in the one that has it."""
    return [delta_of(payload) for payload in whole(lab, *calls, **options)]


def delta_of(payload):
    """Return the new part of a payload."""
    if payload == "[DONE]" or not payload.get("choices"):
        return payload
    choice = payload["choices"][0]
    reason = choice.get("finish_reason")
    return {**choice["delta"], **({"finish_reason": reason} if reason else {})}


def calls_of(lab, *events):
    """Return the entries of `tool_calls` for some events."""
    deltas = news(lab, START, *events)[1:]
    return [entry for delta in deltas for entry in delta["tool_calls"]]


def sends_text(lab):
    """Return whether plain text is right."""
    return news(lab, START, A, B) == [ROLE, SHOWN_A, SHOWN_B]


def without_nulls(value):
    """Return a dictionary without the keys whose value is null, at every depth."""
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(item) for key, item in value.items() if item is not None}


def error(lab, *calls):
    """Return the kind of the exception that calls raise, or ""."""
    try:
        raw(lab, *calls)
    except AssertionError as failure:
        raised = getattr(failure, "raised", None)
        return "" if raised is None else raised.kind
    return ""


def read(lab, *pieces):
    """Return what each piece returns, read by a new reader."""
    return lab.stream(lab.new("SseReader"), pieces, end="", watch="").outputs


def reads(lab, *pieces):
    """Return the events of all the pieces."""
    return [data for events in read(lab, *pieces) for data in events]


@mistake(task=1)
def holds_until_finish(lab):
    """`feed` returns nothing, and `finish` returns everything.

    The client reads while the answer is written: each `feed` returns the frame of its own event.
    """
    *before, last = raw(lab, START, A, END)
    return before[1] == b"" and SHOWN_A in map(delta_of, payloads(last))


@mistake(task=1)
def always_empty(lab):
    """Every call returns `b""`.

    Begin with `start`: a dictionary, as JSON, between `data: ` and an empty line.
    """
    return raw(lab, START, A) == [b"", b""]


@mistake(task=1)
def always_none(lab):
    """Every call returns None.

    Is there a `return`? Printed text reaches people; only returned values reach the program.
    """
    return raw(lab, START, A) == [None, None]


@mistake(task=1)
def returns_text(lab):
    """`start` returns a `str`, but the network takes bytes.

    Encode the whole frame as UTF-8, in one helper that makes all frames.
    """
    return isinstance(raw(lab, START)[0], str)


@mistake(task=1)
def returns_a_list(lab):
    """`start` returns a list of frames.

    Join them: in the stream of bytes, only the empty lines separate frames.
    """
    return isinstance(raw(lab, START)[0], list)


@mistake(task=1)
def text_without_frame(lab):
    """`feed` returns the text itself, without a frame around it.

    A frame is `data: `, a dictionary as JSON, and an empty line.
    """
    return raw(lab, START, A)[1] == b"a"


@mistake(task=1)
def done_at_once(lab):
    """`[DONE]` is sent before the answer has ended.

    It is the last frame of all. Before it, each frame is a chunk: JSON with `choices`.
    """
    return "[DONE]" in whole(lab, START, A)


@mistake(task=1)
def frames_without_choices(lab):
    """A frame has no `choices`, so clients find no delta in it.

    Each frame is a chunk: its `choices` is a list with one choice, which has the delta.
    """
    return "choices" not in whole(lab, START)[0]


@mistake(task=1)
def one_newline(lab):
    """A frame ends with one line ending, and no empty line follows.

    Readers wait for the empty line: two `\\n`, one to end the line and one for the empty line.
    """
    frame = raw(lab, START)[0]
    return frame.endswith(b"}\n") and frame.startswith(b"data:")


@mistake(task=1)
def json_alone(lab):
    """A frame is JSON alone, without `data: ` before it.

    Readers skip lines of unknown fields, and a line without `data:` is such a line.
    """
    frame = raw(lab, START)[0]
    return frame.startswith(b"{") and frame.endswith(b"}\n\n")


@mistake(task=1)
def role_in_every_delta(lab):
    """Every delta has the role.

    Clients concatenate strings and get `assistantassistant`. Send the role exactly once.
    """
    return all("role" in delta for delta in news(lab, START, A, B))


@mistake(task=1)
def all_text_again(lab):
    """Each delta has all text so far, not only the new text.

    Clients concatenate the deltas, and get `aab` for `ab`. Send the text of the event, and nothing
    else.
    """
    return news(lab, START, A, B)[1:] == [SHOWN_A, {"content": "ab"}]


@mistake(task=1)
def role_without_content(lab):
    """The first delta has the role, but no `content`.

    It has both: `{"role": "assistant", "content": ""}`.
    """
    return news(lab, START) == [{"role": "assistant"}]


@mistake(task=1)
def role_with_null(lab):
    """The first delta has `"content": null`.

    It has the empty text: `{"role": "assistant", "content": ""}`.
    """
    return news(lab, START) == [{"role": "assistant", "content": None}]


@mistake(task=1)
def starts_again(lab):
    """A second `start` sends the role again.

    Remember that the role has been sent; `self._started` is there for that.
    """
    return news(lab, START, A, START) == [ROLE, SHOWN_A, ROLE]


@mistake(task=1)
def role_with_the_text(lab):
    """Without `start`, the role is in the frame of the first text.

    The role has a frame of its own, with empty content. It precedes the frame of the first event.
    """
    return news(lab, A) == [{"role": "assistant", "content": "a"}]


@mistake(task=1)
def never_by_itself(lab):
    """Without `start`, no frame has the role.

    The role is the first frame that a client gets, whichever method is called first. `start()`
    returns `b""` once the role has been sent, so other methods may call it every time.
    """
    return news(lab, A, B) == [SHOWN_A, SHOWN_B] and news(lab, START, A) == [ROLE, SHOWN_A]


@mistake(task=1)
def nulls_for_nothing(lab):
    """A delta has null in the fields that have not changed.

    Leave those fields out: make a new delta for each event.
    """
    delta = news(lab, START, A)[1]
    return delta != SHOWN_A and {k: v for k, v in delta.items() if v is not None} == SHOWN_A


@mistake(task=1)
def reason_left_out(lab):
    """A choice has no `finish_reason` before the end.

    Every choice has this key: it is null until the end.
    """
    return "finish_reason" not in whole(lab, START)[0]["choices"][0]


@mistake(task=1)
def reasoning_is_content(lab):
    """Reasoning is sent as `content`.

    Clients would take it for the answer. Reasoning has a field of its own: `reasoning_content`.
    """
    return news(lab, START, ReasoningDelta("a")) == [ROLE, SHOWN_A]


@mistake(task=1)
def reasoning_by_another_name(lab):
    """Reasoning is sent in a field called `reasoning`.

    Some engines do so. Here it is `reasoning_content`, as DeepSeek called it.
    """
    return news(lab, START, ReasoningDelta("a")) == [ROLE, {"reasoning": "a"}]


@mistake(task=1)
def reasoning_lost(lab):
    """Reasoning is not sent at all.

    A `ReasoningDelta` is an event of its own; its text is `reasoning_content`.
    """
    return news(lab, START, ReasoningDelta("a"), A) == [ROLE, SHOWN_A]


@mistake(task=1)
def json_of_several_lines(lab):
    """The JSON of a frame has several lines.

    Readers look for `data:` at the beginning of every line, so they get the first line alone. Let
    `json.dumps` write one line: call it without `indent`.
    """
    frame = raw(lab, START)[0]
    return isinstance(payloads(frame)[0], dict) and b"\n" in frame.removesuffix(b"\n\n")


@mistake(task=1)
def json_by_hand(lab):
    """A line end or a quotation mark in the text breaks the JSON.

    Let `json.dumps` write the JSON: it escapes these characters.
    """
    first, frame = raw(lab, START, TextDelta('"'))
    if b'"role"' not in first:
        return False
    return b'"""' in frame or b"\n" in raw(lab, START, TextDelta("a\nb"))[1].rstrip()


@mistake(task=1)
def empty_texts_have_frames(lab):
    """An empty text gives a frame.

    An empty text adds nothing to the message: return `b""`.
    """
    return sends_text(lab) and raw(lab, START, TextDelta(""))[1] != b""


@mistake(task=2)
def no_calls(lab):
    """Tool calls have no frames.

    A `CallStart` opens an entry of the list `tool_calls`, and an `ArgsDelta` continues it.
    """
    silent = raw(lab, START, A, CALL, REST, CallEnd(0))[2:] == [b"", b"", b""]
    return silent and sends_text(lab)


@mistake(task=2)
def not_a_list(lab):
    """`tool_calls` is one call, not a list of calls.

    It is a list, even with a single entry.
    """
    return isinstance(news(lab, START, CALL)[1]["tool_calls"], dict)


@mistake(task=2)
def nulls_in_every_delta(lab):
    """Every piece of the arguments has a null, such as `"name": null`.

    Some clients overwrite the name with it. Leave out the fields that only the opening entry has.
    """
    rest = calls_of(lab, CALL, REST)[1]
    return rest != FILLED and without_nulls(rest) == FILLED


@mistake(task=2)
def name_in_every_delta(lab):
    """Every piece of the arguments has the name of the function again.

    Clients concatenate strings: the function would be called `ff`. Only the opening entry has the
    name.
    """
    return calls_of(lab, CALL, REST)[1]["function"] == {"name": "f", "arguments": "{}"}


@mistake(task=2)
def id_in_every_delta(lab):
    """Every piece of the arguments has the id of the call again.

    Clients concatenate strings: the id would be `c1c1`. Only the opening entry has id and type.
    """
    rest = calls_of(lab, CALL, REST)[1]
    return "id" in rest and rest["function"] == {"arguments": "{}"}


@mistake(task=2)
def type_in_every_delta(lab):
    """Every piece of the arguments has the type again.

    Only the opening entry has id and type; the index says which call the rest belongs to.
    """
    return calls_of(lab, CALL, REST)[1] == {"type": "function", **FILLED}


@mistake(task=2)
def type_missing(lab):
    """The opening entry has no `type`.

    It is `function`. Without it, clients keep the call and do not report it.
    """
    return calls_of(lab, CALL) == [{k: v for k, v in OPENED.items() if k != "type"}]


@mistake(task=2)
def opening_without_arguments(lab):
    """The opening entry has no arguments.

    Its arguments are the empty text, to which clients append the pieces that follow.
    """
    return calls_of(lab, CALL)[0]["function"] in ({"name": "f"}, {"name": "f", "arguments": None})


@mistake(task=2)
def index_from_one(lab):
    """The first call has index 1.

    Events count from 0, and so do clients: if the first index is 1, they look for a call that is
    not there.
    """
    return [call["index"] for call in calls_of(lab, CallStart(0, "a", "f"), REST)] == [1, 1]


@mistake(task=2)
def index_always_zero(lab):
    """All calls have index 0, so clients make one call of two.

    The event has the index: pass it through unchanged.
    """
    other = CallStart(1, "b", "g"), ArgsDelta(1, "{}")
    return [call["index"] for call in calls_of(lab, CALL, REST, *other)] == [0] * 4


@mistake(task=2)
def index_of_pieces(lab):
    """The pieces of a call have other indices than its opening entry, so clients see several calls.

    Do you count the calls? The event has the index: pass it through unchanged, every time.
    """
    return [call["index"] for call in calls_of(lab, CALL, REST)] == [0, 1]


@mistake(task=2)
def id_null(lab):
    """A call for which the model wrote no id has the id null.

    Clients send the result of a call back with its id, so it needs one: `call_` and the index.
    """
    return calls_of(lab, CallStart(0, None, "f"))[0].get("id") is None


@mistake(task=2)
def id_of_its_own(lab):
    """A call for which the model wrote no id gets another one than `call_` and the index.

    Clients would accept a random id. Here it is `call_0` for the call with index 0, so that a test
    can check it.
    """
    own = calls_of(lab, CALL)[0]["id"] == "c1"
    return own and calls_of(lab, CallStart(0, None, "f"))[0]["id"] != "call_0"


@mistake(task=2)
def id_replaced(lab):
    """The id that the model wrote is replaced.

    Some models look for their own id later. Make an id only if the event has None.
    """
    return calls_of(lab, CALL)[0]["id"] == "call_0"


@mistake(task=2)
def call_at_its_end(lab):
    """A call is sent only when it ends.

    A `CallStart` and an `ArgsDelta` are final. Return the frame of each at once; there is nothing
    to collect.
    """
    *before, last = raw(lab, START, CALL, REST, CallEnd(0))[1:]
    return before == [b"", b""] and b"tool_calls" in last


@mistake(task=2)
def arguments_wait(lab):
    """The arguments are sent when the call ends, not as they arrive.

    An `ArgsDelta` is final. Return its frame at once; there is nothing to collect.
    """
    outputs = raw(lab, START, CALL, ArgsDelta(0, "{"), ArgsDelta(0, "}"), CallEnd(0))[2:]
    return outputs[:2] == [b"", b""] and b"arguments" in outputs[2]


@mistake(task=2)
def arguments_parsed(lab):
    """The arguments are sent as an object.

    The arguments are JSON text, but their pieces are not JSON. Pass the pieces through unchanged.
    """
    return calls_of(lab, CALL, REST)[1]["function"]["arguments"] == {}


@mistake(task=2)
def arguments_written_twice(lab):
    """The arguments are written as JSON twice.

    Put them into the dictionary unchanged; the frame is written as JSON once, at the end.
    """
    return calls_of(lab, CALL, REST)[1]["function"]["arguments"] == '"{}"'


@mistake(task=2)
def malformed_lost(lab):
    """The rest of a broken call is not shown.

    The model wrote it, so the client gets it: the raw text of a `Malformed` is content.
    """
    return news(lab, START, Malformed(0, "b", "why"), A) == [ROLE, SHOWN_A]


@mistake(task=2)
def malformed_reason_shown(lab):
    """The reason of a `Malformed` is shown to the client.

    The reason is for the engine's log. The client gets the model's own text: `raw`.
    """
    return "why" in str(news(lab, START, Malformed(0, "a", "why"))[1])


@mistake(task=2)
def call_end_has_a_frame(lab):
    """A `CallEnd` gives a frame with an empty delta.

    The API has no frame for it. An empty delta is for the end of the answer: return `b""` here.
    """
    return news(lab, START, A, CallEnd(0)) == [ROLE, SHOWN_A, {}]


@mistake(task=3)
def no_done(lab):
    """`finish` returns no `[DONE]`.

    It is the last frame, and clients wait for it: `data: [DONE]`, which is not JSON.
    """
    return news(lab, START, END) == [ROLE, STOP]


@mistake(task=3)
def done_as_json(lab):
    """`[DONE]` is sent as JSON, with quotation marks.

    It is the only frame that is not JSON: `data: [DONE]`.
    """
    return raw(lab, START, END)[1].endswith(b'data: "[DONE]"\n\n')


@mistake(task=3)
def reason_in_delta(lab):
    """`finish_reason` is in the delta.

    It belongs in the choice, beside the delta, where it was null before.
    """
    choice = whole(lab, START, END)[1]["choices"][0]
    return "finish_reason" in choice["delta"]


@mistake(task=3)
def length_hidden(lab):
    """After a call the reason is always `tool_calls`, even if the answer was cut off.

    Clients would run half of a call. Earlier layers choose the reason: pass it through unchanged.
    """
    cut = news(lab, START, CALL, REST, ("finish", "length"))[3:]
    return cut == [{"finish_reason": "tool_calls"}, "[DONE]"]


@mistake(task=3)
def always_stop(lab):
    """The reason is always `stop`.

    Clients act on the reason: `length` means that text is missing. Pass it through unchanged.
    """
    return news(lab, START, ("finish", "length"))[1:] == [STOP, "[DONE]"]


@mistake(task=3)
def no_role_at_the_end(lab):
    """If `finish` is the first call, no frame has the role.

    An empty answer is still a message. `finish` may begin with `start()`.
    """
    return news(lab, END) == [STOP, "[DONE]"] and news(lab, A) == [ROLE, SHOWN_A]


@mistake(task=3)
def usage_before_the_reason(lab):
    """The chunk with the token counts precedes the chunk with the reason.

    The reason ends the answer, and the token counts follow it: reason, token counts, `[DONE]`.
    """
    _, *end = whole(lab, START, ("finish", "stop", USAGE), include_usage=True)
    return end[0].get("usage") == USAGE and delta_of(end[1]) == STOP


@mistake(task=3)
def usage_after_done(lab):
    """The chunk with the token counts follows `[DONE]`, so no client reads it.

    `[DONE]` is the last frame of all: reason, token counts, `[DONE]`.
    """
    told = whole(lab, START, ("finish", "stop", USAGE), include_usage=True)
    return told[-2] == "[DONE]" and told[-1].get("usage") == USAGE


@mistake(task=3)
def usage_has_a_choice(lab):
    """The chunk with the token counts has a choice.

    Its `choices` is an empty list: the answer has ended with the chunk before it.
    """
    told = whole(lab, START, ("finish", "stop", USAGE), include_usage=True)
    return len(told) == 4 and bool(told[2]["choices"]) and told[2]["usage"] == USAGE


@mistake(task=3)
def usage_with_the_reason(lab):
    """The token counts are in the chunk with the reason.

    They have a chunk of their own after it, whose `choices` is an empty list.
    """
    told = whole(lab, START, ("finish", "stop", USAGE), include_usage=True)
    return len(told) == 3 and told[1]["usage"] == USAGE


@mistake(task=3)
def usage_for_everybody(lab):
    """The token counts are sent to clients that did not ask for them.

    Without `include_usage`, no chunk has `usage`, whatever is passed to `finish`.
    """
    return USAGE in [payload.get("usage") for payload in whole(lab, ("finish", "stop", USAGE))[:-1]]


@mistake(task=3)
def usage_not_null(lab):
    """With `include_usage`, the chunks before the last one have no `usage`.

    Every such chunk has the key `usage`, and its value is null.
    """
    told = whole(lab, START, ("finish", "stop", USAGE), include_usage=True)
    return "usage" not in told[0] and told[-2].get("usage") == USAGE


@mistake(task=3)
def usage_of_nothing(lab):
    """With `include_usage` but no token counts, there is still a chunk without choices.

    If `usage` is None, leave that chunk out.
    """
    told = whole(lab, START, END, include_usage=True)
    return len(told) == 4 and not told[2]["choices"]


@mistake(task=3)
def error_without_done(lab):
    """Nothing follows an error, not even `[DONE]`.

    The answer has ended, and clients wait for `[DONE]`.
    """
    return whole(lab, START, ("error", "no memory"))[1:] == [WRONG]


@mistake(task=3)
def error_without_object(lab):
    """The error is a text.

    It is an object with `message` and `type`: clients read the message from it.
    """
    return whole(lab, START, ("error", "no memory"))[1] == {"error": "no memory"}


@mistake(task=3)
def error_of_another_type(lab):
    """The error has no `type`, or another one than `server_error`.

    The whole frame is `{"error": {"message": ..., "type": "server_error"}}`.
    """
    told = whole(lab, START, ("error", "no memory"))[1]["error"]
    return told["message"] == "no memory" and told.get("type") != "server_error"


@mistake(task=3)
def goes_on_after_end(lab):
    """Frames are still returned after the end.

    `[DONE]` is the last frame that a client reads. What must every method check first?
    """
    later = raw(lab, START, END, A, END)[2:]
    return all(later) and news(lab, START, A) == [ROLE, SHOWN_A]


@mistake(task=3)
def done_twice(lab):
    """A second end sends `[DONE]` again.

    The first end stays: after it, `finish` and `error` return `b""`.
    """
    return raw(lab, START, END, A)[2] == b"" != raw(lab, START, END, END)[2]


@mistake(task=3)
def error_is_no_end(lab):
    """After an error the stream continues.

    `error` ends the stream, as `finish` does.
    """
    ended = raw(lab, START, END, A)[2] == b""
    return ended and raw(lab, START, ("error", "no memory"), A)[2] != b""


@mistake(task=3)
def raw_line_ends(lab):
    """U+2028 is sent unescaped, and a reader may take it for a line end.

    JSON may write any character as `\\uXXXX`. Which characters must not be in the bytes of a frame?
    """
    frame = raw(lab, START, TextDelta("a\u2028b"))[1].decode()
    return "\u2028" in frame and news(lab, TextDelta("\n"))[1:] == [{"content": "\n"}]


@mistake(task=3)
def surrogate_raises(lab):
    """A lone surrogate raises UnicodeEncodeError, and the stream breaks off.

    UTF-8 has no bytes for U+D800 to U+DFFF. Which character is shown in place of a broken one?
    """
    fine = news(lab, START, TextDelta("é🚀")) == [ROLE, {"content": "é🚀"}]
    return fine and error(lab, START, TextDelta("\ud800")) == "UnicodeEncodeError"


@mistake(task=3)
def surrogate_escaped(lab):
    """A lone surrogate is sent as `\\ud800`, which many readers of JSON reject.

    `json.dumps` escapes it without an error. Replace surrogates by U+FFFD, before or after.
    """
    return sends_text(lab) and rb"\ud800" in raw(lab, START, TextDelta("\ud800"))[1]


@mistake(task=3)
def surrogate_otherwise(lab):
    """A lone surrogate is dropped, or becomes a question mark.

    `errors="ignore"` and `"replace"` do that when text is encoded. The client must see U+FFFD.
    """
    said = news(lab, START, TextDelta("a\ud800b"))[1]["content"]
    return said in ("ab", "a?b", "a\ufffd\ufffd\ufffdb")


@mistake(task=3, overdue=["test_property_linear_stream"])
def counts_braces(lab):
    """Each piece of a long call takes longer than the one before.

    Which data do you collect during the stream, and search or copy at every event? The frame of an
    event is made of that event alone.
    """
    return sends_text(lab) and calls_of(lab, CALL, REST) == [OPENED, FILLED]


@mistake(task=4)
def reads_nothing(lab):
    """The reader returns no event.

    Begin with `data: a` and an empty line, in one piece.
    """
    return read(lab, b"data: a\n\n", b"data: b\n\n") in ([[], []], [None, None])


@mistake(task=4)
def forgets_between_pieces(lab):
    """The rest of a piece is forgotten when the next piece arrives.

    Keep the line that has not ended, and the values of the event that has not.
    """
    cut = reads(lab, b"data: a", b"b\n\n"), reads(lab, b"data: a\n", b"\n")
    return reads(lab, b"data: a\n\n") == ["a"] and not any(cut)


@mistake(task=4)
def events_come_late(lab):
    """An event is returned only with the bytes after it.

    Its empty line completes it, and the next bytes may be late. Return the event at once.
    """
    return read(lab, b"data: a\n\n", b"data: b\n\n")[:1] == [[]] and (
        reads(lab, b"data: a\n\n", b"data: b\n\n")[:1] == ["a"]
    )


@mistake(task=4)
def one_event_a_piece(lab):
    """If a piece has several events, only one is returned.

    A piece may end any number of lines. Handle all of them.
    """
    return read(lab, b"data: a\n\ndata: b\n\n") in ([["a"]], [["b"]])


@mistake(task=4)
def done_is_the_end(lab):
    """`[DONE]` is not returned, or no event after it is.

    It is data like any other here. Its meaning is up to the caller.
    """
    return reads(lab, b"data: a\n\ndata: [DONE]\n\ndata: b\n\n") in (
        ["a"],
        ["a", "[DONE]"],
        ["a", "b"],
    )


@mistake(task=4)
def unended_line_is_read(lab):
    """A line is read before its line ending has arrived.

    More bytes of the line may follow. Keep it until it has ended.
    """
    return reads(lab, b"data: a") == ["a"]


@mistake(task=4)
def line_is_an_event(lab):
    """Every data line is an event, with or without an empty line after it.

    Collect the values; the empty line says that the event is complete.
    """
    return read(lab, b"data: a\ndata: b\n") == [["a", "b"]]


@mistake(task=4)
def last_value_only(lab):
    """If an event has several data lines, only one value is returned.

    Join their values by line ends.
    """
    return reads(lab, b"data: a\ndata: b\n\n") in (["a"], ["b"])


@mistake(task=4)
def joined_without_ends(lab):
    """The values of several data lines are joined without line ends.

    There is a `\\n` between each two values.
    """
    return reads(lab, b"data: a\ndata: b\n\n") in (["ab"], ["a b"])


@mistake(task=4)
def values_apart(lab):
    """Each data line of an event is returned alone.

    Join the values of an event by line ends. The empty line returns the joined text.
    """
    return reads(lab, b"data: a\ndata: b\n\n") == ["a", "b"]


@mistake(task=4)
def waits_behind_cr(lab):
    """A CR ends its line only when the next byte has arrived.

    Whether an LF follows or not, the line has ended. End it at once, and skip a following LF.
    """
    late = read(lab, b"data: a\r\r", b"\n"), read(lab, b"data: a\r\r", b"data: b\n")
    return [pieces[0] for pieces in late] == [[], []] and [p[1] for p in late] == [["a"], ["a"]]


@mistake(task=4)
def every_line_feed_skipped(lab):
    """After a CR, every later LF is skipped.

    Only the LF right after a CR is part of its line ending. Any other byte ends that: forget the CR
    then.
    """
    right = reads(lab, b"data: a\n\n") == ["a"] == reads(lab, b"data: a\r\n\r\n")
    return right and reads(lab, b"data: a\r\rdata: b\n\n") == ["a"]


@mistake(task=4)
def only_two_line_feeds(lab):
    """An event ends only at two line feeds in a row.

    The empty line that ends an event may end with CR, LF or CR LF, as every line may.
    """
    lines = reads(lab, b"data: a\rdata: b\n\n") == ["a\nb"]
    return lines and reads(lab, b"data: a\r\r") == []


@mistake(task=4)
def only_line_feeds(lab):
    """Lines end with LF only: a CR stays in the data, or CR alone ends nothing.

    There are three line endings: CR LF, LF and CR.
    """
    kept = reads(lab, b"data: a\r\n\r\n"), reads(lab, b"data: a\r\r")
    return kept[1] != ["a"] and reads(lab, b"data: a\n\n") == ["a"]


@mistake(task=4)
def crlf_cut(lab):
    """A CR LF that is cut in two is taken for two line endings.

    Then the LF seems to be an empty line, and the event ends too early. Remember that the last byte
    was a CR; an LF at the start of the next piece is part of the same line ending.
    """
    whole = reads(lab, b"data: a\r\ndata: b\r\n\r\n") == ["a\nb"]
    return whole and reads(lab, b"data: a\r", b"\ndata: b\r\n\r\n") == ["a", "b"]


@mistake(task=4)
def each_piece_decoded(lab):
    """Each piece is decoded alone: a character that is cut in two becomes U+FFFD.

    Keep a line as bytes until it has ended. It cannot be decoded before that.
    """
    whole = reads(lab, "data: 你\n\n".encode()) == ["你"]
    return whole and BAD in "".join(reads(lab, b"data: \xe4\xbd", b"\xa0\n\n"))


@mistake(task=4)
def pieces_must_be_text(lab):
    """A piece that ends inside a character, or a byte of invalid UTF-8, makes the reader raise.

    Collect bytes, cut them at line ends, and decode each line with `"replace"`.
    """
    try:
        read(lab, b"data: \xff\n\n")
    except AssertionError as failure:
        raised = getattr(failure, "raised", None)
        return raised is not None and raised.kind == "UnicodeDecodeError"
    return False


@mistake(task=4)
def errors_ignored(lab):
    """Bytes of invalid UTF-8 are dropped.

    They must become U+FFFD, so that the damage is visible: `"replace"`.
    """
    return reads(lab, b"data: a\xffb\n\n") == ["ab"]


@mistake(task=4)
def lines_of_python(lab):
    """U+2028 and others end a line, as in `str.splitlines`.

    In server-sent events only CR and LF end lines, and JSON may contain the others. Use
    `bytes.splitlines` or `re`.
    """
    return reads(lab, "data: a\u2028b\n\n".encode()) == ["a"]


@mistake(task=4)
def needs_a_space(lab):
    """A data line without a space after the colon is skipped.

    The space may be there or not. The name of the field ends at the colon.
    """
    return reads(lab, b"data:a\n\ndata: b\n\n") == ["b"]


@mistake(task=4)
def strips_values(lab):
    """All the space around a value is removed.

    One space after the colon is removed. The rest is data: a token may be a lone space.
    """
    return reads(lab, b"data:  a\n\n") == ["a"] == reads(lab, b"data: a\n\n")


@mistake(task=4)
def keeps_the_space(lab):
    """The space after the colon stays in the value.

    Remove one space there, if there is one.
    """
    return reads(lab, b"data: a\n\ndata:b\n\n") == [" a", "b"]


@mistake(task=4)
def any_field_that_begins_so(lab):
    """Lines of other fields count as data, because their names begin with `data`.

    The name of the field is the whole text before the colon.
    """
    return reads(lab, b"data2: a\n\ndata: b\n\n") != ["b"] and reads(lab, b"id: a\n\n") == []


@mistake(task=4)
def other_fields_are_data(lab):
    """Comments or lines of other fields count as data, or end an event.

    Only lines of the field `data` have a value, and only an empty line ends an event.
    """
    mixed = reads(lab, b"data: a\n: ping\nid: 1\ndata: b\n\n")
    return mixed not in (["a\nb"], []) and reads(lab, b"data: a\n\n") == ["a"]


@mistake(task=4)
def empty_events(lab):
    """An empty line makes an event even if there were no data lines.

    An event without a data line is not returned; a data line with an empty value makes an event.
    """
    return reads(lab, b"\n\ndata: a\n\n") == ["", "", "a"]


@mistake(task=4)
def empty_data_is_none(lab):
    """An event whose data are empty is not returned.

    One data line is enough, whatever its value. Count the data lines; do not test their values.
    """
    return reads(lab, b"data:\n\ndata: a\n\n") == ["a"]


@mistake(task=4)
def bare_data_is_none(lab):
    """A line that is only `data`, without a colon, is skipped.

    It is a line of the field `data`; its value is empty.
    """
    return reads(lab, b"data\n\ndata: a\n\n") == ["a"] and reads(lab, b"data:\n\n") == [""]


@mistake(task=4)
def mark_is_kept(lab):
    """A byte order mark at the beginning hides the first line.

    Its three bytes precede the name of the first field. Remove them there, and only there.
    """
    return reads(lab, b"\xef\xbb\xbfdata: a\n\ndata: b\n\n") in (["b"], ["\ufeffa", "b"])


@mistake(task=4)
def every_mark_goes(lab):
    """A byte order mark is also removed elsewhere, not only before the first line.

    Later it is a character like any other, or part of the name of a field.
    """
    later = b"data: a\n\n\xef\xbb\xbfdata: b\n\n"
    return reads(lab, later) == ["a", "b"] or reads(lab, b"data: \xef\xbb\xbfa\n\n") == ["a"]


@mistake(task=4)
def shared(lab):
    """With two readers at once, the bytes of one reader are returned by the other.

    What do two readers share? A mutable default argument, the class, the module?
    """
    new = [lab.new("SseReader")] * 2
    first, _ = lab.interleave(new, [[b"data: a\n", b"\n"], [b"data: b\n"]], "", watch="")
    return first.outputs != [[], ["a"]] and read(lab, b"data: a\n", b"\n") == [[], ["a"]]


@mistake(task=4, overdue=["test_property_linear_reader"])
def reads_all_again(lab):
    """Each byte of a long line, or each line of a long piece, takes longer than the one before.

    Which data do you search or copy again at each byte, or at each line? Look at each byte once.
    """
    return reads(lab, b"data: a\n\ndata: b", b"\n\n") == ["a", "b"]
