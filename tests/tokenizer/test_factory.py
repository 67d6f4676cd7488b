"""The factory: what a name, a file or a folder becomes, and what is refused."""

import asyncio
import base64
import json

import pytest
from model_files import ranks_file, sentencepiece_model
from tokenizers import AddedToken, Tokenizer, models
from vocabularies import byte_level

from mini_vllm.tokenizer import (
    CacheConfig,
    CachedTokenizer,
    CorruptModelFile,
    HubError,
    HuggingFaceTokenizer,
    MockTokenizer,
    ModelTokenizerMap,
    TiktokenTokenizer,
    TokenizerFileNotFound,
    TokenizerType,
    TokenizerWrapper,
    UnknownModel,
    UnsupportedFormat,
    create_tokenizer,
    create_tokenizer_async,
    create_tokenizer_from_file,
    create_tokenizer_with_chat_template,
    get_tokenizer_info,
)
from mini_vllm.tokenizer.loading.detect import detect_type, is_json

BOM = b"\xef\xbb\xbf"
RANKS = b"IQ== 0\nIg== 1\n"
SENTENCEPIECE = b"\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02"
GGUF = b"GGUF\x03\x00\x00\x00"


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(byte_level().to_str(), encoding="utf-8")
    return folder


@pytest.mark.parametrize("head", [b'{"a": 1}', b" \n\t{", b"[1]", BOM + b"{", BOM + b" \r\n["])
def test_json_detection(head):  # U04
    assert is_json(head)


@pytest.mark.parametrize("head", [b"", b"text", b"   ", b"\xff\xfe{", b"a{"])
def test_json_detection_refuses(head):  # U04
    assert not is_json(head)


def test_factory_creation(model):  # I07
    text = "another prompt: 你好 🚀 naïve"
    path = model / "tokenizer.json"
    for source in (path, str(path), model, f"{model}/"):
        made = create_tokenizer(source)
        assert isinstance(made, HuggingFaceTokenizer)
        assert made.decode(made.encode(text).ids) == text


def test_special_tokens_from_configuration(model):
    configuration = {
        "tokenizer_config": {"bos_token": {"content": "<think>"}, "eos_token": "<|im_end|>",
            "pad_token": "absent"},
        "special_tokens_map": {"eos_token": "</s>", "unk_token": "</s>"},
        "config": {"eos_token_id": 7},
        "generation_config": {"eos_token_id": [7, 9]},
    }  # fmt: skip
    for name, content in configuration.items():
        (model / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    tokenizer = create_tokenizer(model)
    special = tokenizer.special_tokens
    found = (special.bos, special.eos, special.unk, special.pad)
    assert found == ("<think>", "<|im_end|>", "</s>", None)
    assert tokenizer.eos_token_ids == {7, 9, tokenizer.token_to_id("<|im_end|>")}


def words(*special, plain=()):
    """A `tokenizer.json` with a few words, of which some are special."""
    inner = Tokenizer(models.WordLevel({"a": 0, **{t: i + 1 for i, t in enumerate(plain)}}, "a"))
    inner.add_special_tokens([AddedToken(token, special=True) for token in special])
    return inner.to_str()


@pytest.mark.parametrize(
    ("special", "plain", "config", "roles", "ends"),
    [
        # As Qwen's and Gemma's files alone: HTML is no special token.
        (("<|endoftext|>", "<|im_end|>"), ("</s>", "<s>"), {}, (None, "<|endoftext|>"),
            {"<|endoftext|>", "<|im_end|>"}),
        (("<bos>", "<eos>", "<end_of_turn>"), ("<s>", "</s>"), {}, ("<bos>", "<eos>"),
            {"<eos>", "<end_of_turn>"}),
        # Null means none.
        (("<s>", "</s>"), (), {"bos_token": None}, (None, "</s>"), {"</s>"}),
        (("<s>", "</s>"), (), {"eos_token": None}, ("<s>", None), set()),
        # A configuration may name what the tokenizer does not declare.
        ((), ("<s>", "</s>"), {"eos_token": "</s>"}, (None, "</s>"), {"</s>"}),
        # A message of gpt-oss ends with <|end|>, and the answer goes on.
        (("<|end|>",), (), {}, (None, None), {"<|end|>"}),
        (("<|end|>", "<|return|>", "<|call|>"), (), {}, (None, None), {"<|return|>", "<|call|>"}),
    ],
)  # fmt: skip
def test_roles_and_ends_are_guessed_among_special_tokens(
    tmp_path, special, plain, config, roles, ends
):
    (tmp_path / "tokenizer.json").write_text(words(*special, plain=plain), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = create_tokenizer(tmp_path)
    assert (tokenizer.special_tokens.bos, tokenizer.special_tokens.eos) == roles
    assert {tokenizer.id_to_token(i) for i in tokenizer.eos_token_ids} == ends


def test_an_added_token_ends_an_answer_even_where_it_is_not_special(tmp_path):
    inner = Tokenizer.from_str(words("<eos>"))
    inner.add_tokens(["<|tool_response>", "other"])
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    ends = {tokenizer.id_to_token(i) for i in tokenizer.eos_token_ids}
    assert ends == {"<eos>", "<|tool_response>"}


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "cl100k_base.tiktoken"])
def test_every_kind_of_folder_takes_the_ends_of_its_generation_config(tmp_path, name):
    contents = {
        "tokenizer.json": byte_level().to_str().encode(),
        "tokenizer.model": sentencepiece_model(),
        "cl100k_base.tiktoken": ranks_file(tmp_path / "ranks").read_bytes(),
    }
    (tmp_path / name).write_bytes(contents[name])
    before = create_tokenizer(tmp_path).eos_token_ids
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [200, 201]}')
    assert create_tokenizer(tmp_path).eos_token_ids == before | {200, 201}


