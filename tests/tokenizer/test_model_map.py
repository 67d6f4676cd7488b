"""Model names to tokenizers: the built-in table, the user's rules above it, and bad rules."""

import json

import pytest
from tiktoken.model import MODEL_TO_ENCODING

from mini_vllm.tokenizer.model_map import _BUILT_IN_NAMES, ModelRule, ModelTokenizerMap
from mini_vllm.tokenizer_errors import TokenizerFileNotFound

BUILT_IN = ModelTokenizerMap()


# By target, the names that the built-in rules give it; U33 and U38 are among them.
RESOLVED = {
    "o200k_base": [
        "gpt-4o", "gpt-4o-mini", "chatgpt-4o-latest", "gpt-4.5-preview", "gpt-4.1-nano", "o1",
        "o3-mini", "openai/gpt-4o", "o200k_base",
    ],
    "o200k_harmony": ["gpt-oss-20b", "gpt-oss-120b", "gpt-oss", "o200k_harmony"],
    "cl100k_base": [
        "gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "gpt-35-turbo", "text-embedding-ada-002",
        "my-edit-org/gpt-4", "davinci-002", "babbage-002", "cl100k_base",
    ],
    "p50k_base": ["text-davinci-002", "text-davinci-003", "code-davinci-002", "code-cushman-001",
        "codex", "davinci-codex", "p50k_base"],
    "p50k_edit": ["text-davinci-edit-001", "code-davinci-edit-001"],
    "r50k_base": [
        "text-davinci-001", "text-ada-001", "davinci", "ada", "curie", "babbage", "gpt2", "gpt-2",
    ],
    # U37 and the negatives of K17.
    None: [
        "distilgpt-2", "bert-base-uncased", "llama-7b", "gpt2-xl", "openai-community/gpt2",
        "openai/gpt-oss-20b", "adapter-v2", "oracle-7b",
        "turbo-llama", "canada-llm", "", "/", "gpt", "gpt-40", "o", "o1x", "ada-2", "GPT-4",
        "xgpt-4", "ada\n", "gpt-4/x",
    ],
}  # fmt: skip


@pytest.mark.parametrize("target", RESOLVED)
def test_the_most_specific_rule_wins(target):
    assert {name: BUILT_IN.resolve(name) for name in RESOLVED[target]} == dict.fromkeys(
        RESOLVED[target], target
    )


def test_what_we_know_is_what_tiktoken_says():
    """No name that tiktoken lists resolves to something else."""
    # Under this name the library has the same ranks from other files.
    models = MODEL_TO_ENCODING | {"gpt2": "r50k_base", "gpt-2": "r50k_base"}
    resolved = {name: BUILT_IN.resolve(name) for name in models}
    wrong = {name for name, target in resolved.items() if target not in (None, models[name])}
    assert not wrong
    assert len([target for target in resolved.values() if target]) >= 25


def test_the_users_rules_come_first_and_in_their_order():
    rules = [
        {"match": "exact", "pattern": "gpt-4", "target": "./my/tokenizer.json"},
        {"match": "prefix", "pattern": "acme/llama", "target": "org/with-the-org"},
        {"match": "prefix", "pattern": "llama", "target": "org/first"},
        ModelRule("regex", r"llama-\d+b", "org/second"),
    ]
    table = ModelTokenizerMap(rules)
    assert table.resolve("gpt-4") == "./my/tokenizer.json"
    assert table.resolve("gpt-4-turbo") == "cl100k_base"
    assert table.resolve("llama-7b") == table.resolve("meta/llama-7b") == "org/first"
    assert table.resolve("acme/llama-7b") == "org/with-the-org"
    assert ModelTokenizerMap(rules[3:]).resolve("llama-7b") == "org/second"
    assert ModelTokenizerMap(rules[3:]).resolve("llama-7b-chat") is None  # the whole name


TOML = """
[[rules]]
match = "regex"
pattern = 'gpt-4.*'
target = "o200k_base"
"""


def test_rules_from_a_file_override_a_built_in(tmp_path, monkeypatch):
    toml, listed = tmp_path / "map.toml", tmp_path / "map.JSON"
    toml.write_text(TOML, encoding="utf-8")
    rule = {"match": "exact", "pattern": "ada", "target": "models/ada"}
    listed.write_text("\ufeff" + json.dumps([rule]), encoding="utf-8")
    monkeypatch.setenv("MINI_VLLM_MODEL_MAP", str(toml))
    assert ModelTokenizerMap.load().resolve("gpt-4") == "o200k_base"
    assert ModelTokenizerMap.load(listed).resolve("ada") == "models/ada"
    assert ModelTokenizerMap.load(str(listed)).resolve("gpt-4") == "cl100k_base"
    monkeypatch.setenv("MINI_VLLM_MODEL_MAP", "")
    assert ModelTokenizerMap.load().rules == ()
    with pytest.raises(TokenizerFileNotFound, match=r"none\.toml"):
        ModelTokenizerMap.load(tmp_path / "none.toml")


GOOD = {"match": "exact", "pattern": "a", "target": "b"}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({**GOOD, "match": "regex", "pattern": "("},
            r"rule 2: '\(' is not a regex .*match = 'prefix'"),
        ({**GOOD, "match": "glob"}, "rule 2: unknown match 'glob'; write one of exact, prefix"),
        ({"match": "exact", "pattern": "a"}, "rule 2: no 'target'; write exactly match, pattern"),
        ({**GOOD, "patern": "a"}, "rule 2: unknown 'patern'"),
        ({**GOOD, "pattern": ""}, "rule 2: pattern is ''; write a non-empty text"),
        ({**GOOD, "target": 3}, "rule 2: target is 3; write a non-empty text"),
        ({**GOOD, "match": ["exact"]}, "rule 2: unknown match"),
        ({**GOOD, 7: 7}, "rule 2: unknown '7'"),
        ("gpt-4", "rule 2: it is 'gpt-4'; write a table"),
    ],
)  # fmt: skip
def test_a_bad_rule_is_named_when_it_is_loaded(rule, message):
    with pytest.raises(ValueError, match=message):
        ModelTokenizerMap([GOOD, rule])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.toml", b"", "m.toml: the file must hold one list named 'rules'"),
        ("m.toml", TOML.encode() + b"[more]", "and nothing else"),
        ("m.json", b'{"rules": 3}', "one list"), ("m.json", b"7", "one list"),
        ("m.json", b"[7]", "m.json: rule 1: it is 7"),
        ("m.yaml", b"", "m.yaml: .yaml suffix; name the file .toml or .json"),
        ("m", b"", "no suffix"),
    ],
)  # fmt: skip
def test_a_file_of_something_else_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ModelTokenizerMap.load(path)


def test_near_names():
    table = ModelTokenizerMap([GOOD | {"pattern": "ACME-Chat-7b"}])
    assert table.near("GPT4")[0] == "gpt-4"
    assert table.near("openai/gtp-4o")[0] == "gpt-4o"
    assert table.near("acme_chat_7B") == ["ACME-Chat-7b"]
    assert table.near("zzzzzz") == []


def test_every_name_that_may_be_proposed_resolves():
    assert None not in map(BUILT_IN.resolve, _BUILT_IN_NAMES)
