"""Reading one table version: scans, takes, lookups, searches and blobs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraphdb.errors import EngineError, StorageError
from omnigraphdb.limits import LOOKUP_FILTERED_MAX
from omnigraphdb.storage.blobs import BLOB_INPUT, BlobForm, BlobKind
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.lance import index
from omnigraphdb.storage.lance.search import tokens
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import IndexKind, TableAt
from tests.support.store_roots import StoreRoot, in_threads
from tests.support.tables import (
    AGE_INDEX,
    BIO_INDEX,
    ID_INDEX,
    PEOPLE,
    SCHEMA,
    TASTE_INDEX,
    filled,
    land,
    open_root,
    people,
)

pytestmark = pytest.mark.parametrize("store_root", ["local"], indirect=True)


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


@pytest.fixture
def tables(store: Store) -> Tables:
    return store.tables


def numbered(tables: Tables, count: int, *, indexed: bool = False) -> TableAt:
    """Many people whose age is their number, in a few fragments."""
    at = tables.create(PEOPLE, SCHEMA)
    for part in np.array_split(np.arange(count), 3):
        rows = people([f"k{i:06d}" for i in part], [int(i) for i in part])
        at = land(tables, tables.stage_append(at, rows)).at
    return land(tables, tables.stage_indices(at, [ID_INDEX])).at if indexed else at


# ---- scans


def test_a_scan_streams_what_a_read_gives(tables: Tables) -> None:
    table = tables.open(numbered(tables, 1000))
    stream = table.scan(("id", "age"), "age >= 500", row_id=True, batch_rows=64)
    batches = list(stream)
    assert max(batch.num_rows for batch in batches) <= 64
    whole = pa.Table.from_batches(batches).sort_by("id")
    read = table.read(("id", "age"), "age >= 500", row_id=True).sort_by("id")
    assert whole.equals(read)
    assert whole.num_rows == 500


def test_a_read_may_ask_for_positions_only(tables: Tables) -> None:
    table = tables.open(numbered(tables, 10))
    found = table.read((), row_id=True, row_address=True)
    assert found.column_names == ["_rowid", "_rowaddr"]
    assert found["_rowid"].to_pylist() == list(range(10))


def test_filters_may_be_text_or_typed(tables: Tables) -> None:
    table = tables.open(filled(tables, ["o'neil", "ada"]))
    assert table.read(("id",), "id = 'o''neil'").num_rows == 1
    assert table.read(("id",), pc.field("id") == "o'neil").num_rows == 1
    assert table.count(pc.field("age") > 29) == table.count("age > 29") == 2


def test_rows_come_in_id_order_when_asked(tables: Tables) -> None:
    at = filled(tables, ["c", "a", "b"])
    at = land(tables, tables.stage_merge(at, people(["b", "0"]))).at
    ids = tables.open(at).read(("id",), order_by_id=True)["id"].to_pylist()
    assert ids == ["0", "a", "b", "c"]


def test_a_scan_may_stay_in_some_fragments(tables: Tables) -> None:
    table = tables.open(numbered(tables, 30))
    first, *_, last = (fragment.id for fragment in table.fragments())
    ids = table.read(("age",), fragments=[first, last])["age"].to_pylist()
    assert ids == [*range(10), *range(20, 30)]
    assert table.read(("age",), limit=3).num_rows == 3


@pytest.mark.parametrize("filter", ["nope = 1", "age = = 1", "age = 'x'"])
def test_a_bad_filter_is_named(tables: Tables, filter: str) -> None:
    table = tables.open(filled(tables, "a"))
    with pytest.raises(EngineError, match="Invalid user input") as caught:
        table.read(filter=filter)
    assert ".rs" not in str(caught.value)


def test_a_stream_over_a_damaged_table_fails_in_our_words(
    tables: Tables, store: Store, store_root: StoreRoot
) -> None:
    at = numbered(tables, 30)
    for file in Path(store_root.uri, PEOPLE, "data").iterdir():
        file.unlink()
    table = open_root(store_root).tables.open(at)
    with pytest.raises(StorageError, match="a file of this version is gone"):
        list(table.scan())
    with pytest.raises(StorageError, match="a file of this version is gone"):
        table.read()


def test_threads_read_one_table_at_once(tables: Tables) -> None:
    table = tables.open(numbered(tables, 3000, indexed=True))

    def look(number: int) -> int:
        found = table.lookup("id", pa.array([f"k{number:06d}"]), ("age",))
        return int(found["age"][0].as_py())

    assert in_threads(look, [(i * 100,) for i in range(16)]) == [i * 100 for i in range(16)]


# ---- takes and lookups


def test_a_take_keeps_the_order_and_leaves_out_what_is_gone(tables: Tables) -> None:
    at = numbered(tables, 30)
    at = land(tables, tables.stage_delete(at, pa.array(["k000007"]))).at
    at = land(tables, tables.stage_merge(at, people(["k000005"], -5))).at
    found = tables.open(at).take(pa.array([9, 7, 5, 9, 999]), ("id", "age", "_rowid"))
    assert found.to_pylist() == [
        {"id": "k000009", "age": 9, "_rowid": 9},
        {"id": "k000005", "age": -5, "_rowid": 5},
        {"id": "k000009", "age": 9, "_rowid": 9},
    ]
    assert tables.open(at).take(pa.array([], pa.int64())).num_rows == 0


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("count", [1, 5, 400])
def test_a_lookup_finds_the_same_with_and_without_an_index(
    tables: Tables, indexed: bool, count: int
) -> None:
    table = tables.open(numbered(tables, 3000, indexed=indexed))
    wanted = [f"k{i * 7:06d}" for i in range(count)]
    values = pa.array([*wanted, *wanted, "o'neil", None])
    found = table.lookup("id", values, ("id", "age"), row_id=True, row_address=True)
    assert sorted(found["id"].to_pylist()) == wanted
    assert sorted(found["age"].to_pylist()) == sorted(found["_rowid"].to_pylist())
    assert table.lookup("id", values, (), row_address=True).column_names == ["_rowaddr"]
    assert table.lookup("id", pa.array([], pa.string()), ("id",)).num_rows == 0


def test_a_lookup_of_few_and_of_many_values_finds_the_same_in_small_fragments(
    tables: Tables,
) -> None:
    at = filled(tables, "ab")
    for number in range(5):
        at = land(tables, tables.stage_append(at, people([f"o'{number}"]))).at
    table = tables.open(at)
    few = pa.array(["o'3", "b", "none", None])
    many = pa.concat_arrays([few, pa.array([f"x{n}" for n in range(LOOKUP_FILTERED_MAX)])])
    for names in (("id", "age"), ("id",), ()):
        found = [
            table.lookup("id", values, names, row_id=True, row_address=True)
            for values in (few, many)
        ]
        assert found[0].sort_by("_rowid").equals(found[1].sort_by("_rowid"))
        assert found[0].num_rows == 2


def test_a_lookup_sees_rows_that_the_index_does_not(tables: Tables) -> None:
    at = numbered(tables, 3000, indexed=True)
    at = land(tables, tables.stage_append(at, people(["new"], 7))).at
    at = land(tables, tables.stage_merge(at, people(["k000010"], -1))).at
    at = land(tables, tables.stage_delete(at, pa.array(["k000020"]))).at
    found = tables.open(at).lookup("id", pa.array(["new", "k000010", "k000020"]), ("id", "age"))
    assert {r["id"]: r["age"] for r in found.to_pylist()} == {"new": 7, "k000010": -1}


def test_a_few_values_go_through_the_index(tables: Tables) -> None:
    at = numbered(tables, 3000, indexed=True)
    assert "ScalarIndexQuery" in tables.open(at).explain(pc.field("id").isin(["a", "b"]))


def test_a_lookup_by_any_plain_type(tables: Tables) -> None:
    at = land(tables, tables.stage_indices(numbered(tables, 3000), [AGE_INDEX])).at
    table = tables.open(at)
    for kind in (pa.int64(), pa.int32()):
        found = table.lookup("age", pa.array([3, 2999, 5000], kind), ("id",))
        assert sorted(found["id"].to_pylist()) == ["k000003", "k002999"]


# ---- identity of fragments


def test_equal_fragments_hold_equal_rows(tables: Tables) -> None:
    at = numbered(tables, 30)
    before = tables.open(at).fragments()
    at = land(tables, tables.stage_merge(at, people(["k000001"]))).at
    after = tables.open(at).fragments()
    assert set(before) & set(after) == set(before[1:])
    assert sum(f.rows for f in after) == 30
    assert [f.deleted_rows for f in after] == [1, 0, 0, 0]


# ---- search


TASTES = {"a": [1, 0, 0, 0], "b": [0, 1, 0, 0], "c": [0, 0, 1, 0], "d": None}
BIOS = {
    "a": "Machine learning is fun",
    "b": "He LEARNED to cook at the Café",
    "c": None,
    "d": "the and of",
}


def described(tables: Tables) -> TableAt:
    at = tables.create(PEOPLE, SCHEMA)
    rows = people(BIOS, bio=list(BIOS.values()), taste=list(TASTES.values()))
    return land(tables, tables.stage_append(at, rows)).at


def grown(tables: Tables, at: TableAt) -> TableAt:
    more = people("ef", bio=["She learns cooking", "machines"], taste=[[0, 0, 0.9, 0], None])
    return land(tables, tables.stage_append(at, more)).at


def near(table: Table, limit: int, **options: Any) -> list[tuple[str, float]]:
    vector = pa.array([0, 0, 1, 0], pa.float32())
    found = table.nearest("taste", vector, limit, columns=("id",), **options)
    return [(r["id"], round(r["_distance"], 2)) for r in found.to_pylist()]


def test_the_nearest_are_the_same_in_every_state_of_the_index(tables: Tables) -> None:
    at = grown(tables, described(tables))
    bare = near(tables.open(at), 3)
    assert bare[:2] == [("c", 0.0), ("e", 0.01)]
    assert {name for name, _ in bare} < {"a", "b", "c", "e"}
    indexed = land(tables, tables.stage_indices(at, [TASTE_INDEX])).at
    assert near(tables.open(indexed), 2) == bare[:2]
    partly = land(tables, tables.stage_append(indexed, people("z", taste=[[0, 0, 1, 0.5]]))).at
    assert near(tables.open(partly), 3) == [*bare[:2], ("z", 0.25)]
    whole = land(tables, tables.stage_indices(partly, [TASTE_INDEX])).at
    assert near(tables.open(whole), 3) == [*bare[:2], ("z", 0.25)]


def test_a_filter_applies_before_the_nearest_are_taken(tables: Tables) -> None:
    at = described(tables)
    for stage in (
        lambda at: at,
        lambda at: land(tables, tables.stage_indices(at, [TASTE_INDEX])).at,
    ):
        table = tables.open(stage(at))
        assert [name for name, _ in near(table, 1, filter="id < 'c'")] in (["a"], ["b"])
        found = table.nearest(
            "taste", pa.array([0, 0, 1, 0], pa.float32()), 9, columns=("id",), row_id=True
        )
        assert sorted(found["id"].to_pylist()) == ["a", "b", "c"]
        assert found.column_names == ["id", "_distance", "_rowid"]


def matched(table: Table, text: str, **options: Any) -> set[str]:
    return set(table.match("bio", text, columns=("id",), **options)["id"].to_pylist())


def by_hand(table: Table, text: str) -> set[str]:
    """Evaluate the rows that the index does not cover, with the same analysis."""
    wanted = set(tokens(text))
    rest = table.read(("id", "bio"), fragments=table.uncovered("bio", IndexKind.TEXT))
    return {r["id"] for r in rest.to_pylist() if r["bio"] and wanted & set(tokens(r["bio"]))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LEARNING", {"a", "b", "e"}),
        ("cafe", {"b"}),
        ("the", set()),
        ("machines", {"a", "f"}),
        ("fun cooking", {"a", "b", "e"}),
    ],
)
def test_text_is_found_alike_in_every_state_of_the_index(
    tables: Tables, text: str, expected: set[str]
) -> None:
    at = described(tables)
    bare = grown(tables, at)
    states = [bare, land(tables, tables.stage_indices(bare, [BIO_INDEX])).at]
    for state in states:
        table = tables.open(state)
        assert matched(table, text) | by_hand(table, text) == expected
    assert matched(tables.open(bare), text) == set()
    assert by_hand(tables.open(states[1]), text) == set()


def test_text_is_found_alike_when_the_index_lags_behind(tables: Tables) -> None:
    at = land(tables, tables.stage_indices(described(tables), [BIO_INDEX])).at
    table = tables.open(grown(tables, at))
    assert matched(table, "learning") == {"a", "b"}
    assert by_hand(table, "learning") == {"e"}


@pytest.mark.parametrize("positions", [True, False])
def test_parts_of_a_text_index_all_know_positions_or_none_does(
    tables: Tables, positions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        settings = {**index._SETTINGS[IndexKind.TEXT], "with_position": positions}
        before.setitem(index._SETTINGS, IndexKind.TEXT, settings)
        at = land(tables, tables.stage_indices(described(tables), [BIO_INDEX])).at
    table = tables.open(land(tables, tables.stage_indices(grown(tables, at), [BIO_INDEX])).at)
    assert [(one.positions, len(one.segments)) for one in table.indices()] == [(positions, 2)]
    assert matched(table, "learning") == {"a", "b", "e"}


def test_a_text_search_returns_every_match_with_a_score(tables: Tables) -> None:
    at = tables.create(PEOPLE, SCHEMA)
    names = [f"p{i}" for i in range(500)]
    at = land(tables, tables.stage_append(at, people(names, bio=["common words"] * 500))).at
    table = tables.open(land(tables, tables.stage_indices(at, [BIO_INDEX])).at)
    found = table.match("bio", "word", columns=("id",), row_id=True)
    assert (found.num_rows, found.column_names) == (500, ["id", "_score", "_rowid"])
    assert min(found["_score"].to_pylist()) > 0
    assert table.match("bio", "word", columns=("id",), limit=7).num_rows == 7
    assert table.match("bio", "word", columns=("id",), filter="id = 'p7'").num_rows == 1


def test_fuzzy_search_finds_near_terms_of_indexed_rows(tables: Tables) -> None:
    at = land(tables, tables.stage_indices(described(tables), [BIO_INDEX])).at
    assert matched(tables.open(at), "machne") == set()
    assert matched(tables.open(at), "machne", fuzziness=2) == {"a"}


def test_an_all_null_vector_column_is_known_before_it_is_indexed(tables: Tables) -> None:
    table = tables.open(filled(tables, "ab"))
    assert not table.has_values("taste")
    assert table.has_values("age")


# ---- blobs


@pytest.fixture
def outside(tmp_path: Path) -> str:
    file = tmp_path / "outside.bin"
    file.write_bytes(b"external bytes")
    return file.as_uri()


def photographed(tables: Tables, outside: str) -> TableAt:
    cells = [
        {"data": b"small", "uri": None},
        {"data": b"", "uri": None},
        None,
        {"data": None, "uri": outside},
        {"data": b"x" * 200_000, "uri": None},
        {"data": b"y" * 5_000_000, "uri": None},
    ]
    at = tables.create(PEOPLE, SCHEMA)
    rows = people("abcdef").drop_columns(["photo"])
    rows = rows.append_column("photo", pa.array(cells, BLOB_INPUT))
    return land(tables, tables.stage_append(at, rows)).at


CONTENTS = [b"small", b"", None, b"external bytes", b"x" * 200_000, b"y" * 5_000_000]


def read_photos(
    table: Table, row_ids: Iterable[int], form: BlobForm = BlobForm.DESCRIPTOR
) -> list[Any]:
    """The blobs of some rows, in the order asked."""
    found: list[Any] = table.take(pa.array(row_ids), ("photo",), blobs=form)["photo"].to_pylist()
    return found


def test_a_scan_gives_descriptors_and_reads_no_bytes(tables: Tables, outside: str) -> None:
    table = tables.open(photographed(tables, outside))
    managed: dict[str, int | str | None] = {"kind": BlobKind.MANAGED, "uri": None}
    assert read_photos(table, range(6)) == [
        managed | {"size": 5},
        managed | {"size": 0},
        None,
        {"kind": BlobKind.EXTERNAL, "size": None, "uri": outside},
        managed | {"size": 200_000},
        managed | {"size": 5_000_000},
    ]
    assert table.schema.field("photo").type == pa.large_binary()


def test_bytes_come_in_the_order_asked(tables: Tables, outside: str) -> None:
    table = tables.open(photographed(tables, outside))
    order = [4, 0, 2, 5, 1, 3, 0]
    assert read_photos(table, order, BlobForm.BYTES) == [CONTENTS[i] for i in order]
    assert table.read(("photo",), blobs=BlobForm.BYTES)["photo"].to_pylist() == CONTENTS
    streamed = pa.Table.from_batches(
        table.scan(("id", "photo"), blobs=BlobForm.BYTES, batch_rows=2)
    )
    assert streamed["photo"].to_pylist() == CONTENTS
    assert streamed.column_names == ["id", "photo"]


def test_rows_can_be_staged_again_as_they_were_read(tables: Tables, outside: str) -> None:
    at = photographed(tables, outside)
    table = tables.open(at)
    for rows in (
        table.read(blobs=BlobForm.INPUT),
        pa.Table.from_batches(table.scan(blobs=BlobForm.INPUT, batch_rows=2)),
        table.take(pa.array([3, 1, 2, 0]), blobs=BlobForm.INPUT),
        table.lookup("id", pa.array(["d", "b", "c"]), blobs=BlobForm.INPUT),
    ):
        assert rows.schema.field("photo").type == BLOB_INPUT
        again = tables.open(land(tables, tables.stage_merge(at, rows)).at)
        at = again.at
        assert read_photos(again, range(6)) == read_photos(table, range(6))
        assert read_photos(again, range(6), BlobForm.BYTES) == CONTENTS


def test_blobs_outlive_upserts_deletes_and_compaction(tables: Tables, outside: str) -> None:
    at = photographed(tables, outside)
    at = land(tables, tables.stage_merge(at, people("az", photo=[b"new", None]))).at
    at = land(tables, tables.stage_delete(at, pa.array(["e"]))).at
    at = land(tables, tables.stage_compaction(at)).at
    table = tables.open(at)
    rows = table.read(("id", "photo"), blobs=BlobForm.BYTES, order_by_id=True).to_pylist()
    assert [(r["id"], r["photo"]) for r in rows] == [
        ("a", b"new"),
        ("b", b""),
        ("c", None),
        ("d", b"external bytes"),
        ("f", CONTENTS[5]),
        ("z", None),
    ]


def test_an_external_blob_that_is_gone_does_not_stop_a_carry(tables: Tables, outside: str) -> None:
    at = photographed(tables, outside)
    Path(outside.removeprefix("file://")).unlink()
    table = tables.open(at)
    (row,) = table.read(filter="id = 'd'", blobs=BlobForm.INPUT)["photo"].to_pylist()
    assert row == {"data": None, "uri": outside}
    with pytest.raises(StorageError):
        read_photos(table, [3], BlobForm.BYTES)


def test_reads_are_counted(tables: Tables) -> None:
    table = tables.open(filled(tables, "ab"))
    with counting() as costs:
        table.read()
        list(table.scan())
        table.take(pa.array([0]))
        table.count()
    assert costs.as_dict() == {Cost.TABLE_SCANS: 3}
