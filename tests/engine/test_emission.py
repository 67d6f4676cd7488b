"""What goes out: at most one chunk an iteration and slot, complete, and never less than certain."""

import asyncio
import math

import pytest
from reading import LONG
from scenes import (
    EOS,
    FOR_MANY,
    MANY,
    PROMPT,
    ROCKET,
    Endless,
    Scene,
    ids,
    ids_of,
    one_by_one,
    params,
    popped,
    text_of,
)

from mini_vllm.engine import (
    Burst,
    Engine,
    EngineThread,
    FinishReason,
    Request,
    StreamChannel,
    TextPathFactory,
    merge,
)
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

INTERVALS = (1, 2, 4, 100)
STOP_WORDS = FinishReason.STOP_WORDS


def streamed(steps, interval=1, **changes):
    """Return (ids, text) of each chunk."""
    scene = Scene({"A": steps}, params=params(**changes), interval=interval).run()
    scene.outcome("A")
    return [(chunk.token_ids, chunk.text) for chunk in scene.chunks("A")]


def test_burst_atomic():
    scene = Scene({"A": [(97,), ids("bcd"), ids("ef")]}, params=params(max_tokens=6)).run()
    assert [(when, len(chunk.token_ids)) for when, chunk in scene.log["A"]] == [
        (1, 1),
        (2, 3),
        (3, 2),
    ]


def test_a_step_without_ids_makes_no_chunk():
    scene = Scene({"A": [None, (97,), None, None, (EOS,)]}).run()
    assert scene.when("A") == [2, 5]


@pytest.mark.parametrize("interval", INTERVALS)
def test_interval_is_the_least_number_of_ids_in_all_chunks_but_the_last(interval):
    chunks = streamed(one_by_one("ab你c🚀defg", end=True), interval)
    assert all(len(token_ids) >= interval and text for token_ids, text in chunks[:-1])


