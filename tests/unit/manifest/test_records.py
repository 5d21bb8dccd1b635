"""Records become rows and rows become records, lives and all."""

import json

import pyarrow as pa
import pytest

from omnigraphdb.errors import InternalError
from omnigraphdb.ids import (
    MAIN,
    RECOVERY_ACTOR,
    BranchName,
    CommitId,
    OperationId,
    TableKey,
    Version,
)
from omnigraphdb.manifest.lineage import commits_of, decode_commits, find_commit, head_of
from omnigraphdb.manifest.merged import NO_COMMITS, ancestor_rows, find_merged_commits
from omnigraphdb.manifest.records import (
    MANIFEST_SCHEMA,
    CommitKind,
    GraphCommit,
    GraphHead,
    Operation,
    Record,
    Registration,
    TableVersion,
    Tag,
    Tombstone,
    encode,
    operation_of,
    operation_row,
    tag_of,
)
from omnigraphdb.manifest.table_history import read_table_history

PERSON = TableKey("node:Person")
REVIEW = BranchName("review")


def version(number: int, incarnation: int = 1, branch: str | None = None) -> TableVersion:
    return TableVersion(
        table_key=PERSON,
        path="nodes/p",
        version=Version(number),
        branch=branch,
        row_count=number * 10,
        incarnation=incarnation,
    )


def commit(name: str, at: int, created: int = 0, **facts: object) -> GraphCommit:
    return GraphCommit(
        id=CommitId(name),
        branch=MAIN,
        manifest_version=Version(at),
        created_at=created,
        kind=CommitKind.MUTATION,
        **facts,  # type: ignore[arg-type]
    )


def operation(key: str, actor: str | None = None, branch: BranchName = MAIN) -> Operation:
    return Operation(
        branch=branch,
        actor=actor,
        key=key,
        request="digest",
        operation_id=OperationId("01OP"),
        created_at=7,
        commit=CommitId("01C"),
        receipt={"affected_nodes": 1},
    )


def tag(name: str, commit_id: str | None = "01C") -> Tag:
    return Tag(
        name=name,
        commit=None if commit_id is None else CommitId(commit_id),
        branch=REVIEW,
        created_at=7,
        actor="ann",
    )


@pytest.mark.parametrize(
    ("record", "name", "kind"),
    [
        (Registration(table_key=PERSON, path="nodes/p"), "node:Person", "table"),
        (Registration(table_key=PERSON, path="nodes/p-2", incarnation=2), "node:Person#2", "table"),
        (version(7), "node:Person$00000000000000000007", "table_version"),
        (version(7, 3), "node:Person$00000000000000000007#3", "table_version"),
        (operation("k"), "op:main:ba8ca9ce44fb57e7ac79531ba9a4e9e5", "operation"),
        (tag("v1"), "tag:v1", "tag"),
        (
            Tombstone(table_key=PERSON, version=Version(8)),
            "node:Person$tombstone$00000000000000000008",
            "table_tombstone",
        ),
        (commit("01A", 4), "01A", "graph_commit"),
        (GraphHead(branch=MAIN, commit=None, parent=None), "graph_head:main", "graph_head"),
        (GraphHead(branch=REVIEW, commit=None, parent=None), "graph_head:review", "graph_head"),
    ],
)
def test_every_record_has_the_row_key_the_format_names(
    record: Record, name: str, kind: str
) -> None:
    row = encode([record]).to_pylist()[0]
    assert (row["object_id"], row["object_type"]) == (name, kind)


def test_rows_carry_the_payloads_of_the_format() -> None:
    rows = encode(
        [
            version(7, branch="review"),
            commit("01B", 9, 55, parent=CommitId("01A"), actor="ann"),
            GraphHead(branch=MAIN, commit=CommitId("01B"), parent=CommitId("01A")),
        ]
    ).to_pylist()
    assert rows[0]["table_branch"] == "review"
    assert (rows[0]["table_version"], rows[0]["row_count"]) == (7, 70)
    assert json.loads(rows[0]["metadata"])["manifest_path"].startswith("nodes/p/tree/review/")
    assert json.loads(rows[1]["metadata"]) == {
        "parent_commit_id": "01A",
        "actor_id": "ann",
        "created_at": 55,
        "kind": "mutation",
    }
    assert (rows[1]["table_version"], rows[1]["table_branch"], rows[1]["table_key"]) == (
        9,
        None,
        "",
    )
    assert json.loads(rows[2]["metadata"]) == {"head_commit_id": "01B", "parent_commit_id": "01A"}
    assert all(row["base_objects"] is None for row in rows)


