"""Compaction: seed 004's tests 34-39, and that a table moves all its columns or none."""

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.engine import Engine, Request, SamplingParams, StreamChannel
from mini_vllm.engine.scheduler import SlotTable, build_batch_mapping, compact_vector
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

MARKS = st.lists(st.booleans(), max_size=12)


def compacted(finished, rows):
    compact_vector(build_batch_mapping(finished), rows)
    return rows


def test_34_nothing_compacts_to_nothing():
    assert build_batch_mapping([]) == []
    assert compacted([], []) == []


def test_35_without_a_finished_row_all_stay_the_same_objects():
    rows = [object() for _ in range(4)]
    before = list(rows)
    assert build_batch_mapping([False] * 4) == [0, 1, 2, 3]
    assert all(a is b for a, b in zip(compacted([False] * 4, rows), before, strict=True))


def test_36_the_rows_behind_an_evicted_one_move_up():
    assert build_batch_mapping([False, True, False]) == [0, -1, 1]
    assert compacted([False, True, False], ["a", "b", "c"]) == ["a", "c"]


def test_37_all_rows_go():
    assert build_batch_mapping([True, True]) == [-1, -1]
    assert compacted([True, True], ["a", "b"]) == []


def test_38_channels_survive_and_an_evicted_one_is_released():
    rows = [StreamChannel.create() for _ in range(3)]
    kept, gone = [rows[0], rows[2]], weakref.ref(rows[1])
    compacted([False, True, False], rows)
    assert all(a is b for a, b in zip(rows, kept, strict=True))
    assert gone() is None


@pytest.mark.parametrize("rows", [[1, 2], [1, 2, 3, 4], []])
def test_39_a_mapping_of_another_size_raises_and_moves_nothing(rows):
    before = list(rows)
    with pytest.raises(ValueError, match=f"3 rows does not fit {len(rows)} rows"):
        compact_vector([0, -1, 1], rows)
    assert rows == before


@given(MARKS)
def test_compaction_is_filtering(finished):
    rows = list(range(len(finished)))
    stay = [row for row in rows if not finished[row]]
    mapping = build_batch_mapping(finished)
    assert [mapping[row] for row in stay] == list(range(len(stay)))
    assert all(place == -1 for place, gone in zip(mapping, finished, strict=True) if gone)
    assert compacted(finished, rows) == stay


@given(MARKS, st.integers(1, 5))
def test_all_columns_of_a_table_move_together(finished, width):
    names = [f"column-{number}" for number in range(width)]
    table = SlotTable(*names)
    columns = [table.column(name) for name in names]
    for row in range(len(finished)):
        table.add_row(**{name: (name, row) for name in names})
    mapping = table.compact(finished)
    stay = [row for row, gone in enumerate(finished) if not gone]
    assert len(table) == len(stay)
    assert mapping == build_batch_mapping(finished)
    for name, column in zip(names, columns, strict=True):
        assert column is table.column(name)
        assert column == [(name, row) for row in stay]


def test_a_column_added_later_moves_too():
    table = SlotTable("ids")
    for number in range(3):
        table.add_row(ids=number)
    table.add_column("pending", [b"x", b"y", b"z"])
    table.compact([True, False, False])
    assert (table.column("ids"), table.column("pending")) == ([1, 2], [b"y", b"z"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.add_column("new", [1]), "1 values for 2 rows"),
        (lambda table: table.add_column("a", [1, 2]), "column 'a' already"),
        (lambda table: table.add_row(a=1), "needs .'a', 'b'."),
        (lambda table: table.add_row(a=1, b=1, c=1), "not .'a', 'b', 'c'."),
        (lambda table: table.compact([True]), "1 marks do not fit 2 rows"),
        (lambda table: table.compact([True] * 3), "3 marks do not fit 2 rows"),
    ],
)
def test_what_does_not_fit_a_table_raises_and_changes_nothing(change, message):
    table = SlotTable("a", "b")
    for number in range(2):
        table.add_row(a=number, b=-number)
    with pytest.raises(ValueError, match=message):
        change(table)
    assert (table.column("a"), table.column("b"), len(table)) == ([0, 1], [0, -1], 2)
    with pytest.raises(KeyError):
        table.column("new")


def test_38_the_engine_keeps_nothing_of_an_evicted_slots_channel():
    channels = [StreamChannel.create() for _ in range(3)]
    scripts = {"short": [(97,)], "long": [(98,)] * 9, "mid": [(99,)] * 3}
    engine = Engine(ScriptedModel(scripts), ByteTokenizer())
    handles = engine.submit(
        [Request((1,), SamplingParams(max_tokens=len(scripts[name])), name) for name in scripts],
        channels,
    )
    cores = [weakref.ref(channel._core) for channel in channels]
    index_before = [channel.original_batch_idx for channel in channels]
    for _ in range(4):
        engine.step()
    assert [channel.original_batch_idx for channel in channels] == index_before == [0, 1, 2]
    assert [channel.is_finished for channel in channels] == [True, False, True]
    texts = ["".join(chunk.text for chunk in channels[which]) for which in (0, 2)]
    assert texts == ["a", "ccc"]
    del channels[2], channels[0]
    assert [core() is None for core in cores] == [True, False, True]
    engine.run_until_idle()
    assert [handle.result(0).outputs[0].text for handle in handles] == ["a", "b" * 9, "ccc"]
