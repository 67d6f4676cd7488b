"""Lab 11: the OpenAI stream. Each docstring states the rule that its test checks.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=11` draws others.
"""

import itertools
import json
import re

import pytest

from labkit.testing import (
    Call,
    Failure,
    check,
    cut,
    expect,
    expect_long,
    expect_most,
    expect_untouched,
    put_in,
    show,
)
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

STREAM, READER = "ChatStream", "SseReader"
HEAD = ("chatcmpl-1", 1760000000, "mini")
ROLE = {"role": "assistant", "content": ""}
DONE = "[DONE]"
USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
# This layer passes a reason through unchanged.
REASONS = ["stop", "length", "tool_calls", "content_filter"]
# A byte order mark, the neighbours of surrogates, a no-break and a zero-width space, and characters
# that normalising changes.
ODD = "\ufeff\ud7ff\ue000 \xa0\u200b\u212b\ufb01e\u0301\u200b "
# Letters as they are; what JSON has to escape; controls, and more that some take for a line end.
PLAIN, ESCAPED, CONTROLS = "ab {}:é你🚀", '"\\\n\r\t\x00\x1f\x7f', "\x0b\x0c\x1c\x1e"
ENDS = CONTROLS + "\x85\u2028\u2029"
SURROGATES = "\ud800\ud83d\udc80\udfff"


def event_of(news):
    """The event that these words stand for."""
    kind, *fields = news
    if kind == "broken":
        return Malformed(*fields, "it was cut off")
    kinds = {"text": TextDelta, "think": ReasoningDelta, "call": CallStart}
    return {**kinds, "args": ArgsDelta, "end": CallEnd}[kind](*fields)


def entry_of(index, id, name):
    """The entry of `tool_calls` that opens a call; it has an id and a name, empty or not."""
    call = {"index": index, "id": f"call_{index}" if id is None else id, "type": "function"}
    return {**call, "function": {"name": name, "arguments": ""}}


def delta_of(news):
    """The delta that the client must get for an event, or None."""
    kind, *fields = news
    if kind == "call":
        return {"tool_calls": [entry_of(*fields)]}
    if kind == "end" or not fields[-1]:
        return None
    if kind == "args":
        index, text = fields
        return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
    return {"reasoning_content" if kind == "think" else "content": fields[-1]}


def deltas_of(news):
    """The deltas of each event: one, or none."""
    return [[delta] if (delta := delta_of(one)) else [] for one in news]


def feeds(news, *, silent=False):
    """The calls that feed the events. Events without text are for tests with `silent`."""
    if not silent and any("" in one for one in news if one[0] != "call"):
        raise ValueError("a case of another test")
    return [("feed", event_of(one)) for one in news]


def payloads(output):
    """The contents of some frames, as JSON or `[DONE]`; a description of anything else."""
    try:
        text = output.decode()
    except UnicodeDecodeError as error:
        return [f"invalid UTF-8: {error.object[max(0, error.start - 20) : error.end]}"]
    *frames, rest = text.split("\n\n")
    return [*map(payload, frames), *([rest] if rest else [])]


def payload(frame):
    """The contents of a frame; a description of anything else."""
    if frame[:6] != "data: ":
        return f"not a frame, which begins with `data: `: {frame!r:.60}"
    if len(lines := frame.splitlines()) != 1:
        end = len(lines[0])
        return f"not a frame, which is one line: {frame[max(0, end - 25) : end + 25]!r}"
    return DONE if frame[6:] == DONE else loaded(frame[6:])


def loaded(line):
    """The line as JSON; a description of anything else."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        around = line[max(0, error.pos - 25) : error.pos + 25]
        return f"not JSON, {error.msg.removesuffix(' at')} at index {error.pos}: {around!r}"
    except ValueError as error:
        return f"not JSON, {error:.80}"


def news_of(payload):
    """The new part of a payload: the delta, the reason, the usage, the error."""
    try:
        if not payload["choices"]:
            return {"choices": [], "usage": payload["usage"]}
        (choice,) = payload["choices"]
        reason = choice.get("finish_reason")
        return {**choice["delta"], **({"finish_reason": reason} if reason is not None else {})}
    except (KeyError, TypeError, ValueError, AttributeError):
        return payload


def run(lab, calls, *, read=news_of, head=HEAD, **options):
    """Make the calls on a new stream; the outputs are the contents of their frames."""
    return understood(lab.script(lab.new(STREAM, *head, **options), calls, watch=""), read)


def understood(trace, read=news_of):
    """The trace, with the contents of the frames in place of their bytes."""
    outputs = trace.outputs
    if any(type(output) is not bytes for output in outputs):
        expect(outputs, [*map(in_bytes, outputs)], trace)
    said = ([read(payload) for payload in payloads(output)] for output in outputs)
    trace.steps[:] = [
        step._replace(result=one) for step, one in zip(trace.steps, said, strict=True)
    ]
    return trace


def in_bytes(output):
    """The output as the bytes of a frame; b"" if it is not text."""
    if isinstance(output, str):
        return output.encode("utf-8", "replace")
    return output if type(output) is bytes else b""


def begun(news):
    """The deltas of each event on a stream without `start`: the role precedes the first."""
    deltas = deltas_of(news)
    first = next((number for number, own in enumerate(deltas) if own), 0)
    return [[ROLE, *own] if own and number == first else own for number, own in enumerate(deltas)]


def begins(lab, news):
    """Without `start`, the first event with a frame must return the role's frame before it."""
    message_of(news)
    trace = run(lab, [*feeds(news, silent=True), ("start",)])
    first = [ROLE] if not any(deltas_of(news)) else []
    expect(trace.outputs, [*begun(news), first], trace)


