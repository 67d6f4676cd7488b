"""The example of each tool-call format, and the model that says what it is given."""

import json

import pytest

from mini_vllm.engine import SamplingParams
from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.models.sayer import Sayer, say_id
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.models.tool_examples import read_tool_examples
from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer

EXAMPLES = read_tool_examples()
TOKENIZER = ByteTokenizer()
EOS = ByteTokenizer.eos_token_id


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_has_an_example_and_reads_it(format):
    parser = create_tool_parser(format)
    events = parser.feed(EXAMPLES[format]) + parser.flush()
    assert [event.name for event in events if isinstance(event, CallStart)] == ["get_weather"]
    assert sum(isinstance(event, CallEnd) for event in events) == 1
    assert not [event for event in events if isinstance(event, TextDelta)]
    arguments = "".join(event.text for event in events if isinstance(event, ArgsDelta))
    assert json.loads(arguments) == {"city": "Paris"}


class Watched(ScriptedModel):
    """Says A for ever, and knows which slots it was given."""

    def __init__(self):
        super().__init__(lambda slot: [(65,)] * 999)
        self.released = []

    def release(self, slot):
        super().release(slot)
        self.released.append(slot.request_id)


def slot(request_id):
    return SlotView(request_id, 0, (1,), SamplingParams(max_tokens=999))


def test_texts_are_said_beside_the_other_model_each_in_its_place():
    inner = Watched()
    model = Sayer(inner, TOKENIZER)
    ids = ["a", say_id("xy"), "b", say_id(r"\xFF"), "said"]
    slots = [slot(one) for one in ids]
    said = [[] for _ in slots]
    for step in range(4):
        news = (model.decode if step else model.prefill)(slots)
        for one, burst, texts in zip(slots, news, said, strict=True):
            assert isinstance(burst, Burst)
            one.output_token_ids += burst.token_ids
            texts += burst.token_ids
            one.step += 1
    assert said == [[65] * 4, [120, 121, EOS, EOS], [65] * 4, [255, EOS, EOS, EOS], [65] * 4]
    for one in slots:
        model.release(one)
    assert inner.released == ["a", "b", "said"]
