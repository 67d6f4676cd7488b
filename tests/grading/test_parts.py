import random
from typing import ClassVar

import pytest
from walled import Grader, brief, hurried

from labkit.course.lab import ROOT
from labkit.isolation.host import Host, PartsHost, Sources, WorkerError
from labkit.running.drive import perform
from labkit.running.remote import parts
from labkit.running.remote.parts import Parts
from labkit.running.remote.proxies import Proxies
from labkit.running.remote.wire import HEAD, pack, unpack
from labkit.running.trace import Call, New


class Upper:
    """A part that holds every vowel until the next text; it refuses an x."""

    def __init__(self, greeting=""):
        if greeting == "x":
            raise ValueError("no x")
        self._held = greeting

    @property
    def held(self):
        return self._held

    @property
    def double(self):
        return [self._held] * 2

    def feed(self, text):
        if text == "x":
            raise LookupError(text)
        out, self._held = self._held + text, ""
        if out[-1:] in tuple("aeiou"):
            out, self._held = out[:-1], out[-1]
        return out.upper()

    def flush(self):
        out, self._held = self._held, ""
        return out.upper()


class Chain:
    """A submission that feeds one part with what another returns, and now and then does not."""

    def __init__(self, first, second, odd=()):
        self.first, self.second, self.odd = first, second, odd
        self.count = 0

    def feed(self, text):
        self.count += 1
        for number, does in enumerate(ODD):
            if self.count % 7 == number and number in self.odd:
                does(self)
        text = self.first.feed(text)
        return self.second.feed(text) if text or 5 not in self.odd else ""

    def finish(self):
        return self.second.feed(self.first.flush()) + self.second.flush()

    @property
    def held(self):
        return [self.first.held, self.second.held]


ODD = [
    lambda chain: chain.first.flush(),
    lambda chain: chain.second.feed("y"),
    lambda chain: chain.first.double,
    lambda chain: chain.second.feed(text="z"),
    lambda chain: getattr(chain.first, "nothing", None),
]


def joined(*classes):
    """Return proxies of classes and the requests that they make, in one process."""
    known = {cls.__name__: cls for cls in classes}
    there, asked = Parts(known.__getitem__, list(known)), []

    def ask(request):
        asked.append(request)
        request = unpack(pack(request)[HEAD.size :])
        return unpack(pack(there.answer(request))[HEAD.size :])

    return Proxies(ask), asked


def run(proxies, calls, watch, odd):
    def resolve(name):
        return Chain if name == "Chain" else (proxies.resolve(name) if proxies else Upper)

    new = [New("Chain", (New("Upper"), New("Upper", ("e",)), odd))]
    calls = proxies.following(calls) if proxies else calls
    trace = perform(resolve, new, calls, watch)
    raised = trace.raised and (trace.raised.kind, trace.raised.message)
    return [step.result for step in trace.steps], [step.held for step in trace.steps], raised


def test_proxies_do_what_the_parts_do_whatever_is_guessed():
    chance = random.Random(0)
    for _ in range(100):
        odd = tuple(chance.sample(range(6), chance.randint(0, 2)))
        texts = chance.choices(["a", "b", "", "cde", "x" if chance.random() < 0.2 else "o"], k=30)
        calls = [Call("feed", (text,)) for text in texts] + [Call("finish", ()), Call("held", None)]
        watch = chance.choice(["", "held"])
        proxies, _ = joined(Upper)
        assert run(proxies, calls, watch, odd) == run(None, calls, watch, odd)


@pytest.mark.parametrize("odd", [(), (5,)])
def test_a_long_stream_takes_few_round_trips(odd):
    proxies, asked = joined(Upper)
    texts = ["a", "b"] * 5_000
    results, _, raised = run(proxies, [Call("feed", (text,)) for text in texts], "", odd)
    assert len(results) == 10_000
    assert raised is None
    assert len(asked) < 150


def streams_of(upper, chance):
    """Return what objects of a class return for one text in several cuts."""
    text, outputs = "".join(chance.choices("abei", k=20)) + chance.choice(["", "x"]), []
    upper = [upper(), *(upper() for _ in range(chance.choice([0, 0, 0, 1])))]
    for size in chance.choices([1, 2, 3, 7, len(text)], k=6):
        one = chance.choice(upper)
        for begin in range(0, chance.choice([len(text), 10]), size):
            piece = text[begin : begin + size]
            try:
                outputs.append(one.feed(text=piece) if chance.random() < 0.01 else one.feed(piece))
            except LookupError as error:
                outputs.append(f"{error}")
            outputs.append(one.held if size == 2 else "")
        outputs += [one.flush() for _ in range(chance.choice([0, 1, 1, 1, 2]))]
        if chance.random() < 0.1:
            outputs.append(one.double)
    return outputs


