"""Inputs are cut so that every row is in exactly one split, and its place can be told from there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.pipeline.findings import map_inputs
from omnigraphdb.pipeline.input.lines import read_blocks
from omnigraphdb.pipeline.input.splits import (
    NO_BOUND,
    ByteRange,
    Content,
    InMemory,
    RowGroups,
    Split,
    SplitLimits,
    TextTable,
    cut_frame,
    cut_lines,
    cut_parquet,
    cut_table,
    first_position,
    grain_of,
    number_in,
    pack_splits,
    split_bytes,
    split_of,
)
from omnigraphdb.pipeline.messages import SplitLines
from omnigraphdb.storage.values import FragmentInfo, TableAt

texts = st.lists(st.text(alphabet="aé日 \r", max_size=12), max_size=30)


@given(lines=texts, last=st.booleans(), bytes_max=st.integers(1, 40))
def test_every_line_is_in_exactly_one_range(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], last: bool, bytes_max: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "some.jsonl"
    whole = "\n".join(lines).encode() + (b"\n" if last else b"")
    path.write_bytes(whole)
    found: list[bytes] = []
    for portion in cut_lines(path, bytes_max):
        assert isinstance(portion.content, ByteRange)
        for block in read_blocks(path, portion.content.start, portion.content.end):
            found += block.texts
    assert found == _lines(whole)


def _lines(whole: bytes) -> list[bytes]:
    """Lines as files know them: only a line feed ends one."""
    parts = whole.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def test_a_byte_order_mark_counts_only_at_the_beginning_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert [t for b in read_blocks(path, 0, 7) for t in b.texts] == [b"one\n"]
    assert [t for b in read_blocks(path, 7, 14) for t in b.texts] == [b"\xef\xbb\xbftwo\n"]


def test_a_compressed_file_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl.gz"
    path.write_bytes(b"x" * 1000)
    assert [portion.content for portion in cut_lines(path, 10)] == [ByteRange(str(path))]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"no\.jsonl' cannot be read: No such file"):
        list(cut_lines(tmp_path / "no.jsonl", 10))
    with pytest.raises(UserInputError, match=r"no\.parquet' cannot be read"):
        list(cut_parquet(tmp_path / "no.parquet", grain_of(10, 0)))


@pytest.mark.parametrize("bytes_max", [1, 3_000, 10_000_000])
def test_parquet_is_cut_between_row_groups(tmp_path: Path, bytes_max: int) -> None:
    path = tmp_path / "some.parquet"
    rows = pa.table({"n": range(1_000)})
    pyarrow.parquet.write_table(rows, path, row_group_size=100)
    portions = list(cut_parquet(path, grain_of(bytes_max, 0)))
    groups = [portion.content for portion in portions]
    assert all(isinstance(one, RowGroups) for one in groups)
    assert [n for one in groups for n in one.groups] == list(range(10))  # type: ignore[union-attr]
    assert sum(portion.rows or 0 for portion in portions) == 1_000
    assert len(portions) == {1: 10, 3_000: len(portions), 10_000_000: 1}[bytes_max]


@pytest.mark.parametrize("rows", [0, 1, 999])
def test_a_frame_is_cut_without_losing_a_row(rows: int) -> None:
    frame = pa.table({"n": pa.array(range(rows), pa.int64())})
    parts = [portion.content for portion in cut_frame(frame, grain_of(80, 0))]
    assert all(isinstance(one, InMemory) for one in parts)
    together = pa.concat_tables([one.rows for one in parts])  # type: ignore[union-attr]
    assert together.equals(frame)


@pytest.mark.parametrize("workers", [2, 8, 16])
def test_one_row_group_is_cut_for_all_workers(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "one.parquet"
    count = 2_000_000
    rows = pa.table({"n": pa.array(np.arange(count), pa.int64())})
    pyarrow.parquet.write_table(rows, path, row_group_size=count)
    grain = grain_of(32 << 20, path.stat().st_size, count, workers)
    portions = list(cut_parquet(path, grain))
    assert len(portions) == workers
    assert sum(portion.rows or 0 for portion in portions) == count


def test_rows_that_are_few_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    pyarrow.parquet.write_table(pa.table({"n": range(60_000)}), path)
    assert len(list(cut_parquet(path, grain_of(32 << 20, 10**6, 60_000, 8)))) == 1


def _inputs(*sizes: tuple[int, int | None], content: Content | None = None) -> list[Split]:
    return [
        Split(number=0, source=n, content=content or ByteRange(str(n)), bytes=size, rows=rows)
        for n, (size, rows) in enumerate(sizes)
    ]


def test_small_inputs_are_read_together_by_bytes_and_by_rows() -> None:
    grain = SplitLimits(bytes=100, rows=10, share_bytes=NO_BOUND, share_rows=NO_BOUND)
    by_bytes = list(pack_splits(_inputs((40, None), (60, None), (1, None), (200, None)), grain))
    assert [[one.source for one in split.inputs] for split in by_bytes] == [[0, 1], [2], [3]]
    by_rows = list(pack_splits(_inputs((1, 6), (1, 4), (1, 1), (1, 50)), grain))
    assert [[one.source for one in split.inputs] for split in by_rows] == [[0, 1], [2], [3]]
    assert [split.number for split in by_rows] == [0, 1, 2]
    assert (by_rows[0].bytes, by_rows[0].rows, by_bytes[0].rows) == (2, 10, None)


def test_what_is_of_another_kind_or_type_is_read_apart() -> None:
    grain = grain_of(1 << 20, 0)
    frames = [replace(one, table_key=TableKey("node:P")) for one in _inputs((1, 1), (1, 1))]
    lines, [text] = _inputs((1, None)), _inputs((1, None), content=TextTable("t"))
    text = replace(text, table_key=TableKey("node:P"))
    parquet = replace(text, content=RowGroups("p", (0,)))
    sliced = replace(text, content=RowGroups("p", (0,), 5, 5))
    other = replace(text, table_key=TableKey("node:Q"))
    found = pack_splits([*lines, *frames, text, parquet, sliced, other], grain)
    assert [len(split.inputs) for split in found] == [1, 2, 2, 1, 1]


def test_a_position_in_several_inputs_tells_its_own() -> None:
    names = ["a", "empty", "b", "c"]
    inputs = [
        Split(number=0, source=n, content=ByteRange(name), file=name, counts_lines=True, bytes=1)
        for n, name in enumerate(names)
    ]
    [split] = pack_splits(inputs, grain_of(1 << 20, 0))
    places = map_inputs([split], [SplitLines(0, (2, 0, 3, 1))])
    told = [str(places.locate(split.first + n)) for n in range(6)]
    assert told == ["a, line 1", "a, line 2", "b, line 1", "b, line 2", "b, line 3", "c, line 1"]


def test_fragments_are_grouped_by_their_live_rows() -> None:
    def fragment(number: int, rows: int, deleted: int) -> FragmentInfo:
        return FragmentInfo(
            id=number, files=(), deletions=None, physical_rows=rows, deleted_rows=deleted
        )

    fragments = [fragment(3, 10, 0), fragment(4, 10, 10), fragment(7, 5, 0), fragment(9, 20, 0)]
    at = TableAt(path="nodes/x", branch=None, version=Version(4))
    found = list(cut_table(TableKey("node:P"), at, fragments, 12))
    assert [one.fragments for one in found] == [(3, 7), (9,)]


def test_a_position_tells_its_split_and_its_line() -> None:
    position = first_position(5) + 41
    assert (split_of(position), number_in(position)) == (5, 42)


def test_lines_are_counted_through_all_splits_of_a_file() -> None:
    splits = [
        Split(number=0, source=0, content=ByteRange("a"), file="a", counts_lines=True),
        Split(number=1, source=0, part=1, content=ByteRange("a"), file="a", counts_lines=True),
        Split(number=2, source=1, content=ByteRange("b"), file="b", counts_lines=True),
    ]
    places = map_inputs(splits, [SplitLines(1, (7,)), SplitLines(0, (10,)), SplitLines(2, (3,))])
    assert str(places.locate(first_position(1))) == "a, line 11"
    assert str(places.locate(first_position(2) + 2)) == "b, line 3"


def test_there_are_never_too_many_splits() -> None:
    assert split_bytes(100, 10_000) == 100
    assert split_bytes(1, 10**12) == 10**7