def test_a_commit_survives_the_trip_with_every_field() -> None:
    sent = GraphCommit(
        id=CommitId("01C"),
        branch=REVIEW,
        manifest_version=Version(12),
        created_at=99,
        kind=CommitKind.BRANCH_MERGE,
        parent=CommitId("01A"),
        merged_parent=CommitId("01B"),
        actor="ann",
        tables=(TableKey("edge:K"), PERSON),
        operation_id=OperationId("01OP"),
        batch_id="b-7",
        batch_request="r-7",
    )
    assert commits_of(encode([sent])) == (sent,)
    assert find_commit(encode([sent]), sent.id) == sent
    assert find_commit(encode([sent]), CommitId("01Z")) is None


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"created_at": 1}, CommitKind.INIT),
        ({"created_at": 1, "parent_commit_id": "a"}, CommitKind.MUTATION),
        ({"created_at": 1, "parent_commit_id": "a", "kind": "of tomorrow"}, CommitKind.MUTATION),
        (
            {"created_at": 1, "parent_commit_id": "a", "actor_id": RECOVERY_ACTOR},
            CommitKind.RECOVERY,
        ),
        (
            {"created_at": 1, "parent_commit_id": "a", "merged_parent_commit_id": "b"},
            CommitKind.BRANCH_MERGE,
        ),
    ],
)
def test_a_commit_without_a_known_kind_tells_it_by_its_shape(
    facts: dict[str, object], kind: CommitKind
) -> None:
    rows = encode([commit("01A", 1)])
    at = rows.schema.get_field_index("metadata")
    rows = rows.set_column(at, "metadata", pa.array([json.dumps(facts)]))
    assert commits_of(rows)[0].kind is kind


def test_the_head_of_a_branch_never_written_is_the_greatest_by_version_then_time_then_id() -> None:
    rows = encode(
        [commit("01D", 3, 9), commit("01C", 4, 7), commit("01B", 4, 8), commit("01A", 4, 8)]
    )
    head = head_of(rows, MAIN)
    assert head is not None
    assert head.id == "01B"
    assert [c.id for c in commits_of(rows)] == ["01D", "01C", "01A", "01B"]
    assert head_of(encode([]), MAIN) is None


def test_the_head_is_the_commit_that_the_head_row_of_the_branch_names() -> None:
    commits = [commit("01A", 1), commit("01B", 2), commit("01C", 9)]
    rows = encode([*commits, GraphHead(branch=MAIN, commit=CommitId("01B"), parent=None)])
    head = head_of(rows, MAIN)
    assert head is not None
    assert head.id == "01B"
    other = head_of(rows, BranchName("side"))
    assert other is not None
    assert other.id == "01C"


# ---- lives


def test_a_snapshot_takes_the_greatest_version_not_the_last_row() -> None:
    rows = encode(
        [
            version(9, branch="review"),
            Registration(table_key=PERSON, path="nodes/p"),
            version(10),
            version(2),
        ]
    )
    life = read_table_history(rows).latest(PERSON)
    assert life is not None
    assert (life.version, life.branch, life.row_count, life.path) == (10, None, 100, "nodes/p")
    assert life.is_visible


@pytest.mark.parametrize(("tombstone", "visible"), [(6, True), (7, False), (8, False)])
def test_a_tombstone_hides_versions_up_to_its_own(tombstone: int, visible: bool) -> None:
    rows = encode(
        [
            Registration(table_key=PERSON, path="nodes/p"),
            version(7),
            Tombstone(table_key=PERSON, version=Version(tombstone)),
        ]
    )
    table_history = read_table_history(rows)
    assert [life.table_key for life in table_history.visible] == ([PERSON] if visible else [])


def test_a_tombstone_does_not_reach_into_the_next_life() -> None:
    rows = encode(
        [
            Registration(table_key=PERSON, path="nodes/p"),
            version(7),
            Tombstone(table_key=PERSON, version=Version(8)),
            Registration(table_key=PERSON, path="nodes/p-2", incarnation=2),
            version(1, incarnation=2),
        ]
    )
    table_history = read_table_history(rows)
    (shown,) = table_history.visible
    assert (shown.incarnation, shown.version, shown.path) == (2, 1, "nodes/p-2")
    assert table_history.next_incarnation(PERSON) == 3
    first = table_history.find(PERSON, 1)
    assert first is not None
    assert first.is_dropped
    assert first.pin == 8


def test_twelve_lives_are_told_apart() -> None:
    records: list[Record] = []
    for number in range(1, 13):
        records.append(Registration(table_key=PERSON, path=f"nodes/p-{number}", incarnation=number))
        records.append(version(number, incarnation=number))
        if number < 12:
            records.append(
                Tombstone(table_key=PERSON, version=Version(number + 1), incarnation=number)
            )
    (shown,) = read_table_history(encode(records)).visible
    assert (shown.incarnation, shown.path) == (12, "nodes/p-12")


