"""Whose special tokens a prompt has: in real templates, and as mistral-common encodes a chat.

A model's template comes without its vocabulary here, so its special tokens are what looks like some
in its own source.
"""

import re

import pytest

from mini_vllm.chat_template.template import ChatTemplate, Rendered
from mini_vllm.chat_template.worker import Renderer, answer
from mini_vllm.tokenizer import At, GGUFTokenizer, SentencePieceTokenizer
from mini_vllm.tokenizer.encoding import special_pattern
from upstream.sources import SOURCES

TEMPLATES = sorted((SOURCES / "llama_cpp" / "models" / "templates").glob("*.jinja"))
TEMPLATES += sorted((SOURCES / "examples").glob("tool_chat_template_*.jinja"))
LOOKS_SPECIAL = re.compile(
    r"<[|｜][^\s<>{}'\"]{1,40}[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|</?s>|<(?:start|end)_of_turn>|<bos>"
    r"|\[/?[A-Z_]{3,}\]|\]~b\]|\[e~\["
)
# Some templates make these of a role.
OF_ROLES = ["<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"]
ROLES = {"bos_token": "<s>", "eos_token": "</s>"}


def conversations(said):
    function = {
        "name": "get_weather",
        "description": f"Weather {said}",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": f"name {said}"}},
            "required": ["city"],
        },
    }
    call = {"name": "get_weather", "arguments": {"city": f"Oslo{said}"}}
    calls = [{"id": "call00001", "type": "function", "function": call}]
    yield {"messages": [{"role": "user", "content": f"Hi {said}"}], "tools": None}
    yield {"tools": None, "messages": [
        {"role": "system", "content": f"{said}Be brief. "},
        {"role": "user", "content": f"Hi {said} there"},
        {"role": "assistant", "content": f"Hello{said}"},
        {"role": "user", "content": said},
    ]}  # fmt: skip
    yield {"tools": [{"type": "function", "function": function}], "messages": [
        {"role": "system", "content": f"Be brief{said}"},
        {"role": "user", "content": f"Hi{said}"},
        {"role": "assistant", "content": "", "reasoning_content": f"a{said}", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": said},
        {"role": "assistant", "content": f"Cold{said}", "reasoning_content": f"b {said}"},
        {"role": "user", "content": f"Thanks {said}"},
    ]}  # fmt: skip


def rendered(renderer, said):
    for variables in conversations(said):
        for prompted in (True, False):
            asked = {**variables, "documents": None, "add_generation_prompt": prompted}
            yield answer(renderer, asked)


def own(made):
    return [made["text"][slice(*span)] for span in made.get("special", ())]


@pytest.mark.skipif(not TEMPLATES, reason="templates were not fetched: make oracles")
@pytest.mark.parametrize("path", TEMPLATES, ids=[path.stem for path in TEMPLATES])
def test_only_the_templates_own_special_tokens_count(path):
    source = path.read_text(encoding="utf-8")
    tokens = sorted({*LOOKS_SPECIAL.findall(source), *OF_ROLES, "<s>", "</s>"})
    marked, bare = Renderer(source, 10**6, tokens, ROLES), Renderer(source, 10**6, (), ROLES)
    pattern = special_pattern(frozenset(tokens))
    harmless = list(rendered(marked, "Z"))
    for made in harmless:
        # All that are there are the template's own, be they composed of pieces and roles.
        assert own(made) == pattern.findall(made.get("text", ""))
    for token in tokens:
        found, expected = rendered(marked, token), rendered(bare, token)
        for made, usual, like in zip(found, expected, harmless, strict=True):
            # The template has decided, cut and written as it does without our marks.
            assert made.get("text") == usual.get("text"), made
            assert made.get("error") == usual.get("error")
            if "error" not in made and "error" not in like:
                assert own(made) == own(like), token


def test_a_chat_on_sentencepiece_has_the_ids_of_mistral_common():
    pytest.importorskip("mistral_common", reason="mistral-common is not installed: make oracles")
    from mistral_common.protocol.instruct.messages import AssistantMessage, UserMessage
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    from benchmarks.peers.mistral import SENTENCEPIECE, data

    ours = SentencePieceTokenizer.from_file(data(SENTENCEPIECE))
    peer = MistralTokenizer.from_file(str(data(SENTENCEPIECE)))
    template = ChatTemplate(
        "{{ bos_token }}{% for m in messages %}"
        "{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
        "{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        **ROLES,
        special_tokens=ours.special_tokens.all(),
    )
    for said in ("Hi", "Hi [INST] there</s>", "[/INST]", "naïve 你好 🚀 <s>", "  two\n"):
        turns = [
            {"role": "user", "content": said},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": f"And {said}?"},
        ]
        made = template.render(turns)
        allowed = "all" if made.clean else At(made.special_spans)
        ids = ours.encode(made.text, allowed_special=allowed).ids
        asked = [
            UserMessage(content=turns[0]["content"]),
            AssistantMessage(content="Yes."),
            UserMessage(content=turns[2]["content"]),
        ]
        wanted = peer.encode_chat_completion(ChatCompletionRequest(messages=asked)).tokens
        assert list(ids) == wanted, said
        assert ids[:2] == (1, 3)
    template.close()


PHI_3 = SOURCES / "llama_cpp" / "models" / "ggml-vocab-phi-3.gguf"


@pytest.mark.skipif(not PHI_3.exists(), reason="vocabularies were not fetched: make oracles")
def test_a_prompt_of_phi_3_has_the_ids_of_llama_cpp():
    ours = GGUFTokenizer.from_file(PHI_3)
    prompt = ours.chat_template.render([{"role": "user", "content": "Hi"}], True)
    # Its own template, as the file has it, and what llama.cpp's `parse_special` makes of it.
    assert prompt == Rendered(
        "<s><|user|>\nHi<|end|>\n<|assistant|>\n", ((0, 3), (3, 11), (14, 21), (22, 35))
    )
    ids = (1, 32010, 6324, 32007, 32001)
    assert ours.encode(prompt.text, allowed_special="all").ids == ids
    assert ours.encode(prompt.text, allowed_special=At(prompt.special_spans)).ids == ids
    assert len(ours.encode(prompt.text)) == 22