def says(lab, news, *, silent=False):
    """After `start`, each event must return its delta, and nothing else."""
    message_of(news)  # If this raises, the events are not an answer, and not a case.
    trace = run(lab, [("start",), *feeds(news, silent=silent)])
    expect(trace.outputs, [[ROLE], *deltas_of(news)], trace)


def words(random, least=1, most=8, letters=PLAIN + ESCAPED):
    """Draw a text."""
    return "".join(random.choices(letters, k=random.randint(least, most)))


def texts(random, least=1, kinds=("text",)):
    """Draw some pieces of text."""
    return [(random.choice(kinds), words(random)) for _ in range(random.randint(least, 4))]


def a_call(random, index, *, has_id=True):
    """Draw a call in parts: its start, its arguments, and how it ends."""
    id = words(random) if has_id else None
    source = json.dumps({words(random): words(random)}, ensure_ascii=random.random() < 0.5)
    pieces = [("args", index, piece) for piece in cut(source, random) if piece]
    return [("call", index, id, words(random)), *pieces, ("end", index)]


def an_answer(random):
    """Draw a whole answer: text, reasoning, and calls; the last call may be broken."""
    count = random.randint(0, 3)
    calls = [a_call(random, index, has_id=random.random() < 0.8) for index in range(count)]
    if calls and random.random() < 0.3:
        calls[-1][-1] = ("broken", count - 1, words(random, 0))
    before, after = (texts(random, 0, ["text", "think"]) for _ in range(2))
    return [*before, *itertools.chain(*calls), *after]


def drawn(lab, make, number=10):
    """Cases drawn from the seed, the shortest first."""
    return sorted((make(lab.random) for _ in range(number)), key=len)


def growth(lab, new, first, later):
    """How many bytes an object keeps of the calls that are made after the first."""
    weigh = Call("weight", None, object=1)
    every = [*first, weigh, *later, weigh]
    weights = lab.script([new, lab.new("given.Scale", new)], every, "").outputs
    return weights[-1] - weights[len(first)]


def put_together(message, delta):
    """Join a delta as a client does: strings are concatenated, calls are matched by index."""
    for key, value in delta.items():
        if isinstance(value, list):
            calls = message.setdefault(key, {})
            for call in value:
                put_together(calls.setdefault(call["index"], {}), call)
        elif isinstance(value, dict):
            put_together(message.setdefault(key, {}), value)
        elif isinstance(value, str) and key in message and key != "type":
            message[key] += value
        else:
            message[key] = value
    return message


def message_of(news):
    """The message that the events make."""
    message = {**ROLE}
    for kind, *fields in news:
        if kind == "call":
            calls = message.setdefault("tool_calls", {})
            if fields[0] in calls:
                raise ValueError("no stream has a call twice")
            calls[fields[0]] = entry_of(*fields)
        elif kind == "args" and fields[1]:
            message["tool_calls"][fields[0]]["function"]["arguments"] += fields[1]
        elif kind != "end" and fields[-1]:
            key = "reasoning_content" if kind == "think" else "content"
            message[key] = message.get(key, "") + fields[-1]
    return message


@pytest.mark.given
def test_naive_name_in_every_delta():
    """A client concatenates: a name in every delta of a call becomes `nownow`."""
    call = {"index": 0, "function": {"name": "now", "arguments": "{"}}
    rest = {"index": 0, "function": {"name": "now", "arguments": "}"}}
    message: dict = {}
    for delta in ({"tool_calls": [call]}, {"tool_calls": [rest]}):
        put_together(message, delta)
    assert message["tool_calls"][0]["function"] == {"name": "nownow", "arguments": "{}"}


@pytest.mark.given
def test_naive_text_of_each_piece():
    """The network may cut inside a character: decoded piece by piece, 你 becomes two U+FFFD."""
    pieces = [b"data: \xe4\xbd", b"\xa0\n\n"]
    naive = "".join(piece.decode("utf-8", "replace") for piece in pieces)
    assert naive == "data: \ufffd\ufffd\n\n"


