"""Answers from a file: which turn plays, at which pace, what goes wrong in it, and bad files."""

import pytest
from vocabularies import byte_level

from labkit.course.lab import ROOT
from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.engine.request import SamplingParams
from mini_vllm.models.script_file import ScriptError, ScriptFault, ScriptFileModel, read_script
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer, MockTokenizer

BYTES = ByteTokenizer()
EOS = 257


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def play(tmp_path):
    """Write a script and return its model, and the clock that it goes by."""

    def write(text, tokenizer=BYTES):
        path = tmp_path / "script.toml"
        path.write_text(text, encoding="utf-8")
        clock = Clock()
        turns = read_script(path, tokenizer)
        return ScriptFileModel(turns, tokenizer, clock=clock, sleep=clock.sleep), clock

    return write


def view(prompt="", name="r", **params):
    return SlotView(name, 0, tuple(prompt.encode()), SamplingParams(**params))


def steps(model, slot, most=50):
    """Return the bursts of a slot up to EOS, without the steps that had nothing."""
    found, news = [], model.prefill([slot])
    for _ in range(most):
        if isinstance(news[0], Burst):
            found.append(news[0].token_ids)
            slot.output_token_ids += news[0].token_ids
        elif news[0] is not None:
            return [*found, news[0]]
        if found and EOS in found[-1]:
            break
        news = model.decode([slot])
    model.release(slot)
    return found


def said(model, slot):
    return bytes(one for step in steps(model, slot) for one in step if one < 256).decode()


def test_turns_come_in_order_and_round_and_a_prompt_may_choose_one(play):
    model, _ = play("""
        [[turn]]
        text = "one"
        [[turn]]
        when = "weather"
        text = "sunny"
        [[turn]]
        token_ids = [116, 119, 111]
    """)
    asked = ["hello", "the weather?", "hello", "hello", "no weather"]
    assert [said(model, view(text)) for text in asked] == ["one", "sunny", "two", "one", "sunny"]


def test_a_prompt_that_fits_nothing_gets_a_turn_where_each_has_its_words(play):
    model, _ = play('[[turn]]\nwhen = "a"\ntext = "one"\n[[turn]]\nwhen = "b"\ntext = "two"')
    assert [said(model, view(text)) for text in "b???"] == ["two", "one", "two", "one"]


def test_a_text_is_in_the_ids_of_the_tokenizer_and_ends_with_its_eos(play):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_level())
    model, _ = play('[[turn]]\ntext = "the end 🚀"\ntokens_per_step = 99', tokenizer)
    (news,) = model.prefill([view()])
    assert tokenizer.decode(news.token_ids[:-1]) == "the end 🚀"
    assert news.token_ids[-1] in tokenizer.eos_token_ids
    assert len(news.token_ids) < len("the end 🚀".encode())


def test_steps_are_as_long_and_as_far_apart_as_the_turn_says(play):
    model, clock = play("""
        pace = 0.01
        [[turn]]
        text = "abcde"
        tokens_per_step = 2
        pace = 0.002
        [[turn]]
        text = "a"
    """)
    assert steps(model, view()) == [(97, 98), (99, 100), (101, EOS)]
    assert clock.now == pytest.approx(100.006)
    steps(model, view())
    assert clock.now == pytest.approx(100.026)
    assert max(clock.slept) <= 0.005, "cancellations are seen between calls"


def test_slots_wait_for_their_own_time_only(play):
    model, clock = play("""
        [[turn]]
        text = "quick"
        [[turn]]
        text = "slow"
        pace = 60
    """)
    quick, slow = view(name="q"), view(name="s")
    assert model.prefill([quick, slow])[1] is None
    for _ in "uick.":
        assert model.decode([quick, slow])[0] is not None
    assert clock.slept == []


@pytest.mark.parametrize("size", [1, 2, 99])
def test_a_fault_comes_after_so_many_ids(play, size):
    head = f'[[turn]]\ntext = "abcde"\ntokens_per_step = {size}\n'
    model, _ = play(head + "error_after = 3")
    *told, error = steps(model, view())
    assert [one for step in told for one in step] == [97, 98, 99]
    assert isinstance(error, ScriptFault)
    model, _ = play(head + "silent_after = 3")
    assert [one for step in steps(model, view()) for one in step] == [97, 98, 99]
    model, _ = play(head + "garbage_after = 3")
    told = [one for step in steps(model, view(logprobs=1)) for one in step]
    assert told == [97, 98, 99, BYTES.vocab_size, 100, 101, EOS]
    model, _ = play(head + "crash_after = 0")
    with pytest.raises(ScriptFault, match="crash_after = 0"):
        model.prefill([view()])


def test_a_request_that_ignores_the_end_gets_it_again(play):
    model, _ = play('[[turn]]\ntext = "a"')
    slot = view()
    assert steps(model, slot) == [(97,), (EOS,)]
    model.prefill([slot])
    assert [model.decode([slot])[0].token_ids for _ in range(3)] == [(EOS,)] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"no turn; write \[\[turn\]\]"),
        ("turn = 3", "no turn"),
        ("turn = [3]", "no turn"),
        ("speed = 3", "speed is not known"),
        ("[[turn]]\ntext = 3", "turn 1: text is 3"),
        ('[[turn]]\ntext = "a"\n[[turn]]', "turn 2: a turn has either text or token_ids"),
        ('[[turn]]\ntext = "a"\ntoken_ids = [1]', "either text or token_ids"),
        ('[[turn]]\ntoken_ids = ["a"]', "must be a list of ids"),
        ("[[turn]]\ntoken_ids = [72, -5]", r"turn 1: token_ids\[1\] is -5; .* 0 to 258"),
        ("[[turn]]\ntoken_ids = [259, 1]", r"token_ids\[0\] is 259; .* 0 to 258.*garbage_after"),
        (f"[[turn]]\ntoken_ids = [{'9' * 5000}]", "script.toml: .*digits"),
        ('[[turn]]\ntext = "a"\npaec = 1', "turn 1: paec is not known; use .*pace"),
        ('[[turn]]\ntext = "a"\npace = -1', "pace is -1; it must be a number of seconds"),
        ('[[turn]]\ntext = "a"\npace = "fast"', "pace is 'fast'"),
        ('[[turn]]\ntext = "a"\ntokens_per_step = 0', "tokens_per_step is 0; .* at least 1"),
        ('[[turn]]\ntext = "a"\nwhen = 1', "when is 1"),
        ('[[turn]]\ntext = "a"\nerror_after = 1\nsilent_after = 1', "one fault at most"),
        ('[[turn]]\ntext = "a"\nerror_after = 9', "error_after is 9; the turn has 2 ids"),
        ("[[turn]\n", "line 1"),
    ],
)
def test_a_mistake_is_told_by_its_turn_its_value_and_what_to_write(play, text, message):
    with pytest.raises(ScriptError, match=message):
        play(text)


def test_a_tokenizer_that_cannot_spell_is_told_as_well(play):
    with pytest.raises(ScriptError, match="rewrites across ids"):
        play('[[turn]]\ntext = "a"', MockTokenizer())


def test_the_script_that_comes_along_plays():
    (path,) = ROOT.glob("phase-*/script.toml")
    turns = read_script(path, BYTES)
    assert any("<think>" in bytes(turn.token_ids[:-1]).decode() for turn in turns)
