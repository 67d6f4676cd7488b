"""Engines that play a script, a log of what their readers get, and a reference to compare with."""

import sys
from functools import cache
from unittest.mock import Mock

from mini_vllm.engine import (
    Engine,
    FinishReason,
    Request,
    SamplingParams,
    StreamChannel,
    TextPathFactory,
    slot_stream,
)
from mini_vllm.engine.pipe import Pipe
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

BOS, EOS = 256, 257
PROMPT = (1, 2)
ROCKET = tuple("🚀".encode())


def ids(text):
    return tuple(text.encode())


def one_by_one(text, *, end=False):
    """Return the script that gives a byte a step, and an EOS at the end if asked."""
    return [(byte,) for byte in text.encode()] + [(EOS,)] * end


class Endless:
    """A script that has the same step for ever, after a first one that may differ."""

    def __init__(self, step, first=None):
        self.step = step
        self.first = first or step

    def __len__(self):
        return sys.maxsize

    def __getitem__(self, number):
        return self.step if number else self.first


# More ids than any engine makes in the time of a test, and options of an engine for so many.
MANY = 10_000_000
FOR_MANY = {"num_blocks": 64, "block_size": MANY}


def params(**changes):
    return SamplingParams(**{"max_tokens": 50, **changes})


PARAMS = params()


ABC = one_by_one("abc" * 20, end=True)


def engine_of(script=ABC, **options):
    """Return an engine with a model, or one that plays scripts, or the same for every request."""
    if isinstance(script, (list, tuple, Endless)):
        model = ScriptedModel(lambda _: script)
    else:
        model = script if hasattr(script, "prefill") else ScriptedModel(script)
    return Engine(model, ByteTokenizer(), **options)


def request(name=None, prompt=PROMPT, **changes):
    return Request(prompt, params(**changes), name)


def channels_of(count):
    return [StreamChannel.create() for _ in range(count)]


def submitted(engine, *requests):
    """Submit requests; return a channel for each choice, and the handles."""
    channels = channels_of(sum(one.params.n for one in requests))
    return channels, engine.submit(requests, channels)


class PathAround:
    """A text path with a `feed` or a `finish` of the test, which get the inner path first."""

    def __init__(self, inner, **methods):
        self.inner = inner
        self.methods = methods

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def feed(self, token_ids):
        return self.methods.get("feed", type(self.inner).feed)(self.inner, token_ids)

    def finish(self, reason):
        return self.methods.get("finish", type(self.inner).finish)(self.inner, reason)


def paths_around(methods_of):
    """Return what makes text paths; `methods_of` returns the methods of a request, by its name."""
    make = TextPathFactory(ByteTokenizer())
    return lambda request, prompt: PathAround(
        make(request, prompt), **methods_of(request.request_id)
    )


def watched(scripts):
    """Return a model that plays scripts, and notes its calls."""
    return Mock(spec=ScriptedModel, wraps=ScriptedModel(scripts))


def push_raises_once(monkeypatch):
    push, failing = Pipe.push, [OSError("push")]

    def fail_once(*args):
        if failing:
            raise failing.pop()
        return push(*args)

    monkeypatch.setattr(Pipe, "push", fail_once)


def no_memory_for_a_chunk(monkeypatch):
    for maker in ("StreamChunk", "new_tuple"):
        monkeypatch.setattr(slot_stream, maker, Mock(side_effect=MemoryError))


def popped(channel):
    """Return the chunks that wait."""
    chunks = []
    while (chunk := channel.try_pop()) is not None:
        chunks.append(chunk)
    return chunks


def ids_of(chunks):
    return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)


def text_of(chunks):
    return "".join(chunk.text for chunk in chunks)


def assert_ended(channel, reason):
    """The rest of the channel has one terminal chunk, which is its last, with this reason."""
    chunks = popped(channel)
    assert [chunk.reason for chunk in chunks if chunk.finished] == [reason]
    assert chunks[-1].finished
    assert channel.is_finished
    assert channel.reason is reason
    return chunks