def test_mock_tokenizer_creation():  # U05
    for name in ("mock", "test"):
        tokenizer = create_tokenizer(name)
        assert isinstance(tokenizer, MockTokenizer)
        assert len(tokenizer._ids) == 8
    assert len(MockTokenizer(extended=True)._ids) == 14


def test_file_not_found(tmp_path):  # U06
    missing = tmp_path / "tokenizer.json"
    for source in (missing, str(missing), "./no-such-folder/", "tokenizer.model"):
        with pytest.raises(TokenizerFileNotFound, match=r"File not found: .*(token|folder)"):
            create_tokenizer(source)


def test_create_tiktoken_tokenizer(tmp_path, monkeypatch):  # U07
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(TokenizerFileNotFound, match=r"cl100k_base"):
        create_tokenizer("gpt-4")
    lines = (f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256))
    (tmp_path / "cl100k_base.tiktoken").write_text("".join(lines))
    tokenizer = create_tokenizer("gpt-4")
    assert isinstance(tokenizer, TiktokenTokenizer)
    assert tokenizer.decode(tokenizer.encode("naïve 🚀").ids) == "naïve 🚀"


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b'{"version": "1.0"}', "tokenizer.json", TokenizerType.HUGGINGFACE),
        (b'{"version": "1.0"}', "tokenizer.model", TokenizerType.HUGGINGFACE),
        (BOM + b"\n{}", "x", TokenizerType.HUGGINGFACE), (GGUF, "model.gguf", TokenizerType.GGUF),
        (GGUF, "model.json", TokenizerType.GGUF), (RANKS, "x.tiktoken", TokenizerType.TIKTOKEN),
        (RANKS, "tokenizer.model", TokenizerType.TIKTOKEN),
        (b"\n" + RANKS, "x", TokenizerType.TIKTOKEN), (b"IQ== 0", "x", TokenizerType.TIKTOKEN),
        (b"IQ== 0\r\nIg== 1\r\n", "x", TokenizerType.TIKTOKEN),
        (SENTENCEPIECE, "tokenizer.model", TokenizerType.SENTENCEPIECE),
        (SENTENCEPIECE, "tokenizer.json", TokenizerType.SENTENCEPIECE),
        (b"\x0a\x90\x01\x0a\x85\x01" + b"a" * 200, "x.model", TokenizerType.SENTENCEPIECE),
    ],
)  # fmt: skip
def test_detection_by_content(head, name, kind):
    assert detect_type(head, name) is kind


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"", "tokenizer.json"), (b"<html><s>", "tokenizer.model"), (b"hello world", "x.tiktoken"),
        (b"IQ== x", "x.tiktoken"), (b"GGU", "model.gguf"), (b"\x0a", "tokenizer.model"),
        (b"\x0a\x05abc", "tokenizer.model"), (b"\x89PNG\r\n", "a.png"),
    ],
)  # fmt: skip
def test_what_is_none_of_them(head, name):
    with pytest.raises(UnsupportedFormat, match=rf"{name}.*supported: tokenizer\.json"):
        detect_type(head, name)


