"""GGUF files with the real vocabularies, written by the `gguf` package: our reader's other half."""

from pathlib import Path

import gguf
import sentencepiece

from benchmarks.peers.mistral import spelled, tekken_merges, tekken_specials, tekken_tokens

BOS, EOS, UNK = 1, 2, 0


def write_tekken(path: Path) -> Path:
    """Write Tekken as a file of kind `gpt2`, ids as in mistral-common."""
    specials = tekken_specials()
    tokens = [*specials, *map(spelled, tekken_tokens())]
    types = [gguf.TokenType.CONTROL] * len(specials)
    types += [gguf.TokenType.NORMAL] * (len(tokens) - len(specials))
    writer = _writer(path, "gpt2", tokens, types)
    writer.add_tokenizer_pre("tekken")
    writer.add_token_merges([" ".join(pair) for pair in tekken_merges()])
    return _close(writer, path)


def write_sentencepiece(path: Path, processor: sentencepiece.SentencePieceProcessor) -> Path:
    """Write a SentencePiece model as a file of kind `llama`."""
    ids = range(processor.vocab_size())
    kinds = [
        (processor.is_unknown, gguf.TokenType.UNKNOWN),
        (processor.is_control, gguf.TokenType.CONTROL),
        (processor.is_byte, gguf.TokenType.BYTE),
        (processor.is_unused, gguf.TokenType.UNUSED),
        (lambda token_id: True, gguf.TokenType.NORMAL),
    ]
    types = [next(kind for is_it, kind in kinds if is_it(token_id)) for token_id in ids]
    writer = _writer(path, "llama", [processor.id_to_piece(i) for i in ids], types)
    writer.add_token_scores([processor.get_score(i) for i in ids])
    writer.add_add_space_prefix(True)
    return _close(writer, path)


def _writer(path, model, tokens, types):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNK)
    return writer


def _close(writer, path):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path