class Scene:
    """Requests by name, all submitted at once, and the chunks of each by iteration.

    `params` is one for all or a dict by name; requests in `silent` have no channel; `at` has
    functions of the scene by (hook, iteration).
    """

    def __init__(
        self,
        scripts,
        *,
        params=PARAMS,
        interval=1,
        silent=(),
        at=None,
        model=None,
        tokenizer=None,
        prompt=PROMPT,
        **options,
    ):
        at = at or {}
        hooks = {name: self._hook(name, at) for name, _ in at}
        self.tokenizer = tokenizer or ByteTokenizer()
        options.setdefault("max_num_seqs", 8)
        self.engine = Engine(
            model or ScriptedModel(scripts), self.tokenizer, hooks=hooks, **options
        )
        self.iteration = 0
        self.channels = {}
        self.log = {}
        requests = []
        for name in scripts:
            one = params[name] if isinstance(params, dict) else params
            requests.append(Request(prompt, one, name))
            if name not in silent:
                self.channels[name] = StreamChannel.create()
                self.channels[name].set_stream_interval(interval)
                self.log[name] = []
        places = [self.channels.get(name) for name in scripts]
        self.handles = dict(zip(scripts, self.engine.submit(requests, places), strict=True))

    def _hook(self, name, at):
        return lambda: at.get((name, self.iteration), lambda _: None)(self)

    def step(self):
        self.iteration += 1
        try:
            return self.engine.step()
        finally:
            for name, channel in self.channels.items():
                self.log[name] += [(self.iteration, chunk) for chunk in popped(channel)]

    def run(self, most=200):
        while self.step():
            assert self.iteration < most
        return self

    def chunks(self, name):
        return [chunk for _, chunk in self.log[name]]

    def when(self, name):
        return [iteration for iteration, _ in self.log[name]]

    def output(self, name):
        return self.handles[name].result(timeout=0).outputs[0]

    def outcome(self, name):
        """Return ids, text and reason of the response, which the chunks must agree with."""
        output = self.output(name)
        if name in self.log:
            chunks = self.chunks(name)
            assert ids_of(chunks) == output.token_ids
            assert text_of(chunks) == output.text
            assert [chunk.finished for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
            assert chunks[-1].reason is output.finish_reason
        return output.token_ids, output.text, output.finish_reason


@cache
def _beginnings():
    """All proper beginnings of characters, as bytes."""
    found = set()
    for code in [*range(0x80, 0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 64)]:
        data = chr(code).encode()
        found.update(data[:length] for length in range(1, len(data)))
    return frozenset(found)


def certain_text(data):
    """Return the text of bytes that no later byte can change."""
    for length in (3, 2, 1):
        if data[-length:] in _beginnings():
            return data[:-length].decode("utf-8", "replace")
    return data.decode("utf-8", "replace")


def reference(token_ids, params):
    """Return ids, text and reason by the words of the rules, id by id, over byte tokens.

    The reason is NOT_FINISHED where the ids run out before the end; the text is flushed then.
    """
    ends = params.stop_token_ids | (set() if params.ignore_eos else {EOS})
    data, before, reason = b"", 0, FinishReason.NOT_FINISHED
    count = 0
    for count, token_id in enumerate(token_ids, 1):
        counts = count > params.min_tokens
        if counts and token_id in ends:
            if params.include_stop_str_in_output and 0 <= token_id < 256:
                data += bytes([token_id])
            reason = FinishReason.END_ID
            break
        if 0 <= token_id < 256:
            data += bytes([token_id])
        text = certain_text(data)
        found = [
            (end, -len(stop))
            for stop in params.stop
            for end in range(before + 1, len(text) + 1)
            if text[:end].endswith(stop)
        ]
        if counts and found:
            end, minus_length = min(found)
            shown = end if params.include_stop_str_in_output else end + minus_length
            return tuple(token_ids[:count]), text[:shown], FinishReason.STOP_WORDS
        before = len(text)
        if count == params.max_tokens:
            reason = FinishReason.LENGTH
            break
    return tuple(token_ids[:count]), data.decode("utf-8", "replace"), reason
