"""NgramModel: its distribution is that of the definition, and sampling follows it."""

import codecs
import itertools
import math
import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.engine.model import SlotView, check_burst
from mini_vllm.engine.request import SamplingParams
from mini_vllm.engine.structured_output import TokenMask
from mini_vllm.models.ngram import MOST_OCCURRENCES, NgramModel
from mini_vllm.tokenizer_errors import EncodeError

SOAK = bool(os.environ.get("SOAK"))
EOS = 257
# One, two, three and four bytes a character; ¯ and π share their last bytes with others.
LETTERS = "ab π¯é好你🚀🎉"


def slot(prompt, *, name="r", choice=0, **params):
    ids = tuple(prompt.encode()) if isinstance(prompt, str) else tuple(prompt)
    return SlotView(name, choice, ids, SamplingParams(**params))


def step(model, views):
    bursts = model.decode(views) if views[0].step else model.prefill(views)
    for view, burst in zip(views, bursts, strict=True):
        check_burst(view, burst)
        view.output_token_ids += burst.token_ids
        view.step += 1
    return bursts


def generate(model, prompt, most=40, **options):
    view = slot(prompt, **options)
    while view.step < most and EOS not in view.output_token_ids:
        step(model, [view])
    model.release(view)
    return view.output_token_ids


def text_of(ids):
    return bytes(one for one in ids if one != EOS).decode()


def distribution(model, prompt):
    (burst,) = model.prefill([slot(prompt, logprobs=259)])
    return {one: math.exp(logprob) for one, logprob in burst.logprobs[0].items()}


def by_definition(corpus, text, max_context):
    """The same, from lists of ids that hold EOS at document ends, in the plainest way."""
    corpus, text = [EOS, *corpus, EOS], [EOS, *text]

    def followers(suffix):
        return [
            ids[at + len(suffix)]
            for ids in (corpus, text)
            for at in range(len(ids) - len(suffix))
            if ids[at : at + len(suffix)] == suffix
        ]

    suffix = text[-max_context:]
    while not (EOS not in suffix[1:] and followers(suffix)) and suffix:
        suffix = suffix[1:]
    while suffix and 0x80 <= suffix[0] <= 0xBF:
        suffix = suffix[1:]
    found = followers(suffix) if suffix else [i for i in corpus[1:] if not 0x80 <= i <= 0xBF]
    return {one: count / len(found) for one, count in Counter(found).items()}


texts = st.text(LETTERS, max_size=12)
documents = st.lists(st.text(LETTERS, min_size=1, max_size=12), min_size=1, max_size=6)


def joined(texts):
    ids = [one for text in texts for one in (*text.encode(), EOS)]
    return ids[:-1]


@settings(max_examples=400 if SOAK else 100, deadline=None)
@given(documents, st.lists(texts, min_size=1, max_size=3), texts, st.integers(3, 20))
def test_the_distribution_is_that_of_the_definition(corpus, prompt, output, max_context):
    model = NgramModel("|".join(corpus), max_context=max_context, document_end="|")
    view = slot(joined(prompt), logprobs=259)
    for token_id in [*output.encode(), None]:
        (burst,) = model.decode([view]) if view.output_token_ids else model.prefill([view])
        expected = by_definition(
            joined(corpus), [*view.prompt_token_ids, *view.output_token_ids], max_context
        )
        assert {i: math.exp(p) for i, p in burst.logprobs[0].items()} == pytest.approx(expected)
        assert burst.token_ids[0] in expected
        # Not what the model chose: an engine may leave out what it generated.
        view.output_token_ids.append(token_id)
        view.step += 1


@settings(max_examples=200 if SOAK else 60, deadline=None)
@given(documents, texts, st.integers(3, 8), st.integers(0, 9))
def test_well_formed_text_goes_on_well_formed(corpus, prompt, max_context, seed):
    model = NgramModel("|".join(corpus), max_context=max_context, document_end="|")
    view = slot(prompt, seed=seed)
    for _ in range(40):
        step(model, [view])
    assert all(0 <= one < 256 or one == EOS for one in view.output_token_ids)
    data = bytes(10 if one == EOS else one for one in view.output_token_ids)
    codecs.getincrementaldecoder("utf-8")("strict").decode(data)


