"""The contract of `Tables`, on every kind of store: nothing moves a HEAD but `commit_staged` and `restore`."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pyarrow as pa
import pytest

from omnigraphdb.errors import InternalError, TableExists, TableNotFound
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.lance.tables import LanceTables
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import (
    AddColumn,
    DropColumn,
    IndexKind,
    RenameColumn,
    Staged,
    StagedKind,
    TableAt,
)
from tests.support.openings import await_openings
from tests.support.store_roots import StoreRoot, race_threads
from tests.support.tables import (
    AGE_INDEX,
    BIO_INDEX,
    ID_INDEX,
    OPERATION,
    PEOPLE,
    SCHEMA,
    TASTE_INDEX,
    KernelLock,
    ages,
    filled,
    head_at,
    land,
    next_of,
    open_root,
    people,
)

pytestmark = pytest.mark.parametrize(
    "store_root",
    ["local", "official", "memory", pytest.param("s3", marks=pytest.mark.s3)],
    indirect=True,
)


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


@pytest.fixture
def tables(store: Store) -> Tables:
    return store.tables


# ---- creating


def test_a_new_table_is_empty_at_version_one(tables: Tables) -> None:
    at = tables.create(PEOPLE, SCHEMA)
    assert at == TableAt(path=PEOPLE, branch=None, version=Version(1))
    table = tables.open(at)
    assert (table.count(), table.schema, table.fragments()) == (0, SCHEMA, ())
    assert table.auto_cleanup_keys() == ()
    assert tables.exists(PEOPLE)


def test_a_table_is_created_once(tables: Tables) -> None:
    at = filled(tables, "ab")
    with pytest.raises(TableExists):
        tables.create(PEOPLE, SCHEMA)
    assert tables.head(PEOPLE, None) == at.version


def test_of_many_creators_one_wins(store_root: StoreRoot) -> None:
    def create(barrier: Any, path: str) -> bool:
        tables = open_root(store_root).tables
        barrier.wait()
        try:
            return tables.create(path, SCHEMA).version == 1
        except TableExists:
            return False

    for number in range(4):
        path = f"nodes/{number:016x}"
        assert sum(race_threads(create, [(path,)] * 4)) == 1
        assert open_root(store_root).tables.head(path, None) == 1


def test_what_is_not_there_is_told_apart_from_what_is(tables: Tables) -> None:
    assert not tables.exists(PEOPLE)
    with pytest.raises(TableNotFound):
        tables.head(PEOPLE, None)
    at = filled(tables, "a")
    with pytest.raises(TableNotFound):
        tables.open(next_of(at))
    with pytest.raises(TableNotFound):
        tables.head(PEOPLE, "nowhere")


def test_a_deleted_table_is_gone_and_its_place_is_free(tables: Tables) -> None:
    at = filled(tables, "abc")
    tables.fork(at, "side")
    tables.delete_table(PEOPLE)
    assert not tables.exists(PEOPLE)
    tables.delete_table(PEOPLE)
    tables.create(PEOPLE, SCHEMA)
    assert ages(tables, head_at(tables)) == {}
    assert tables.forks(PEOPLE) == {}


# ---- staging moves nothing, committing moves one step

Stage = Callable[[Tables, TableAt], Staged | None]
STAGES: dict[str, Stage] = {
    "append": lambda t, at: t.stage_append(at, people("xy")),
    "append a stream": lambda t, at: t.stage_append(at, people("xy").to_reader()),
    "append written fragments": lambda t, at: t.stage_written(at, [t.write(at, people("xy"))]),
    "merge": lambda t, at: t.stage_merge(at, people("ax")),
    "merge of new rows": lambda t, at: t.stage_merge(at, people("xy")),
    "overwrite": lambda t, at: t.stage_overwrite(at, people("xy")),
    "overwrite by nothing": lambda t, at: t.stage_overwrite(at, SCHEMA.empty_table()),
    "overwrite by written fragments": lambda t, at: t.stage_written(
        at, [t.write(at, people("xy"))], overwrite=True
    ),
    "delete": lambda t, at: t.stage_delete(at, pa.array(["a"])),
    "delete of all": lambda t, at: t.stage_delete(at, pa.array(["a", "b", "c"])),
    "indices": lambda t, at: t.stage_indices(at, [ID_INDEX, BIO_INDEX, TASTE_INDEX]),
    "compaction": lambda t, at: t.stage_compaction(at),
    "columns": lambda t, at: t.stage_columns(at, [AddColumn(pa.field("email", pa.string()))]),
}


@pytest.mark.parametrize("name", STAGES)
def test_staging_moves_no_head_and_committing_moves_it_by_one(tables: Tables, name: str) -> None:
    at = filled(tables, "ab")
    taste: dict[str, Any] = {"taste": [[1, 0, 0, 0]], "bio": ["a life"]}
    at = land(tables, tables.stage_append(at, people("c", **taste))).at
    before = ages(tables, at)
    staged = STAGES[name](tables, at)
    assert staged is not None
    assert tables.head(PEOPLE, None) == at.version
    assert ages(tables, head_at(tables)) == before
    landed = land(tables, staged)
    assert landed.at == next_of(at)
    assert tables.head(PEOPLE, None) == landed.at.version
    assert landed.row_count == len(before) + staged.rows_added - staged.rows_deleted
    assert landed.row_count == tables.open(landed.at).count() == len(ages(tables, landed.at))
    assert ages(tables, at) == before


def test_a_commit_names_its_operation_actor_and_transaction(tables: Tables) -> None:
    at = filled(tables, "a")
    staged = tables.stage_merge(at, people("ab"))
    landed = tables.commit_staged(
        staged, operation_id=OperationId("OP"), actor="ada", lock=KernelLock()
    )
    (info,) = tables.transactions(PEOPLE, None, at.version, landed.at.version)
    assert (info.version, info.uuid) == (landed.at.version, staged.uuid)
    assert (info.operation_id, info.actor, info.operation) == ("OP", "ada", "Update")


def test_history_lists_every_commit_in_order(tables: Tables) -> None:
    at = filled(tables, "a")
    at = land(tables, tables.stage_append(at, people("b"))).at
    at = land(tables, tables.stage_delete(at, pa.array(["a"]))).at
    found = tables.transactions(PEOPLE, None, Version(0), at.version)
    assert [(i.version, i.operation) for i in found] == [
        (1, "Overwrite"),
        (2, "Append"),
        (3, "Append"),
        (4, "Delete"),
    ]
    assert tables.transactions(PEOPLE, None, at.version, at.version) == ()


def test_a_version_that_is_not_there_is_listed_without_facts(tables: Tables) -> None:
    at = filled(tables, "a")
    (info,) = tables.transactions(PEOPLE, None, at.version, next_of(at).version)
    assert (info.version, info.uuid, info.operation) == (at.version + 1, None, None)


# ---- rows


def test_an_append_adds_and_a_stream_is_read_once(tables: Tables) -> None:
    at = filled(tables, "ab")
    parts = (people([f"s{i}"]).to_batches()[0] for i in range(5))
    stream = pa.RecordBatchReader.from_batches(SCHEMA, parts)
    staged = tables.stage_append(at, stream)
    assert (staged.kind, staged.rows_added, staged.rows_deleted) == (StagedKind.APPEND, 5, 0)
    assert set(ages(tables, land(tables, staged).at)) == {"a", "b", "s0", "s1", "s2", "s3", "s4"}


def test_columns_may_come_in_any_order_and_nullable_ones_may_lack(tables: Tables) -> None:
    at = tables.create(PEOPLE, SCHEMA)
    rows = pa.table({"age": pa.array([7], pa.int64()), "id": ["a"]})
    table = tables.open(land(tables, tables.stage_append(at, rows)).at)
    assert table.read().to_pylist() == [
        {"id": "a", "age": 7, "bio": None, "photo": None, "taste": None}
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (pa.table({"id": ["a"], "zip": [1]}), "zip"),
        (pa.table({"age": pa.array([1], pa.int64())}), "'id' is required"),
        (pa.table({"id": ["a"], "age": ["old"]}), "'age' is string"),
        (pa.table({"id": pa.array([None], pa.string())}), "'id' is required"),
        (pa.table([["a"], ["b"]], names=["id", "id"]), "twice"),
        (pa.table({"id": ["a"], "photo": [1]}), "photo"),
        (pa.table({"id": ["a"], "photo": [{"data": b"x", "uri": "file:///x"}]}), "photo"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(
    tables: Tables, rows: pa.Table, says: str
) -> None:
    at = filled(tables, "z")
    with pytest.raises(InternalError, match=says):
        tables.stage_append(at, rows)
    assert tables.head(PEOPLE, None) == at.version


def test_nothing_to_append_is_refused(tables: Tables) -> None:
    at = filled(tables, "z")
    for nothing in (SCHEMA.empty_table(), SCHEMA.empty_table().to_reader()):
        with pytest.raises(InternalError, match="without rows"):
            tables.stage_append(at, nothing)
    with pytest.raises(InternalError, match="without rows"):
        tables.stage_written(at, [])


def test_a_merge_replaces_whole_rows_and_adds_new_ones(tables: Tables) -> None:
    at = filled(tables, "abc")
    staged = tables.stage_merge(at, people("bd", [1, 2]))
    assert (staged.rows_added, staged.rows_deleted) == (2, 1)
    landed = land(tables, staged)
    assert ages(tables, landed.at) == {"a": 30, "b": 1, "c": 30, "d": 2}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (SCHEMA.empty_table(), "without rows"),
        (people("aba"), "twice in one upsert: a"),
        (people(["a", "b"]).set_column(0, "id", pa.array(["a", None])), "no id"),
    ],
)
def test_a_merge_refuses_a_source_it_could_not_apply(
    tables: Tables, rows: pa.Table, says: str
) -> None:
    at = filled(tables, "ab")
    with counting() as costs, pytest.raises(InternalError, match=says):
        tables.stage_merge(at, rows)
    assert costs.as_dict() == {}


def test_an_overwrite_replaces_everything_and_may_leave_nothing(tables: Tables) -> None:
    at = filled(tables, "abc")
    at = land(tables, tables.stage_overwrite(at, people("x"))).at
    assert ages(tables, at) == {"x": 30}
    staged = tables.stage_overwrite(at, SCHEMA.empty_table())
    assert (staged.rows_added, staged.rows_deleted) == (0, 1)
    landed = land(tables, staged)
    assert (landed.row_count, tables.open(landed.at).fragments()) == (0, ())


def test_an_overwrite_may_bring_another_schema(tables: Tables) -> None:
    at = filled(tables, "ab")
    other = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.float64())])
    rows = pa.table({"id": ["a"], "age": [1.5]}, schema=other)
    table = tables.open(land(tables, tables.stage_overwrite(at, rows)).at)
    assert table.schema == other
    assert table.read().to_pylist() == [{"id": "a", "age": 1.5}]


def test_a_delete_takes_only_what_is_there(tables: Tables) -> None:
    at = filled(tables, "abc")
    assert tables.stage_delete(at, pa.array(["x", None])) is None
    assert tables.stage_delete(at, pa.array([], pa.string())) is None
    staged = tables.stage_delete(at, pa.array(["a", "x", "a", None]))
    assert staged is not None
    assert (staged.kind, staged.rows_deleted) == (StagedKind.DELETE, 1)
    assert set(ages(tables, land(tables, staged).at)) == {"b", "c"}


def test_fragments_of_workers_land_in_one_commit(tables: Tables, store_root: StoreRoot) -> None:
    at = filled(tables, "ab")
    worker = open_root(store_root).tables
    written = [worker.write(at, people([f"w{i}"])) for i in range(3)]
    assert [part.rows for part in written] == [1, 1, 1]
    landed = land(tables, tables.stage_written(at, written))
    assert landed.at == next_of(at)
    assert set(ages(tables, landed.at)) == {"a", "b", "w0", "w1", "w2"}


def test_an_upsert_and_a_delete_fit_one_commit(tables: Tables) -> None:
    at = filled(tables, "abcd")
    before = identities(tables, at)
    staged = tables.stage_merge(at, people("bx", 1), deletes=pa.array(["d", "nobody", None]))
    assert (staged.rows_added, staged.rows_deleted) == (2, 2)
    landed = land(tables, staged)
    assert landed.at == next_of(at)
    assert ages(tables, landed.at) == {"a": 30, "b": 1, "c": 30, "x": 1}
    assert identities(tables, landed.at)["b"][:2] == before["b"][:2]
    staged = tables.stage_merge(landed.at, people("y"), deletes=pa.array(["a"]))
    assert set(ages(tables, land(tables, staged).at)) == {"b", "c", "x", "y"}


def test_an_id_is_not_written_and_deleted_at_once(tables: Tables) -> None:
    at = filled(tables, "ab")
    with pytest.raises(InternalError, match="written and deleted"):
        tables.stage_merge(at, people("ax"), deletes=pa.array(["a"]))


def test_an_update_that_workers_wrote_lands_in_one_commit(
    tables: Tables, store_root: StoreRoot
) -> None:
    at = filled(tables, "abcd")
    before = identities(tables, at)
    found = tables.open(at).lookup(
        "id", pa.array(["b", "d"]), ("id",), row_id=True, row_address=True
    )
    found = found.sort_by("_rowid")
    worker = open_root(store_root).tables
    written = [
        worker.write(at, people("bd", 1), row_ids=found["_rowid"].combine_chunks()),
        worker.write(at, people("x", 2)),
    ]
    staged = tables.stage_update(at, written, found["_rowaddr"].combine_chunks())
    assert (staged.kind, staged.rows_added, staged.rows_deleted) == (StagedKind.MERGE, 3, 2)
    landed = land(tables, staged)
    assert landed.at == next_of(at)
    assert ages(tables, landed.at) == {"a": 30, "b": 1, "c": 30, "d": 1, "x": 2}
    after = identities(tables, landed.at)
    assert [after[name][:2] for name in "abcd"] == [before[name][:2] for name in "abcd"]


# ---- identity of rows


def identities(tables: Tables, at: TableAt) -> dict[str, tuple[int, int, int]]:
    columns = ("id", "_row_created_at_version", "_row_last_updated_at_version")
    rows = tables.open(at).read(columns, row_id=True).to_pylist()
    return {
        r["id"]: (r["_rowid"], r["_row_created_at_version"], r["_row_last_updated_at_version"])
        for r in rows
    }


def test_an_updated_row_keeps_its_row_id_and_birth(tables: Tables) -> None:
    at = filled(tables, "abcd")
    at = land(tables, tables.stage_indices(at, [ID_INDEX])).at
    before = identities(tables, at)
    at = land(tables, tables.stage_merge(at, people("dax"))).at
    after = identities(tables, at)
    born = at.version
    for name in "ad":
        assert after[name] == (before[name][0], before[name][1], born)
    assert {name: after[name] for name in "bc"} == {name: before[name] for name in "bc"}
    assert after["x"][1:] == (born, born)
    again = identities(tables, land(tables, tables.stage_merge(at, people("xa"))).at)
    assert (again["x"][:2], again["a"][:2]) == (after["x"][:2], after["a"][:2])
    assert len({row_id for row_id, *_ in again.values()}) == 5


def test_row_ids_are_never_given_out_twice(tables: Tables) -> None:
    at = filled(tables, "abc")
    seen: set[int] = set()
    for number in range(4):
        at = land(tables, tables.stage_merge(at, people(["a", f"n{number}"]))).at
        at = land(tables, tables.stage_append(at, people([f"p{number}"]))).at
        rows = identities(tables, at)
        assert len({row_id for row_id, *_ in rows.values()}) == len(rows)
        fresh = {rows[f"n{number}"][0], rows[f"p{number}"][0]}
        assert not fresh & seen
        seen |= {row_id for row_id, *_ in rows.values()}


# ---- forks


def test_a_fork_starts_from_its_source_and_goes_its_own_way(tables: Tables) -> None:
    at = filled(tables, "ab")
    forked = tables.fork(at, "feature/x")
    assert forked == TableAt(path=PEOPLE, branch="feature/x", version=at.version)
    mine = land(tables, tables.stage_merge(forked, people("ac", [1, 2]))).at
    theirs = land(tables, tables.stage_append(at, people("z"))).at
    assert ages(tables, mine) == {"a": 1, "b": 30, "c": 2}
    assert ages(tables, theirs) == {"a": 30, "b": 30, "z": 30}
    assert tables.head(PEOPLE, "feature/x") == mine.version
    ref = tables.forks(PEOPLE)["feature/x"]
    assert (ref.parent, ref.parent_version) == (None, at.version)


def test_a_fork_of_a_fork_names_its_parent(tables: Tables) -> None:
    at = tables.fork(filled(tables, "a"), "one")
    at = land(tables, tables.stage_append(at, people("b"))).at
    deeper = tables.fork(at, "two")
    assert set(ages(tables, deeper)) == {"a", "b"}
    assert tables.forks(PEOPLE)["two"].parent == "one"


# ---- what a column change keeps


def test_columns_come_go_and_are_renamed_without_a_rewrite(tables: Tables) -> None:
    at = filled(tables, "ab")
    at = land(tables, tables.stage_indices(at, [AGE_INDEX])).at
    files = [f.files for f in tables.open(at).fragments()]
    staged = tables.stage_columns(
        at,
        [
            RenameColumn("age", "years"),
            DropColumn("taste"),
            AddColumn(pa.field("tags", pa.list_(pa.string()))),
            AddColumn(pa.field("scan", pa.large_binary())),
        ],
    )
    table = tables.open(land(tables, staged).at)
    assert table.schema.names == ["id", "bio", "photo", "scan", "tags", "years"]
    assert [f.files for f in table.fragments()] == files
    assert table.read(("id", "years", "tags")).to_pylist() == [
        {"id": "a", "years": 30, "tags": None},
        {"id": "b", "years": 30, "tags": None},
    ]
    assert "ScalarIndexQuery" in table.explain("years = 30")


def test_a_column_dropped_and_added_again_starts_empty(tables: Tables) -> None:
    at = filled(tables, "ab")
    at = land(tables, tables.stage_columns(at, [DropColumn("age")])).at
    at = land(tables, tables.stage_columns(at, [AddColumn(pa.field("age", pa.int64()))])).at
    assert ages(tables, at) == {"a": None, "b": None}
    at = land(tables, tables.stage_merge(at, people("b", 5))).at
    assert ages(tables, at) == {"a": None, "b": 5}


def test_the_number_of_a_column_outlives_its_name(tables: Tables) -> None:
    at = filled(tables, "ab")
    before = tables.open(at).field_ids
    at = land(
        tables, tables.stage_columns(at, [RenameColumn("age", "years"), DropColumn("bio")])
    ).at
    at = land(tables, tables.stage_columns(at, [AddColumn(pa.field("bio", pa.string()))])).at
    after = tables.open(at).field_ids
    assert after["years"] == before["age"]
    assert after["bio"] not in before.values()


def test_foreign_auto_cleanup_is_stripped_before_it_deletes(tables: LanceTables) -> None:
    at = filled(tables, "ab")
    assert tables.stage_settings(at) is None
    keys: dict[str, str | None] = {
        "lance.auto_cleanup.interval": "1",
        "lance.auto_cleanup.older_than": "0s",
    }
    foreign = copy(tables._datasets.at(at))
    foreign.update_config(keys)
    at = next_of(at)
    assert tables.open(at).auto_cleanup_keys() == tuple(sorted(keys))
    kept = [ref["version"] for ref in foreign.version_refs()]
    staged = tables.stage_settings(at)
    assert staged is not None
    assert staged.kind is StagedKind.SETTINGS
    at = land(tables, staged).at
    assert tables.open(at).auto_cleanup_keys() == ()
    for name in "cde":
        at = land(tables, tables.stage_append(at, people(name))).at
    tables.forget()
    for version in (*kept, *range(at.version - 3, at.version + 1)):
        tables.open(TableAt(path=PEOPLE, branch=None, version=Version(version)))


def test_many_changes_in_one_step_never_share_a_column(tables: Tables) -> None:
    at = filled(tables, "a")
    changes: list[AddColumn | DropColumn | RenameColumn] = [
        AddColumn(pa.field("p", pa.list_(pa.int64()))),
        DropColumn("bio"),
        AddColumn(pa.field("q", pa.string())),
        RenameColumn("q", "r"),
        AddColumn(pa.field("s", pa.int64())),
    ]
    at = land(tables, tables.stage_columns(at, changes)).at
    row = {"id": "b", "age": 1, "p": [4], "r": "x", "s": 9, "photo": None, "taste": None}
    names = tables.open(at).schema
    rows = pa.table([pa.array([row[f.name]], f.type) for f in names], schema=names)
    at = land(tables, tables.stage_append(at, rows)).at
    found = tables.open(at).read(filter="id = 'b'").to_pylist()
    assert found == [row]
    assert tables.open(at).read(("p", "r", "s"), "id = 'a'").to_pylist() == [
        {"p": None, "r": None, "s": None}
    ]


@pytest.mark.parametrize(
    "changes",
    [
        [AddColumn(pa.field("age", pa.int64()))],
        [AddColumn(pa.field("must", pa.int64(), nullable=False))],
        [DropColumn("nothing")],
        [RenameColumn("nothing", "something")],
        [RenameColumn("age", "bio")],
        [DropColumn("age"), AddColumn(pa.field("age", pa.string()))],
        [RenameColumn("age", "years"), AddColumn(pa.field("age", pa.int64()))],
    ],
)
def test_column_changes_that_do_not_fit_are_refused(tables: Tables, changes: Any) -> None:
    at = filled(tables, "a")
    with pytest.raises(InternalError, match="does not fit"):
        tables.stage_columns(at, changes)


# ---- indices and compaction


def test_all_missing_indices_are_built_in_one_commit(tables: Tables) -> None:
    at = filled(tables, "abc")
    at = land(tables, tables.stage_append(at, people("d", taste=[[0, 1, 0, 0]], bio=["x"]))).at
    landed = land(tables, tables.stage_indices(at, [ID_INDEX, AGE_INDEX, BIO_INDEX, TASTE_INDEX]))
    assert landed.at == next_of(at)
    found = {(i.column, i.kind) for i in tables.open(landed.at).indices()}
    assert found == {
        ("id", IndexKind.BTREE),
        ("age", IndexKind.BTREE),
        ("bio", IndexKind.TEXT),
        ("taste", IndexKind.VECTOR),
    }
    assert tables.stage_indices(landed.at, [ID_INDEX, BIO_INDEX]) is None


def test_an_empty_table_has_nothing_to_index(tables: Tables) -> None:
    assert tables.stage_indices(tables.create(PEOPLE, SCHEMA), [ID_INDEX]) is None


def test_new_fragments_are_uncovered_until_a_delta_covers_them(tables: Tables) -> None:
    at = land(tables, tables.stage_indices(filled(tables, "ab"), [ID_INDEX])).at
    assert tables.open(at).uncovered("id", IndexKind.BTREE) == ()
    at = land(tables, tables.stage_append(at, people("c"))).at
    assert len(tables.open(at).uncovered("id", IndexKind.BTREE)) == 1
    assert len(tables.open(at).uncovered("age", IndexKind.BTREE)) == 2
    at = land(tables, tables.stage_indices(at, [ID_INDEX])).at
    table = tables.open(at)
    (info,) = table.indices()
    assert (table.uncovered("id", IndexKind.BTREE), len(info.segments)) == ((), 2)
    assert table.read(("id",), "id >= 'b'").to_pylist() == [{"id": "b"}, {"id": "c"}]


def test_an_index_of_many_pieces_is_built_anew(tables: Tables) -> None:
    at = filled(tables, "a")
    for number in range(10):
        at = land(tables, tables.stage_append(at, people([f"n{number}"]))).at
        at = land(tables, tables.stage_indices(at, [ID_INDEX])).at
    table = tables.open(at)
    (info,) = table.indices()
    assert len(info.segments) <= 8
    assert table.uncovered("id", IndexKind.BTREE) == ()
    for number in range(10):
        assert table.read(("id",), f"id = 'n{number}'").num_rows == 1


def test_a_renamed_column_leaves_its_index_name_to_nobody(tables: Tables) -> None:
    at = land(tables, tables.stage_indices(filled(tables, "ab"), [AGE_INDEX])).at
    at = land(tables, tables.stage_columns(at, [RenameColumn("age", "years")])).at
    at = land(tables, tables.stage_columns(at, [AddColumn(pa.field("age", pa.int64()))])).at
    at = land(tables, tables.stage_indices(at, [AGE_INDEX])).at
    found = {i.column for i in tables.open(at).indices()}
    assert found == {"years", "age"}
    assert tables.open(at).read(("id",), "years = 30").num_rows == 2
    assert tables.open(at).read(("id",), "age = 30").num_rows == 0


def test_an_overwrite_uncovers_and_answers_stay_right(tables: Tables) -> None:
    at = land(tables, tables.stage_indices(filled(tables, "ab"), [ID_INDEX])).at
    at = land(tables, tables.stage_overwrite(at, people("xyz"))).at
    table = tables.open(at)
    assert len(table.uncovered("id", IndexKind.BTREE)) == 1
    assert table.read(("id",), "id = 'a'").num_rows == 0
    assert table.read(("id",), "id = 'y'").num_rows == 1


def test_compaction_keeps_rows_and_their_indexes_are_completed(tables: Tables) -> None:
    at = filled(tables, "a")
    for name in "bcdef":
        at = land(tables, tables.stage_append(at, people(name))).at
    at = land(tables, tables.stage_delete(at, pa.array(["c"]))).at
    at = land(tables, tables.stage_indices(at, [ID_INDEX, BIO_INDEX])).at
    before = identities(tables, at)
    staged = tables.stage_compaction(at)
    assert staged is not None
    assert (staged.fragments_added, staged.fragments_removed) == (1, 5)
    at = land(tables, staged).at
    table = tables.open(at)
    assert identities(tables, at) == before
    assert len(table.fragments()) == 1
    assert table.uncovered("id", IndexKind.BTREE) == (table.fragments()[0].id,)
    assert table.uncovered("bio", IndexKind.TEXT) == ()
    assert table.read(("id",), "id = 'd'").num_rows == 1
    at = land(tables, tables.stage_indices(at, [ID_INDEX, BIO_INDEX])).at
    table = tables.open(at)
    assert table.uncovered("id", IndexKind.BTREE) == ()
    assert [len(info.segments) for info in table.indices()] == [1, 1]
    assert tables.stage_compaction(at) is None


# ---- opening


def test_a_warm_open_touches_nothing(tables: Tables) -> None:
    at = filled(tables, "a")
    tables.open(at)
    with counting() as costs:
        assert tables.open(at) is tables.open(at)
    assert costs.as_dict() == {}


def test_what_a_commit_made_is_open_already(tables: Tables) -> None:
    at = filled(tables, "a")
    staged = tables.stage_append(at, people("b"))
    with counting() as costs:
        landed = land(tables, staged)
        assert tables.open(landed.at).count() == 2
        assert tables.head(PEOPLE, None) == landed.at.version
    assert costs[Cost.TABLE_OPENS] == 0
    assert (costs[Cost.TABLE_COMMITS], costs[Cost.TABLE_PROBES]) == (1, 1)


def test_a_keyed_write_opens_its_table_at_most_once(tables: Tables) -> None:
    at = filled(tables, "abc")
    await_openings()
    tables.forget()
    with counting() as costs:
        land(tables, tables.stage_merge(at, people("b")))
    assert costs[Cost.TABLE_OPENS] == 1
    assert (costs[Cost.STAGE_MERGE], costs[Cost.STAGE_MERGE_ROWS]) == (1, 1)
    assert costs[Cost.STAGE_APPEND] == 0


def test_old_versions_stay_as_they_were(tables: Tables) -> None:
    at = filled(tables, "ab")
    old = tables.open(at)
    land(tables, tables.stage_overwrite(at, people("z")))
    assert set(old.read(("id",))["id"].to_pylist()) == {"a", "b"}
    tables.forget()
    assert set(ages(tables, at)) == {"a", "b"}


@pytest.fixture
def torn(tables: Tables) -> TableAt:
    return filled(tables, "a")


def test_a_stream_that_breaks_leaves_the_table_alone(tables: Tables, torn: TableAt) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield people("b").to_batches()[0]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        tables.stage_append(torn, pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert tables.head(PEOPLE, None) == torn.version
    land(tables, tables.stage_append(torn, people("b")))


def test_operation_ids_are_told_apart(tables: Tables) -> None:
    at = filled(tables, "a")
    (info,) = tables.transactions(PEOPLE, None, Version(1), at.version)
    assert info.operation_id == OPERATION
