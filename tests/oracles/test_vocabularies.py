"""Real vocabularies, from other projects' packages: llama.cpp's, OpenAI's, Whisper's, Gemma's.

Two references: llama.cpp's own vectors for text to ids, and for ids to text 100,000 sequences. What
the bytes of an id are is read here from its spelling in the file; the library that reads the format
has the last word on whole sequences that are well-formed.

But: no vectors for four of llama.cpp's files, which it has none for.
"""

import base64
import functools
import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("mistral_common", reason="mistral-common is not installed: make oracles")

from benchmarks.peers.mistral import spelled
from mini_vllm.tokenizer import create_tokenizer, read_gguf_metadata
from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer
from tests.oracles.samples import eager, sequences, streamed, strings

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "upstream" / ".sources"
if not (SOURCES / "gemma3" / "models").is_dir():
    pytest.skip("the vocabularies are not here: make oracles", allow_module_level=True)
MISTRAL = Path(importlib.util.find_spec("mistral_common").origin).parent / "data"
FILES = {
    path.name: path
    for path in (
        *sorted(SOURCES.glob("llama_cpp/models/*.gguf")),
        *sorted(SOURCES.glob("whisper/assets/*.tiktoken")),
        *sorted(SOURCES.glob("gpt-tokenizer/data/*.tiktoken")),
        SOURCES / "gemma3" / "models" / "tokenizer.json",
        *sorted(MISTRAL.glob("*.model.v*")),
    )
}
VECTORS = [name for name, path in FILES.items() if path.with_name(f"{name}.inp").is_file()]
EACH = 100_000 // len(FILES) + 1
BYTE_OF = {spelled(bytes([byte])): byte for byte in range(256)}


class Known(NamedTuple):
    """What a file says: the bytes of each id, of the first one that shows, and what is special."""

    rest: list[bytes | None]
    first: list[bytes | None]
    special: frozenset[int]


@functools.cache
def loaded(name):
    return create_tokenizer(FILES[name])


def test_all_of_llama_cpps_vocabularies_are_here():
    assert len([name for name in FILES if name.endswith(".gguf")]) == 19
    assert len(VECTORS) == 15
    assert len(FILES) >= 30


@pytest.mark.parametrize("name", VECTORS)
def test_encodes_like_llama_cpp(name):
    inputs = FILES[name].with_name(f"{name}.inp").read_bytes().decode()
    outputs = FILES[name].with_name(f"{name}.out").read_text().split("\n")
    pairs = zip(inputs.split("\n__ggml_vocab_test__\n"), outputs, strict=False)
    wrong = [
        text for text, ids in pairs if [*loaded(name).encode(text).ids] != [*map(int, ids.split())]
    ]
    assert wrong == []


def of_ranks(name):
    rows = (line.split() for line in FILES[name].read_bytes().splitlines())
    pieces = {int(rank): base64.b64decode(token + b"==") for token, rank in rows}
    special = loaded(name).special_tokens.all()
    pieces |= {loaded(name).token_to_id(token): token.encode() for token in special}
    column = [pieces.get(token_id) for token_id in range(max(pieces) + 1)]
    return Known(column, column, frozenset(map(loaded(name).token_to_id, special)))


def of_tokens(tokens, *, special, plain, as_bytes):
    """Spellings with `▁` for a space; `plain` ids are text as they stand."""
    return [
        bytes([int(token[3:5], 16)]) if token_id in as_bytes
        else token.encode() if token_id in special or token_id in plain
        else token.replace("▁", " ").encode()
        for token_id, token in enumerate(tokens)
    ]  # fmt: skip


# Tokens that end a text, which llama.cpp makes control tokens although the files do not:
# `<|endoftext|>` is a normal token, and `<|tool_response>` a user-defined one.
CONTROL = {"ggml-vocab-aquila.gguf": {0}, "ggml-vocab-gemma-4.gguf": {50}}


def of_gguf(name):
    """Return what a file says; None for the kinds whose pieces no rule here can tell."""
    keys = read_gguf_metadata(FILES[name])
    kind = keys["tokenizer.ggml.model"]
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    special = frozenset(i for i, number in enumerate(types) if number in (2, 3))
    special |= CONTROL.get(name, set())
    plain = frozenset(i for i, number in enumerate(types) if number == 4) - special
    if kind == "gpt2":
        added = special | plain
        rest = [
            # Command R has a few tokens with characters that stand for no byte.
            token.encode()
            if token_id in added or not set(token) <= BYTE_OF.keys()
            else bytes(map(BYTE_OF.__getitem__, token))
            for token_id, token in enumerate(tokens)
        ]
        return Known(rest, rest, special)
    if kind not in ("llama", "gemma4"):
        return None
    as_bytes = frozenset(i for i, number in enumerate(types) if number == 6)
    rest = of_tokens(tokens, special=special, plain=plain, as_bytes=as_bytes)
    if kind == "gemma4":
        return Known(rest, rest, special)
    unknown = keys.get("tokenizer.ggml.unknown_token_id", 0)
    return without_space(rest, special - {unknown}, unknown, as_bytes)


