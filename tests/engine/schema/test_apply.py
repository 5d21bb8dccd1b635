"""A schema is changed in one commit: rows, ids and places stay, what is dropped goes from the present only."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.texts import schema_of
from omnigraphdb.catalog.diff import types
from omnigraphdb.catalog.diff.steps import StepKind
from omnigraphdb.catalog.ir.contract import create_contract
from omnigraphdb.engine.maintenance.indexes import ensure_indices
from omnigraphdb.engine.schema.apply import apply_schema
from omnigraphdb.engine.schema.work import work_of
from omnigraphdb.errors import (
    EngineError,
    HistoryReclaimed,
    NotFound,
    NotFoundError,
    OmniError,
    QueryError,
    ReadOnlyError,
    RecoveryRequired,
    SchemaApplyConflict,
    SchemaError,
    UnsupportedSchemaChange,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import Step
from tests.support.merge_ways import by_runner
from tests.support.schema_changes import BASE, RECORDS, VARIANTS, content, made
from tests.support.settled import assert_settled


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with made(tmp_path / "g") as opened:
        yield opened
        assert opened.doctor() == []


def place(graph: Graph, key: str) -> tuple[str, int]:
    """Where a table is, and at which version."""
    entry = graph.snapshot()._view.snapshot.entries[key]  # type: ignore[index]
    return entry.at.path, entry.version


def files(graph: Graph, key: str, folder: str = "data") -> dict[str, str]:
    """The files of a table, with their digests."""
    root = Path(graph.uri) / place(graph, key)[0] / folder
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in root.iterdir()}


# ---- one commit


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_change_is_one_commit_by_its_caller_and_planning_it_again_is_empty(
    graph: Graph, variant: str
) -> None:
    before, planned = graph.commits()[0], graph.schema_plan(VARIANTS[variant])
    done = graph.schema_apply(VARIANTS[variant], actor="ann")
    assert done.applied
    assert done.steps == planned.steps
    assert done.commit is not None
    assert (done.commit.kind, done.commit.actor) == (CommitKind.SCHEMA_APPLY, "ann")
    assert done.commit.parent == before.id
    assert [commit.id for commit in graph.commits(since=before)] == [done.commit.id]
    assert done.manifest_version == done.commit.manifest_version
    assert graph.schema_plan(VARIANTS[variant]).steps == ()
    assert graph.schema_source == VARIANTS[variant]


def test_a_schema_that_means_the_same_changes_nothing(graph: Graph) -> None:
    before = (graph.commits(), graph.snapshot().to_dict())
    done = graph.schema_apply("// the same\n" + BASE)
    assert (done.applied, done.commit, done.step_count) == (False, None, 0)
    assert (graph.commits(), graph.snapshot().to_dict()) == before
    assert graph.schema_source == BASE


def test_planning_changes_nothing_and_works_on_a_read_only_handle(graph: Graph) -> None:
    before = graph.snapshot().to_dict()
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        assert reader.schema_plan(VARIANTS["mixed"]).supported
        with pytest.raises(ReadOnlyError):
            reader.schema_apply(VARIANTS["mixed"])
    assert graph.snapshot().to_dict() == before


def test_a_schema_text_that_is_wrong_is_refused_before_anything_is_looked_at(graph: Graph) -> None:
    with pytest.raises(SchemaError):
        graph.schema_apply("node {")


# ---- what is kept


def test_a_new_nullable_property_writes_no_row(graph: Graph) -> None:
    before = files(graph, "node:Person")
    graph.schema_apply(VARIANTS["add properties"])
    assert files(graph, "node:Person") == before
    found = graph.query("query q() { match { $p: Person } return { $p, $p.age, $p.born } }")
    assert [tuple(row.values()) for row in found.rows] == [("Ada", 36, None), ("Bob", None, None)]
    graph.mutate('query m() { update Person set { born: date("1815-12-10") } where name = "Ada" }')
    assert graph.entity("Person", "Ada")["born"] == "1815-12-10"  # type: ignore[index]


def test_a_renamed_type_keeps_its_table_and_every_row_and_edge(graph: Graph) -> None:
    ensure_indices(graph._engine)
    before = place(graph, "node:City")
    graph.schema_apply(VARIANTS["rename a type"])
    assert place(graph, "node:Town") == before
    found = graph.query("query q() { match { $p: Person  $p lives $t } return { $p, $t.note } }")
    assert found.rows == [{"p": "Ada", "t.note": "old"}]
    graph.mutate('query m() { insert Town { name: "Oslo" } }')
    with pytest.raises(QueryError):
        graph.query("query q() { match { $c: City } return { $c } }")


def test_a_renamed_property_keeps_values_ids_and_index(tmp_path: Path) -> None:
    schema = "node Item { a: I32  b: I32  @key(a, b)  rank: I32? @index }"
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "Item", "data": {"a": 1, "b": 2, "rank": 7}}], mode="append")
        ids = graph.table("Item")["id"].to_pylist()
        renamed = (
            schema.replace("a: I32  ", 'z: I32 @rename_from("a")  ')
            .replace("@key(a, b)", "@key(b, z)")
            .replace("rank: I32?", 'level: I32? @rename_from("rank")')
        )
        assert graph.schema_apply(renamed).pending_indexes == ()
        assert graph.table("Item").to_pylist() == [{"id": ids[0], "b": 2, "level": 7, "z": 1}]
        graph.load([{"type": "Item", "data": {"z": 1, "b": 2, "level": 8}}], mode="merge")
        assert graph.table("Item")["id"].to_pylist() == ids
        assert graph.doctor() == []


def test_widening_an_enum_touches_no_table(graph: Graph) -> None:
    ensure_indices(graph._engine)
    before = {key: place(graph, key) for key in graph.snapshot().tables()}
    graph.schema_apply(VARIANTS["metadata only"])
    assert {key: place(graph, key) for key in graph.snapshot().tables()} == before
    graph.mutate('query m() { update Person set { mood: "shy" } where name = "Ada" }')


def test_every_property_type_can_be_added_to_a_table_with_rows(graph: Graph) -> None:
    kinds = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"]
    kinds += ["Blob", "[String]", "Vector(3)", "enum(a, b)"]
    added = "  ".join(f"p{n}: {kind}?" for n, kind in enumerate(kinds))
    graph.schema_apply(BASE.replace("note: String?", f"note: String?  {added}"))
    (row,) = graph.table("City").to_pylist()
    assert {row[f"p{n}"] for n in range(len(kinds))} == {None}
    graph.load([{"type": "City", "data": {"name": "Oslo", "p12": [1, 2, 3]}}], mode="append")
    assert graph.entity("City", "Oslo")["p12"] == [1.0, 2.0, 3.0]  # type: ignore[index]


def test_a_new_index_is_built_after_the_change(graph: Graph) -> None:
    done = graph.schema_apply(BASE.replace("age: I32?", "age: I32? @index"))
    assert done.pending_indexes == ()
    entry = graph.snapshot()._view.snapshot.entries["node:Person"]  # type: ignore[index]
    columns = {one.column for one in graph._engine.store.tables.open(entry.at).indices()}
    assert "age" in columns
    assert graph.commits()[0].id == done.commit.id  # type: ignore[union-attr]


def test_an_index_that_cannot_be_built_is_pending_and_the_change_stands(graph: Graph) -> None:
    # The first sidecar is the schema change's own, the second that of the index build.
    with armed(Failpoint.SIDECAR_WRITE, "skip(1)+error"):
        done = graph.schema_apply(BASE.replace("age: I32?", "age: I32? @index"))
    assert done.applied
    assert "node:Person.age" in done.pending_indexes


# ---- what is dropped


def test_a_dropped_property_is_gone_now_and_there_in_the_past(graph: Graph) -> None:
    before = graph.commits()[0]
    graph.schema_apply(VARIANTS["drop a property"])
    assert "age" not in graph.table("Person").column_names
    assert graph.entity("Person", "Ada", at=before)["age"] == 36  # type: ignore[index]
    assert graph.table("Person", at=before)["age"].to_pylist() == [36, None]


def test_a_dropped_type_is_gone_now_and_there_in_the_past(graph: Graph) -> None:
    before = graph.commits()[0]
    graph.schema_apply(VARIANTS["drop a type"])
    with pytest.raises(NotFound):
        graph.table("Lives")
    assert graph.table("Lives", at=before)["since"].to_pylist() == [1840]
    assert graph.entity("Lives", "l1", at=before)["src"] == "Ada"  # type: ignore[index]


def test_a_name_that_comes_back_is_a_new_type_with_a_new_table(graph: Graph) -> None:
    before = graph.commits()[0]
    first = place(graph, "edge:Lives")[0]
    graph.schema_apply(VARIANTS["drop a type"])
    graph.schema_apply(BASE)
    assert place(graph, "edge:Lives")[0] not in (first, "")
    assert graph.table("Lives").num_rows == 0
    edges = "query q() { match { $p: Person  $p lives $c } return { $c } }"
    assert graph.query(edges).rows == []
    assert graph.query(edges, at=before).rows == [{"c": "Rome"}]  # what was stored then
    graph.mutate('query m() { insert Lives { from: "Bob", to: "Rome" } }')
    assert graph.query(edges).rows == [{"c": "Rome"}]


def test_the_past_of_a_renamed_type_is_read_by_either_name(graph: Graph) -> None:
    before = graph.commits()[0]
    graph.schema_apply(VARIANTS["rename a type and a property"])
    towns = graph.query("query q() { match { $t: Town } return { $t } }", at=before)
    assert towns.rows == [{"t": "Rome"}]
    for name in ("Town", "City"):
        assert graph.entity(name, "Rome", at=before)["note"] == "old"  # type: ignore[index]
        assert graph.table(name, at=before)["note"].to_pylist() == ["old"]


def test_a_hard_drop_takes_a_property_out_of_history_and_out_of_the_files(graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": "Eve", "age": 1_234_567}}], mode="append")
    before = graph.commits()[0]
    done = graph.schema_apply(VARIANTS["drop a property"], allow_data_loss=True)
    assert done.warnings == ()
    assert graph.table("Person")["id"].to_pylist() == ["Ada", "Bob", "Eve"]
    with pytest.raises(NotFoundError):
        graph.table("Person", at=before)
    assert graph.table("City", at=before).num_rows == 1
    secret = (1_234_567).to_bytes(4, "little")
    root = Path(graph.uri) / place(graph, "node:Person")[0]
    assert not [one for one in (root / "data").iterdir() if secret in one.read_bytes()]


def test_a_hard_drop_removes_the_table_of_a_type(graph: Graph) -> None:
    before, path = graph.commits()[0], place(graph, "edge:Lives")[0]
    graph.schema_apply(VARIANTS["drop a type"], allow_data_loss=True)
    assert not (Path(graph.uri) / path).exists()
    walk = "query q() { match { $p $l:lives $c } return { $l.since } }"
    for read in (
        lambda: graph.table("Lives", at=before),
        lambda: graph.entity("Lives", "l1", at=before),
        lambda: graph.query(walk, at=before),
    ):
        with pytest.raises(HistoryReclaimed, match="edge:Lives"):
            read()
    assert graph.table("City", at=before).num_rows == 1


def test_a_hard_drop_keeps_blobs_vectors_and_lists_of_what_stays(tmp_path: Path) -> None:
    schema = "node Doc { name: String @key  body: Blob?  v: Vector(2)?  tags: [String]?  x: I32? }"
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        doc = {"name": "a", "body": "base64:aGVsbG8=", "v": [1, 2], "tags": ["t"], "x": 5}
        graph.load([{"type": "Doc", "data": doc}], mode="append")
        graph.schema_apply(schema.replace("  x: I32?", ""), allow_data_loss=True)
        (row,) = graph.table("Doc").to_pylist()
        assert row == {"id": "a", "name": "a", "body": b"hello", "v": [1.0, 2.0], "tags": ["t"]}
        assert graph.doctor() == []


def load_docs(graph: Graph) -> None:
    for part in range(3):
        docs = [
            {"name": f"{part}{n}", "body": "base64:aGVsbG8=", "v": [n, part], "x": n}
            for n in range(4)
        ]
        graph.load([{"type": "Doc", "data": doc} for doc in docs], mode="append", spark=False)
    graph.mutate('query d() { delete Doc where name = "11" }')


DOCS = "node Doc { name: String @key  body: Blob?  v: Vector(2)?  x: I32? }"
NO_BOUND = {"small_work_rows": 0, "small_work_bytes": 0}


def test_a_hard_drop_in_steps_writes_what_one_in_memory_writes(tmp_path: Path) -> None:
    found = []
    for name, config in (("memory", {}), ("steps", NO_BOUND)):
        with omnigraphdb.init(tmp_path / name, DOCS, config=config) as graph:
            load_docs(graph)
            done = graph.schema_apply(
                DOCS.replace("  x: I32?", ""), allow_data_loss=True, spark=False
            )
            found.append(graph.table("Doc").to_pylist())
            assert ("in steps" in done.reason, done.engine) == (name == "steps", "local")
            assert done.to_dict()["reason"] == done.reason
            assert graph.doctor() == []
    assert found[0] == found[1]
    assert len(found[0]) == 11


def test_a_change_that_writes_no_row_anew_says_so(graph: Graph) -> None:
    done = graph.schema_apply(VARIANTS["drop a property"])
    assert (done.engine, done.reason) == ("local", "no row is written anew")


class BrokenRunner(LocalRunner):
    """A runner whose tasks die."""

    def run(self, step: Step) -> pa.Table:
        raise EngineError(f"step '{step.name}' failed on Spark: it died")


def test_a_hard_drop_whose_workers_die_is_taken_back(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", DOCS) as graph:
        load_docs(graph)
        before = graph.table("Doc").to_pylist()
        source = schema_of(DOCS.replace("  x: I32?", ""))
        with pytest.raises(RecoveryRequired, match="step 'rewrite' failed on Spark: it died"):
            apply_schema(
                graph._engine,
                source,
                allow_data_loss=True,
                choose_runner=by_runner(BrokenRunner(1)),
            )
    with omnigraphdb.open(tmp_path / "g") as again:
        assert again.table("Doc").to_pylist() == before
        assert_settled(again)


# ---- what is refused


def test_an_unsupported_change_names_its_code_and_the_rows_at_risk_and_touches_nothing(
    graph: Graph,
) -> None:
    before = (graph.schema_source, content(graph), graph.snapshot().to_dict())
    with pytest.raises(UnsupportedSchemaChange, match=r"OG-MF-106.*2 rows are stored"):
        graph.schema_apply(BASE.replace("age: I32?", "age: I64?"))
    assert (graph.schema_source, content(graph), graph.snapshot().to_dict()) == before


def test_branches_stand_in_the_way_until_they_are_gone(graph: Graph) -> None:
    graph.branch_create("side")
    with pytest.raises(SchemaApplyConflict, match="side") as refused:
        graph.schema_apply(VARIANTS["add types"])
    assert refused.value.hint == "merge or delete them first"
    graph.branch_delete("side")
    assert graph.schema_apply(VARIANTS["add types"]).applied
    graph.branch_create("side")
    graph.on("side").load([{"type": "Pet", "data": {"name": "Rex"}}], mode="append")


def test_a_branch_cannot_start_before_a_change_of_the_schema(graph: Graph) -> None:
    before = graph.commits()[0]
    done = graph.schema_apply(VARIANTS["add properties"])
    with pytest.raises(UserInputError, match="schema changed"):
        graph.branch_create("old", at=before)
    graph.branch_create("new", at=done.commit)
    assert graph.table("Person", branch="new").num_rows == 2


def test_a_second_handle_sees_the_new_schema_at_once(graph: Graph) -> None:
    with omnigraphdb.open(graph.uri) as other:
        assert other.table("Person").num_rows == 2
        graph.schema_apply(VARIANTS["mixed"])
        assert other.schema_source == VARIANTS["mixed"]
        assert other.table("Human")["years"].to_pylist() == [36, None]
        other.load([{"type": "Pet", "data": {"name": "Rex"}}], mode="append")
    assert graph.table("Pet").num_rows == 1


# ---- many changes in a row


def test_a_long_chain_of_changes_keeps_every_row_and_all_of_history(graph: Graph) -> None:
    marks = []
    for round_ in range(6):
        last = f"c{round_ - 1}" if round_ else "note"
        text = BASE.replace("note: String?", f'c{round_}: String? @rename_from("{last}")')
        text = text.replace("age: I32?", f"age: I32?  x{round_}: I64?")
        graph.schema_apply(text)
        marks.append(graph.commits()[0])
    assert graph.table("City").to_pylist() == [{"id": "Rome", "name": "Rome", "c5": "old"}]
    for round_, mark in enumerate(marks):
        assert graph.table("City", at=mark)[f"c{round_}"].to_pylist() == ["old"]
        assert graph.table("Person", at=mark).schema.field(f"x{round_}").type == pa.int64()


def test_a_table_that_nobody_registered_is_no_obstacle(graph: Graph) -> None:
    desired = VARIANTS["add types"]
    home = work_of(
        graph._engine.contracts.current().contract, omnigraphdb.parse_schema(desired)
    ).created
    left = next(iter(home.values()))
    graph._engine.store.tables.create(left.path, left.schema)
    assert graph.schema_apply(desired).applied
    assert graph.table("Pet").num_rows == 0


def test_steps_and_table_work_agree() -> None:
    accepted = create_contract(omnigraphdb.parse_schema(BASE), "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for text in VARIANTS.values():
        desired = omnigraphdb.parse_schema(text)
        work = work_of(accepted, desired)
        kinds = [s.kind for s in types.plan(accepted.catalog, desired).steps]
        assert len(work.created) == kinds.count(StepKind.ADD_TYPE)
        assert len(work.renamed) == kinds.count(StepKind.RENAME_TYPE)
        assert len(work.dropped) == kinds.count(StepKind.DROP_TYPE)
        columns = (StepKind.ADD_PROPERTY, StepKind.RENAME_PROPERTY, StepKind.DROP_PROPERTY)
        changes = sum(len(one) for one in work.reshaped.values())
        assert changes == sum(kind in columns for kind in kinds)


def test_the_records_are_loadable_before_and_after_a_rename(graph: Graph) -> None:
    graph.schema_apply(VARIANTS["rename a type"])
    renamed = [{**one, "type": "Town"} if one.get("type") == "City" else one for one in RECORDS]
    graph.load(renamed, mode="merge")
    assert content(graph)["node:Town"] == [{"id": "Rome", "name": "Rome", "note": "old"}]


def test_an_error_in_a_change_leaves_the_handle_usable(graph: Graph) -> None:
    with armed(Failpoint.SCHEMA_LOCKED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["mixed"])
    assert graph.schema_apply(VARIANTS["mixed"]).applied
