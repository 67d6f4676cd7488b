"""DecodeStream against the streams of `tokenizers` and vLLM: equal on valid text, never later.

What the peers do with the rest is pinned here, so that a new version of them shows up: they never
flush, they wait at whatever looks like U+FFFD, and where a character spans prompt and output two
repeat the prompt, and one loses the character.
"""

import sys

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: make oracles")

from tokenizers.decoders import DecodeStream as PeerStream
from transformers import ByT5Tokenizer

from benchmarks.materials.vocabularies import trained
from benchmarks.peers.detokenizers import HAS_VLLM, vllm_detokenizer, vllm_texts, vllm_tokenizer
from benchmarks.peers.mistral import HAS_MISTRAL, spelled, tekken_huggingface
from mini_vllm.tokenizer import HuggingFaceTokenizer, create_decode_stream
from tests.oracles.samples import SEQUENCES, bursts, streamed, strings

pytestmark = [
    pytest.mark.skipif(not HAS_VLLM, reason="vLLM's modules were not fetched: make oracles"),
    pytest.mark.skipif(not HAS_MISTRAL, reason="mistral-common is not installed: make oracles"),
]
PEERS = ["tokenizers", "vLLM Fast", "vLLM Slow"]
VALID_TEXTS = SEQUENCES // 5


@pytest.fixture(scope="module", params=["trained", "tekken"])
def inner(request):
    return tekken_huggingface() if request.param == "tekken" else trained(1024)


@pytest.fixture(scope="module")
def ours(inner):
    return HuggingFaceTokenizer.from_tokenizer(inner)


@pytest.fixture(scope="module")
def run(inner):
    """Run a peer over bursts of ids; return the text of each step, its finish included."""
    tokenizer = vllm_tokenizer(inner)

    def run(peer, cut, prompt=(), *, skip=True):
        if peer == "tokenizers":
            stream = PeerStream(ids=list(prompt), skip_special_tokens=skip)
            return [*((stream.step(inner, burst) or "") for burst in cut), ""]
        kind = peer.removeprefix("vLLM ")
        options = {"skip_special_tokens": skip}
        return vllm_texts(vllm_detokenizer(kind, tokenizer, prompt, **options), cut)

    return run


def valid_ids(inner):
    for text in strings(VALID_TEXTS):
        # A real U+FFFD at the end is what the peers lose; the case below pins it.
        yield inner.encode(text.rstrip("\ufffd") + ".", add_special_tokens=False).ids


def byte_ids(inner, data):
    """Return the ids of single bytes."""
    return [inner.token_to_id(spelled(bytes([byte]))) for byte in data]


@pytest.mark.parametrize("peer", PEERS)
def test_equal_on_valid_text_and_never_later(peer, inner, ours, run):
    for number, ids in enumerate(valid_ids(inner)):
        for cut in ([[i] for i in ids], bursts(ids, number)):
            stream = create_decode_stream(ours)
            mine = ["".join(map(stream.step, burst)) for burst in cut]
            theirs = run(peer, cut)
            assert "".join(mine) + stream.flush() == "".join(theirs) == inner.decode(ids)
            shown = seen = 0
            for one, other in zip(mine, theirs, strict=False):
                shown, seen = shown + len(one), seen + len(other)
                assert shown >= seen


@pytest.mark.parametrize("peer", PEERS)
def test_equal_after_a_prompt_of_whole_characters(peer, inner, ours, run):
    for ids in valid_ids(inner):
        pieces = [ours.pieces.rest[i] for i in ids]
        cut = next((n for n in range(len(ids) // 2, len(ids)) if _whole(pieces[:n])), 0)
        steps, rest = streamed(ours, ids[cut:], ids[:cut])
        # Both join a prompt's last characters and their marks again; the text is the same.
        assert "".join(steps) + rest == "".join(run(peer, [[i] for i in ids[cut:]], ids[:cut]))


def _whole(pieces):
    try:
        return bool(b"".join(pieces).decode()) and b"\xef\xbf\xbd" not in b"".join(pieces)
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize(
    ("data", "text", "theirs"),
    [
        ("end \ufffd".encode(), "end \ufffd", "end "),
        ("cut 🚀".encode()[:-1], "cut \ufffd", "cut "),
        (b"\xf0" * 6, "\ufffd" * 6, ""),
    ],
    ids=["a real U+FFFD at the end", "a character cut off", "bytes that end no character"],
)
def test_peers_lose_the_end(peer, inner, ours, run, data, text, theirs):
    ids = byte_ids(inner, data)
    steps, rest = streamed(ours, ids)
    assert "".join(steps) + rest == text
    assert "".join(run(peer, [[i] for i in ids])) == theirs


@pytest.mark.parametrize(
    ("peer", "theirs"), [("tokenizers", "a你！"), ("vLLM Fast", "a你！"), ("vLLM Slow", "！")]
)
def test_a_character_across_the_prompt(peer, theirs, inner, ours, run):
    prompt, output = byte_ids(inner, "a你".encode()[:-1]), byte_ids(inner, "你！".encode()[2:])
    steps, rest = streamed(ours, output, prompt)
    assert "".join(steps) + rest == "你！"
    assert "".join(run(peer, [[i] for i in output], prompt)) == theirs


def test_a_tokenizer_of_transformers_that_leaves_incomplete_characters_out():
    tokenizer = ByT5Tokenizer()
    for text in strings(20):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        for cut in (0, len(ids) // 2):
            stream = create_decode_stream(tokenizer, ids[:cut])
            after = "".join(map(stream.step, ids[cut:])) + stream.flush()
            assert text.encode()[:cut].decode("utf-8", "ignore") + after == text


def test_the_stubs_of_vllm_are_gone(run):
    run("vLLM Fast", [[0]])
    assert not any(name.split(".")[0] == "vllm" for name in sys.modules)
