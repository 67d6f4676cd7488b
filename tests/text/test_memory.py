"""What streams remember: it changes nothing, has a limit, and saves the work.

`pieces` below are texts or ids, and a trace is what comes of each, with what is held then.
"""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from families import STYLES
from prometheus_client import CollectorRegistry
from renderers import TOOLS, Call
from test_pipeline import OTHER, SESSIONS, TOKENIZERS, ids_of, make, trace

from mini_vllm.finish_reason import FinishReason
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import TextDelta
from mini_vllm.text.formats import find_format
from mini_vllm.text.memory import LONGEST_PIECE, MEMORY, NOWHERE, Memory
from mini_vllm.text.states.object import Object
from mini_vllm.text.stop import StopMatcher
from mini_vllm.text.stream_parser import Format, StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer
from mini_vllm.tokenizer.metered import MeteredTokenizer
from mini_vllm.tokenizer.metrics import TokenizerMetrics
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.streams.decode_stream import DecodeStream

CALLS = [
    Call("f", {"path": "a\", 'b'~~</", "maybe": "null ~~", "count": 5, "items": [1, "x"]}),
    Call("get_weather", {"either": None, "options": {"a": "}\n"}, "path": "\n ~~\n", "any": "{~~"}),
]
PROSE = ["", "so <", ' {"a": "b"} [f(', " \n"]
REPLY = (
    'Well, <b>so</b> it is. <tool_call>\n{"name": "f", "arguments": {"a": "b c d", "n": [1, 2]}}\n'
    "</tool_call> And on."
)

ITEMS = (
    "<tool_call>get_weather\n<arg_key>items</arg_key><arg_value>[1, 2, 3]</arg_value></tool_call>"
)
ELEMENTS = (
    '<tool_call><invoke name="get_weather"><items><a>1</a><b>2</b></items></invoke></tool_call>'
).replace("<", "]<]minimax[>[<")


def limits(monkeypatch, nodes, steps):
    """Forget all, and set the limits of the memory."""
    MEMORY.clear()
    monkeypatch.setattr(Memory, "MOST_NODES", nodes)
    monkeypatch.setattr(Memory, "MOST_STEPS", steps)


def steps_of(node):
    return len(node) + len(node.keeping)


def in_every_memory(monkeypatch, run):
    """Return what `run` returns without a memory, after demanding the same of all kinds of it."""
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "node", lambda *_: NOWHERE)
        patched.setattr(Memory, "learn", lambda *_: NOWHERE)
        expected = run()
    for nodes, steps in ((3, 2), (20, 10)):
        with monkeypatch.context() as patched:
            limits(patched, nodes, steps)
            assert [run(), run()] == [expected] * 2
    MEMORY.clear()
    assert [run(), run()] == [expected] * 2
    return expected


def traces(makers, streams):
    """Return the traces of streams, which take turns."""
    machines = [make() for make in makers]
    found = [[] for _ in machines]
    for number in range(max(map(len, streams))):
        for machine, pieces, rows in zip(machines, streams, found, strict=True):
            if number < len(pieces):
                rows.append((machine.feed(pieces[number]), machine.held if number % 3 else ""))
    return [(rows, machine.flush()) for machine, rows in zip(machines, found, strict=True)]


