"""Lab 07 in the place of vLLM's incremental detokenizer, within one process.

    python upstream/vllm_detokenizer.py STARTER TOKENIZER_JSON

Run it with the Python of vLLM 0.33.0. STARTER is the file of lab 07, TOKENIZER_JSON a vocabulary of
Hugging Face. It streams ids at random, compares the texts with `decode`, and measures the time for
a token. vLLM has no flag for detokenizers; here `from_new_request` is replaced.
"""

import random
import runpy
import sys
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from vllm import SamplingParams
from vllm.tokenizers.hf import get_cached_tokenizer
from vllm.v1.engine import detokenizer as engine

if len(sys.argv) != 3:
    sys.exit(__doc__)
lab = runpy.run_path(sys.argv[1])
inner = Tokenizer.from_file(sys.argv[2])
special = frozenset(id for id, token in inner.get_added_tokens_decoder().items() if token.special)
kind = "byte_level" if "ByteLevel" in str(inner.decoder) else "byte_fallback"
tokens = [inner.id_to_token(id) for id in range(inner.get_vocab_size())]
table = lab["token_bytes"](tokens, kind, special=special)


class YourDetokenizer(engine.BaseIncrementalDetokenizer):
    """A stream of lab 07, for one request of vLLM."""

    def __init__(self, tokenizer: Any, request: Any) -> None:
        super().__init__(request)
        skip = request.sampling_params.skip_special_tokens
        options = {"skip_special_tokens": skip, "prompt_ids": request.prompt_token_ids}
        self.stream = lab["TokenDetokenizer"](table, special=special, **options)

    def decode_next(self, next_token_id: int) -> Any:
        """Return the text of the next id."""
        return self.stream.feed(next_token_id)

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> Any:
        """Take ids; return the stop string that ends the text."""
        match = super().update(new_token_ids, stop_terminated)
        if match is not None:
            self.stream.flush()  # The text has ended, so the held text is discarded.
        return match

    def get_next_output_text(self, finished: bool, delta: bool) -> Any:
        """Return the new text; at the end, also the held text."""
        self.output_text += self.stream.flush() if finished else ""
        return super().get_next_output_text(finished, delta)


def stream(ids: list[int]) -> Any:
    """Return the text of a request, as vLLM's output processor gets it."""
    detokenizer = engine.IncrementalDetokenizer.from_new_request(tokenizer, request)
    text = ""
    for id in ids:
        detokenizer.update([id], False)
        text += detokenizer.get_next_output_text(False, True)
    return text + detokenizer.get_next_output_text(True, True)


tokenizer = get_cached_tokenizer(PreTrainedTokenizerFast(tokenizer_object=inner))
facts = {"request_id": "", "prompt_token_ids": [], "prompt_embeds": None}
request = SimpleNamespace(**facts, sampling_params=SamplingParams())
plain = [id for id in range(len(tokens)) if id not in special and tokens[id] is not None]
draw = random.Random(0)
streams = [draw.choices(plain, k=draw.randint(1, 40)) for _ in range(1000)]
long = [draw.choices(plain, k=1000) for _ in range(20)]
for make in (engine.FastIncrementalDetokenizer, engine.SlowIncrementalDetokenizer, YourDetokenizer):
    engine.IncrementalDetokenizer.from_new_request = make
    equal = sum(stream(ids) == inner.decode(ids) for ids in streams)
    start = perf_counter()
    for ids in long:
        stream(ids)
    each = (perf_counter() - start) / 20_000 * 1e6
    print(f"{make.__name__:<27}{equal:>5} of 1000 texts equal decode, {each:.1f} us a token")