def test_streams_of_a_hunt_are_what_the_parts_do_whatever_is_guessed():
    for seed in range(200):
        proxies, _ = joined(Upper)
        there, here = random.Random(seed), random.Random(seed)
        for _ in range(5):
            assert streams_of(proxies.resolve("Upper"), there) == streams_of(Upper, here), seed


@pytest.mark.parametrize(("size", "most"), [(20_000, 1), (1_000, 1), (1, 80)])
def test_a_text_that_is_streamed_again_takes_few_round_trips(size, most):
    proxies, asked = joined(Upper)
    upper, text = proxies.resolve("Upper"), "ab" * 10_000

    def stream(size):
        one = upper()
        pieces = [one.feed(text[begin : begin + size]) for begin in range(0, len(text), size)]
        assert "".join([*pieces, one.flush()]) == text.upper()

    stream(len(text))
    del asked[:]
    stream(size)
    assert len(asked) <= most


class Shared(Upper):
    """Its objects wrongly share what they hold."""

    shown: ClassVar = []

    def feed(self, text):
        self.shown.append(text)
        return "".join(self.shown)


def test_no_call_is_guessed_when_another_object_could_see_it():
    proxies, _ = joined(Shared)
    shared = proxies.resolve("Shared")
    one = shared()
    assert (one.feed("ab"), one.flush()) == ("ab", "")
    one, other = shared(), shared()
    assert [one.feed("a"), other.feed("c"), one.feed("b")] == ["aba", "abac", "abacb"]


def test_objects_that_nobody_has_any_more_are_dropped(monkeypatch):
    proxies, _ = joined(Upper)
    monkeypatch.setattr(parts, "MOST_OBJECTS", 10)
    for _ in range(20):
        proxies.resolve("Upper")().flush()
    kept = [proxies.resolve("Upper")() for _ in range(20)]
    with pytest.raises(ValueError, match="more than 10 objects"):
        kept[-1].flush()


@pytest.mark.parametrize(
    ("use", "kind", "says"),
    [
        (lambda cls: cls("x"), ValueError, "no x"),
        (lambda cls: cls().feed("x"), LookupError, "x"),
        (lambda cls: cls().feed(), TypeError, "missing 1 required"),
        (lambda cls: cls().feeed, AttributeError, "feeed"),
        (lambda cls: cls()._held, AttributeError, "_held"),
    ],
)
def test_errors_come_across(use, kind, says):
    proxies, _ = joined(Upper)
    with pytest.raises(kind, match=says):
        use(proxies.resolve("Upper"))
    assert proxies.resolve("Upper").__name__ == "Upper"


_NEW = ["new", 1, "Upper", [], {}, []]


@pytest.mark.parametrize(
    "asked",
    [
        None, [], 7, "class", ["class"], ["class", "Chain"], ["class", "__class__"], ["class", [1]],
        ["new", 2, "Upper", 1, {}, []], ["new", 2, "Upper", [], {1: 2}, []],
        ["new", 2, "Upper", [], {}, [[]]], ["new", "2", "Upper", [], {}, []],
        ["call", 1, 0, "__init__", [], {}, [], [], []], ["call", 1, 0, "_take", [], {}, [], [], []],
        ["call", 1, 0, "held", [], {}, [], [], []], ["call", 1, 9, "flush", [], {}, [], [], []],
        ["call", 1, -1, "flush", [], {}, [], [], []], ["call", 2, 0, "flush", [], {}, [], [], []],
        ["call", 1, 0, "flush", None, {}, [], [], []], ["call", 1, 0, "flush", [], {}, 5, [], []],
        ["call", 1, 0, "flush", [], {}, [], 5, []],
        ["call", 1, 0, "flush", [], {}, [], [], [["held"]]],
        ["call", 1, 0, "flush", [], {}, [], [], 1],
        ["call", 1, 0, "flush", [], {}, [], [], ["__class__"]], ["call", 1, 0, "flush"],
        ["read", 1, 0, "__dict__"], ["read", 1, 0, "feed"], ["read", 1, True, "held", 1],
        ["read", 1.5, 0, "held"], ["read", 1, 0, None],
    ],
)  # fmt: skip
def test_the_other_side_may_ask_anything(asked):
    there = Parts({"Upper": Upper, "Chain": Chain}.__getitem__, ["Upper"])
    assert there.answer([_NEW]) == ["told", None]
    for requests in (asked, [asked], [asked, ["class", "Upper"]]):
        kind, *_ = there.answer(requests)
        assert kind == "raised"


