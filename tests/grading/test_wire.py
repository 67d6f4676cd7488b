import contextlib
import dataclasses
import json
import marshal
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.running.remote import wire
from labkit.running.remote.wire import (
    HEAD,
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_VALUES,
    WireError,
    pack,
    pack_calls,
    pack_request,
    unpack,
    unpack_calls,
    unpack_request,
)  # fmt: skip
from labkit.running.trace import EVENTS, Call, New, Unreadable
from mini_vllm.text import events
from mini_vllm.text.events import CallStart, Chunk, StopOutput, TextDelta, ToolCall

TEXTS = st.text(st.characters(codec=None))
ATOMS = st.none() | st.booleans() | st.integers() | TEXTS | st.binary()
FIELDS = {
    bool: st.booleans(),
    int: st.integers(),
    str: TEXTS,
    tuple: st.lists(st.integers()).map(tuple),
    type(None): st.none(),
}
EMITTED = st.one_of(
    st.builds(kind, *(st.one_of(*map(FIELDS.get, types)) for types in fields.values()))
    for kind, fields in EVENTS.items()
)
VALUES = st.recursive(
    ATOMS | EMITTED,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | TEXTS | st.binary(), inner)
    ),
)
# Many values of one kind, or of a few; events of one kind go by column.
COLUMNS = st.recursive(
    st.sampled_from([0, "a", b"a", True, (), [], {}, TextDelta("a"), CallStart(0, None, "f")]),
    lambda inner: (
        st.lists(inner, min_size=4)
        | st.lists(st.tuples(inner), min_size=4)
        | st.lists(st.fixed_dictionaries({"a": inner, "b": inner}), min_size=4)
        | st.lists(st.dictionaries(st.sampled_from("ab"), inner), min_size=4)
    ),
)
TAGS = st.sampled_from(
    ["int", "octets", "bytes", "tuple", "dict", "text", "call", "event", "list", "", "events"]
)
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(TAGS, inner, max_size=2)
        | st.tuples(TAGS, st.lists(st.lists(inner, max_size=3))).map(lambda pair: dict([pair]))
    ),
)