def test_a_longer_match_wins_over_more_frequent_shorter_ones():
    model = NgramModel("a cat|a cow|a cow|the cat sat", document_end="|")
    assert text_of(generate(model, "a c", temperature=0)) == "ow"
    assert text_of(generate(model, "the c", temperature=0)) == "at sat"


def test_what_stands_in_the_prompt_is_copied():
    model = NgramModel("the name is Ada", document_end="|")
    assert text_of(generate(model, "Zoë Żak!|My name: Zo", 8)).startswith("ë Żak")
    ids = [*"Zoë Żak!".encode(), 256, *b"Z"]
    assert generate(model, ids, temperature=0)[:8] == [*"oë Żak".encode()]


def test_a_suffix_does_not_reach_over_a_document_end():
    model = NgramModel("xa1|yb2", document_end="|")
    # "a", a document end and "b" are in neither; behind the end "b" begins a document, as nowhere.
    assert text_of(generate(model, "a|b", temperature=0)) == "2"
    assert distribution(model, "xa1|") == pytest.approx({ord("x"): 2 / 3, ord("y"): 1 / 3})


@pytest.mark.parametrize("boundary", [256, 257, 258, 9999, -1])
def test_every_id_that_is_no_byte_ends_a_document(boundary):
    model = NgramModel("xa1|yb2", document_end="|")
    assert distribution(model, [ord("1"), boundary]) == distribution(model, "1|")


def test_the_beginning_of_a_document_is_known():
    model = NgramModel("to be|or not to go|to go", document_end="|")
    assert distribution(model, "to ")[ord("g")] == pytest.approx(1 / 2)
    assert distribution(model, "not to ") == {ord("g"): 1}


def test_after_eos_a_new_document_begins():
    model = NgramModel("ab|ac|b", document_end="|")
    expected = {ord("a"): 2 / 3, ord("b"): 1 / 3}
    assert distribution(model, []) == pytest.approx(expected)
    view = slot("a", logprobs=259, temperature=0)
    step(model, [view])
    step(model, [view])
    assert view.output_token_ids == [ord("b"), EOS]
    (burst,) = step(model, [view])
    # The prompt began with an "a" too.
    assert {i: math.exp(p) for i, p in burst.logprobs[0].items()} == pytest.approx(
        {ord("a"): 3 / 4, ord("b"): 1 / 4}
    )


def test_after_an_unknown_character_a_character_begins():
    model = NgramModel("好a", document_end="|")
    assert distribution(model, "Z") == pytest.approx({0xE5: 1 / 3, ord("a"): 1 / 3, EOS: 1 / 3})
    # π ends in the byte 80, and Ā (C4 80) is no reason to go on in the middle of €.
    assert set(distribution(NgramModel("€ … „a‟"), "π")) == {0xE2, ord(" "), ord("a"), EOS}


def test_temperature_0_takes_the_likeliest_and_of_equals_the_smallest_id():
    model = NgramModel("ac|ab|ad|bz|bz|by", document_end="|")
    for seed in range(20):
        assert generate(model, "a", 1, temperature=0, seed=seed) == [ord("b")]
        assert generate(model, "b", 1, temperature=0, seed=seed) == [ord("z")]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_have_the_distribution(temperature):
    model = NgramModel("a1|a1|a1|a1|a2|a2|a3", document_end="|")
    weights = {"1": 4, "2": 2, "3": 1}
    weights = {one: weight ** (1 / temperature) for one, weight in weights.items()}
    samples = 4000
    seen = Counter(
        text_of(generate(model, "a", 1, temperature=temperature, seed=seed))
        for seed in range(samples)
    )
    for one, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(seen[one] / samples - share) < 4 * math.sqrt(share * (1 - share) / samples)


@pytest.mark.parametrize("temperature", [5e-324, 1e-9, 1e9, math.inf])
def test_extreme_temperatures_are_no_error(temperature):
    model = NgramModel("a1|a1|a2", document_end="|")
    seen = {
        text_of(generate(model, "a", 1, temperature=temperature, seed=seed)) for seed in range(30)
    }
    assert seen == ({"1"} if temperature < 1 else {"1", "2"})