def without_space(rest, special, unknown, as_bytes):
    """SentencePiece's: the first one that shows loses a space, and the unknown token is ` ⁇ `."""
    rest = [" \u2047 ".encode() if i == unknown else piece for i, piece in enumerate(rest)]
    kept = special | as_bytes | {unknown}
    first = [p if i in kept else p.removeprefix(b" ") for i, p in enumerate(rest)]
    return Known(rest, first, special)


def of_sentencepiece(name):
    peer = loaded(name)._inner
    ids = range(peer.vocab_size())
    special = frozenset(filter(peer.is_control, ids))
    as_bytes = frozenset(filter(peer.is_byte, ids))
    tokens = [peer.id_to_piece(i) for i in ids]
    rest = of_tokens(tokens, special=special, plain=frozenset(), as_bytes=as_bytes)
    return without_space(rest, special, peer.unk_id(), as_bytes)


def of_huggingface(name):
    content = json.loads(FILES[name].read_text(encoding="utf-8"))
    special = frozenset(t["id"] for t in content["added_tokens"] if t["special"])
    ids = content["model"]["vocab"] | {t["content"]: t["id"] for t in content["added_tokens"]}
    tokens = [token for token, _ in sorted(ids.items(), key=lambda item: item[1])]
    as_bytes = frozenset(i for t, i in ids.items() if t[:3] == "<0x" and len(t) == 6)
    rest = of_tokens(tokens, special=special, plain=frozenset(), as_bytes=as_bytes)
    return Known(rest, rest, special)


@functools.cache
def known(name):
    endings = {".gguf": of_gguf, ".tiktoken": of_ranks, ".json": of_huggingface}
    return endings.get(FILES[name].suffix, of_sentencepiece)(name)


def drawn(name):
    tokenizer = loaded(name)
    ids = range(tokenizer.vocab_size)
    pieces = tokenizer.pieces.rest
    halves = [i for i in ids if pieces[i] and not whole(pieces[i])]
    special = sorted(tokenizer.pieces.special) or [0]
    samples = [ids for text in strings(300) if (ids := tokenizer.encode(text).ids)]
    return list(sequences([ids, halves or ids, special], samples, count=EACH, seed=name))


def whole(piece):
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("name", FILES)
def test_streams_what_the_bytes_are(name):
    tokenizer, told, added = loaded(name), known(name), plain_added(name)
    for number, ids in enumerate(drawn(name)):
        skip = number % 2 == 0
        steps = streamed(tokenizer, ids, skip_special_tokens=skip)
        if told is not None:
            assert steps == eager(pieces(told, ids, skip)), ids
        text = "".join(steps[0]) + steps[1]
        assert tokenizer.decode(ids, skip_special_tokens=skip) == text or "\ufffd" in text, ids
        reference = librarys(tokenizer, added, ids)
        if skip and reference is not None and "\ufffd" not in text:
            assert text == reference, ids


def pieces(told, ids, skip):
    found, started = [], False
    for token_id in ids:
        if told.rest[token_id] is None or (skip and token_id in told.special):
            found.append(b"")
            continue
        found.append((told.rest if started else told.first)[token_id])
        started = True
    return found


def plain_added(name):
    """Return the added tokens that are not special, of a tokenizer of Hugging Face's."""
    inner = getattr(loaded(name), "inner", loaded(name))._inner
    if not hasattr(inner, "get_added_tokens_decoder"):
        return frozenset()
    return frozenset(i for i, t in inner.get_added_tokens_decoder().items() if not t.special)


def librarys(tokenizer, added, ids):
    """Return what the format's own library decodes, special tokens left out; None if it cannot."""
    tokenizer = getattr(tokenizer, "inner", tokenizer)
    inner = tokenizer._inner
    if isinstance(tokenizer, TiktokenTokenizer):
        special = tokenizer.pieces.special
        return inner.decode([i for i in ids if i not in special and i in tokenizer._bytes])
    if hasattr(inner, "id_to_piece"):
        # SentencePiece breaks a character at a control token that it leaves out.
        return None if any(map(inner.is_control, ids)) else inner.decode(list(ids))
    # Hugging Face's runs added tokens through the byte map, which llama.cpp does not.
    return None if added.intersection(ids) else inner.decode(list(ids), skip_special_tokens=True)