def cut(text, generator):
    """Pieces as long as those of tokens or of a few; or from inside one string to the next."""
    if generator.random() < 0.4:
        return text.replace("~~", "~\0~").split("\0")
    places = [0]
    while places[-1] < len(text):
        places.append(places[-1] + generator.choice((1, 1, 2, 3, 4, 8, 30)))
    return [text[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_it_changes_nothing_for_parsers(style, monkeypatch):
    """isolated, chunk-invariant: streams of one format and other schemas, side by side."""
    generator = random.Random(0)
    prose = [""] * 3 if style.opening else PROSE[:3]
    texts = [style.render(CALLS, prose, generator)[0] for _ in range(2)]
    texts += [texts[0][: len(texts[0]) * 2 // 3], texts[1] + texts[0]]
    streams = [cut(text, generator) for text in texts] * 2
    makers = [
        lambda tools=tools: create_tool_parser(style.format, tools=tools)
        for tools in [TOOLS] * 4 + [None] * 4
    ]
    in_every_memory(monkeypatch, lambda: traces(makers, streams))


@pytest.mark.parametrize("format", ["harmony", "gemma4", "pythonic"])
def test_it_changes_nothing_where_arguments_are_the_first_behind_markup(format, monkeypatch):
    """lossless: markup that arguments have used up is not in the rest of a broken call."""
    head, mess = {
        "harmony": ("<|channel|>commentary to=functions.f<|message|>", '{"a": x'),
        "gemma4": ("<|tool_call>call:f{", "a:[[1,2]]]"),
        "pythonic": ("[f(a='b'", ", c=[1, 2], d='e' x"),
    }[format]
    streams = [[head, *mess], [head, " ", *mess], [head, " ", " ", *mess]]
    for order in (streams, streams[::-1]):
        in_every_memory(
            monkeypatch,
            lambda order=order: [traces([lambda: create_tool_parser(format)], [s]) for s in order],
        )


class Letters:
    """A state that does with each letter, by methods of the parser, what the letter says."""

    def __init__(self, does):
        self.does = does

    def take(self, parser, text):
        if text[0] in self.does:
            self.does[text[0]](parser)
        return text[1:]

    def waiting(self, parser):
        return ""

    def end(self, parser):
        if parser.call.announced:
            parser.malformed()
        return True


def count(parser):
    parser.scratch.json = ((parser.scratch.json or 0) + 1) % 3
    parser.events.append(TextDelta(f"{parser.scratch.json}"))


def test_it_changes_nothing_whatever_states_do(monkeypatch):
    """isolated: what is remembered depends on no state to say what it uses."""
    anywhere = {
        "c": count,
        "k": lambda parser: parser.keep("K"),
        "n": lambda parser: parser.note("N"),
        "h": lambda parser: parser.hold("H"),
        "r": lambda parser: parser.events.append(TextDelta(parser.recall())),
        "f": lambda parser: parser.fail("f"),
        "1": lambda parser: setattr(parser.call, "parameter", "one"),
        "2": lambda parser: setattr(parser.call, "parameter", "two"),
        "?": lambda parser: parser.events.append(TextDelta(str(parser.schema_types()))),
        "o": lambda parser: parser.events.append(TextDelta(str(parser.offers("f")))),
    }
    outside = {"a": lambda parser: (parser.announce("f"), parser.go("broken"))}
    inside = {
        "a": lambda parser: parser.arguments("x"),
        "e": lambda parser: (parser.complete_call(), parser.go("content")),
        "m": lambda parser: (parser.malformed(), parser.go("content")),
    }
    states = {"content": Letters(anywhere | outside), "broken": Letters(anywhere | inside)}
    format = Format("letters", states)
    types = [{"f": {"one": frozenset(["null"])}}, {"g": {}}, {}]
    generator = random.Random(2)
    letters = [*anywhere, *inside]
    weights = [1 if letter in "nhfem" else 3 for letter in letters]
    makers = [lambda t=t: StreamParser(format, types=t) for t in types * 2]
    for _ in range(50):
        streams = [generator.choices(letters, weights, k=100) for _ in makers]
        in_every_memory(monkeypatch, lambda streams=streams: traces(makers, streams))


def test_it_changes_nothing_for_stops(monkeypatch):
    generator = random.Random(1)
    for _ in range(60):
        stops = ["".join(generator.choices("ab", k=generator.randint(2, 5))) for _ in range(2)]
        options = {"include_stop_str_in_output": generator.random() < 0.3}
        options["min_end"] = generator.choice((0, 0, 5))
        text = "".join(generator.choices("abc", k=40))
        streams = [cut(text, generator) for _ in range(2)]
        makers = [lambda stops=stops, options=options: StopMatcher(stops, **options)] * 2
        in_every_memory(monkeypatch, lambda s=streams, m=makers: traces(m, s))


@pytest.mark.parametrize("session", SESSIONS)
def test_it_changes_nothing_for_pipelines(session, monkeypatch):
    """isolated: beside streams of another tokenizer, other ends, another scope, other stops."""
    options, text = SESSIONS[session]
    others = [
        {},
        {"stop_token_ids": ids_of(text)[3:4], "min_tokens": 5},
        {"stop_scope": "all"},
        {"stop": ["e"]},
    ]

    def run():
        found = []
        for tokenizer in TOKENIZERS:
            ids = ids_of(text, tokenizer)
            for other in others:
                pipeline = make(tokenizer, **{**options, **other})
                bursts = [[token_id] for token_id in ids * 2]
                found.append((trace(pipeline, bursts), pipeline.ending, pipeline.tokens))
                pipeline = make(tokenizer, **{**options, **other})
                found.append((pipeline.feed(ids[:-2]), pipeline.finish(FinishReason.LENGTH)))
        return found

    in_every_memory(monkeypatch, run)


def counts_of(registry):
    """Return the counts of texts that have ended, and the kind of stop of the last."""
    names = ("stream_tokens", "stream_incomplete_utf8", "partial_matches")
    found = [registry.get_sample_value(f"sgl_tokenizer_{name}_total") for name in names]
    kinds = ("token", "visible_token", "string", "visible_string")
    stops = "sgl_tokenizer_stop_sequences_detected_total"
    return [*found, *(registry.get_sample_value(stops, {"type": kind}) for kind in kinds)]


@pytest.mark.parametrize("ends", [{}, {"stop_token_ids": b"e"}])
@pytest.mark.parametrize("session", SESSIONS)
def test_what_waits_is_counted_in_one_machine_as_layer_by_layer(session, ends, monkeypatch):
    """burst-invariant: what `held` says after each id, however the ids come."""
    options, text = SESSIONS[session]
    options = {**options, **ends}

    def by_hand(name):
        pipeline, waiting = make(name, **options), []
        for token_id in ids_of(text, name):
            pipeline.feed((token_id,))
            if pipeline.ending is None:
                waiting.append(pipeline.held)
        pipeline.finish(FinishReason.LENGTH)
        kinds = ["token", "visible_token", "string", "visible_string"]
        found = [False] * 4
        if pipeline.stop_reason is not None:
            kind = "string" if isinstance(pipeline.stop_reason, str) else "token"
            shown = "visible_" if "include_stop_str_in_output" in options else ""
            found[kinds.index(shown + kind)] = True
        layers = [sum(bool(held[layer]) for held in waiting) for layer in ("tokens", "stops")]
        return [pipeline.tokens, *layers, *found]

    def run():
        found = []
        for name, tokenizer in TOKENIZERS.items():
            ids = ids_of(text, name)
            for size in (1, 3, len(ids)):
                registry = CollectorRegistry()
                metered = MeteredTokenizer(tokenizer, TokenizerMetrics(registry))
                pipeline = make(metered, **options)
                for start in range(0, len(ids), size):
                    pipeline.feed(ids[start : start + size])
                pipeline.finish(FinishReason.LENGTH)
                found.append(counts_of(registry))
        return found

    expected = in_every_memory(monkeypatch, run)
    assert expected == [by_hand(name) for name in TOKENIZERS for _ in range(3)]


def test_it_changes_nothing_where_an_id_is_a_whole_call(monkeypatch):
    """Such an id leads from prose to prose, but there is one call more."""
    column = [one.encode() for one in ("!", OTHER, "</think>", f"a{OTHER}b</think>")]
    tokenizer = ByteTokenizer()
    tokenizer.pieces = PieceTable(column, column, frozenset())

    def run():
        return [
            make(tokenizer, tools="hermes", reasoning=reasoning).feed([one, 0, two, 1, 1, 0, 2, 3])
            for reasoning in (None, "deepseek_r1")
            for one in range(4)
            for two in range(4)
        ]

    in_every_memory(monkeypatch, run)


@pytest.mark.parametrize(
    ("format", "reply", "worked_out"),
    [
        # The opener, the members, the arguments' first character, and the ends of both.
        ("hermes", REPLY, '>{"name":"f","arguments":{}}>'),
        # What leads from place to place, and the value's first character, which asks the schema.
        ("glm45", ITEMS, ">g\n>>>[>>"),
        ("minimax_m3", ELEMENTS, '>">t>]>>>'),
    ],
    ids=["hermes", "glm45", "minimax_m3"],
)
def test_what_was_seen_takes_no_work(format, reply, worked_out, monkeypatch):
    """The second time the layers only work where a call leads from one place to the next."""
    taken = []
    step = DecodeStream.step

    def counted(stream, token_id):
        taken.append(token_id)
        return step(stream, token_id)

    monkeypatch.setattr(DecodeStream, "step", counted)
    MEMORY.clear()
    counts = []
    for _ in range(3):
        taken.clear()
        tools = create_tool_parser(format, tools=TOOLS)
        pipeline = TextPipeline(TOKENIZERS["bytes"], tools=tools, stop=["STOP"])
        for token_id in ids_of(reply):
            pipeline.feed([token_id])
        counts.append(bytes(taken).decode())
    assert counts[0] != counts[1] == counts[2]
    assert counts[1].replace(" ", "") == worked_out


@pytest.mark.parametrize(
    "style",
    [
        style
        for style in STYLES.values()
        if not any(isinstance(state, Object) for state in find_format(style.format).states.values())
    ],
    ids=lambda style: style.format,
)
def test_a_call_that_was_seen_takes_little_work(style, monkeypatch):
    """Character by character, typed values and all: less than one of eight is worked out."""
    taken = []
    step = StreamParser.step
    monkeypatch.setattr(
        StreamParser, "step", lambda parser, *args: taken.append(1) or step(parser, *args)
    )
    arguments = {"path": "a <b> c", "count": 12, "items": [1, "x", None], "options": {"a": True}}
    text, _ = style.render([Call("get_weather", arguments)], ["", ""], random.Random(0))
    MEMORY.clear()
    for _ in range(2):
        taken.clear()
        parser = create_tool_parser(style.format, tools=TOOLS)
        for char in text:
            parser.feed(char)
    assert len(taken) < len(text) / 8


@pytest.mark.parametrize("reply", [ITEMS, ELEMENTS, "[get_weather(items=[1, 2, 3])]"])
def test_what_is_kept_makes_no_positions(reply):
    """A value that waits for its end takes no more room where it is long."""
    format = {"<": "glm45", "]": "minimax_m3", "[": "pythonic"}[reply[0]]
    found = []
    for times in (20, 200):
        MEMORY.clear()
        parser = create_tool_parser(format, tools=TOOLS)
        for char in reply.replace("2", "2" * times):
            parser.feed(char)
        found.append((len(MEMORY._nodes), MEMORY.steps))
    assert found[0] == found[1]


def test_text_that_was_seen_takes_no_work():
    """What a matcher and a parser learned, others of their kind know."""
    pieces = [REPLY[start : start + 5] for start in range(0, 20, 5)]
    for make_one in (lambda: StopMatcher(["<x", "it i!"]), lambda: create_tool_parser("hermes")):
        MEMORY.clear()
        learned = []
        for _ in range(2):
            machine, before = make_one(), MEMORY.learned
            for piece in pieces:
                machine.feed(piece)
            learned.append(MEMORY.learned - before)
        assert learned == [len(pieces), 0]


def test_the_memory_has_a_limit_and_the_work_stays_linear(monkeypatch):
    """Where every id is new, and every bracket makes a new position."""
    limits(monkeypatch, 50, 200)
    before, most, nodes = MEMORY.learned, [0, 0], {}
    pipelines = [make(tools="hermes", stop=["ab" * 40]) for _ in range(2)]
    ids = [*range(10_000, 11_000), *ids_of("ab" * 39), *ids_of(REPLY[: REPLY.index("b c d")])]
    ids += [*ids_of('", "c": ' + "[" * 200), *range(10_000, 11_000)]
    for token_id in ids:
        assert pipelines[0].feed([token_id]) == pipelines[1].feed([token_id])
        # What streams may still stand on is empty, once the memory has started anew.
        nodes |= {id(node): node for node in MEMORY._nodes.values()}
        found = [len(MEMORY._nodes), sum(map(steps_of, nodes.values()))]
        assert found[1] == MEMORY.steps
        most = [*map(max, most, found)]
    assert most == [49, 200]
    assert 2000 < MEMORY.learned - before <= 2 * len(ids)


def test_long_pieces_and_long_holds_are_not_remembered():
    MEMORY.clear()
    long = "x" * LONGEST_PIECE
    create_tool_parser("hermes").feed(long + "x")
    matcher = StopMatcher([long + "xyz"])
    for piece in (long, "x", "~", "~"):
        matcher.feed(piece)
    known = [known for node in MEMORY._nodes.values() for known in node.values()]
    assert [shown for shown, _ in known] == ["", "~"]


def test_threads_share_it(monkeypatch):
    """Full all the time, so that each thread empties what the others stand on."""
    limits(monkeypatch, 12, 30)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ids = ids_of(REPLY)

    def run(_=0):
        pipeline = make(tools="hermes", stop=["STOP"])
        return [event for token_id in ids * 2 for event in pipeline.feed([token_id])]

    expected = run()
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(events == expected for events in pool.map(run, range(20)))
    finally:
        sys.setswitchinterval(interval)
    assert MEMORY.steps == sum(map(steps_of, MEMORY._nodes.values())) <= 30