def same(one, other):
    """Whether two values are equal and of the same types, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return one == other


@given(VALUES | COLUMNS)
def test_a_value_comes_back_as_it_was(value):
    assert same(unpack(pack(value)[HEAD.size :]), value)


def test_every_event_crosses():
    known = {value for value in vars(events).values() if isinstance(value, type)}
    assert known == EVENTS.keys()
    for kind, types in EVENTS.items():
        assert [field.name for field in dataclasses.fields(kind)] == [*types]


@given(HOSTILE)
def test_other_json_is_a_value_or_an_error(value):
    with contextlib.suppress(WireError):
        unpack(json.dumps(value).encode())


@given(st.binary())
def test_other_bytes_are_a_value_or_an_error(data):
    with contextlib.suppress(WireError):
        unpack(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[", b"1 2", b"[1]]", b"1.0", b"NaN", b"[Infinity]", b"\xff\xfe1\x00", b"9" * 5000,
        '"é"'.encode(), b"[" * 100_000, b"[" * 5_000 + b"]" * 5_000,
        b'{"tuple":' * 600 + b"[]" + b"}" * 600, b"{}", b'{"text":"a","int":"0x1"}', b'{"text":1}',
        b'{"bytes":"0"}', b'{"int":"a b"}', b'{"int":7}', b'{"call":[1,"a"]}',
        b'{"call":["1","a","b"]}', b'{"call":[true,"a","b"]}', b'{"dict":[[[],1]]}',
        b'{"dict":[[{"dict":[]},1]]}', b'{"dict":["ab"]}', b'{"dict":[[1,2,3]]}',
        b'{"dict":{"a":1}}', b'{"tuple":"ab"}', b'{"__class__":"x"}', b'{"octets":"1"}',
        b'{"event":["CallEnd"]}', b'{"event":["CallEnd",true]}', b'{"event":["CallEnd",0,0]}',
        b'{"event":["StopOutput","a",1,null]}', b'{"event":["StopOutput","a",false,false]}',
        b'{"event":["Chunk","a",[1],null]}', b'{"event":["Chunk","a",{"tuple":[true]},null]}',
        b'{"event":["Chunk","a",{"tuple":[{"tuple":[]}]},null]}', b'{"event":["Trace"]}',
        b'{"event":[["CallEnd"],0]}', b'{"event":["CallStart",0,{"text":"a"},"f"]}',
        b'{"event":{"CallEnd":0}}', b'{"event":[]}', b'{"event":"CallEnd"}',
        b'{"events":["Trace",["a"]]}', b'{"events":["TextDelta"]}',
        b'{"events":["TextDelta",["a",1]]}', b'{"events":["TextDelta","ab"]}',
        b'{"events":["ToolCall",[0],["f"],[]]}', b'{"events":["StopOutput",["a"]]}',
        b'{"events":["Chunk",["a"],[{"tuple":[true]}],[null]]}', b'{"events":[[1],[1]]}',
        b"[" * 102 + b"{}" + b"]" * 102,
        # Where texts end is found in one go, or this would take hours.
        b'"' + rb"\"" * MOST_VALUES + b"," * (MOST_VALUES + 1),
    ],
)  # fmt: skip
def test_what_pack_would_not_make_is_an_error(data):
    with pytest.raises(WireError):
        unpack(data)


def test_a_dict_of_many_entries_is_refused_both_ways():
    most = dict.fromkeys(range(MOST_ENTRIES))
    assert unpack(pack(most)[HEAD.size :]) == most
    with pytest.raises(WireError):
        pack({**most, "one": "more"})
    entries = [[number, None] for number in range(MOST_ENTRIES + 1)]
    with pytest.raises(WireError, match="entries"):
        unpack(json.dumps({"dict": entries}).encode())
    # Of a key that comes twice in JSON the last counts.
    assert unpack(b'{"text":"a","text":"b"}') == TextDelta("b")


@pytest.mark.parametrize("value", [[*range(256)], [*range(257)], [-1] * 64, [2**53] * 64])
def test_a_long_list_of_numbers_comes_back_as_it_was(value):
    assert same(unpack(pack(value)[HEAD.size :]), value)


def test_a_number_that_cannot_be_written_down_is_one_that_cannot_be_read():
    assert unpack(pack(10**4000)[HEAD.size :]) == 10**4000
    found = unpack(pack([1, -(10**5000)])[HEAD.size :])[1]
    assert type(found) is Unreadable
    assert "an int of 16610 bits" in found.message


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"0," * MOST_VALUES + b"0]",
        b"[" + b"[],{}," * (MOST_VALUES // 4) + b"0]",
        b'["' + b"," * (MOST_BYTES - 2) + b'"]',
    ],
)
def test_what_would_cost_its_reader_much_is_refused_unread(data, monkeypatch):
    monkeypatch.setattr(wire, "_read", Mock(side_effect=AssertionError))
    with pytest.raises(WireError):
        unpack(data)


def test_a_text_of_many_commas_is_one_value():
    text = "," * (MOST_VALUES + 1) + '"\\['
    assert unpack(pack([text])[HEAD.size :]) == [text]
    with pytest.raises(WireError, match="bytes"):
        pack("," * MOST_BYTES)


class Equal(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "value",
    [Equal("a"), [Equal("a")], {"a": Equal("a")}, TextDelta(Equal()), CallStart(0, Equal(), "f"),
     Chunk("", (1, Equal())), StopOutput("", True, Equal())],
)  # fmt: skip
def test_a_subclass_does_not_cross(value):
    with pytest.raises(WireError):
        pack(value)


@pytest.mark.parametrize("value", [1.0, object(), {1}, len, float("nan"), ToolCall(True, "a", "b")])
def test_another_kind_does_not_cross(value):
    with pytest.raises(WireError):
        unpack(pack(value)[HEAD.size :])


def test_calls_and_recipes_come_back_as_they_were():
    new = [New("A", (1, New("B", ("x",), {"y": [1, 2]})), {"z": New("C")})]
    calls = [Call("feed", ("a",)), Call("held", None), Call("feed", ("b",), {"last": True}, 1)]
    told = unpack_request(pack_request((*pack_calls(new, calls), "held")))
    back_new, back_calls, watch = unpack_calls(*told)
    assert back_new == new
    assert [tuple(call)[:2] for call in back_calls] == [tuple(call)[:2] for call in calls]
    assert [dict(call.kwargs) for call in back_calls] == [{}, {}, {"last": True}]
    assert [call.object for call in back_calls] == [0, 0, 1]
    assert {type(call) for call in back_calls} == {Call}
    assert watch == "held"
    calls = [
        Call("push", (Chunk("\ud800", (1, 2)), [3], None)),
        Call("feed", (CallStart(0, "a", "f"),)),
    ]
    assert unpack_calls(*unpack_request(pack_request((*pack_calls([], calls), ""))))[1] == calls
    # The same recipe twice is one object there, too; an equal one is another.
    handle, equal = New("given.handle"), New("given.handle")
    new = [New("A", (handle, equal), {"again": handle}), handle]
    first, second = unpack_calls(*unpack_request(pack_request((*pack_calls(new, []), ""))))[0]
    assert first == new[0]
    assert first.args[0] is first.kwargs["again"] is second
    assert first.args[1] is not second
    # A request holds nothing but what marshal knows.
    assert marshal.loads(pack_request((1, "load"))[HEAD.size :]) == (1, "load")
