"""Mistral's SentencePiece model, read as such and out of a GGUF file, against the library itself.

Two differences are documented. Of ill-formed bytes the library makes one U+FFFD each, and we one
per maximal subpart; and a skipped control token ends its character, and is transparent to us. So
the library's text is compared where neither matters, and the bytes of its pieces everywhere.
"""

import pytest

pytest.importorskip("mistral_common", reason="mistral-common is not installed: make oracles")
pytest.importorskip("gguf", reason="gguf is not installed: make oracles")
pytest.importorskip("sentencepiece", reason="sentencepiece is not installed: make oracles")

import sentencepiece

from benchmarks.materials.backends import sentencepiece_model
from benchmarks.peers.mistral import SENTENCEPIECE, data
from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
from tests.oracles.gguf_files import write_sentencepiece
from tests.oracles.samples import check_held, eager, sequences, streamed, strings, with_unknown


@pytest.fixture(scope="module")
def peer():
    return sentencepiece.SentencePieceProcessor(model_file=str(data(SENTENCEPIECE)))


@pytest.fixture(scope="module", params=["model", "gguf"])
def ours(request, peer, tmp_path_factory):
    if request.param == "model":
        return SentencePieceTokenizer.from_file(data(SENTENCEPIECE))
    path = tmp_path_factory.mktemp("gguf") / "sentencepiece.gguf"
    return GGUFTokenizer.from_file(write_sentencepiece(path, peer))


@pytest.fixture(scope="module")
def drawn(peer):
    return draw(peer)


def draw(peer):
    ids = range(peer.vocab_size())
    control = [i for i in ids if peer.is_control(i)]
    single = [i for i in ids if peer.is_byte(i)]
    spaces = [i for i in ids if set(peer.id_to_piece(i)) == {"▁"}]
    samples = [ids for text in strings(300) if (ids := peer.encode(text))]
    return list(sequences([ids, single, control, spaces], samples))


def pieces(peer, ids, skip):
    """Return the bytes of each id, by what the library says of its piece."""
    found, first = [], True
    for token_id in ids:
        piece = peer.id_to_piece(token_id)
        if peer.is_control(token_id):
            found.append(b"" if skip else piece.encode())
            first &= skip
            continue
        if peer.is_byte(token_id):
            found.append(bytes([int(piece[3:5], 16)]))
        elif peer.is_unknown(token_id):
            found.append(" \u2047 ".encode())
        else:
            found.append((piece.removeprefix("▁") if first else piece).replace("▁", " ").encode())
        first = False
    return found


def test_encodes_like_sentencepiece(peer, ours):
    for text in strings():
        assert list(ours.encode(text).ids) == peer.encode(text), text


@pytest.mark.parametrize("skip", [False, True], ids=["show", "skip"])
def test_each_step_is_what_the_bytes_make_certain(peer, ours, drawn, skip):
    for ids in drawn:
        want = eager(pieces(peer, ids, skip))
        assert streamed(ours, ids, skip_special_tokens=skip) == want, ids


def test_the_whole_is_what_sentencepiece_decodes(peer, ours, drawn):
    compared = 0
    for number, ids in enumerate(drawn):
        steps, rest = streamed(ours, with_unknown(ids, number))
        text = "".join(steps) + rest
        assert ours.decode(ids, skip_special_tokens=True) == text
        if well_formed(peer, ids):
            assert text == peer.decode(ids), ids
            compared += 1
    assert compared > len(drawn) / 4


def well_formed(peer, ids):
    """Whether the bytes between other pieces, control tokens included, are whole characters."""
    run = b""
    for token_id in [*ids, peer.unk_id()]:
        if peer.is_byte(token_id):
            run += bytes([int(peer.id_to_piece(token_id)[3:5], 16)])
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            return False
        run = b""
    return True


def test_sentencepiece_breaks_a_character_at_a_skipped_control_token(peer, ours):
    rocket = [peer.piece_to_id(f"<0x{byte:02X}>") for byte in "🚀".encode()]
    ids = [*rocket[:2], peer.bos_id(), *rocket[2:]]
    assert peer.decode(ids) == "\ufffd" * 4
    assert streamed(ours, ids) == (["", "", "", "", "🚀"], "")


def test_sentencepiece_has_a_replacement_character_for_each_byte(peer, ours):
    ids = [peer.piece_to_id(f"<0x{byte:02X}>") for byte in (0xF0, 0x9F, 0x9A)]
    assert ours.decode(ids) == "\ufffd"
    assert peer.decode(ids) == "\ufffd\ufffd\ufffd"


def test_a_model_that_removes_extra_spaces():
    path = sentencepiece_model(1024)
    peer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ours = SentencePieceTokenizer.from_file(path)
    for text in strings(500):
        assert list(ours.encode(text).ids) == peer.encode(text), text
    for ids in draw(peer):
        steps, rest = streamed(ours, ids)
        if well_formed(peer, ids):
            assert "".join(steps) + rest == peer.decode(ids), ids


def test_holds_only_what_may_become_a_character(ours, drawn):
    for ids in drawn[:1000]:
        check_held(ours, ids)
