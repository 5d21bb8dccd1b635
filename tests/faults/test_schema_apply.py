"""A schema change that fails or dies anywhere is whole or absent, and can be tried again."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.errors import OmniError, RecoveryRequired, SchemaApplyConflict
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed, parked
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, CommitId
from omnigraphdb.manifest.change import Change, Draft
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.recovery import sweep
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.layout import SCHEMA_FILES, staging_path
from tests.support.child import KILLED, run_child
from tests.support.schema_changes import BASE, VARIANTS, change, content, made
from tests.support.settled import assert_settled, fingerprint

BACK = (
    (Failpoint.SCHEMA_ARMED, "error"),
    (Failpoint.SCHEMA_TABLE_COMMITTED, "error"),
    (Failpoint.SCHEMA_TABLE_COMMITTED, "skip(1)+error"),
    (Failpoint.SCHEMA_UNSTAGED, "error"),
    (Failpoint.SCHEMA_HALF_STAGED, "error"),
    (Failpoint.SCHEMA_HALF_STAGED, "skip(1)+error"),
)
FORWARD = (
    (Failpoint.SCHEMA_STAGED, "error"),
    (Failpoint.PUBLISH_PREPARED, "error"),
    (Failpoint.SCHEMA_PUBLISHED, "error"),
    (Failpoint.SCHEMA_SOURCE_PLACED, "error"),
    (Failpoint.SCHEMA_IR_PLACED, "error"),
)
NO_TABLES = ("drop a type", "metadata only")
"""Variants that touch no table of their own, so that no table failpoint is reached."""


def name_of(value: object) -> str | None:
    return str(value) if isinstance(value, str) else None


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g")
    yield opened
    opened.close()


def reopened(graph: Graph) -> Graph:
    again: Graph = omnigraphdb.open(graph.uri)
    return again


def expected(variant: str, tmp_path: Path) -> dict[str, list[dict[str, object]]]:
    """The rows after an undisturbed change."""
    with made(tmp_path / "undisturbed") as other:
        other.schema_apply(VARIANTS[variant])
        return content(other)


def table_paths(graph: Graph) -> set[str]:
    """Every table directory under the root."""
    root = Path(graph.uri)
    return {f"{kind}/{one.name}" for kind in ("nodes", "edges") for one in (root / kind).iterdir()}


def assert_recorded(graph: Graph, kind: RecoveryKind | None) -> None:
    """Nothing is left behind, the outcome is on record once, and a second open changes nothing."""
    assert_settled(graph)
    rows = [row for row in graph.recoveries() if row.writer_kind == str(WriterKind.SCHEMA_APPLY)]
    assert [row.recovery_kind for row in rows] == ([] if kind is None else [kind])
    for row in rows:
        assert graph.commit(row.commit).id == row.commit
        if kind is RecoveryKind.ROLLED_BACK:
            assert all(one.from_version > one.to_version for one in row.tables)
    before = fingerprint(graph)
    with reopened(graph) as again:
        assert fingerprint(again) == before
        assert_settled(again)


def assert_back(graph: Graph, before: dict[str, list[dict[str, object]]], paths: set[str]) -> None:
    assert graph.schema_source == BASE
    assert content(graph) == before
    assert table_paths(graph) == paths


# ---- in-process errors


def reached(variant: str, point: Failpoint, action: str) -> bool:
    """Whether a change of this kind arrives at a failpoint that often."""
    if point is not Failpoint.SCHEMA_TABLE_COMMITTED:
        return True
    arrivals = {"rename a type": 1, "drop a property": 1} | dict.fromkeys(NO_TABLES, 0)
    return arrivals.get(variant, 2) > action.startswith("skip")


@pytest.mark.parametrize(
    ("variant", "point", "action"),
    [(v, p, a) for v in VARIANTS for p, a in BACK if reached(v, p, a)],
    ids=name_of,
)
def test_a_change_that_fails_before_its_files_are_staged_is_taken_back_and_can_be_repeated(
    graph: Graph, tmp_path: Path, variant: str, point: Failpoint, action: str
) -> None:
    before, paths = content(graph), table_paths(graph)
    with armed(point, action), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant])
    assert SCHEMA_APPLY_LOCK not in graph._engine.manifest.rows.branches()
    with reopened(graph) as again:
        assert_back(again, before, paths)
        assert_recorded(again, RecoveryKind.ROLLED_BACK)
        assert again.schema_apply(VARIANTS[variant]).applied
        assert content(again) == expected(variant, tmp_path)
        assert again.doctor() == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("point", "action"), FORWARD, ids=name_of)
def test_a_change_that_fails_after_its_files_are_staged_is_completed_by_the_next_open(
    graph: Graph, tmp_path: Path, variant: str, point: Failpoint, action: str
) -> None:
    with armed(point, action), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant], actor="ann")
    with reopened(graph) as again:
        assert again.schema_source == VARIANTS[variant]
        assert content(again) == expected(variant, tmp_path)
        assert_recorded(again, RecoveryKind.ROLLED_FORWARD)
        assert [row.for_actor for row in again.recoveries()] == ["ann"]
        assert not again.schema_apply(VARIANTS[variant]).applied


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("point", "action"), FORWARD, ids=name_of)
def test_a_change_that_fails_after_its_files_are_staged_is_completed_by_the_next_write(
    graph: Graph, tmp_path: Path, variant: str, point: Failpoint, action: str
) -> None:
    with armed(point, action), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant])
    graph.mutate('query m() { insert City { name: "Oslo" } }'.replace("City", city(variant)))
    assert graph.schema_source == VARIANTS[variant]
    assert {row["id"] for row in graph.table(city(variant)).to_pylist()} == {"Rome", "Oslo"}
    assert_recorded(graph, RecoveryKind.ROLLED_FORWARD)


def city(variant: str) -> str:
    return "Town" if variant.startswith("rename a type") else "City"


@pytest.mark.parametrize(("point", "action"), BACK[1:], ids=name_of)
def test_a_change_that_stopped_half_way_blocks_only_its_own_tables_until_it_is_taken_back(
    graph: Graph, point: Failpoint, action: str
) -> None:
    with armed(point, action), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["add properties"])
    graph.mutate('query m() { insert Lives { from: "Bob", to: "Rome" } }')
    with pytest.raises(RecoveryRequired):
        graph.mutate('query m() { update City set { note: "x" } where name = "Rome" }')
    with pytest.raises(RecoveryRequired):
        graph.schema_apply(VARIANTS["add types"])
    graph.refresh(roll_back=True)
    graph.mutate('query m() { update City set { note: "x" } where name = "Rome" }')
    assert graph.schema_apply(VARIANTS["add properties"]).applied
    assert graph.doctor() == []


def test_an_intent_without_effects_is_dropped_by_the_next_write(graph: Graph) -> None:
    with armed(Failpoint.SCHEMA_ARMED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["mixed"])
    graph.mutate('query m() { insert City { name: "Oslo" } }')
    assert_recorded(graph, RecoveryKind.ROLLED_BACK)
    assert graph.schema_apply(VARIANTS["mixed"]).applied


def test_a_change_that_cannot_remove_its_intent_is_done(graph: Graph, tmp_path: Path) -> None:
    with armed(Failpoint.SIDECAR_DELETE, "1*error"):
        assert graph.schema_apply(VARIANTS["add types"]).applied
    with reopened(graph) as again:
        assert_recorded(again, RecoveryKind.ROLLED_FORWARD)
        assert [c.actor for c in again.commits()].count(RECOVERY_ACTOR) == 0


def test_an_intent_that_cannot_be_written_leaves_no_trace(graph: Graph) -> None:
    before, paths = content(graph), table_paths(graph)
    with armed(Failpoint.SIDECAR_WRITE), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["mixed"])
    assert_back(graph, before, paths)
    assert_recorded(graph, None)


def test_a_change_whose_lease_is_lost_is_taken_back_at_once(graph: Graph, tmp_path: Path) -> None:
    before, paths = content(graph), table_paths(graph)
    manifest = graph._engine.manifest

    def advance() -> None:
        commit = CommitId(graph._engine.runtime.new_id())
        publish(manifest, Change(branch=MAIN, draft=Draft(commit=commit, kind=CommitKind.REPAIR)))

    with (
        armed(Failpoint.SCHEMA_TABLE_COMMITTED, advance),
        pytest.raises(SchemaApplyConflict, match="lease"),
    ):
        graph.schema_apply(VARIANTS["mixed"])
    assert_back(graph, before, paths)
    assert_recorded(graph, RecoveryKind.ROLLED_BACK)
    assert graph.schema_apply(VARIANTS["mixed"]).applied


# ---- recovery in order


@pytest.mark.parametrize("variant", ["mixed", "metadata only"])
def test_a_recovered_change_is_published_before_its_files_are_put_in_place(
    graph: Graph, variant: str
) -> None:
    """A crash between the two is then seen for what it is: tables of a schema whose files wait beside the old ones."""
    with armed(Failpoint.SCHEMA_STAGED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant])
    seen: list[tuple[str, bool]] = []

    def look() -> None:
        root = Path(graph.uri)
        waiting = all((root / staging_path(name)).exists() for name in SCHEMA_FILES)
        seen.append(((root / "_schema.pg").read_text(), waiting))

    with armed(Failpoint.PUBLISH_PREPARED, look), armed(Failpoint.PUBLISHED, look):
        reopened(graph).close()
    assert seen == [(BASE, True), (BASE, True)]
    with reopened(graph) as again:
        assert again.schema_source == VARIANTS[variant]
        assert_recorded(again, RecoveryKind.ROLLED_FORWARD)


# ---- recovery interrupted


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "second", [Failpoint.SCHEMA_SOURCE_PLACED, Failpoint.SCHEMA_IR_PLACED, Failpoint.AUDIT]
)
def test_a_completion_that_is_interrupted_is_completed_once_more(
    graph: Graph, tmp_path: Path, variant: str, second: Failpoint
) -> None:
    with armed(Failpoint.SCHEMA_STAGED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant])
    with armed(second), pytest.raises(OmniError):
        reopened(graph)
    with reopened(graph) as again:
        assert again.schema_source == VARIANTS[variant]
        assert content(again) == expected(variant, tmp_path)
        assert_recorded(again, RecoveryKind.ROLLED_FORWARD)


@pytest.mark.parametrize("variant", ["mixed", "add types", "add properties"])
@pytest.mark.parametrize(
    "second",
    [Failpoint.ROLLBACK_RESTORED, Failpoint.ROLLBACK_PUBLISHED, Failpoint.AUDIT],
)
def test_a_roll_back_that_is_interrupted_is_finished(
    graph: Graph, variant: str, second: Failpoint
) -> None:
    before, paths = content(graph), table_paths(graph)
    with armed(Failpoint.SCHEMA_UNSTAGED), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant])
    with armed(second), pytest.raises(OmniError):
        reopened(graph)
    with reopened(graph) as again:
        assert_back(again, before, paths)
        assert_recorded(again, RecoveryKind.ROLLED_BACK)


# ---- process death


def killed(graph: Graph, variant: str, point: Failpoint, action: str) -> None:
    """Run the change in a process that dies at a failpoint."""
    assert run_child(change, graph.uri, variant, failpoints=f"{point}={action}") == KILLED


KILLS: tuple[tuple[Failpoint, str, RecoveryKind | None], ...] = (
    (Failpoint.SCHEMA_LOCKED, "exit", None),
    *((p, a.replace("error", "exit"), RecoveryKind.ROLLED_BACK) for p, a in BACK),
    *((p, a.replace("error", "exit"), RecoveryKind.ROLLED_FORWARD) for p, a in FORWARD),
    (Failpoint.PUBLISHED, "exit", RecoveryKind.ROLLED_FORWARD),
    (Failpoint.SIDECAR_DELETE, "exit", RecoveryKind.ROLLED_FORWARD),
)


@pytest.mark.parametrize(("point", "action", "kind"), KILLS, ids=name_of)
def test_a_killed_change_is_whole_or_absent_after_the_next_open(
    graph: Graph, tmp_path: Path, point: Failpoint, action: str, kind: RecoveryKind | None
) -> None:
    before, paths = content(graph), table_paths(graph)
    killed(graph, "mixed", point, action)
    with reopened(graph) as again:
        if kind is not RecoveryKind.ROLLED_FORWARD:
            assert_back(again, before, paths)
        assert_recorded(again, kind)
        again.schema_apply(VARIANTS["mixed"])
        assert content(again) == expected("mixed", tmp_path)
        assert again.doctor() == []


@pytest.mark.parametrize("variant", ["add types", "metadata only", "rename a type", "drop a type"])
@pytest.mark.parametrize("point", [Failpoint.SCHEMA_STAGED, Failpoint.SCHEMA_PUBLISHED])
def test_a_change_killed_around_its_publish_is_completed_by_a_handle_that_was_open_all_along(
    graph: Graph, tmp_path: Path, variant: str, point: Failpoint
) -> None:
    killed(graph, variant, point, "exit")
    graph.mutate('query m() { insert City { name: "Oslo" } }'.replace("City", city(variant)))
    assert graph.schema_source == VARIANTS[variant]
    assert_recorded(graph, RecoveryKind.ROLLED_FORWARD)


def test_a_lock_whose_owner_was_killed_does_not_stop_an_open_handle(graph: Graph) -> None:
    killed(graph, "mixed", Failpoint.SCHEMA_LOCKED, "exit")
    assert SCHEMA_APPLY_LOCK in graph._engine.manifest.rows.branches()
    graph.mutate('query m() { insert City { name: "Oslo" } }')
    assert graph.schema_apply(VARIANTS["mixed"]).applied
    assert graph.doctor() == []


def test_a_killed_change_that_must_be_taken_back_refuses_writes_by_name(graph: Graph) -> None:
    killed(graph, "add properties", Failpoint.SCHEMA_UNSTAGED, "exit")
    with pytest.raises(SchemaApplyConflict, match="mutation"):
        graph.mutate('query m() { insert Lives { from: "Bob", to: "Rome" } }')
    with pytest.raises(SchemaApplyConflict, match="branch create"):
        graph.branch_create("side")
    with pytest.raises(SchemaApplyConflict, match="schema apply"):
        graph.schema_apply(VARIANTS["add types"])
    with reopened(graph) as again:
        assert_recorded(again, RecoveryKind.ROLLED_BACK)


# ---- looking without changing


def digest(root: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(root.rglob("*")) if one.is_file()}


@pytest.mark.parametrize(
    ("point", "is_served"), [(Failpoint.SCHEMA_STAGED, True), (Failpoint.SCHEMA_PUBLISHED, False)]
)
def test_a_read_only_open_serves_the_old_schema_or_refuses_and_touches_nothing(
    graph: Graph, point: Failpoint, is_served: bool
) -> None:
    with armed(point), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["add types"])
    before = digest(Path(graph.uri))
    if is_served:
        with omnigraphdb.open(graph.uri, read_only=True) as reader:
            assert reader.schema_source == BASE
    else:
        with pytest.raises(RecoveryRequired):
            omnigraphdb.open(graph.uri, read_only=True)
    assert digest(Path(graph.uri)) == before


def test_a_reader_amid_the_copy_of_the_source_text_is_sent_to_recovery(graph: Graph) -> None:
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        with armed(Failpoint.SCHEMA_SOURCE_PLACED), pytest.raises(OmniError):
            graph.schema_apply(VARIANTS["metadata only"])
        # An object store renames by a copy and a removal: between them there are both.
        root = Path(graph.uri)
        shutil.copy(root / "_schema.pg", root / "_schema.pg.staging")
        before = digest(root)
        for ask in (
            lambda: omnigraphdb.open(graph.uri, read_only=True),
            lambda: reader.table("City"),
        ):
            with pytest.raises(RecoveryRequired, match="open the graph read-write"):
                ask()
        assert digest(root) == before
    with omnigraphdb.open(graph.uri) as again:
        assert again.schema_source == VARIANTS["metadata only"]
        assert again.doctor() == []


# ---- staging files that no intent names


def leave_files(graph: Graph, variant: str, point: Failpoint) -> None:
    """Stop a change at a failpoint and lose its intent."""
    with armed(point), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS[variant])
    for one in (Path(graph.uri) / "__recovery").iterdir():
        one.unlink()


@pytest.mark.parametrize(
    ("point", "becomes"),
    [
        (Failpoint.SCHEMA_PUBLISHED, "add types"),
        (Failpoint.SCHEMA_SOURCE_PLACED, "add types"),
        (Failpoint.SCHEMA_IR_PLACED, "add types"),
    ],
)
def test_files_of_a_published_change_are_put_in_place_even_without_its_intent(
    graph: Graph, point: Failpoint, becomes: str
) -> None:
    leave_files(graph, becomes, point)
    with reopened(graph) as again:
        assert again.schema_source == VARIANTS[becomes]
        assert again.doctor() == []


def test_files_of_an_unpublished_change_are_removed_even_without_its_intent(graph: Graph) -> None:
    leave_files(graph, "drop a type", Failpoint.SCHEMA_STAGED)
    with reopened(graph) as again:
        assert again.schema_source == BASE
        assert again.doctor() == []


def test_files_that_fit_both_histories_are_left_to_the_operator(graph: Graph) -> None:
    leave_files(graph, "metadata only", Failpoint.SCHEMA_STAGED)
    with pytest.raises(OmniError, match="staging"):
        reopened(graph)
    for name in SCHEMA_FILES:
        (Path(graph.uri) / staging_path(name)).unlink()
    with reopened(graph) as again:
        assert again.doctor() == []


# ---- others meanwhile


def test_a_load_waits_for_a_running_change_and_sees_the_new_types(graph: Graph) -> None:
    with ThreadPoolExecutor(2) as pool, parked(Failpoint.SCHEMA_STAGED) as park:
        change = pool.submit(graph.schema_apply, VARIANTS["add types"])
        assert park.reached.wait(PARK_SECONDS_MAX)
        load = pool.submit(graph.load, [{"type": "Pet", "data": {"name": "Rex"}}], mode="append")
        with pytest.raises(TimeoutError):
            load.result(timeout=0.2)
        park.release()
        assert change.result().applied
        assert load.result().commit is not None
    assert graph.table("Pet")["id"].to_pylist() == ["Rex"]
    assert graph.doctor() == []


def test_a_read_only_open_waits_until_a_running_change_has_put_its_files_in_place(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "CONTRACT_ROUNDS_MAX", 10_000)
    with ThreadPoolExecutor(2) as pool, parked(Failpoint.SCHEMA_PUBLISHED) as park:
        change = pool.submit(graph.schema_apply, VARIANTS["add types"])
        assert park.reached.wait(PARK_SECONDS_MAX)
        opening = pool.submit(omnigraphdb.open, graph.uri, read_only=True)
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.2)
        park.release()
        with opening.result() as opened:
            assert opened.table("Pet").num_rows == 0
        assert change.result().applied


def test_only_one_change_runs_at_a_time_and_branches_wait(graph: Graph) -> None:
    with ThreadPoolExecutor(1) as pool, parked(Failpoint.SCHEMA_STAGED) as park:
        change = pool.submit(graph.schema_apply, VARIANTS["add types"])
        assert park.reached.wait(PARK_SECONDS_MAX)
        with pytest.raises(SchemaApplyConflict, match="in progress"):
            graph.schema_apply(VARIANTS["mixed"])
        with pytest.raises(SchemaApplyConflict, match="branch create"):
            graph.branch_create("side")
        assert content(graph).keys() == {"node:Person", "node:City", "edge:Lives"}
        park.release()
        assert change.result().applied
    assert graph.schema_apply(VARIANTS["mixed"]).applied


def test_a_write_that_is_under_way_ends_before_a_change_begins(graph: Graph) -> None:
    with ThreadPoolExecutor(2) as pool, parked(Failpoint.TABLES_COMMITTED) as park:
        write = pool.submit(graph.mutate, 'query m() { insert City { name: "Oslo" } }')
        assert park.reached.wait(PARK_SECONDS_MAX)
        change = pool.submit(graph.schema_apply, VARIANTS["mixed"])
        with pytest.raises(TimeoutError):
            change.result(timeout=0.2)
        park.release()
        assert write.result().commit is not None
        assert change.result().applied
    assert graph.table("City")["id"].to_pylist() == ["Rome", "Oslo"]
    assert graph.doctor() == []


def test_a_branch_that_appears_while_the_lock_is_taken_stops_one_of_the_two(graph: Graph) -> None:
    with ThreadPoolExecutor(1) as pool, parked(Failpoint.BRANCH_CREATED) as park:
        branch = pool.submit(graph.branch_create, "side")
        assert park.reached.wait(PARK_SECONDS_MAX)
        with pytest.raises(SchemaApplyConflict, match="side"):
            graph.schema_apply(VARIANTS["add types"])
        park.release()
        assert branch.result().name == "side"
    assert graph.doctor() == []


# ---- hard drops


@pytest.mark.parametrize(
    "point", [Failpoint.SCHEMA_TABLE_COMMITTED, Failpoint.SCHEMA_UNSTAGED, Failpoint.SCHEMA_STAGED]
)
def test_a_hard_drop_that_is_interrupted_forgets_nothing_that_it_takes_back(
    graph: Graph, point: Failpoint
) -> None:
    before = graph.commits()[0]
    with armed(point), pytest.raises(OmniError):
        graph.schema_apply(VARIANTS["drop a property"], allow_data_loss=True)
    with reopened(graph) as again:
        forward = point is Failpoint.SCHEMA_STAGED
        assert ("age" in again.table("Person").column_names) is not forward
        assert again.table("Person", at=before)["age"].to_pylist() == [36, None]
        assert_recorded(again, RecoveryKind.ROLLED_FORWARD if forward else RecoveryKind.ROLLED_BACK)
