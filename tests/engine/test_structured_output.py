"""Outputs that are held to a grammar, whatever the model would rather say."""

import json
import random
import re
import sys

import jsonschema
import pytest
from scenes import EOS, one_by_one, params

from mini_vllm.engine import (
    Burst,
    Engine,
    FinishReason,
    Request,
    StreamingSubmissionError,
    StructuredOutputError,
    StructuredOutputsParams,
)
from mini_vllm.engine.constrained_model import ConstrainedModel
from mini_vllm.engine.structured_output import TokenMask
from mini_vllm.engine.structured_output_manager import StructuredOutputManager
from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.scripted import RaggedModel, ScriptedModel
from mini_vllm.models.speculative import SpeculativeScriptedModel
from mini_vllm.models.spelled import SpelledModel
from mini_vllm.tokenizer import ByteTokenizer, create_tokenizer
from mini_vllm.tokenizer.pieces import PieceTable

pytest.importorskip("llguidance")
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "é🚀", None]}, "maxItems": 3},
        "home": {"$ref": "#/$defs/home"},
    },
    "required": ["name", "age", "tags", "home"],
    "additionalProperties": False,
    "$defs": {"home": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}},
}
BYTES = ByteTokenizer()
VOCABULARY = "phase-16-serving-apis-and-parsers/tokenizers/byte_level.json"
LARK = 'start: pair ("," pair)*\npair: /[a-z]{1,3}/ "=" /[0-9]/'
GBNF = 'root ::= "<" [a-c] ">" | "é"'


def asked(**kind):
    if "json" in kind:
        kind["json"] = json.dumps(kind["json"])
    return StructuredOutputsParams(**kind)


def answers(model, wanted, *, tokenizer=BYTES, prompt="Say it.", n=1, **changes):
    engine = Engine(model, tokenizer, max_num_seqs=32, num_blocks=1024)
    given = params(**{"max_tokens": 400, "n": n, **changes}, structured_outputs=wanted)
    return engine.handle_request([Request(prompt, given, request_id="r")]).outputs


def is_person(text):
    jsonschema.validate(json.loads(text), PERSON)
    return True


class Wild:
    """A model that likes every id as much as any other, and looks at the mask if it is told to."""

    def __init__(self, seed, *, obeys=True, vocab_size=BYTES.vocab_size):
        self.chance, self.obeys, self.size = random.Random(seed), obeys, vocab_size

    def prefill(self, slots):
        return self.decode(slots)

    def decode(self, slots):
        return [
            Burst((self.chance.choice([*slot.mask] if self.obeys else range(self.size)),))
            for slot in slots
        ]

    def release(self, slot):
        pass


FITS = [
    (asked(json=PERSON), is_person),
    (asked(json=PERSON, disable_any_whitespace=True), lambda text: "\n" not in text),
    (asked(regex=r"\d{2}[a-z/]{1,9}|é{1,3}"), re.compile(r"[0-9]{2}[a-z/]{1,9}|é{1,3}").fullmatch),
    (asked(choice=("yes", 'n"o\n', "é🚀")), ("yes", 'n"o\n', "é🚀").__contains__),
    (asked(grammar=LARK), re.compile(r"[a-z]{1,3}=\d(,[a-z]{1,3}=\d)*").fullmatch),
    (asked(grammar=GBNF), re.compile("<[abc]>|é").fullmatch),
    (asked(json_object=True), lambda text: isinstance(json.loads(text), dict)),
]


@pytest.mark.parametrize(("wanted", "fits"), FITS)
@pytest.mark.parametrize("kind", ["embedded", "spelled", "wild"])
def test_what_ends_is_what_was_asked_for(wanted, fits, kind):
    tokenizer = create_tokenizer(VOCABULARY) if kind == "spelled" else BYTES
    ended = 0
    for seed in range(2):
        model = Wild(seed) if kind == "wild" else load_embedded().model
        if kind == "spelled":
            model = SpelledModel(model, tokenizer)
        for output in answers(model, wanted, tokenizer=tokenizer, n=3, seed=seed):
            assert output.error is None
            if output.finish_reason is FinishReason.END_ID:
                assert fits(output.text), output.text
                ended += 1
    # A text may run into `max_tokens` where its grammar does not bound it.
    assert ended >= (1 if kind == "wild" else 3)


