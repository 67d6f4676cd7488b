"""A run written out iteration by iteration, and how a submission is answered."""

from scenes import (
    BOS,
    EOS,
    Scene,
    channels_of,
    engine_of,
    ids,
    ids_of,
    one_by_one,
    params,
    popped,
    request,
    text_of,
)

from mini_vllm.engine import FinishReason, Request, StreamChunk

SCRIPTS = {
    "A": [(0x68,), (0x69,), (0xF0,), (0x9F,), (0x9A,), (0x80,), (EOS,)],
    "B": [(0x61,), (0x62, 0x23), (0x63, 0x23, 0x23, 0x7A), (0x7A,)],
    "C": one_by_one("xywvuts", end=True),
}
PARAMS = {"A": params(), "B": params(stop=("##",)), "C": params()}


def end(reason, token_ids=(), text="", stop_reason=None):
    return StreamChunk(token_ids, text, True, reason, stop_reason=stop_reason)


def test_golden_trace_1_each_stream_ends_for_its_own_reason():
    stats, held = [], []
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
        now = scene.engine.stats()
        stats.append((now.running, now.used_blocks))
        held.append((now.held.get("stops", 0), now.held.get("tokens", 0)))
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
    # The jail of B in iteration 2, and the character of A.
    assert held == [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3), (0, 0), (0, 0)]
    assert places == {"A": 0, "B": 1, "C": 2}
    assert {name: one.original_batch_idx for name, one in scene.channels.items()} == places
    assert scene.outcome("A") == ((0x68, 0x69, 0xF0, 0x9F, 0x9A, 0x80, EOS), "hi🚀", 1)
    assert scene.outcome("B") == (ids("ab#c##"), "ab#c", FinishReason.STOP_WORDS)
    assert scene.outcome("C") == (ids("xyw"), "xyw", FinishReason.CANCELLED)


def test_text_prompts_are_encoded_with_their_special_tokens():
    seen = []
    engine = engine_of(lambda slot: seen.append(slot.prompt_token_ids) or [(EOS,)])
    engine.handle_request([Request("hé")])
    assert seen == [(BOS, *ids("hé"))]


def test_handle_request_answers_in_the_order_of_the_submission_with_a_place_for_each_choice():
    scripts = {
        "A": one_by_one("slow", end=True),
        "B": [(EOS,)],
        ("C", 0): [(*ids("é"), EOS)],
        ("C", 1): [(98,), (EOS,)],
    }
    engine = engine_of(scripts, max_num_seqs=2)
    one, two, three = channels_of(3)
    requests = [request("A"), request("B"), request("C", n=2)]
    response = engine.handle_request(requests, [one, None, two, three])
    found = [(out.request_id, out.index, out.text) for out in response.outputs]
    assert found == [("A", 0, "slow"), ("B", 0, ""), ("C", 0, "é"), ("C", 1, "b")]
    assert response.output_ids == [[*ids("slow"), EOS], [EOS], [*ids("é"), EOS], [98, EOS]]
    assert response.finish_reasons == [FinishReason.END_ID] * 4
    assert response.logprobs == [()] * 4
    for channel, text in ((one, "slow"), (two, "é"), (three, "b")):
        chunks = popped(channel)
        assert text_of(chunks) == text
        assert ids_of(chunks) == (*ids(text), EOS)
