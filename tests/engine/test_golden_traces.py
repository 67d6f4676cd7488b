"""Two runs written out iteration by iteration, and that a run can be repeated."""

import pytest
from scenes import BOS, EOS, PROMPT, Scene, ids, ids_of, one_by_one, params, popped, text_of

from mini_vllm.engine import (
    Engine,
    EngineDeadError,
    EngineState,
    FinishReason,
    Request,
    StreamChannel,
    StreamChunk,
)
from mini_vllm.models.scripted import Raise, ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

SCRIPTS = {
    "A": [(0x68,), (0x69,), (0xF0,), (0x9F,), (0x9A,), (0x80,), (EOS,)],
    "B": [(0x61,), (0x62, 0x23), (0x63, 0x23, 0x23, 0x7A), (0x7A,)],
    "C": one_by_one("xywvuts", end=True),
}
PARAMS = {"A": params(), "B": params(stop=("##",)), "C": params()}


def end(reason, token_ids=(), text="", stop_reason=None):
    return StreamChunk(token_ids, text, True, reason, stop_reason=stop_reason)


def test_golden_trace_1_each_stream_ends_for_its_own_reason():
    stats = []
    scene = Scene(
        SCRIPTS,
        params=PARAMS,
        max_num_seqs=3,
        at={("before_decode", 3): lambda scene: scene.channels["C"].cancel()},
    )
    places = {name: channel.original_batch_idx for name, channel in scene.channels.items()}
    more = True
    while more:
        more = scene.step()
        stats.append((scene.engine.stats().running, scene.engine.stats().used_blocks))
    assert scene.log["A"] == [
        (1, StreamChunk((0x68,), "h")),
        (2, StreamChunk((0x69,), "i")),
        (6, StreamChunk((0xF0, 0x9F, 0x9A, 0x80), "🚀")),
        (7, end(FinishReason.END_ID, (EOS,))),
    ]
    assert scene.log["B"] == [
        (1, StreamChunk((0x61,), "a")),
        (2, StreamChunk((0x62, 0x23), "b")),
        (3, end(FinishReason.STOP_WORDS, (0x63, 0x23, 0x23), "#c", "##")),
    ]
    assert scene.log["C"] == [
        (1, StreamChunk((0x78,), "x")),
        (2, StreamChunk((0x79,), "y")),
        (3, StreamChunk((0x77,), "w")),
        (4, end(FinishReason.CANCELLED)),
    ]
    # 2 prompt ids and 50 more are 4 blocks.
    assert stats == [(3, 12), (3, 12), (2, 8), (1, 4), (1, 4), (1, 4), (0, 0)]
    assert places == {"A": 0, "B": 1, "C": 2}
    assert {name: one.original_batch_idx for name, one in scene.channels.items()} == places
    assert scene.outcome("A") == ((0x68, 0x69, 0xF0, 0x9F, 0x9A, 0x80, EOS), "hi🚀", 1)
    assert scene.outcome("B") == (ids("ab#c##"), "ab#c", FinishReason.STOP_WORDS)
    assert scene.outcome("C") == (ids("xyw"), "xyw", FinishReason.CANCELLED)


def test_golden_trace_1_half_a_character_and_a_jail_are_held():
    scene = Scene(SCRIPTS, params=PARAMS, max_num_seqs=3)
    held = []
    for _ in range(6):
        scene.step()
        held.append(scene.engine.stats().held)
    assert [one["stop"] for one in held] == [0, 1, 0, 0, 0, 0]
    assert [one["detokenizer"] for one in held] == [0, 0, 1, 2, 3, 0]


def test_golden_trace_2_the_model_raises_and_every_reader_gets_what_there_was():
    boom = RuntimeError("boom")
    scene = Scene(
        {
            "A": [(0x68,), (0x69,), (0xF0,), Raise(boom)],
            "B": [(0x61,), (0x62, 0x23), (0x63, 0x23), (1,)],
        },
        params=PARAMS,
    )
    with pytest.raises(RuntimeError) as caught:
        scene.run()
    assert caught.value is boom
    assert scene.iteration == 4
    assert scene.log["A"] == [
        (1, StreamChunk((0x68,), "h")),
        (2, StreamChunk((0x69,), "i")),
        (4, end(FinishReason.ERROR, (0xF0,), "\ufffd")),
    ]
    assert scene.log["B"] == [
        (1, StreamChunk((0x61,), "a")),
        (2, StreamChunk((0x62, 0x23), "b")),
        (3, StreamChunk((0x63, 0x23), "#c")),
        (4, end(FinishReason.ERROR, (), "#")),
    ]
    assert [channel.error for channel in scene.channels.values()] == [boom, boom]
    assert scene.engine.state is EngineState.FAILED
    stats = scene.engine.stats()
    assert (stats.running, stats.waiting, stats.used_blocks) == (0, 0, 0)
    with pytest.raises(EngineDeadError) as dead:
        scene.handles["A"].result(timeout=0)
    assert dead.value.__cause__ is boom


def test_the_same_scripts_and_hooks_give_the_same_chunks_twice():
    def log():
        scene = Scene(
            SCRIPTS,
            params=PARAMS,
            max_num_seqs=2,
            at={("after_emit", 4): lambda scene: scene.channels["A"].cancel()},
        )
        return scene.run().log

    assert log() == log()


@pytest.mark.parametrize("max_num_seqs", range(1, 9))
def test_the_number_of_slots_changes_no_answer(max_num_seqs):
    texts = {name: f"{name}é你🚀{name * number}" for number, name in enumerate("ABCDEFG")}
    scene = Scene(
        {name: one_by_one(text, end=True) for name, text in texts.items()},
        max_num_seqs=max_num_seqs,
    ).run()
    for name, text in texts.items():
        assert scene.outcome(name) == ((*ids(text), EOS), text, FinishReason.END_ID)


def test_text_prompts_are_encoded_with_their_special_tokens():
    seen = []
    model = ScriptedModel(lambda slot: seen.append(slot.prompt_token_ids) or [(EOS,)])
    engine = Engine(model, ByteTokenizer())
    engine.handle_request([Request("hé")])
    assert seen == [(BOS, *ids("hé"))]


def test_handle_request_answers_in_the_order_of_the_submission():
    engine = Engine(
        ScriptedModel({"A": one_by_one("slow", end=True), "B": [(EOS,)], "C": [(*ids("c"), EOS)]}),
        ByteTokenizer(),
        max_num_seqs=2,
    )
    channels = [StreamChannel.create(), None, StreamChannel.create()]
    requests = [Request(PROMPT, params(), name) for name in "ABC"]
    response = engine.handle_request(requests, channels)
    assert response.texts == ["slow", "", "c"]
    assert response.output_ids == [[*ids("slow"), EOS], [EOS], [*ids("c"), EOS]]
    assert response.finish_reasons == [FinishReason.END_ID] * 3
    for channel, text in ((channels[0], "slow"), (channels[2], "c")):
        chunks = popped(channel)
        assert text_of(chunks) == text
        assert ids_of(chunks) == (*ids(text), EOS)