@pytest.mark.parametrize(
    ("top_p", "temperature", "kept"),
    [
        (1e-9, 1, "1"),
        (0.5, 1, "1"),
        (0.51, 1, "12"),
        (0.76, 1, "123"),
        (1, 1, "123"),
        # First temperature, then top_p: 4, 1, 1 of 6 are 2/3 for the first.
        (0.6, 0.5, "1"),
        (0.6, 1, "12"),
    ],
)
def test_top_p_keeps_the_likeliest(top_p, temperature, kept):
    model = NgramModel("a1|a1|a2|a3", document_end="|")
    seen = {
        text_of(generate(model, "a", 1, top_p=top_p, temperature=temperature, seed=seed))
        for seed in range(60)
    }
    assert "".join(sorted(seen)) == kept


def test_logprobs_are_exact_and_of_the_distribution_before_temperature():
    model = NgramModel("a1|a1|a2|a3", document_end="|")
    for temperature, top_p in [(0, 1), (0.1, 1), (1, 0.1), (5, 1)]:
        params = {"temperature": temperature, "top_p": top_p}
        (burst,) = model.prefill([slot("a", logprobs=9, **params)])
        assert burst.logprobs == (
            {ord("1"): math.log(2 / 4), ord("2"): math.log(1 / 4), ord("3"): math.log(1 / 4)},
        )


def test_logprobs_have_the_likeliest_and_the_chosen_one():
    model = NgramModel("a1|a1|a2|a3", document_end="|")
    chosen = set()
    for seed, most in itertools.product(range(40), [0, 1, 2]):
        (burst,) = model.prefill([slot("a", logprobs=most, seed=seed)])
        likeliest = [ord("1"), ord("2"), ord("3")][:most]
        assert burst.logprobs[0] == {
            one: math.log((2 if one == ord("1") else 1) / 4)
            for one in {*likeliest, burst.token_ids[0]}
        }
        chosen |= set(burst.token_ids)
    assert chosen == {ord("1"), ord("2"), ord("3")}
    assert model.prefill([slot("a")])[0].logprobs == ()


MANY = "|".join(f"{a}{b}" for a, b in itertools.permutations("abcdefghijkl", 2))


@pytest.mark.parametrize("favoured", [ord("z"), 258])
def test_an_id_that_only_a_bias_makes_possible_has_the_logprob_of_an_impossible_one(favoured):
    view = slot("a", logprobs=1, temperature=0, logit_bias={favoured: 100.0})
    (burst,) = NgramModel("abab").prefill([view])
    assert burst.token_ids == (favoured,)
    assert burst.logprobs[0] == {ord("b"): math.log(1), favoured: -math.inf}


def test_a_seed_is_repeatable_whatever_runs_beside_it():
    alone = generate(NgramModel(MANY, document_end="|", max_context=3), "ab", seed=7)
    model = NgramModel(MANY, document_end="|", max_context=3)
    views = [slot("ab", name=str(i), seed=7 if i == 2 else None) for i in range(4)]
    late = slot("kl", name="late", seed=7)
    step(model, views[:2])
    for _ in alone:
        step(model, views[2:])
        step(model, [late])
    assert views[2].output_token_ids[: len(alone)] == alone


def test_seeds_and_choices_and_steps_have_chances_of_their_own():
    model = NgramModel(MANY, document_end="|")
    assert len({generate(model, [], 1, seed=seed)[0] for seed in range(12)}) > 3
    assert len({generate(model, [], 1, seed=0, choice=choice)[0] for choice in range(12)}) > 3
    steps = [slot([], seed=0) for _ in range(12)]
    for number, view in enumerate(steps):
        view.step = number
    assert len({model.prefill([view])[0].token_ids for view in steps}) > 3


def test_without_a_seed_runs_differ():
    models = [NgramModel(MANY, document_end="|") for _ in range(2)]
    one, other = ([generate(model, [], 1) for _ in range(60)] for model in models)
    assert one != other
    assert len(set(map(tuple, one))) > 3