def test_no_id_outside_the_mask_gets_through_and_EOS_only_where_the_text_may_end():
    wanted = asked(json=PERSON)
    for seed in range(12):
        [output] = answers(Wild(seed, obeys=False), wanted)
        assert isinstance(output.error, StructuredOutputError)
        grammar = StructuredOutputManager(BYTES).compile(wanted)
        assert grammar.accept_tokens(output.token_ids) == len(output.token_ids)
        assert EOS not in output.token_ids
    grammar, complete = StructuredOutputManager(BYTES).compile(asked(regex="ab?")), []
    for token_id in b"ab":
        assert (EOS in grammar.mask()) == grammar.may_end == bool(complete)
        complete.append(grammar.accept_tokens([token_id]))
    assert [*grammar.mask()] == [EOS]


def test_the_mask_is_exactly_what_the_grammar_accepts():
    tokenizer = create_tokenizer(VOCABULARY)
    manager, chance = StructuredOutputManager(tokenizer), random.Random(5)
    for wanted, _ in FITS:
        grammar = manager.compile(wanted)
        for _ in range(12):
            mask = grammar.mask()
            for token_id in chance.sample(range(tokenizer.vocab_size), 40):
                read = grammar.copy().accept_tokens([token_id])
                assert read == (token_id in mask), tokenizer.id_to_token(token_id)
            token_id = chance.choice([*mask])
            grammar.accept_tokens([token_id])
            if token_id in tokenizer.eos_token_ids:
                break


TEXT = '{"name": "Zoë", "age": 7, "tags": [], "home": null}'


@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_script_that_fits_is_played_however_it_is_cut(most):
    ids = (*TEXT.encode(), EOS, *b"behind")
    [output] = answers(RaggedModel(1, {"r": ids}, most=most), asked(json=PERSON))
    assert (output.text, output.finish_reason) == (TEXT, FinishReason.END_ID)


LEAVES = [("{x", 1), (TEXT[:-1], len(TEXT.encode()) - 1), (f"{TEXT} and", len(TEXT.encode()))]


@pytest.mark.parametrize(("text", "fitting"), LEAVES)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_script_that_leaves_the_grammar_ends_there_with_an_error(text, fitting, size):
    ids = (*text.encode(), EOS)
    steps = [ids[at : at + size] for at in range(0, len(ids), size)]
    [output] = answers(ScriptedModel({"r": [*steps, (EOS,)]}), asked(json=PERSON))
    assert bytes(output.token_ids) == text.encode()[:fitting]
    assert f"outside the grammar of the request, after {fitting} ids" in str(output.error)


@pytest.mark.parametrize("guess", ["a", "!"])
def test_a_speculative_burst_is_held_to_the_grammar_id_by_id(guess):
    def target(ids):
        return ord("a") if len(ids) < 12 else ord("!")

    model = SpeculativeScriptedModel(target, lambda ids: ord(guess), k=5)
    [output] = answers(model, asked(regex="a+"), prompt="12345")
    assert output.text == "a" * len(output.text)
    assert isinstance(output.error, StructuredOutputError)


def test_slots_with_and_without_a_grammar_run_side_by_side_and_nothing_is_done_for_none():
    class Watched(Wild):
        def decode(self, slots):
            self.seen = [slot.mask is None for slot in slots]
            return [Burst((ord("a"),)) for _ in slots]

    inner = Watched(0)
    model = ConstrainedModel(inner)
    engine = Engine(inner, BYTES)
    free = Request("x", params(max_tokens=3))
    held = Request("x", params(max_tokens=3, structured_outputs=asked(regex="a+")))
    assert [out.text for out in engine.handle_request([free, held]).outputs] == ["aaa", "aaa"]
    assert sorted(inner.seen) == [False, True]
    # Without a grammar the model's own list comes back.
    answer = [Burst((1,))]
    inner.decode = lambda slots: answer
    assert model.decode([object()]) is answer


def test_stops_max_tokens_and_logprobs_are_as_ever():
    embedded = load_embedded().model
    wanted = asked(regex="[a-z]{5}END[a-z]{5}")
    [stopped] = answers(embedded, wanted, stop=("END",), seed=1)
    assert (len(stopped.text), stopped.stop_reason) == (5, "END")
    [cut] = answers(embedded, wanted, max_tokens=7, seed=1, logprobs=2)
    assert (len(cut.token_ids), cut.finish_reason) == (7, FinishReason.LENGTH)
    assert all(0 >= entry.chosen.logprob > float("-inf") for entry in cut.logprobs)


REFUSED = [
    (asked(json={"type": "strin"}), "Invalid type: strin"),
    (asked(json={"type": "integer", "minimum": 5, "maximum": 3}), "minimum (5) is greater"),
    (asked(json=False), "schema is false"),
    (asked(json={"$ref": "#/$defs/x"}), "'/$defs/x' does not exist"),
    (asked(json={"not": {}}), "Unimplemented"),
    (asked(regex="("), 'invalid regex "("'),
    (asked(regex="(?=a)b"), "look-around"),
    (asked(regex="x{0}"), "only the empty text fits"),
    (asked(grammar="start: foo"), 'unknown name: "foo"'),
    (asked(grammar='start: start "a"'), "no text fits"),
    (asked(grammar="start: " + '"a"? ' * 3000), "it is too large: no token of the vocabulary"),
    (asked(grammar='root = "a"'), "GBNF to Lark"),
    (asked(grammar='%llguidance {"no_forcing": false}\nstart: "a"'), "%llguidance"),
]