# A part as a reference is: its lines must be nowhere where submissions are.
PART = '''
class Part:
    """SECRET of the docstring."""
    held = ""
    def feed(self, text):
        if text == "leave":
            __import__("os")._exit(3)
        while text == "loop":
            pass
        secret_name = "SECRET of a constant"
        return text.upper()
'''
# Tells all that can be reached from anywhere in its process.
DUMP = """
import gc, inspect, linecache, marshal, sys
class Dump:
    def __init__(self, part):
        self.part = part
    def feed(self, text):
        if type(text) is bytes:
            return self.ask(text)
        answer = self.part.feed(text)
        seen, todo, said = set(), [*gc.get_objects(), *sys._current_frames().values()], []
        while todo:
            one = todo.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if type(one) in (str, bytes, bytearray):
                said.append(bytes(one, "utf-8", "replace") if type(one) is str else bytes(one))
            elif type(one).__name__ == "code":
                said.append(marshal.dumps(one))
            else:
                todo += gc.get_referents(one)
        dump = b"".join(said)
        for secret in map(bytes.fromhex, ("534543524554", "7365637265745f6e616d65")):
            if secret in dump:
                raise ValueError(dump[dump.index(secret) - 99 :][:999])
        return answer + str(len(dump) > 100_000)
    def ask(self, content):
        frame = sys._getframe()
        while "say" not in frame.f_locals:
            frame = frame.f_back
        frame.f_locals["say"](len(content).to_bytes(4, "big") + b"\\1" + content)
        return bytes(frame.f_locals["hear"]()[1])
"""


@pytest.fixture
def host(sandbox_in):
    """Return a host of a submission that has a part elsewhere."""
    sandbox = sandbox_in("trust")
    references = Sources("p", {"p": ("p.py", "p.py", PART.encode())}, {"Part": "p"})
    sources = Sources("m", {"m": ("m.py", "m.py", DUMP.encode())}, {}, ["Part"])
    made = Host(sandbox, sources, PartsHost(sandbox, references))
    made.begin(5)
    yield made
    made.close()


def dump(host, text):
    assert host.load() is None
    trace = host.perform([New("Dump", (New("Part"),))], [Call("feed", (text,))], "")
    return trace.raised or trace.outputs


def test_nothing_of_a_part_is_where_the_submission_is(host):
    assert dump(host, "abc") == ["ABCTrue"]


def test_whatever_a_submission_asks_is_answered(host):
    for asked in (b"", b"junk", b"[" * 5_000, b'["class"', b"9" * 5_000, b"1e5", b"\xff\x00"):
        (told,) = dump(host, asked)
        assert b"raised" in told
    with pytest.raises(WorkerError, match="at most 4194304 are read"):
        dump(host, bytes(5 << 20))
    host.begin(5)
    assert dump(host, "abc") == ["ABCTrue"]


def test_a_part_that_a_submission_ends_costs_it_that_test(host):
    with pytest.raises(WorkerError, match="a part that it uses: the process ended"):
        dump(host, "leave")
    host.begin(5)
    assert dump(host, "abc") == ["ABCTrue"]


def test_a_part_may_compute_as_long_as_the_submission(host, monkeypatch):
    hurried(monkeypatch)
    host.begin(0.1)
    with pytest.raises(WorkerError, match="a part that it uses: the test used more"):
        dump(host, "loop")


def test_a_pipeline_without_parts_of_its_own_earns_all(mode, sandbox_in, monkeypatch):
    brief(monkeypatch, "test_property_")
    grader = Grader(sandbox_in(mode), ROOT)
    lab = next(lab for lab in grader.labs if lab.parts)
    assert grader.grade(lab.solution.read_bytes(), lab)["score"] == 100
