"""The scale of the labs sees a text wherever an object of a lab stores it."""

import textwrap
from pathlib import Path

import pytest

from labkit.running.source import Given, load_given, load_source

SCALE = Path(__file__).parents[1] / "phase-16-serving-apis-and-parsers/measures/scale.py"
SIZE = 100_000
MODULE = """
import array, collections, contextvars, dataclasses, enum, functools, io, itertools
import operator, queue, re, threading, types, weakref

texts = []
__texts = []
local = threading.local()
variable = contextvars.ContextVar("variable", default=None)

def function(): ...
def in_default(text, texts={}): texts[text] = 0
def in_keyword_default(text, *, texts={}): texts[text] = 0
def within():
    texts = {}
    def in_closure(text): texts[text] = 0
    return in_closure
in_closure = within()
@functools.cache
def cached(text): ...
@functools.lru_cache(maxsize=2)
def cached_twice(text): ...
def generator(text):
    yield
    yield text
async def coroutine(text): return text

class Base:
    text = None
class Other:
    text, texts = None, []
class Slots:
    __slots__ = ("text",)
class Text(str): ...
class Writer(io.StringIO):
    def getvalue(self): return ""
class Kind(enum.Enum): ONE = 1
@dataclasses.dataclass
class Row:
    text: str = ""
    texts: list = dataclasses.field(default_factory=lambda texts=[]: texts)
class Item(Base):
    text = None
    class Inner: text = None
    @property
    def in_property(self, texts=[]): return texts
    @staticmethod
    def in_static(text, texts=[]): texts.append(text)
    @functools.cache
    def in_cache(self, text): ...
    def store(self, text):
"""
STATEMENTS = [
    "self.a = text",
    "self.a = text.encode()",
    "self.a = bytearray(text.encode())",
    "self.a = memoryview(text.encode())",
    "self.a = array.array('B', text.encode())",
    "self.a = int.from_bytes(text.encode(), 'big')",
    "self.a = Text(text)",
    # Containers.
    "self.a = [text]",
    "self.a = {text}",
    "self.a = frozenset([text])",
    "self.a = {0: text}",
    "self.a = {text: 0}",
    "self.a = {(text, 0): 0}",
    "self.a = collections.Counter([text])",
    "self.a = collections.OrderedDict({text: 0})",
    "self.a = collections.defaultdict(int, {text: 0})",
    "self.a = collections.ChainMap({text: 0})",
    "self.a = collections.UserDict({text: 0})",
    "self.a = collections.deque([text])",
    "self.a = queue.SimpleQueue(); self.a.put(text)",
    "self.a = types.MappingProxyType({text: 0})",
    "self.a = types.SimpleNamespace(a=text)",
    "self.a = {text: 0}.keys()",
    "self.a = Slots(); self.a.text = text",
    "self.a = Row(text)",
    "self.a = weakref.WeakKeyDictionary({Item: text})",
    # Files in memory.
    "self.a = io.StringIO(text)",
    "self.a = io.StringIO(); self.a.write(text)",
    "self.a = Writer(); self.a.write(text)",
    "self.a = io.BytesIO(text.encode())",
    "self.a = io.BytesIO(); self.a.write(text.encode())",
    "self.a = io.TextIOWrapper(io.BytesIO()); self.a.write(text)",
    "self.a = io.StringIO(); self.a.close(); self.b = text",
    # Iterators, generators and exceptions.
    "self.a = iter(text)",
    "self.a = iter({text: 0})",
    "self.a = itertools.chain([text])",
    "self.a = itertools.tee([text])[0]",
    "self.a = generator(text); next(self.a)",
    "self.a = generator(text)",
    "self.a = re.search('x', text)",
    "self.a = ValueError(text)",
    "try: raise ValueError\nexcept ValueError as error: self.a = error",
    # Functions.
    "self.a = lambda: text",
    "self.a = lambda text=text: text",
    "self.a = text.join",
    "self.a = functools.partial(print, text)",
    "self.a = operator.itemgetter(text)",
    "in_default(text)",
    "in_keyword_default(text)",
    "in_closure(text)",
    "function.text = text",
    "function.texts = {text: 0}",
    "Item.store.text = text",
    "cached(text)",
    "cached_twice(text)",
    "self.in_cache(text)",
    "self.in_static(text)",
    "self.in_property.append(text)",
    # Variables of the module and its classes.
    "texts.append(text)",
    "globals()['__texts'].append(text)",
    "globals()['new'] = text",
    "local.text = text",
    "variable.set(text)",
    "Item.text = text",
    "Base.text = text",
    "Other.text = text",
    "Other.texts.append(text)",
    "Item.Inner.text = text",
    "Row().texts.append(text)",
    "Kind.ONE.text = text",
    "self.a = type('New', (), {'text': text})",
]


