"""The model that comes with the package, so that a server says something before any download.

It is an `NgramModel` over conversations of our own writing, with the chat template in whose shape
they are written. Given tools, the template shows one call of each, and the model copies one.

But: what it says of the world was true enough when it was written; it cannot learn better.
"""

from pathlib import Path
from typing import NamedTuple

from mini_vllm.models.ngram import NgramModel
from mini_vllm.tokenizer import ByteTokenizer, ChatTemplate

_DATA = Path(__file__).with_name("embedded_model")


class EmbeddedModel(NamedTuple):
    """A model and what belongs to it.

    Attributes:
        model: makes the ids.
        tokenizer: makes text of them.
        chat_template: makes prompts of conversations.
        tool_format: the name of the tool-call format that it writes.
    """

    model: NgramModel
    tokenizer: ByteTokenizer
    chat_template: ChatTemplate
    tool_format: str = "hermes"


def load_embedded() -> EmbeddedModel:
    """Return the embedded model, a new one each time, in some milliseconds."""
    tokenizer = ByteTokenizer()
    return EmbeddedModel(
        NgramModel((_DATA / "corpus.txt").read_text(encoding="utf-8"), tokenizer=tokenizer),
        tokenizer,
        ChatTemplate((_DATA / "chat_template.jinja").read_text(encoding="utf-8")),
    )