@pytest.mark.given
def test_naive_lines():
    """`str.splitlines` knows more line endings than server-sent events do, such as U+2028."""
    assert "data: a\u2028b\n".splitlines() == ["data: a", "b"]


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_role_comes_first(lab):
    """The first frame has the role and empty content, and no other frame has them: `start` returns
    it, once; without `start` the first feed returns it before its own frame. An event without text
    has no frame, and does not send the role.
    """

    def rule(news):
        trace = run(lab, [("start",), *feeds(news, silent=True), ("start",)])
        expect(trace.outputs, [[ROLE], *deltas_of(news), []], trace)
        begins(lab, news)

    def case(random):
        return put_in(texts(random, kinds=kinds), [(kind, "") for kind in kinds], random)

    kinds = ["text", "think"]
    fixed = [[("text", "a"), ("text", "b")], [("think", "a")], [("text", ""), ("text", "a")]]
    check(rule, [*fixed, *drawn(lab, case, 5)])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_text_and_reasoning(lab):
    """eager: each `feed` returns the frame of its own event: text as `content`, reasoning as
    `reasoning_content`, no character of it changed or left out.
    """

    def case(random):
        return texts(random, kinds=["text", "think"])

    fixed = [[(kind, text)] for text in ("a", ODD) for kind in ("text", "think")]
    check(lambda news: says(lab, news), [*fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_chunk_has_all_its_keys(lab):
    """A chunk has the keys `id`, `object`, `created`, `model`, `choices`, and no others; its only
    choice has `index` 0, `delta` and `finish_reason`, which is null before the end.
    """

    def rule(case):
        (id, created, model), text = case
        head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
        trace = run(
            lab, [("start",), *feeds([("text", text)])], read=lambda payload: payload, head=case[0]
        )
        deltas = [ROLE, {"content": text}]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        expect(trace.outputs, [[{**head, "choices": [choice]}] for choice in choices], trace)

    def case(random):
        head = (f"chatcmpl-{words(random, letters='ab1')}", random.randrange(10**10))
        return [(*head, words(random, letters="ab1-/")), words(random, letters=PLAIN)]

    check(rule, [[HEAD, "a"], [("", 0, ""), "a"], *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_frame_is_one_line(lab):
    """A frame is `data: `, JSON in one line, and an empty line, whatever line ends, quotation marks
    and control characters the text contains.
    """
    fixed = ["a\nb", "\r\n", 'a"\\b', "\x00\x1f\x7f", "\x0b\x0c\x1c\x1e", "é你🚀"]

    def case(random):
        return words(random, letters=PLAIN + ESCAPED + CONTROLS)

    cases = ([("text", text)] for text in (*fixed, *drawn(lab, case)))
    check(lambda news: says(lab, news), cases)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_call_opens_once(lab):
    """A `CallStart` is an entry of `tool_calls` with index, id, type `function`, and a function
    that has its name and `""` for arguments. Nothing after it has id, type or name again. Id and
    name are unchanged, even if they are empty; odd characters and spaces around them are part of
    them.
    """
    fixed = [("call", 0, "c1", "now"), ("args", 0, "{"), ("args", 0, "}"), ("end", 0)]

    def case(random):
        return [*texts(random), *a_call(random, 0), *texts(random)]

    alone = [[("call", 0, id, name)] for id, name in ((ODD, ODD), ("", "f"), ("c1", ""))]
    check(lambda news: says(lab, news), [fixed[:1], fixed, *alone, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_call_without_id_gets_one(lab):
    """Clients answer a call by its id. If the model wrote no id, it is `call_` and the index."""

    def case(random):
        return [("call", index, None, words(random, letters="fgh")) for index in range(9)]

    own = [("call", 0, "mine", "f"), ("call", 1, None, "g")]
    check(lambda news: says(lab, news), [own[1:], own, *drawn(lab, case, 3)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_arguments_are_as_the_model_wrote_them(lab):
    """An `ArgsDelta` continues the call with index and arguments alone: the model's own characters,
    whether they are half a string, half an escape, or not JSON at all.
    """

    def rule(pieces):
        says(lab, [("call", 0, "c1", "f"), *(("args", 0, piece) for piece in pieces)])

    fixed = [
        ['{"a": "', "\\", 'u00e9"}'],
        ['{ "b" :1.0', " }"],
        ["é", '"', "\n"],
        ["{}", "{"],
        [ODD],
    ]
    check(rule, [*fixed, *drawn(lab, lambda random: [words(random) for _ in range(4)])])


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_calls_keep_their_index(lab):
    """Each entry has the index of its event, by which clients distinguish parallel calls, even if
    the events of two calls alternate.
    """
    fixed = [("call", 0, "a", "f"), ("args", 0, "{}"), ("call", 1, "b", "f"), ("args", 1, "{}")]
    in_turns = [*fixed[::2], *fixed[1::2], ("args", 0, " "), ("end", 1), ("end", 0)]

    def case(random):
        calls = [a_call(random, index) for index in range(random.randint(2, 4))]
        news = [*itertools.chain(*calls)]
        # The events of each call keep their order.
        order = random.sample(news, len(news)) if random.random() < 0.5 else news
        queues = [iter(call) for call in calls]
        return [next(queues[index]) for _, index, *_ in order]

    check(lambda news: says(lab, news), [fixed, in_turns, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_malformed_is_content(lab):
    """No text of the model is lost: the raw text of a `Malformed` is content, and its reason is
    for the log. Frames of the call that were sent before stay as they are.
    """

    def case(random):
        begun = a_call(random, 0)[: random.randint(1, 2)]
        return [*begun, ("broken", 0, words(random)), *texts(random)]

    fixed = [("broken", 0, "<tool_call>no")], [("call", 0, "c1", "f"), ("broken", 0, '{"a')]
    check(lambda news: says(lab, news), [*fixed, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_nothing_to_tell(lab):
    """A `CallEnd` and an event without text return `b""`: no frame has an empty delta before the
    end. The events after them have their usual frames; without `start`, the role precedes the
    first of these frames, whether it is of a text, of a call, or of a `Malformed`.
    """
    silent = [("end", 0), ("text", ""), ("think", ""), ("args", 0, ""), ("broken", 0, "")]
    full = [("text", "a"), ("think", "b"), ("call", 0, "c1", "f"), ("args", 0, "{")]
    mixed = [*itertools.chain(*zip(silent, [*full, full[0]], strict=True))]

    def case(random):
        return put_in([*texts(random), *a_call(random, 0)], silent, random)

    def rule(news):
        says(lab, news, silent=True)
        begins(lab, news)

    alone = ([*before, event] for event in full[:3] for before in ([], silent[:1], silent[1:3]))
    check(rule, [*alone, [("broken", 0, "x")], mixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_reason_has_a_chunk_of_its_own(lab):
    """`finish` returns a chunk with an empty delta and the reason, then `[DONE]`; if the role has
    not been sent, its frame is first.
    """

    def rule(case):
        news, reason = case
        if reason not in REASONS:
            return
        calls = [("start",), *feeds(news), ("finish", reason)]
        for first in (0, 1) if not news else (0,):
            trace = run(lab, calls[first:])
            last = [{"finish_reason": reason}, DONE]
            wanted = [[ROLE], *deltas_of(news), last] if not first else [[ROLE, *last]]
            expect(trace.outputs, wanted, trace)

    cases = [([], "stop"), ([("text", "a")], "length")]
    check(rule, [*cases, *((news, lab.random.choice(REASONS)) for news in drawn(lab, texts))])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_reason_is_as_told(lab):
    """The reason is the one passed to `finish`, whatever was in the answer: `length` stays
    `length`, even after a call, and a word that this layer does not know stays as it is.
    """

    def rule(case):
        news, reason = case
        if reason not in [*REASONS, "abort", ""]:
            return
        trace = run(lab, [("start",), *feeds(news), ("finish", reason)])
        wanted = [{"finish_reason": reason}, DONE]
        expect(trace.outputs, [[ROLE], *deltas_of(news), wanted], trace)

    call = [("call", 0, "c1", "f"), ("args", 0, "{}"), ("end", 0)]
    fixed = [
        (news, reason) for news in ([("text", "a")], call) for reason in [*REASONS, "abort", ""]
    ]

    def case(random):
        return [*a_call(random, 0), *texts(random)]

    check(rule, [*fixed, *((news, lab.random.choice(REASONS)) for news in drawn(lab, case))])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_usage(lab):
    """With `include_usage` the chunk before `[DONE]` has no choices and the token counts as passed
    to `finish`, even if they are an empty dictionary, and all other chunks, of whichever event,
    have `"usage": null`. If `usage` is None, that chunk is left out. Without `include_usage` no
    chunk has `usage`. The caller's dictionary is not changed.
    """

    def rule(case):
        news, usage, asked = case
        message_of(news)
        if usage is not None and not usage.keys() <= {*USAGE, "details"}:
            return
        calls = [("start",), *feeds(news), ("finish", "stop", usage)]
        trace = run(lab, calls, read=seen, **({"include_usage": True} if asked else {}))
        null = {"usage": None} if asked else {}
        chunk = {"choices": 1, **null}
        before = [[chunk] * len(output) for output in trace.outputs[:-1]]
        last = [{"choices": 0, "usage": usage}] if asked and usage is not None else []
        wanted = [*before, [chunk, *last, DONE]]
        expect(trace.outputs, wanted, trace, "the usage in each chunk")
        expect_untouched(trace)

    def seen(payload):
        if not isinstance(payload, dict) or not isinstance(payload.get("choices"), list):
            return payload
        counts = {"usage": payload["usage"]} if "usage" in payload else {}
        return {"choices": len(payload["choices"]), **counts}

    def case(random):
        keys = random.sample([*USAGE], random.randint(0, len(USAGE)))
        usage = {key: random.choice([0, 1, random.randrange(10**6)]) for key in keys}
        news = [*texts(random, kinds=["text", "think"]), *a_call(random, 0)[:-1]]
        return (news, random.choice([None, usage]), random.random() < 0.7)

    text = [("text", "a")]
    every = [*text, ("think", "b"), ("call", 0, "c", "f"), ("args", 0, "{"), ("broken", 0, "x")]
    fixed = [(text, USAGE, True), (text, USAGE, False), (text, None, True), (text, None, False)]
    counts = [{}, {"prompt_tokens": 1, "completion_tokens": 0}, {**USAGE, "details": {"cached": 1}}]
    more = [(every, USAGE, True), *((text, usage, True) for usage in counts)]
    check(rule, [*fixed, *more, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_usage_chunk_is_like_the_others(lab):
    """The chunk with the token counts has the same `id`, `object`, `created` and `model`."""

    def rule(head):
        trace = run(
            lab,
            [("finish", "stop", USAGE)],
            read=lambda payload: payload,
            head=head,
            include_usage=True,
        )
        keys = ("id", "created", "model")
        same = {**dict(zip(keys, head, strict=True)), "object": "chat.completion.chunk"}
        told = [payload for payload in trace.outputs[0] if payload != DONE]
        expect(told[-1:], [{**same, "choices": [], "usage": USAGE}], trace, "the usage chunk")

    def head(random):
        return [words(random, letters="ab1"), random.randrange(10**10), words(random, letters="ab")]

    check(rule, [HEAD, *map(tuple, drawn(lab, head))])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_error_ends_with_done(lab):
    """`error` returns one frame, `{"error": {"message": ..., "type": "server_error"}}`, and
    `[DONE]`, for which clients wait; a message may contain any characters. The role is not sent
    before it, and it has no `usage`: it is not a chunk.
    """

    def rule(case):
        news, message, options = case
        calls = [*feeds(news), ("error", message)]
        error = [{"error": {"message": message, "type": "server_error"}}, DONE]
        trace = run(lab, [("start",), *calls], **options)
        expect(trace.outputs, [[ROLE], *deltas_of(news), error], trace)
        trace = run(lab, calls, **options)
        expect(trace.outputs, [*begun(news), error], trace)

    usage = {"include_usage": True}
    cases = [([], "no memory", {}), ([("text", "a")], 'a\n"b"', {}), ([], "", {}), ([], "a", usage)]
    check(rule, [*cases, *((news, words(lab.random), {}) for news in drawn(lab, texts))])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_stays_ended(lab):
    """flush-once: after `finish`, with or without token counts, and after `error` every call
    returns `b""`, so that `[DONE]` is sent once and nothing after it.
    """

    def rule(case):
        news, end, later = case
        call, options = (end, "stop"), {}
        if end == "usage":
            call, options = ("finish", "stop", USAGE), {"include_usage": True}
        trace = run(lab, [*feeds(news), call, *calls_of(later)], **options)
        ended, *after = trace.outputs[len(news) :]
        expect(ended[-1:], [DONE], trace, "the last frame of the end", at=len(news))
        expect(after, [[]] * len(later), trace, "the frames after the end")

    def calls_of(later):
        text = ("feed", TextDelta("b"))
        calls = {"start": ("start",), "feed": text, "finish": ("finish", "length")}
        return [{**calls, "error": ("error", "too late")}[name] for name in later]

    names = ["start", "feed", "finish", "error"]
    fixed = [
        (news, end, [name])
        for news in ([("text", "a")], [])
        for end in ("finish", "error", "usage")
        for name in names
    ]
    cases = (
        (news, lab.random.choice(names[2:]), lab.random.choices(names, k=4))
        for news in drawn(lab, texts)
    )
    check(rule, [*fixed, *cases])


# The places of a frame in which a text of the model, or of the caller, can be.
PLACES = {
    "text": lambda text: ("text", text),
    "reasoning": lambda text: ("think", text),
    "malformed": lambda text: ("broken", 0, text),
    "arguments": lambda text: ("args", 0, text),
    "id of a call": lambda text: ("call", 0, text, "f"),
    "name of a call": lambda text: ("call", 0, "c1", text),
    "reason": None,
    "error": None,
    "id": None,
    "model": None,
}


def is_safe(lab, place, text, expected):
    """A text in this place must be read as the expected text, whatever is around it."""
    id, model = (text if place == key else "x" for key in ("id", "model"))
    calls = [("start",)]
    if PLACES[place]:
        calls += feeds([PLACES[place](text)])
    elif place == "error":
        calls += [("error", text)]
    elif place == "reason":
        calls += [("finish", text)]
    else:
        # All chunks have the id and the model: the role, the reason and the token counts.
        calls = [("finish", "stop", USAGE)]
    trace = run(
        lab,
        calls,
        head=(id, 1, model),
        read=lambda payload: texts_of(payload) or payload,
        include_usage=True,
    )
    read = [own for own in trace.outputs[-1] if own != DONE]
    safe = (isinstance(own, list) and any(expected in one for one in own) for own in read)
    if not read or not all(safe):
        frames = f"frames whose texts contain {show(expected)}"
        raise Failure(frames, show(read), "", trace, at=len(trace.steps) - 1)


def texts_of(payload):
    """All texts of a payload that is JSON; its keys are not among them."""
    if not isinstance(payload, dict | list):
        return []
    values = [*payload.values()] if isinstance(payload, dict) else payload
    own = [value for value in values if isinstance(value, str)]
    return own + [text for value in values for text in texts_of(value)]


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_unicode_line_ends_are_escaped(lab):
    """A frame is one line for every reader: U+0085, U+2028 and U+2029, which some readers take for
    line ends, are escaped as JSON wherever they are: in texts and calls, in the reason, in a
    message of an error, in the id and in the model.
    """

    def case(random):
        return words(random, letters=PLAIN + ESCAPED + ENDS)

    every = ((place, text) for text in ["a\u2028b", "\x85", "\u2029"] for place in PLACES)
    check(
        lambda case: is_safe(lab, *case, case[1]),
        [*every, *(("text", t) for t in drawn(lab, case))],
    )


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_surrogates_are_replaced(lab):
    """A lone surrogate, which a model can write in JSON but UTF-8 cannot encode, becomes U+FFFD
    wherever it is: in texts and calls, in the reason, in a message of an error, in the id and in
    the model.
    """

    def rule(case):
        place, text = case
        if re.search("[\ud800-\udbff][\udc00-\udfff]", text):
            return  # A pair, not a lone surrogate.
        is_safe(lab, place, text, re.sub("[\ud800-\udfff]", "\ufffd", text))

    def case(random):
        return "".join(f"{words(random)}{random.choice(SURROGATES)}a" for _ in range(3))

    every = ((place, text) for text in ["\ud800", "a\udc80b"] for place in PLACES)
    check(rule, [*every, *((lab.random.choice([*PLACES]), text) for text in drawn(lab, case))])


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_property_complete(lab):
    """complete, append-only, chunk-invariant: a client that joins all the deltas has the message of
    the events, however its texts were cut.
    """

    def rule(news):
        trace = run(lab, [("start",), *feeds(news, silent=True), ("finish", "stop")])
        message = {}
        for said in itertools.chain(*trace.outputs):
            if isinstance(said, dict) and "finish_reason" not in said:
                put_together(message, said)
        expect(message, message_of(news), trace, "the message that a client joins")
        last = [{"finish_reason": "stop"}, DONE]
        expect(trace.outputs[-1], last, trace, "what finish returned")

    kinds = [("text", "a"), ("think", "b"), ("broken", 0, "c")]
    small = (news for length in range(4) for news in itertools.product(kinds, repeat=length))
    check(rule, [*map(list, small), *drawn(lab, an_answer, 40)])


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.timeout(4)
def test_property_linear_stream(lab):
    """linear: the frame of an event takes the same time however many events came before it, and
    repeats none of them: some 3,000 pieces of arguments, with 1,500 of text and as many of
    reasoning between them, finish within the time limit. The stream keeps no text of any event, not
    even of the last, and no id or name of a call.
    """
    for count in (5, lab.random.randint(1_400, 1_600)):
        news = [("call", 0, "c1", "f")]
        for number in range(count):
            piece = f'{{"{number}": "{"x" * 36}"}}'
            news += [
                ("args", 0, piece),
                ("text", "x" * 40),
                ("args", 0, piece),
                ("think", "y" * 40),
            ]
        returns_each(lab, news)
    kinds = [("text",), ("think",), ("args", 0), ("broken", 0), ("call", 0, None), ("call", 0)]
    texts = [*(f"{number:040}" for number in range(60)), "x" * 20_000]
    events = [(*kind, text, *["f"] * (kind == ("call", 0))) for text in texts for kind in kinds]
    events = feeds(events)
    grown = growth(lab, lab.new(STREAM, *HEAD), events[: len(kinds)], events[len(kinds) :])
    fed = "60 different texts in events of each kind, the last of 20,000 characters"
    expect_most(grown, 2_000, fed, "bytes more in the stream")


def returns_each(lab, news):
    """After `start`, each of many events returns its own delta."""
    trace = run(lab, [("start",), *feeds(news)], head=("c", 1, "m"))
    wanted = [[ROLE], *deltas_of(news)]
    expect_long(trace.outputs, wanted, f"start, then {len(news):,} events: the deltas of each call")


def events_of(data):
    """The data of the events in some bytes, read in one piece."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    events, values = [], []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        field, _, value = line.partition(":")
        if field == "data":
            values.append(value.removeprefix(" "))
        if not line and values:
            events.append("\n".join(values))
            values = []
    return events


def read_pieces(pieces):
    """The events that each of the pieces completes."""
    known = [events_of(b"".join(pieces[:count])) for count in range(len(pieces) + 1)]
    return [now[len(before) :] for before, now in itertools.pairwise(known)]


def reads(lab, pieces, plain=False):
    """Each piece must return the events that it completes; plain pieces have `data: x` only."""
    if plain and re.search(rb"(?:^|[\r\n])data(?:[\r\n]|$|:(?! .))", b"".join(pieces)):
        raise ValueError("a case for other tests")
    trace = lab.stream(lab.new(READER), pieces, end="", watch="")
    expect(trace.outputs, read_pieces(pieces), trace)


def reads_all(lab, wholes, plain=True):
    """The same for bytes in one piece, byte by byte, and cut somewhere."""
    cuts = ([[w], [w[i : i + 1] for i in range(len(w))], cut(w, lab.random)] for w in wholes)
    check(lambda pieces: reads(lab, pieces, plain), itertools.chain(*cuts))


def reads_whole(lab, wholes):
    """The same for whole events in one piece."""
    check(lambda pieces: reads(lab, pieces), [[whole] for whole in wholes])


def some_events(random, end="\n", letters="ab{}:", lines=1, *, unfinished=0.3):
    """Draw events of at most so many data lines, the last event finished or not."""
    written = []
    for _ in range(random.randint(1, 4)):
        count = random.randint(1, lines)
        written += [f"data: {words(random, letters=letters)}" for _ in range(count)]
        written += [""]
    whole = random.random() >= unfinished
    return "".join(f"{line}{end}" for line in written[: None if whole else -1]).encode()


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_reads_events(lab):
    r"""The data of an event is the text after `data: `, joined by `"\n"` if there are several such
    lines; an empty line ends the event. `[DONE]` is returned like any other data: its meaning is up
    to the caller. Here each piece is whole events.
    """
    fixed = [
        [b"data: a\n\n"],
        [b"data: a\n\ndata: b\n\n", b"data: c\n\n"],
        [b"data: a\n\ndata: [DONE]\n\ndata: b\n\n"],
    ]

    def case(random):
        return [some_events(random, lines=2, unfinished=0) for _ in range(random.randint(1, 3))]

    check(lambda pieces: reads(lab, pieces, plain=True), [*fixed, *drawn(lab, case)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_event_waits_for_its_empty_line(lab):
    """eager: an event is returned with the byte that ends its empty line, and not before. If that
    byte never arrives, the event is discarded. Empty lines between events are ignored.
    """

    def rule(pieces):
        reads(lab, [*pieces, b"", b"\ndata: b\n\n"], plain=True)

    fixed = [[b"data: a"], [b"data: a\n"], [b"data: a\n\n"], [b"\n\n"], [b"data: a\n", b"data: c"]]
    whole = (some_events(lab.random) for _ in range(8))
    check(rule, [*fixed, *([data[i : i + 1] for i in range(len(data))] for data in whole)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_three_line_ends(lab):
    """A line ends with CR LF, with LF, or with CR alone, in any mixture: CR LF is one line ending,
    CR CR is two, LF CR is two. A CR ends its line at once.
    """
    fixed = [b"data: a\r\n\r\n", b"data: a\r\rdata: b\r\r", b"data: a\n\rdata: b\r\n\n"]
    mixed = [f"data: a{one}data: b{other}{one}" for one in ENDINGS for other in ENDINGS]

    def case(random):
        return b"".join(
            random.choice([b"data: a", b"data: b", b""]) + random.choice(ENDINGS).encode()
            for _ in range(random.randint(2, 8))
        )

    reads_all(lab, [*fixed, *map(str.encode, mixed), *drawn(lab, case)])


ENDINGS = ["\n", "\r", "\r\n"]


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_crlf_cut_in_two(lab):
    """A CR and an LF right after it are one line ending, even if the LF arrives with the next
    bytes, or after an empty piece. An event that the CR completes does not wait for the LF.
    """
    fixed = [
        [b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"],
        [b"data: a\r", b"", b"\ndata: b\n\n"],
        [b"data: a\r", b"", b"\n\r", b"", b"\n", b"\ndata: b\n\n"],
        [b"data: a\r", b"\r", b"\n", b"data: b\r\n", b"\r\n"],
    ]

    def case(random):
        data = some_events(random, "\r\n", lines=3)
        return [part for part in re.split(rb"(?<=\r)|(?<=\n)", data) if part]

    check(lambda pieces: reads(lab, pieces, plain=True), [*fixed, *drawn(lab, case)])


# Lines that are not data; values with spaces; events of several lines. Each is whole events.
OTHERS = [
    ": ping", ":", "event: x", "id: 7", "retry: 10", "x", "dat: a", "data2: a", " data: a",
    "data : a", "DATA: a",
]  # fmt: skip
COMMENTED = [f"data: a\n{other}\ndata: b\n\n{other}\n\ndata: c\n\n".encode() for other in OTHERS]
SPACED = [b"data:a\n\n", b"data:  a \n\n", b"data: \n\n", b"data:\ta\n\n", b"data: a: b\n\n"]
LINES = [
    b"data: a\ndata: b\n\n", b"data\n\n", b"data\ndata\n\n", b"data:\ndata: a\ndata\n\n",
]  # fmt: skip


def commented(random):
    """Draw lines of data, with others between them."""
    lines = [f"data: {words(random, letters='ab:')}" for _ in range(3)]
    return "\n".join([*put_in(lines, [*OTHERS, ""], random), "", ""]).encode()


def spaced(random):
    """Draw values with spaces at their ends, or nothing else."""
    values = ("".join(random.choices(" \ta:", k=random.randint(0, 4))) for _ in range(4))
    return "".join(f"data:{value}\n\n" for value in values).encode()


def some_lines(random):
    """Draw events of any number of lines, with and without a value."""
    kinds = ["data: a", "data:", "data", "data: b c", ""]
    return "\n".join([*random.choices(kinds, k=random.randint(2, 8)), "", ""]).encode()


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_comments_and_other_fields(lab):
    """Lines that begin with a colon are comments, such as `: ping`. Comments and lines of other
    fields are ignored and do not end an event. An event without a data line is not returned. Here
    whole events arrive in one piece.
    """
    reads_whole(lab, [*COMMENTED, *drawn(lab, commented)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_one_space_is_removed(lab):
    """One space after the colon is removed if there is one. The rest is the value, including spaces
    at its end. Here whole events arrive in one piece.
    """
    reads_whole(lab, [*SPACED, *drawn(lab, spaced)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_lines_of_data_are_joined(lab):
    r"""The values of an event's data lines are joined by `"\n"`, including empty values; a line
    that is only `data` has the value `""`. Here whole events arrive in one piece.
    """
    reads_whole(lab, [*LINES, *drawn(lab, some_lines)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_character_cut_in_two(lab):
    """honest: a character whose bytes arrive in two pieces is whole. Only invalid UTF-8 becomes
    U+FFFD, as in `bytes.decode("utf-8", "replace")`.
    """
    fixed = ["data: é你🚀\n\n".encode(), b"data: \xe4\xbd\n\n", b"data: \xff\xed\xa0A\xc3\n\n"]

    def case(random):
        data = random.choices(
            ["é".encode(), "你".encode(), "🚀".encode(), b"\xe4\xbd", b"\xff"], k=4
        )
        return b"data: " + b"".join(data) + b"\n\n"

    reads_all(lab, [*fixed, *drawn(lab, case)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_nothing_else_ends_a_line(lab):
    """Only CR and LF end lines: U+2028, U+0085, a form feed and the like are data."""

    def case(random):
        return some_events(random, letters="ab" + ENDS)

    fixed = [f"data: a{end}b\n\n".encode() for end in ENDS]
    reads_all(lab, [*fixed, *drawn(lab, case)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_byte_order_mark(lab):
    """A byte order mark (EF BB BF) is removed before the first line, and only there."""
    mark = b"\xef\xbb\xbf"
    fixed = [mark + b"data: a\n\n", mark + mark + b"data: a\n\ndata: b\n\n"]
    later = [b"data: a\n\n" + mark + b"data: b\n\n", b"data: " + mark + b"a\n\n"]
    cases = (mark + data for data in drawn(lab, some_events))
    reads_all(lab, [*fixed, *later, b"\n" + mark + b"data: a\n\n", *cases])


WIDE = "é你🚀\u2028"
TOKENS = [b"data: a", b"data", b":", b"\r", b"\n"]


@pytest.mark.task(4)
@pytest.mark.points(6)
def test_property_any_cut(lab):
    """chunk-invariant, eager: in all short streams of five kinds of pieces, and in streams of all
    kinds cut anywhere, each piece returns the events that it completes.
    """
    small = (
        list(pieces)
        for length in range(1, 5)
        for pieces in itertools.product(TOKENS, repeat=length)
    )
    more = [*TOKENS, b"\r\n", b" ", "你\u2028".encode(), b"\xef\xbb\xbf", b"\xe4", b"id: 1"]

    def mixed(random):
        return b"".join(random.choices(more, k=random.randint(3, 16)))

    def wide(random):
        return some_events(random, random.choice(ENDINGS), WIDE, 3)

    def case(random):
        make = random.choice([mixed, mixed, wide, wide, commented, spaced, some_lines])
        return cut(make(random), random)

    single = ([w[i : i + 1] for i in range(len(w))] for w in (*SPACED, *LINES, *COMMENTED))
    check(lambda pieces: reads(lab, pieces), [*small, *single, *drawn(lab, case, 60)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_total(lab):
    """total: no bytes stop the reader: the events after them are read."""

    def rule(pieces):
        reads(lab, [b"data: ", *pieces, b"\n\ndata: a\n\n"])

    def case(random):
        near = [*range(256), *[10, 13, 0xC3, 0xA9, 0xF0, 0x9F] * 20]
        return [bytes(random.choices(near, k=random.randint(0, 9))) for _ in range(4)]

    check(rule, [*([bytes([byte])] for byte in range(256)), *drawn(lab, case, 30)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_round_trip(lab):
    """`SseReader` reads the frames that `ChatStream` has written, wherever the network cuts them:
    the JSON says the same.
    """
    for news in [[("text", "你\n")], *drawn(lab, an_answer, 6)]:
        calls = [*feeds(news, silent=True), ("finish", "stop")]
        frames = lab.script(lab.new(STREAM, *HEAD), calls, watch="")
        whole = b"".join(output for output in frames.outputs if type(output) is bytes)
        pieces = cut(whole, lab.random)
        trace = lab.stream(lab.new(READER), pieces, end="", watch="")
        expect(trace.outputs, read_pieces(pieces), trace)
        texts = itertools.chain(*trace.outputs)
        read = [news_of(loaded(text)) if text != DONE else text for text in texts]
        wanted = [ROLE, *itertools.chain(*deltas_of(news)), {"finish_reason": "stop"}, DONE]
        expect(read, wanted, frames, "the events read from all frames")


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_isolated(lab):
    """isolated: streams that are written or read in turns share nothing, neither their arguments
    nor their memory; each list that is returned is new, and no later call changes it.
    """

    def written(streams):
        heads = [(f"chatcmpl-{number}", number, f"m{number}") for number in range(len(streams))]
        news = [
            lab.new(STREAM, *head, include_usage=number % 2 == 1)
            for number, head in enumerate(heads)
        ]
        events = [[event_of(one) for one in stream] for stream in streams]
        traces = lab.interleave(news, events, "", watch="")
        for number, (trace, stream) in enumerate(zip(traces, streams, strict=True)):
            head = dict(zip(("id", "created", "model"), heads[number], strict=True))
            usage = {"usage": None} if number % 2 else {}
            wanted = [
                [{**head, **usage, "delta": delta} for delta in deltas] for deltas in begun(stream)
            ]
            expect(understood(trace, said).outputs, wanted, trace)

    def said(payload):
        try:
            (choice,) = payload["choices"]
            keys = ("id", "created", "model", *(["usage"] if "usage" in payload else []))
            return {**{key: payload[key] for key in keys}, "delta": choice["delta"]}
        except (KeyError, TypeError, ValueError):
            return payload

    def read(streams):
        news = [lab.new(READER)] * len(streams)
        for trace, pieces in zip(lab.interleave(news, streams, "", watch=""), streams, strict=True):
            expect(trace.outputs, read_pieces(pieces), trace)
            expect_untouched(trace)

    pairs = ([texts(lab.random) + a_call(lab.random, 0) for _ in range(2)] for _ in range(4))
    check(written, [[[("text", "a")], [("text", "b"), ("text", "c")]], *pairs])
    cuts = (
        [cut(some_events(lab.random, "\r\n", lines=3), lab.random) for _ in range(3)]
        for _ in range(6)
    )
    fixed = [
        [[b"data: a\r", b"\n\n"], [b"data: b\n", b"\n"]],
        [[b"data: a\r", b"\ndata: c\n\n"], [b"data: b", b"\n\n"]],
    ]
    check(read, [*fixed, *cuts])


@pytest.mark.task(4)
@pytest.mark.points(4)
@pytest.mark.timeout(5)
def test_property_linear_reader(lab):
    """linear: a byte takes the same time however many bytes came before it: a line of data and a
    comment of a million bytes, each in 25,000 pieces, an event of 75,000 lines in 6,000 pieces, and
    a piece with 25,000 events or 200,000 comments, are read within the time limit. The reader keeps
    nothing of an event that it has returned, not even of the last.
    """
    part = b"0123456789" * 4
    line, written = part.decode(), b"data: " + part + b"\r\n"
    short = b"data: " + part[:10] + b"\n"
    for size in (10, lab.random.randint(23_000, 27_000)):
        for pieces, event in (
            ([b"data: ", *[part] * size, b"\n\n"], line * size),
            ([b":", *[part] * size, b"\ndata: a\n\n"], "a"),
            ([*[short * 12] * (size // 4), b"\r\n"], "\n".join([line[:10]] * (size // 4 * 12))),
        ):
            trace = lab.stream(lab.new(READER), pieces, end="", watch="")
            what = f"one event in {len(pieces):,} pieces"
            expect_long(trace.outputs[-1], [event], f"{what}: the output of the last")
        for data, events in (
            ((written + b"\r\n") * size, [line] * size),
            (b":ab\n" * 8 * size + b"data: a\n\n", ["a"]),
        ):
            trace = lab.stream(lab.new(READER), [data], end="", watch="")
            expect_long(trace.outputs, [events], f"{len(data):,} bytes in one piece")
    events = [("feed", b"data: %040d\n\n" % number) for number in range(200)]
    events += [("feed", b"data: " + part * 500 + b"\n\n")]
    grown = growth(lab, lab.new(READER), events[:1], events[1:])
    fed = "200 different events, the last of 20,000 characters"
    expect_most(grown, 2_000, fed, "bytes more in the reader")