CHUNKS = {
    "interval 4 of single ids": (
        one_by_one("abcdefghij"), 4, {"max_tokens": 10},
        [(ids("abcd"), "abcd"), (ids("efgh"), "efgh"), (ids("ij"), "ij")],
    ),
    "interval 4 of bursts of three cuts the surplus": (
        [ids("abc"), ids("def"), ids("ghi"), ids("jkl")], 4, {"max_tokens": 10},
        [(ids("abcdef"), "abcdef"), (ids("ghij"), "ghij")],
    ),
    "interval 4 with EOS after a full chunk": (
        one_by_one("abcd", end=True), 4, {}, [(ids("abcd"), "abcd"), ((EOS,), "")],
    ),
    "K9: the tail of an interval is sent at a natural end": (
        one_by_one("abcdef", end=True), 4, {}, [(ids("abcd"), "abcd"), ((*ids("ef"), EOS), "ef")],
    ),
    "X5: a natural end shows a cut-off character": (
        [*one_by_one("ok"), (0xF0,), (0x9F,), (EOS,)], 1, {},
        [(ids("o"), "o"), (ids("k"), "k"), ((0xF0, 0x9F, EOS), "\ufffd")],
    ),
    "X5: an iteration without text makes no chunk though the interval is met": (
        [*((one,) for one in ROCKET), (EOS,)], 2, {}, [(ROCKET, "🚀"), ((EOS,), "")],
    ),
    "S-b: a stop across chunks": (
        [ids("abc"), ids("de###")], 1, {"stop": ("###",)},
        [(ids("abc"), "abc"), (ids("de###"), "de")],
    ),
    "S-d: held, then given back": (
        [ids("a#"), ids("#"), ids("b"), (EOS,)], 1, {"stop": ("###",)},
        [(ids("a#"), "a"), (ids("#b"), "##b"), ((EOS,), "")],
    ),
    "P1: several chunks and a terminal one": (
        one_by_one("hey", end=True), 1, {},
        [(ids("h"), "h"), (ids("e"), "e"), (ids("y"), "y"), ((EOS,), "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "interval", "changes", "chunks"), CHUNKS.values(), ids=CHUNKS)
def test_the_chunks_of_a_script(steps, interval, changes, chunks):
    assert streamed(steps, interval, **changes) == chunks


TEXTS = {
    "K7: an ill-formed character costs itself only": ([(0xF0,), (0x41,), (EOS,)], (), "\ufffdA"),
    "K8 X5: a natural end gives the held stop string back": (
        one_by_one("hello##", end=True), ("###",), "hello##",
    ),
    "K8 X5: a natural end with nothing held": (one_by_one("hello", end=True), ("###",), "hello"),
    "K11: the stop that ends first wins, in one burst": ([ids("abcd")], ("abcd", "bc"), "a"),
    "K11: the stop that ends first wins, id by id": (one_by_one("abcd"), ("abcd", "bc"), "a"),
    "K11: the stop that ends first wins, in two": ([ids("ab"), ids("cd")], ("abcd", "bc"), "a"),
    "S-a: no match is given back at the end": (one_by_one("ab#", end=True), ("###",), "ab#"),
    "S-c: the earliest position": ([ids("xENDyHALT")], ("HALT", "END"), "x"),
    "S-e: a stop in CJK": (one_by_one("说你好吗"), ("你好",), "说"),
    "P3: a stop is never in the text": (
        one_by_one("one two STO STOP three"), ("STOP",), "one two STO ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize(("steps", "stop", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_of_a_script_whatever_the_interval(steps, stop, text, interval):
    assert text_of_all(streamed(steps, interval, stop=stop)) == text


@pytest.mark.parametrize("interval", INTERVALS)
def test_X6_K10_every_chunk_is_well_formed_with_a_stop_over_cjk(interval):
    text = "a你b##世界#🚀##c###hidden"
    for stop in (("###",), ("世x",), ("你b###",)):
        chunks = streamed([*one_by_one(text), (EOS,)], interval, stop=stop, max_tokens=99)
        for _, piece in chunks:
            assert piece.encode().decode() == piece
            assert "\ufffd" not in piece
        if stop == ("###",):
            assert text_of_all(chunks) == "a你b##世界#🚀##c"


def test_R1_four_slots_of_different_lengths_stream_what_the_response_says():
    lengths = dict(zip("ABCD", (2, 5, 3, 7), strict=True))
    scripts = {
        name: [tuple(name.lower().encode())] * (length - 1) + [(EOS,)]
        for name, length in lengths.items()
    }
    scene = Scene(scripts, silent=("B",)).run()
    for name, length in lengths.items():
        text = name.lower() * (length - 1)
        assert scene.outcome(name) == ((*ids(text), EOS), text, FinishReason.END_ID)
        if name != "B":
            assert scene.when(name) == list(range(1, length + 1))


def test_compaction_hands_no_slot_the_state_of_another():
    """Four slots end at 2, 5, 3 and 7; the last has half a character when the others leave."""
    scripts = {
        "A": one_by_one("a", end=True),
        "B": one_by_one("bbbb", end=True),
        "C": one_by_one("cc", end=True),
        "D": [*one_by_one("d"), *((one,) for one in ROCKET), (100,), (EOS,)],
        "E": one_by_one("eeeee", end=True),
    }
    scene = Scene(scripts, max_num_seqs=4)
    places = {name: channel.original_batch_idx for name, channel in scene.channels.items()}
    running = []
    more = True
    while more:
        more = scene.step()
        running.append(scene.engine.stats().running)
        for name, channel in scene.channels.items():
            alphabet = set(name.lower().encode()) | {EOS} | set(ROCKET if name == "D" else ())
            assert set(ids_of(scene.chunks(name))) <= alphabet
            assert channel.original_batch_idx == places[name]
    assert running == [4, 3, 3, 3, 2, 2, 1, 0]
    assert [when for when, chunk in scene.log["D"] if chunk.text] == [1, 5, 6]
    assert scene.outcome("D")[1] == "d🚀d"
    # The newcomer takes the first place that is free.
    assert scene.when("E") == [3, 4, 5, 6, 7, 8]


def logprob_scene(steps, **changes):
    scene = Scene({"A": steps}, params=params(**changes)).run()
    chunks = scene.chunks("A")
    for chunk in chunks:
        assert [one.chosen.token_id for one in chunk.logprobs] == list(chunk.token_ids)
    everything = [one for chunk in chunks for one in chunk.logprobs]
    assert tuple(everything) == scene.output("A").logprobs
    return everything


def test_P2_a_logprob_step_for_each_id_with_k_entries_none_above_zero():
    for interval in (0, 1, 5):
        steps = logprob_scene([ids("ab"), ids("cde"), (EOS,)], logprobs=interval)
        assert len(steps) == 6
        for step in steps:
            assert len(step.top) == interval
            assert all(entry.logprob <= 0 for entry in (step.chosen, *step.top))


def test_X20_logprobs_stay_aligned_after_a_cut():
    assert len(logprob_scene([ids("ab"), ids("c##defg")], stop=("##",), logprobs=2)) == 5
    assert len(logprob_scene([ids("ab"), ids("cdefg")], max_tokens=4, logprobs=2)) == 4
    assert len(logprob_scene([(97, EOS, 98)], logprobs=2)) == 2


def test_the_chosen_id_is_reported_though_it_is_not_among_the_likeliest():
    burst = Burst((97,), ({97: -9.0, 98: -0.1, 99: -0.1, 100: -2.0},))
    (step,) = logprob_scene([burst], logprobs=2, max_tokens=1)
    assert (step.chosen.token_id, step.chosen.logprob) == (97, -9.0)
    assert [entry.token_id for entry in step.top] == [98, 99]


def test_logprobs_that_nobody_asked_for_are_left_out():
    burst = Burst((97, 98), ({97: -1.0},))
    scene = Scene({"A": [burst, (EOS,)]}).run()
    assert scene.output("A").logprobs == ()
    assert all(chunk.logprobs == () for chunk in scene.chunks("A"))


def test_logprobs_of_an_idle_text_path_are_complete_too():
    scene = Scene({"A": [ids("ab"), (EOS,)]}, params=params(logprobs=1), silent=("A",)).run()
    logprobs = scene.output("A").logprobs
    assert [one.chosen.token_id for one in logprobs] == [97, 98, EOS]
    assert all(math.isfinite(one.chosen.logprob) for one in logprobs)


def test_P4_a_stop_without_a_reader():
    scene = Scene({"A": one_by_one("abSTOPcd")}, params=params(stop=("STOP",)), silent=("A",))
    assert scene.run().outcome("A") == (ids("abSTOP"), "ab", STOP_WORDS)


class CountingPath:
    def __init__(self, inner, calls):
        self._inner = inner
        self._calls = calls

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def feed(self, token_ids):
        self._calls.append(len(token_ids))
        return self._inner.feed(token_ids)


def counted(scripts, **scene_options):
    calls = {}
    make = TextPathFactory(ByteTokenizer())

    def make_text_path(request, prompt):
        return CountingPath(make(request, prompt), calls.setdefault(request.request_id, []))

    return Scene(scripts, make_text_path=make_text_path, **scene_options).run(), calls


def test_X13_nobody_reads_and_no_stops_is_one_feed_a_choice():
    text = "hello 你好 🚀"
    scripts = {"A": one_by_one(text, end=True), "B": one_by_one("b" * 20, end=True)}
    unread, calls = counted(scripts, silent="AB")
    assert calls == {"A": [len(ids(text)) + 1], "B": [21]}
    read, calls = counted(scripts)
    assert len(calls["A"]) == len(ids(text)) + 1
    for name in scripts:
        assert unread.outcome(name) == read.outcome(name)


def test_X13_stop_strings_are_looked_for_each_time_though_nobody_reads():
    scene, calls = counted({"A": one_by_one("ab##cd")}, silent="A", params=params(stop=("##",)))
    assert scene.iteration == 4
    assert len(calls["A"]) == 4


def test_mixed_batches_fill_the_whole_response():
    scripts = {name: one_by_one(name * 3 + "é", end=True) for name in "ABCD"}
    scene = Scene(scripts, silent="BD", max_num_seqs=2).run()
    for name in scripts:
        assert scene.outcome(name)[1] == name * 3 + "é"


def test_slow_consumer_holds_nobody_up():
    text = "".join(chr(0x4E00 + number) for number in range(250))
    scripts = {"A": one_by_one(text * 2, end=True), "B": one_by_one(text * 2, end=True)}
    tokenizer = ByteTokenizer()
    engine = Engine(ScriptedModel(scripts), tokenizer)
    slow, quick = StreamChannel.create(max_pending=7), StreamChannel.create()
    requests = [Request(PROMPT, params(max_tokens=2000), name) for name in scripts]
    engine.submit(requests, [slow, quick])
    seen, iterations, chunk_iterations = [], 0, []
    more = True
    while more:
        iterations += 1
        more = engine.step()
        assert slow.pending_count <= 7
        news = popped(quick)
        seen += news
        chunk_iterations += [iterations] * len(news)
    assert iterations == 1501
    # A character a chunk: nothing waited for the other's reader.
    assert chunk_iterations == [*range(3, 1501, 3), 1501]
    late = popped(slow)
    assert len(late) == 7
    assert text_of(late) == text_of(seen) == text * 2
    assert ids_of(late) == ids_of(seen)


def test_n_2_streams_two_choices_that_do_not_mix():
    engine = Engine(
        ScriptedModel({("A", 0): one_by_one("zero", end=True), ("A", 1): one_by_one("o🚀ne")}),
        ByteTokenizer(),
    )
    channels = [StreamChannel.create(), StreamChannel.create()]
    (handle,) = engine.submit([Request(PROMPT, params(n=2, max_tokens=7), "A")], channels)
    engine.step()
    assert not handle.future.done()
    engine.run_until_idle()
    outputs = handle.result(timeout=0).outputs
    assert [(out.index, out.text, out.finish_reason) for out in outputs] == [
        (0, "zero", FinishReason.END_ID),
        (1, "o🚀ne", FinishReason.LENGTH),
    ]
    assert [text_of(popped(channel)) for channel in channels] == ["zero", "o🚀ne"]


def test_X17_three_choices_merge_to_their_ends():
    scripts = {("A", n): one_by_one(f"{n}é🚀" * (n + 1), end=True) for n in range(3)}

    async def read():
        engine = Engine(ScriptedModel(scripts), ByteTokenizer(), max_num_seqs=2)
        with EngineThread(engine):
            channels = [StreamChannel.create() for _ in range(3)]
            engine.submit([Request(PROMPT, params(n=3), "A")], channels)
            return [one async for one in merge(channels)]

    chunks = asyncio.run(asyncio.wait_for(read(), LONG))
    for n in range(3):
        mine = [chunk for index, chunk in chunks if index == n]
        assert text_of(mine) == f"{n}é🚀" * (n + 1)
        assert [chunk.finished for chunk in mine].count(True) == 1
        assert mine[-1].reason is FinishReason.END_ID


def test_X17_leaving_a_merged_stream_cancels_all_its_choices():
    scripts = {("A", n): Endless((120,)) for n in range(3)}

    async def read():
        engine = Engine(ScriptedModel(scripts), ByteTokenizer(), **FOR_MANY)
        with EngineThread(engine):
            channels = [StreamChannel.create() for _ in range(3)]
            three = Request(PROMPT, params(n=3, max_tokens=MANY), "A")
            (handle,) = engine.submit([three], channels)
            stream = merge(channels)
            async for _ in stream:
                break
            await stream.aclose()
            return await asyncio.wait_for(asyncio.wrap_future(handle.future), LONG)

    response = asyncio.run(read())
    assert response.finish_reasons == [FinishReason.CANCELLED] * 3


def text_of_all(chunks):
    return "".join(text for _, text in chunks)