def test_unknown_row_types_are_skipped() -> None:
    odd = pa.Table.from_pylist(
        [{"object_id": "x", "object_type": "of_tomorrow", "table_key": ""}], schema=MANIFEST_SCHEMA
    )
    rows = pa.concat_tables(
        [odd, encode([Registration(table_key=PERSON, path="nodes/p"), version(1)])]
    )
    assert [life.table_key for life in read_table_history(rows).visible] == [PERSON]
    assert commits_of(rows) == ()


@pytest.mark.parametrize(
    ("record", "column"),
    [
        (Registration(table_key=PERSON, path="nodes/p"), "location"),
        (version(3), "table_version"),
        (version(3), "row_count"),
        (version(3), "metadata"),
        (commit("01A", 2), "metadata"),
        (commit("01A", 2), "table_version"),
    ],
)
def test_a_row_without_a_required_column_is_an_internal_error_naming_it(
    record: Record, column: str
) -> None:
    row = encode([record]).to_pylist()[0] | {column: None}
    rows = pa.Table.from_pylist([row], schema=MANIFEST_SCHEMA)
    read = commits_of if isinstance(record, GraphCommit) else read_table_history
    with pytest.raises(InternalError) as refused:
        read(rows)
    assert row["object_id"] in str(refused.value)
    assert column in str(refused.value)


def test_a_version_of_an_unregistered_table_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="node:Person"):
        read_table_history(encode([version(3)]))


@pytest.mark.parametrize("text", ["not json", "[]", '{"created_at": null}', "{}"])
def test_commit_metadata_that_is_no_commit_is_an_internal_error_naming_the_row(text: str) -> None:
    good = encode([commit("01A", 1)]).to_pylist()[0]
    bad = encode([commit("01B", 2)]).to_pylist()[0] | {"metadata": text}
    rows = pa.Table.from_pylist([good, bad], schema=MANIFEST_SCHEMA)
    with pytest.raises(InternalError, match="01B"):
        commits_of(rows)


def test_lives_after_records_equal_lives_read_back() -> None:
    first: list[Record] = [Registration(table_key=PERSON, path="nodes/p"), version(1)]
    later: list[list[Record]] = [
        [version(2)],
        [Tombstone(table_key=PERSON, version=Version(3))],
        [
            Registration(table_key=PERSON, path="nodes/p-2", incarnation=2),
            version(1, incarnation=2),
        ],
        [version(2, incarnation=2, branch="review")],
    ]
    table_history, written = read_table_history(encode(first)), list(first)
    for records in later:
        table_history, written = table_history.after(records), written + records
        assert table_history == read_table_history(encode(written))


# ---- commits with pins, operations, tags


def test_a_commit_keeps_its_pins_its_message_and_its_group() -> None:
    pins = {PERSON: Version(7), TableKey("edge:Knows"): Version(3)}
    made = commit("01A", 2, pins=pins, message='a "quoted", "pins": {1}', group="01G")
    (found,) = commits_of(encode([made]))
    assert (found, found.pins) == (made, pins)


def test_a_merge_brings_the_message_of_a_commit_and_neither_its_pins_nor_its_group() -> None:
    said = 'a "quoted", "pins": {"x": 1}, "group": "g" \\'
    made = commit(
        "01A",
        2,
        pins={PERSON: Version(7)},
        message=said,
        group="01G",
        batch_id="b",
        batch_request="r",
    )
    (found,) = decode_commits(find_merged_commits(ancestor_rows(encode([made])), NO_COMMITS))
    assert (found.message, dict(found.pins), found.group, found.batch_id) == (said, {}, None, None)
    assert found.batch_request is None


def test_an_operation_is_read_back_from_its_row() -> None:
    made = operation("k", "ann", REVIEW)
    (row,) = encode([made]).to_pylist()
    found = operation_of(row["table_branch"], json.loads(row["metadata"]))
    assert (found, found.receipt) == (made, made.receipt)


def test_keys_of_other_branches_and_actors_have_other_rows() -> None:
    scopes = [(MAIN, None, "k"), (MAIN, "", "k"), (MAIN, "k", ""), (REVIEW, None, "k")]
    assert len({operation_row(*scope) for scope in scopes}) == len(scopes)


@pytest.mark.parametrize("commit_id", ["01C", None])
def test_a_tag_is_read_back_from_its_row(commit_id: str | None) -> None:
    made = tag("release/1", commit_id)
    (row,) = encode([made]).to_pylist()
    assert tag_of(row["object_id"], row["table_branch"], json.loads(row["metadata"])) == made