@pytest.mark.parametrize(("wanted", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_malformed_or_impossible_is_refused_before_any_id(wanted, reason):
    with pytest.raises(StreamingSubmissionError, match=re.escape(reason)):
        answers(Wild(0), wanted)


@pytest.mark.parametrize("kinds", [{}, {"regex": "a", "json_object": True}, {"choice": ()},
                                   {"choice": ("a", "")}, {"grammar": ""}])  # fmt: skip
def test_exactly_one_kind_is_asked_for_and_it_is_not_empty(kinds):
    with pytest.raises(ValueError, match=r"give (one of|it a text)"):
        StructuredOutputsParams(**kinds)


@pytest.mark.parametrize("changes", [{"ignore_eos": True}, {"min_tokens": 1}])
def test_only_the_grammar_says_where_its_text_ends(changes):
    with pytest.raises(ValueError, match="the grammar decides where text ends"):
        params(**changes, structured_outputs=asked(regex="a"))


class Odd(ByteTokenizer):
    """A vocabulary that cannot be constrained, or only in part."""

    def __init__(self, pieces=BYTES.pieces, eos=(257,)):
        self.pieces, self.eos_token_ids = pieces, frozenset(eos)


def test_a_vocabulary_that_cannot_be_held_to_a_grammar_is_refused_and_one_that_is_stuck_says_so():
    for tokenizer, reason in ((Odd(None), "rewrites across ids"), (Odd(eos=()), "no token that")):
        with pytest.raises(StreamingSubmissionError, match=reason):
            answers(Wild(0), asked(regex="a"), tokenizer=tokenizer)
    column = [None if token_id == ord("b") else piece for token_id, piece in
              enumerate(BYTES.pieces.rest)]  # fmt: skip
    without_b = Odd(PieceTable(column, column, BYTES.pieces.special))
    [output] = answers(Wild(0), asked(regex="ab"), tokenizer=without_b)
    assert "no token of the vocabulary can follow" in str(output.error)


def test_many_choices_are_no_matter_and_a_grammar_over_the_limits_says_so():
    many = asked(choice=tuple(f"number {number}" for number in range(3000)))
    [output] = answers(load_embedded().model, many, seed=1)
    assert output.text in many.choice
    rules = asked(grammar="start: " + " | ".join(f'"x{number}"' for number in range(3000)))
    [output] = answers(ScriptedModel({"r": one_by_one("x1")}), rules)
    assert "Current row has 3001 items" in str(output.error)


def test_special_tokens_are_no_text_but_a_grammar_may_name_them():
    manager = StructuredOutputManager(BYTES)
    grammar = manager.compile(asked(regex="(?s:.*)"))
    assert not {256, 258} & {*grammar.mask()}
    grammar = manager.compile(asked(grammar=f'start: {manager.spell("<pad>")} "x"'))
    assert [*grammar.mask()] == [ord("<"), 258]
    assert manager.spell("<tool") == '"<tool"'
    assert manager.spell("a<pad>") == '("a" <[258]> | "a<pad>")'


def test_a_missing_llguidance_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(StreamingSubmissionError, match=r"pip install -r requirements/serve\.txt"):
        answers(ScriptedModel({"r": one_by_one("a")}), asked(regex="a"))


def test_grammars_are_compiled_once_and_the_latest_are_kept(monkeypatch):
    manager, made = StructuredOutputManager(BYTES), []
    compiled = manager._compile
    monkeypatch.setattr(manager, "_compile", lambda wanted: made.append(1) or compiled(wanted))
    first = manager.compile(asked(regex="ab"))
    first.accept_tokens(b"a")
    assert [*manager.compile(asked(regex="ab")).mask()] == [ord("a")]
    assert len(made) == 1
    for number in range(64):
        manager.compile(asked(choice=(f"x{number}",)))
    manager.compile(asked(regex="ab"))
    assert len(made) == 66


def test_a_mask_is_the_set_of_its_ids():
    for ids in ([], [0], [7, 8, 258], range(259)):
        mask = TokenMask.of(ids, 259)
        assert [*mask] == [*ids]
        assert len(mask) == len([*ids])
        assert [one for one in range(-9, 400) if one in mask] == [*ids]