def test_slots_are_isolated_and_a_name_can_be_used_again():
    model = NgramModel("one two|three four", document_end="|")
    views = [slot("on", name="a"), slot("thr", name="b"), slot("three", name="a", choice=1)]
    for _ in range(5):
        step(model, views)
    assert [text_of(view.output_token_ids) for view in views] == ["e two", "ee fo", " four"]
    for view in views:
        model.release(view)
        model.release(view)
    assert text_of(generate(model, "thr", name="a")) == "ee four"


def test_at_most_so_many_occurrences_are_counted():
    half = MOST_OCCURRENCES
    model = NgramModel("ab|" * (half - 1) + "ac|" * half, document_end="|")
    assert distribution(model, "a") == pytest.approx(
        {ord("b"): (half - 1) / half, ord("c"): 1 / half}
    )


def test_the_default_document_end_is_that_of_chat_templates():
    model = NgramModel("ab<|end|>\nac<|end|>\n")
    assert generate(model, "ab<|end|>\nac", temperature=0) == [EOS]
    assert distribution(model, "") == {ord("a"): 1}


def test_a_corpus_may_be_bytes():
    assert distribution(NgramModel("é".encode()), b"\xc3") == {0xA9: 1}
    assert distribution(NgramModel(b"\xff\xfe"), b"\xff") == {0xFE: 1}
    assert distribution(NgramModel(b"\x80"), b"z") == {EOS: 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corpus": ""}, "the corpus is empty; give it some text"),
        ({"corpus": b""}, "the corpus is empty"),
        ({"corpus": "<|end|>\n<|end|>\n"}, "the corpus is empty"),
        ({"corpus": "a", "max_context": 2}, "max_context is 2; it must be at least 3"),
        ({"corpus": "a", "document_end": ""}, "document_end is empty"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        NgramModel(**arguments)


def test_a_corpus_has_no_lone_surrogates():
    with pytest.raises(EncodeError):
        NgramModel("a\ud800")


@given(st.text(LETTERS, min_size=1, max_size=12), st.integers(0, 3))
def test_a_prompt_is_as_likely_as_the_same_text_that_the_model_says(prompt, most):
    """The logprobs of an output are those of a prompt that has it at its end."""
    model = NgramModel("ab π¯é b好 a你🚀 🎉ba" * 2)
    view = slot(prompt, logprobs=most)
    said = [step(model, [view])[0].logprobs[0] for _ in range(20)]
    # Behind EOS begins another document, which a prompt cannot say.
    ids = list(itertools.takewhile(lambda one: one != EOS, view.output_token_ids))
    scores = model.prompt_logprobs((*view.prompt_token_ids, *ids), most)
    assert scores[0] is None
    assert scores[len(view.prompt_token_ids) :] == said[: len(ids)]


def test_what_never_followed_is_impossible_in_a_prompt():
    scores = NgramModel("abab").prompt_logprobs(tuple(b"abz"), 1)
    assert scores == [None, {98: 0.0}, {97: 0.0, 122: -math.inf}]


@pytest.mark.parametrize(
    ("prompt", "allowed", "likeliest"),
    [
        ("ab", "cxy", "c"),
        ("ab", "xdy", "d"),
        ("zab", "xy", "x"),
        ("ab", "yz", "z"),
        ("abc", '!x"', '"'),
        ("ab ", " x", "x"),
        ("ab ", " \n", " "),
    ],
    ids=["what comes next", "the next likeliest", "nothing known", "a shorter suffix", "an end",
         "no space", "space alone"],
)  # fmt: skip
def test_a_mask_leaves_the_likeliest_of_what_it_allows(prompt, allowed, likeliest):
    model = NgramModel("abc<|end|>\nabc<|end|>\nabd<|end|>\nqbz<|end|>\nab  <|end|>\n")
    view = slot(prompt, temperature=0)
    view.mask = TokenMask.of(map(ord, allowed), 259)
    [burst] = model.prefill([view])
    assert chr(burst.token_ids[0]) == likeliest


def test_a_masked_model_may_end_where_the_mask_has_EOS():
    view = slot("abc", temperature=0)
    view.mask = TokenMask.of([EOS, ord('"')], 259)
    assert NgramModel("abc").prefill([view])[0].token_ids == (EOS,)