def test_folders_are_looked_through_in_order(tmp_path):
    for name, content, kind in (
        ("model.gguf", GGUF, TokenizerType.GGUF),
        ("tokenizer.model", SENTENCEPIECE, TokenizerType.SENTENCEPIECE),
        ("a.tiktoken", RANKS, TokenizerType.TIKTOKEN),
        ("vocab.json", b"{}", TokenizerType.TIKTOKEN),
        ("merges.txt", b"", TokenizerType.HUGGINGFACE),
    ):
        (tmp_path / name).write_bytes(content)
        assert get_tokenizer_info(tmp_path) is kind
    (tmp_path / "tokenizer.json").write_text(byte_level().to_str(), encoding="utf-8")
    assert create_tokenizer(tmp_path).vocab_size == byte_level().get_vocab_size()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def test_folders_without_one_tokenizer(tmp_path):
    for names, content, error, message in (
        ((), b"", UnsupportedFormat, "holds no tokenizer; supported"),
        (("a.model", "b.model"), SENTENCEPIECE, UnsupportedFormat, r"a\.model and b\.model"),
        (("tokenizer.json",), b"", UnsupportedFormat, r"tokenizer\.json is empty"),
        (("tokenizer.json",), POINTER, UnsupportedFormat, "is a pointer of Git LFS; run: git lfs"),
        (("tokenizer.json",), b'{"a": 1}', CorruptModelFile, r"tokenizer\.json"),
    ):
        for name in names:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(error, match=message):
            create_tokenizer(tmp_path)


def test_vocabulary_and_merges(tmp_path):
    contents = json.loads(byte_level().to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(contents["vocab"]), encoding="utf-8")
    lines = [" ".join(pair) for pair in contents["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines), encoding="utf-8")
    tokenizer = create_tokenizer(tmp_path)
    for text in ("naïve café — 你好 🚀", "a b", "<think>"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.encode("naïve").ids == tuple(byte_level().encode("naïve").ids)
    (tmp_path / "merges.txt").write_text("nonsense line here\n")
    with pytest.raises(CorruptModelFile):
        create_tokenizer(tmp_path)


@pytest.mark.parametrize("name", ["gpt4", "distilgpt-2", "llama-7b", "canada-llm"])
def test_unknown_names(name):
    with pytest.raises(UnknownModel, match=f"unknown model '{name}'") as caught:
        create_tokenizer(name)
    assert caught.value.name == name
    assert ("gpt-4" in caught.value.near) == (name == "gpt4")


def test_own_rules_come_first_and_a_file_of_them_from_the_environment(model, tmp_path, monkeypatch):
    rules = ModelTokenizerMap([{"match": "prefix", "pattern": "gpt-4", "target": str(model)}])
    assert isinstance(create_tokenizer("gpt-4o", model_map=rules), HuggingFaceTokenizer)
    file = tmp_path / "rules.toml"
    file.write_text(f"[[rules]]\nmatch='exact'\npattern='mine'\ntarget='{model}'\n")
    monkeypatch.setenv("MINI_VLLM_MODEL_MAP", str(file))
    assert isinstance(create_tokenizer("mine"), HuggingFaceTokenizer)


def test_a_repository_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        create_tokenizer("no-organisation/no-model")


def test_inside_a_running_loop(model):
    async def both():
        return create_tokenizer(model), await create_tokenizer_async(model)

    assert [type(t) for t in asyncio.run(both())] == [HuggingFaceTokenizer] * 2


def test_chat_templates_by_priority(model, tmp_path):
    hello = [{"role": "user", "content": "Hi"}]
    assert create_tokenizer(model).apply_chat_template(hello, True) == "user: Hi\nassistant: "
    config = {"chat_template": "{{ eos_token }}{{ messages[0].content }}"}
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    assert create_tokenizer(model).apply_chat_template(hello) == "</s>Hi"
    own = tmp_path / "own.jinja"
    own.write_text("own {{ messages[0].content }}")
    tokenizer = create_tokenizer_with_chat_template(model, own)
    assert tokenizer.apply_chat_template(hello) == "own Hi"
    with pytest.raises(TokenizerFileNotFound):
        create_tokenizer_from_file(model, chat_template_path=tmp_path / "no.jinja")


def test_wrappers_load_files_themselves(model, tmp_path):
    (tmp_path / "own.jinja").write_text("own", encoding="utf-8")
    cached = CachedTokenizer.from_file(model, CacheConfig(enable_l0=False))
    assert (type(cached.inner), cached.stats.l0) == (HuggingFaceTokenizer, None)
    own = TokenizerWrapper.from_file_with_chat_template(model, tmp_path / "own.jinja")
    assert own.apply_chat_template([]) == "own"
    with pytest.raises(TokenizerFileNotFound):
        TokenizerWrapper.from_file(tmp_path / "no.json")
