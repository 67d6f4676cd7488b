"""Tekken, 131 072 ids, as a `tokenizers` BPE and out of a GGUF file, against three libraries.

mistral-common says what each id's bytes are, tiktoken (inside it) what a text's ids are, and
`tokenizers` what its own conversion decodes to.
"""

import pytest

pytest.importorskip("mistral_common", reason="mistral-common is not installed: make oracles")
pytest.importorskip("gguf", reason="gguf is not installed: make oracles")
pytest.importorskip("tiktoken", reason="tiktoken is not installed: make oracles")

from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from benchmarks.peers.mistral import TEKKEN, data, tekken_huggingface
from mini_vllm.text.utf8 import last_complete_utf8_end
from mini_vllm.tokenizer import DecodeStream, HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
from tests.oracles.gguf_files import write_tekken
from tests.oracles.samples import (
    check_held,
    eager,
    sequences,
    streamed,
    strings,
    with_unknown,
)

SPECIALS = 1000


@pytest.fixture(scope="module")
def peer():
    return Tekkenizer.from_file(data(TEKKEN))


@pytest.fixture(scope="module")
def inner():
    return tekken_huggingface()


@pytest.fixture(scope="module", params=["huggingface", "gguf"])
def ours(request, inner, tmp_path_factory):
    if request.param == "huggingface":
        return HuggingFaceTokenizer.from_tokenizer(inner)
    return GGUFTokenizer.from_file(write_tekken(tmp_path_factory.mktemp("gguf") / "tekken.gguf"))


@pytest.fixture(scope="module")
def drawn(peer):
    pools = [range(peer.n_words), range(SPECIALS, SPECIALS + 256), range(SPECIALS)]
    samples = [ids for text in strings(300) if (ids := peer.encode(text, bos=False, eos=False))]
    return list(sequences(pools, samples))


def visible(ids, skip):
    return [i for i in ids if not (skip and i < SPECIALS)]


def piece(peer, token_id):
    return peer.id_to_byte_piece(token_id, SpecialTokenPolicy.KEEP)


def test_every_id_has_the_bytes_that_mistral_common_gives_it(peer, ours):
    assert ours.pieces.rest == [piece(peer, i) for i in range(peer.n_words)]
    assert ours.pieces.first is ours.pieces.rest
    assert ours.pieces.special == frozenset(range(SPECIALS))


def test_encodes_like_tiktoken(peer, ours):
    for text in strings():
        assert list(ours.encode(text).ids) == peer.encode(text, bos=False, eos=False), text


@pytest.mark.parametrize("skip", [False, True], ids=["show", "skip"])
def test_each_step_is_what_the_bytes_make_certain(peer, ours, drawn, skip):
    assert first_difference(peer, ours, drawn, skip) is None


def first_difference(peer, ours, drawn, skip, make=DecodeStream):
    for ids in drawn:
        stream = make(ours, skip_special_tokens=skip)
        got = [stream.step(i) for i in ids], stream.flush()
        shown = [b"" if skip and i < SPECIALS else piece(peer, i) for i in ids]
        if got != eager(shown):
            return ids, got
    return None


class Naive(DecodeStream):
    """Each id by itself."""

    def step(self, token_id):
        return super().step(token_id) + super().flush()


class Lossy(DecodeStream):
    """Nothing for a character that was cut off."""

    def flush(self):
        super().flush()
        return ""


class Late(DecodeStream):
    """Nothing while anything is held."""

    kept = ""

    def step(self, token_id):
        self.kept += super().step(token_id)
        if self.held:
            return ""
        text, self.kept = self.kept, ""
        return text

    def flush(self):
        return self.kept + super().flush()


class Forgetful(DecodeStream):
    """A special token drops what is held."""

    def step(self, token_id):
        if token_id < SPECIALS:
            self.flush()
        return super().step(token_id)


@pytest.mark.parametrize("fault", [Naive, Lossy, Late, Forgetful])
def test_the_comparison_finds_a_planted_fault(peer, ours, drawn, fault):
    assert first_difference(peer, ours, drawn, True, fault) is not None


@pytest.mark.parametrize("skip", [False, True], ids=["show", "skip"])
def test_the_whole_is_what_mistral_common_and_tokenizers_decode(peer, inner, ours, drawn, skip):
    for number, ids in enumerate(drawn):
        text = peer.decode(visible(ids, skip), SpecialTokenPolicy.KEEP)
        assert inner.decode(ids, skip_special_tokens=skip) == text
        steps, rest = streamed(ours, with_unknown(ids, number), skip_special_tokens=skip)
        assert "".join(steps) + rest == text


def test_mistral_common_breaks_a_character_at_a_skipped_special_token(peer, ours):
    rocket = [SPECIALS + byte for byte in "🚀".encode()]
    ids = [*rocket[:2], 1, *rocket[2:]]
    assert peer.decode(ids, SpecialTokenPolicy.IGNORE) == "\ufffd\ufffd\ufffd"
    assert streamed(ours, ids) == (["", "", "", "", "🚀"], "")


def test_a_prompt_is_context_and_never_text(peer, ours, drawn):
    for number, ids in enumerate(drawn[:3000]):
        cut = number % (len(ids) + 1)
        before = b"".join(piece(peer, i) for i in ids[:cut])
        whole = b"".join(piece(peer, i) for i in ids)
        want = whole[last_complete_utf8_end(before) :].decode("utf-8", "replace")
        steps, rest = streamed(ours, ids[cut:], ids[:cut], skip_special_tokens=False)
        assert "".join(steps) + rest == want


def test_holds_only_what_may_become_a_character(ours, drawn):
    for ids in drawn[:3000]:
        check_held(ours, ids)


def test_real_replacement_characters_pass_at_once(peer, ours):
    real = [i for i in range(SPECIALS, peer.n_words) if "\ufffd".encode() in piece(peer, i)]
    assert real
    for token_id in real:
        assert streamed(ours, [token_id])[0] == [piece(peer, token_id).decode()]
