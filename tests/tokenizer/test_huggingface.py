"""The Hugging Face adapter: added tokens, special tokens, files, and what is refused."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from vocabularies import byte_level

from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.server.service import create_service
from mini_vllm.tokenizer import (
    CachedTokenizer,
    ChatMessage,
    ChatTemplate,
    ChatTemplateError,
    DecodeStream,
    HuggingFaceTokenizer,
    IncrementalDetokenizer,
    Sequence,
    StopSequenceConfig,
    StopSequenceDecoder,
    TokenizerFileNotFound,
    WindowDecodeStream,
    create_decode_stream,
    create_tokenizer,
)

TOKENIZER = HuggingFaceTokenizer.from_tokenizer(byte_level())


def test_from_file_is_the_same_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("\ufeff" + byte_level().to_str(), encoding="utf-8")
    read = HuggingFaceTokenizer.from_file(path)
    assert read.encode("你好 🚀").ids == TOKENIZER.encode("你好 🚀").ids
    assert read.pieces.rest == TOKENIZER.pieces.rest


def test_added_tokens_are_in_the_vocabulary():
    token_id = TOKENIZER.token_to_id("<think>")
    assert TOKENIZER.id_to_token(token_id) == "<think>"
    assert token_id < TOKENIZER.vocab_size
    assert (TOKENIZER.special_tokens.bos, TOKENIZER.special_tokens.eos) == ("<s>", "</s>")  # I09
    assert TOKENIZER.special_tokens.additional == ("<|im_end|>",)
    ends = {TOKENIZER.token_to_id(token) for token in ("</s>", "<|im_end|>")}
    assert TOKENIZER.eos_token_ids == ends


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TokenizerFileNotFound, match=r"missing\.json"):
        HuggingFaceTokenizer.from_file(tmp_path / "missing.json")


def test_the_librarys_own_object_will_do_wherever_a_tokenizer_is_taken():
    raw = byte_level()
    ids = TOKENIZER.encode("naïve 🚀").ids
    assert create_tokenizer(raw).encode("naïve 🚀").ids == ids
    for make in (create_decode_stream, DecodeStream, WindowDecodeStream):
        stream = make(raw)
        assert "".join(stream.step(token_id) for token_id in ids) == "naïve 🚀"
    assert Sequence.with_tokens(raw, ids).text() == "naïve 🚀"
    assert IncrementalDetokenizer(raw, ids[:-1]).push(ids[-1]) == " 🚀"
    StopSequenceDecoder(raw, StopSequenceConfig(stop_sequences=("🚀",))).process_tokens(ids)
    assert CachedTokenizer(raw).encode("naïve 🚀").ids == ids
    service = create_service(ScriptedModel({}), raw, ChatTemplate.simple(), "model")
    assert service.tokenizer.decode(ids) == "naïve 🚀"


def test_bytes_are_spelled_in_small_letters_too():
    inner = Tokenizer(models.WordLevel({"<0xc3>": 0, "<0xA9>": 1, "<0xag>": 2}, unk_token="<0xc3>"))
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    assert tokenizer.pieces.rest == [b"\xc3", b"\xa9", b"<0xag>"]
    assert tokenizer.pieces.showing.text([0, 1, 2]) == inner.decode([0, 1, 2]) == "é<0xag>"


def test_an_added_token_that_took_an_id_has_it():
    inner = Tokenizer(models.WordLevel({"a": 0, "b": 2}, unk_token="a"))
    inner.add_tokens(["c"])
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    assert tokenizer.token_to_id("b") == tokenizer.token_to_id("c") == 2
    assert tokenizer.id_to_token(2) == inner.id_to_token(2) == "c"
    assert tokenizer.pieces.showing.text([2]) == inner.decode([2]) == "c"


@pytest.mark.parametrize("special", [False, True])
def test_an_added_token_that_is_normalized_has_its_own_name(special):
    """As in ChatML tunes of Mistral and Llama 2; the library's `id_to_token` is "▁<|im_end|>"."""
    inner = Tokenizer(models.BPE({"a": 0, "▁": 1}, []))
    inner.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    names = ["<|im_start|>", "<|im_end|>"]
    inner.add_tokens([AddedToken(name, normalized=True, special=special) for name in names])
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    for token, token_id in (("<|im_start|>", 2), ("<|im_end|>", 3)):
        assert tokenizer.token_to_id(token) == token_id
        assert tokenizer.id_to_token(token_id) == token
    assert tokenizer.eos_token_ids == {3}
    assert tokenizer.pieces.showing.text([0, 3, 0]) == inner.decode([0, 3, 0]) == "a <|im_end|>a"
    # The library itself does not skip it, since it does not know the name.
    assert tokenizer.pieces.skipping.text([0, 3, 0]) == ("aa" if special else "a <|im_end|>a")


def test_texts_are_neither_cut_nor_filled_up():
    inner = Tokenizer.from_str(byte_level().to_str())
    inner.enable_truncation(2)
    inner.enable_padding(length=50)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    assert tokenizer.encode("naïve 你好").ids == TOKENIZER.encode("naïve 你好").ids
    assert inner.truncation is not None


def test_chat_message_creation():  # U08
    messages = [ChatMessage.system("Be brief."), ChatMessage.user("Hi")]
    assert [message.role for message in messages] == ["system", "user"]
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_level())
    assert tokenizer.apply_chat_template(messages) == "system: Be brief.\nuser: Hi\n"
    tokenizer.set_chat_template("{{ bos_token }}{{ messages[1].content }}{{ eos_token }}")
    assert tokenizer.apply_chat_template(messages) == "<s>Hi</s>"
    with pytest.raises(ChatTemplateError):
        tokenizer.set_chat_template("{% for %}")
    assert tokenizer.apply_chat_template(messages) == "<s>Hi</s>"
