"""What goes out: at most one chunk an iteration and slot, complete, and never less than certain."""

import math

import pytest
from scenes import (
    EOS,
    ROCKET,
    Scene,
    engine_of,
    ids,
    ids_of,
    one_by_one,
    params,
    paths_around,
    popped,
    request,
    text_of,
)

from mini_vllm.engine import Burst, FinishReason, StreamChannel

INTERVALS = (1, 2, 4, 100)


def streamed(steps, interval=1, **changes):
    """Return (ids, text) of each chunk."""
    scene = Scene({"A": steps}, params=params(**changes), interval=interval).run()
    scene.outcome("A")
    return [(chunk.token_ids, chunk.text) for chunk in scene.chunks("A")]


@pytest.mark.parametrize("interval", INTERVALS)
def test_interval_is_the_least_number_of_ids_in_all_chunks_but_the_last(interval):
    chunks = streamed(one_by_one("ab你c🚀defg", end=True), interval)
    assert all(len(token_ids) >= interval and text for token_ids, text in chunks[:-1])


CHUNKS = {
    "a burst is a chunk": (
        [(97,), ids("bcd"), ids("ef")], 1, {"max_tokens": 6},
        [((97,), "a"), (ids("bcd"), "bcd"), (ids("ef"), "ef")],
    ),
    "a step without ids makes no chunk": (
        [*[None] * 50, (97,), None, None, (EOS,)], 1, {}, [((97,), "a"), ((EOS,), "")],
    ),
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


MIXED = "a你b##世界#🚀##c###hidden"
TEXTS = {
    "X6 K10: a stop over CJK that comes": (one_by_one(MIXED), ("###",), "a你b##世界#🚀##c"),
    "X6 K10: one that only begins": (one_by_one(MIXED, end=True), ("世x",), MIXED),
    "X6 K10: one that goes wrong late": (one_by_one(MIXED, end=True), ("你b###",), MIXED),
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
    assert "".join(text for _, text in streamed(steps, interval, stop=stop)) == text


def test_R1_compaction_hands_no_slot_the_state_of_another():
    """Four slots end at 2, 5, 3 and 7; the last has half a character when the others leave."""
    scripts = {
        "A": one_by_one("a", end=True),
        "B": one_by_one("bbbb", end=True),
        "C": one_by_one("cc", end=True),
        "D": [*one_by_one("d"), *((one,) for one in ROCKET), (100,), (EOS,)],
        "E": one_by_one("eeeee", end=True),
    }
    scene = Scene(scripts, silent="B", max_num_seqs=4)
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
    for name, text in (("A", "a"), ("B", "bbbb"), ("C", "cc"), ("D", "d🚀d"), ("E", "eeeee")):
        assert scene.outcome(name) == ((*ids(text), EOS), text, FinishReason.END_ID)
    # The newcomer takes the first place that is free.
    assert [scene.when(name) for name in "ACE"] == [[1, 2], [1, 2, 3], [3, 4, 5, 6, 7, 8]]


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
        steps = logprob_scene([ids("ab"), ids("c"), ids("de"), (EOS,)], logprobs=interval)
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
    scene = Scene({"A": [Burst((97, 98), ({97: -1.0},)), (EOS,)]}).run()
    assert scene.output("A").logprobs == ()
    assert all(chunk.logprobs == () for chunk in scene.chunks("A"))


def test_logprobs_of_an_idle_text_path_are_complete_too():
    scene = Scene({"A": [ids("ab"), (EOS,)]}, params=params(logprobs=1), silent=("A",)).run()
    logprobs = scene.output("A").logprobs
    assert [one.chosen.token_id for one in logprobs] == [97, 98, EOS]
    assert all(math.isfinite(one.chosen.logprob) for one in logprobs)


@pytest.mark.parametrize(
    ("text", "silent", "changes", "shown", "feeds"),
    [
        ("hello 你好 🚀", "AB", {}, "hello 你好 🚀", 1),
        ("hello 你好 🚀", "", {}, "hello 你好 🚀", 18),
        # P4: stop strings are looked for each time, though nobody reads.
        ("ab##cd", "A", {"stop": ("##",)}, "ab", 4),
    ],
)
def test_X13_nobody_reads_and_no_stops_is_one_feed_a_choice(text, silent, changes, shown, feeds):
    fed = []

    def feed(inner, token_ids):
        fed.append(len(token_ids))
        return inner.feed(token_ids)

    scene = Scene(
        {"A": one_by_one(text, end=True), "B": one_by_one("b" * 20, end=True)},
        silent=silent,
        params=params(**changes),
        make_text_path=paths_around(lambda name: {"feed": feed} if name == "A" else {}),
    ).run()
    assert scene.outcome("A")[1] == shown
    assert len(fed) == feeds
    assert sum(fed) == len(scene.outcome("A")[0])


@pytest.mark.parametrize("most", [1, 7])
def test_x8_slow_consumer_holds_nobody_up(most):
    text = "".join(chr(0x4E00 + number) for number in range(500))
    engine = engine_of(one_by_one(text, end=True))
    slow, quick = StreamChannel.create(max_pending=most), StreamChannel.create()
    engine.submit([request(max_tokens=2000), request(max_tokens=2000)], [slow, quick])
    seen, iterations, more = [], 0, True
    while more:
        iterations += 1
        more = engine.step()
        assert slow.pending_count == min(most, iterations // 3)
        seen += [(iterations, chunk) for chunk in popped(quick)]
    assert iterations == 1501
    # A character a chunk: nothing waited for the other's reader.
    assert [when for when, _ in seen] == [*range(3, 1501, 3), 1501]
    late, quick_chunks = popped(slow), [chunk for _, chunk in seen]
    assert len(late) == most
    assert text_of(late) == text_of(quick_chunks) == text
    assert ids_of(late) == ids_of(quick_chunks)
