"""A guarded swap: rivals meet on one row, however they write, and nothing is searched for."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraphdb.errors import RowContention
from omnigraphdb.ids import Version
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.rows import Image, Rows
from omnigraphdb.storage.store import open_store

KEY = "key"
SCHEMA = pa.schema(
    [
        pa.field(
            KEY,
            pa.string(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key": "true"},
        ),
        pa.field("value", pa.int64()),
    ]
)
GUARD = "it's the guard"


def table(**values: int) -> pa.Table:
    return pa.table({KEY: list(values), "value": list(values.values())}, schema=SCHEMA)


def with_guard(value: int, **others: int) -> pa.Table:
    return pa.concat_tables([table(**others), table(**{GUARD: value})])


def contents(rows: Rows, branch: str | None = None) -> dict[str, int]:
    found = rows.load(branch).rows
    assert found.num_rows == len(set(found[KEY].to_pylist()))
    return dict(zip(found[KEY].to_pylist(), found["value"].to_pylist(), strict=True))


def opened(root: Path) -> Rows:
    return open_store(root).keyed_rows("__rows", KEY)


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    made = opened(tmp_path)
    made.create(with_guard(0, a=0, b=0), metadata={}, config={})
    return made


def test_swaps_in_a_row_replace_the_guard_and_add_the_rest(rows: Rows, tmp_path: Path) -> None:
    expected = {"a": 0, "b": 0}
    for number in range(1, 6):
        image = rows.load(None)
        assert rows.swap(image, with_guard(number, **{f"n{number}": number}), GUARD) == number + 1
        expected |= {f"n{number}": number}
        assert contents(rows) == contents(opened(tmp_path)) == expected | {GUARD: number}
    rows.fold(None)
    rows.swap(rows.load(None), with_guard(9, last=9), GUARD)
    assert contents(opened(tmp_path)) == expected | {GUARD: 9, "last": 9}


def guarded(rows: Rows, image: Image) -> None:
    rows.swap(image, with_guard(1, mine=1), GUARD)


def merged(rows: Rows, image: Image) -> None:
    rows.swap(image, with_guard(2, a=2))


def folded(rows: Rows, image: Image) -> None:
    assert rows.fold(None)


@pytest.mark.parametrize(
    ("first", "second"),
    [(guarded, guarded), (guarded, merged), (merged, guarded), (folded, guarded)],
    ids=lambda step: step.__name__,
)
@pytest.mark.parametrize("depth", [0, 3])
def test_rivals_from_one_version_have_one_winner(
    rows: Rows, tmp_path: Path, first: object, second: object, depth: int
) -> None:
    for number in range(max(depth, first is folded)):
        rows.swap(rows.load(None), with_guard(number, **{f"n{number}": 0}), GUARD)
    rival = opened(tmp_path)
    mine, theirs = rows.load(None), rival.load(None)
    first(rival, theirs)  # type: ignore[operator]
    before = contents(opened(tmp_path))
    with pytest.raises(RowContention):
        second(rows, mine)  # type: ignore[operator]
    assert contents(opened(tmp_path)) == before


def test_a_metadata_change_between_does_not_contend(rows: Rows, tmp_path: Path) -> None:
    image = rows.load(None)
    rival = opened(tmp_path)
    rival.set_metadata(rival.load(None), "note", "x")
    assert rows.swap(image, with_guard(1, mine=1), GUARD) == image.version + 2
    again = rows.load(None)
    assert again.metadata["note"] == "x"
    rows.swap(again, with_guard(2, more=2), GUARD)
    assert contents(opened(tmp_path)) == {"a": 0, "b": 0, "mine": 1, "more": 2, GUARD: 2}


def test_a_guard_that_is_not_there_yet_has_one_winner(tmp_path: Path) -> None:
    rows = opened(tmp_path)
    rows.create(table(a=0), metadata={}, config={})
    image = rows.load(None)
    rows.swap(image, with_guard(1, x=1), GUARD)
    with pytest.raises(RowContention):
        opened(tmp_path).swap(image, with_guard(2, y=2), GUARD)
    assert contents(rows) == {"a": 0, "x": 1, GUARD: 1}


def test_rows_that_replace_more_than_the_guard_are_merged(rows: Rows) -> None:
    rows.swap(rows.load(None), with_guard(1, a=1, new=1), GUARD)
    assert contents(rows) == {"a": 1, "b": 0, "new": 1, GUARD: 1}
    rows.swap(rows.load(None), with_guard(2, newer=2), GUARD)
    assert contents(rows) == {"a": 1, "b": 0, "new": 1, "newer": 2, GUARD: 2}


def test_a_guard_alone_in_its_fragment_takes_it_along(rows: Rows, tmp_path: Path) -> None:
    for number in range(1, 4):
        rows.swap(rows.load(None), table(**{GUARD: number}), GUARD)
    assert contents(opened(tmp_path)) == {"a": 0, "b": 0, GUARD: 3}
    assert rows.fragment_count(rows.load(None)) == 2


def test_an_inherited_guard_is_replaced_on_the_branch_only(rows: Rows, tmp_path: Path) -> None:
    rows.create_branch("side", None, Version(1))
    for number in (1, 2):
        rows.swap(rows.load("side"), with_guard(number, **{f"n{number}": number}), GUARD)
    fresh = opened(tmp_path)
    assert contents(fresh, "side") == {"a": 0, "b": 0, "n1": 1, "n2": 2, GUARD: 2}
    assert contents(fresh) == {"a": 0, "b": 0, GUARD: 0}
    assert fresh.fold("side")
    fresh.swap(fresh.load("side"), with_guard(3, n3=3), GUARD)
    assert contents(opened(tmp_path), "side")[GUARD] == 3


def test_a_warm_guarded_swap_opens_scans_and_probes_nothing(rows: Rows) -> None:
    for number in (1, 2):
        rows.swap(rows.load(None), with_guard(number, **{f"n{number}": 0}), GUARD)
    image = rows.load(None)
    with counting() as costs:
        rows.swap(image, with_guard(3, n3=3), GUARD)
    assert costs.as_dict() == {str(Cost.MANIFEST_SWAPS): 1}