@pytest.fixture(scope="module")
def new_scale():
    program = (SCALE.name, str(SCALE), SCALE.read_bytes())
    return load_given(Given((), (program,), {}), "given_here").Scale


def an_item(statement):
    """Return an object whose `store(text)` executes this statement, in a new module."""
    source = MODULE + textwrap.indent(statement, " " * 8)
    return load_source(source.encode(), "code", "code", "weighed", None).Item()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_stored_text_weighs_something(new_scale, statement):
    item = an_item(statement)
    scale = new_scale(item)
    before = scale.weight
    assert scale.weight == before
    item.store("x" * SIZE)
    # An int has 30 bits in 4 bytes.
    assert SIZE <= scale.weight - before < 5 * SIZE


@pytest.mark.parametrize(
    "statement",
    [
        "self.a = len(text)",
        "self.a = weakref.WeakValueDictionary(a=Text(text))",
        "self.a = weakref.ref(Text(text))",
        "cached(text); cached.cache_clear()",
        "del texts[:]",
        "list(map(str, [text]))",
    ],
)
def test_a_text_that_is_not_stored_weighs_nothing(new_scale, statement):
    item = an_item(statement)
    scale = new_scale(item)
    item.store("")
    before = scale.weight
    item.store("x" * SIZE)
    assert scale.weight - before < 200


def test_other_modules_and_the_callers_objects_do_not_count(new_scale):
    item, text = an_item("self.a.__dict__['text'] = self.b.text = self.c = text"), "x" * SIZE
    other = load_source(b"class Shared:\n    text = None", "code", "code", "other", None)
    item.a, item.b = other, other.Shared
    scale = new_scale(item, text)
    before = scale.weight
    item.store(text)
    # Two other texts, and the caller's text.
    other.text, other.Shared.text = "y" * SIZE, "z" * SIZE
    assert scale.weight - before < 200


def test_a_decorated_method_and_a_base_class_do_not_hide_the_module(new_scale):
    source = """
import contextlib
texts = []
class Base:
    @contextlib.contextmanager
    def opened(self): yield
    def store(self, text): texts.append(text)
    @contextlib.contextmanager
    def closed(self): yield
class Item(Base):
    @contextlib.contextmanager
    def opened(self): yield
"""
    item = load_source(source.encode(), "code", "code", "weighed", None).Item()
    scale = new_scale(item)
    before = scale.weight
    item.store("x" * SIZE)
    assert scale.weight - before >= SIZE


def test_weighing_does_not_disturb_a_file_in_memory(new_scale):
    item = an_item("self.a = getattr(self, 'a', io.StringIO()); self.a.write(text)")
    for _ in range(3):
        item.store("ab")
        assert new_scale(item).weight == new_scale(item).weight
    assert item.a.getvalue() == "ababab"
    assert item.a.tell() == 6


def test_text_that_the_scale_copies_does_not_hide_other_text(new_scale):
    # A copy that is gone frees its id for the next copy.
    item = an_item("self.a = [io.StringIO(text) for _ in range(50)]")
    scale = new_scale(item)
    before = scale.weight
    item.store("x" * 1_000)
    assert scale.weight - before > 50 * 1_000
    assert len({scale.weight for _ in range(20)}) == 1
