"""Tekken as tiktoken's ranks: TiktokenTokenizer and DecodeStream against tiktoken itself.

`from_file` reads ranks that are written here; the reference is the encoding that mistral-common
makes of its own file.
"""

import pytest

pytest.importorskip("mistral_common", reason="mistral-common is not installed: make oracles")
pytest.importorskip("tiktoken", reason="tiktoken is not installed: make oracles")

import tiktoken

from benchmarks.peers.mistral import tekken_pattern, tekken_ranks_file, tekken_tokens
from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer
from tests.oracles.samples import check_held, eager, sequences, streamed, strings, with_unknown

RANKS = 130_072
# With a gap between them: an id that is below the size and yet unknown.
SPECIAL = {"<|end|>": RANKS, "<|mark é|>": RANKS + 2}


@pytest.fixture(scope="module")
def peer():
    ranks = {token: rank for rank, token in enumerate(tekken_tokens())}
    return tiktoken.Encoding(
        "tekken", pat_str=tekken_pattern(), mergeable_ranks=ranks, special_tokens=SPECIAL
    )


@pytest.fixture(scope="module", params=["file", "encoding"])
def ours(request, peer, tmp_path_factory):
    if request.param == "encoding":
        return TiktokenTokenizer(peer)
    path = tekken_ranks_file(tmp_path_factory.mktemp("ranks"))
    return TiktokenTokenizer.from_file(path, pattern=tekken_pattern(), special_tokens=SPECIAL)


@pytest.fixture(scope="module")
def drawn(peer):
    known = [*range(RANKS), *SPECIAL.values()]
    single = [peer.encode_single_token(bytes([byte])) for byte in range(256)]
    samples = [ids for text in strings(300) if (ids := peer.encode_ordinary(text))]
    return list(sequences([known, single, [*SPECIAL.values()]], samples))


def visible(ids, skip):
    return [i for i in ids if not (skip and i >= RANKS)]


def test_every_id_has_tiktokens_bytes(peer, ours):
    for token_id in range(ours.vocab_size):
        if token_id == RANKS + 1:
            assert ours.pieces.rest[token_id] is None
        else:
            assert ours.pieces.rest[token_id] == peer.decode_single_token_bytes(token_id)


def test_encodes_like_tiktoken(peer, ours):
    for text in strings():
        for written in (text, f"<|end|>{text}<|mark é|>"):
            assert list(ours.encode(written).ids) == peer.encode_ordinary(written), written
            allowed = list(ours.encode(written, allowed_special="all").ids)
            assert allowed == peer.encode(written, allowed_special="all"), written


@pytest.mark.parametrize("skip", [False, True], ids=["show", "skip"])
def test_streams_what_tiktoken_decodes(peer, ours, drawn, skip):
    for number, ids in enumerate(drawn):
        shown = visible(ids, skip)
        text = peer.decode(shown)
        assert ours.decode(ids, skip_special_tokens=skip) == text
        steps, rest = streamed(ours, with_unknown(ids, number), skip_special_tokens=skip)
        assert "".join(steps) + rest == text
        pieces = [b"" if skip and i >= RANKS else peer.decode_single_token_bytes(i) for i in ids]
        assert streamed(ours, ids, skip_special_tokens=skip) == eager(pieces)


def test_holds_only_what_may_become_a_character(ours, drawn):
    for ids in drawn[:1000]:
        check_held(ours, ids)
