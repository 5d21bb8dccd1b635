"""A merge that fails or dies anywhere is whole or absent, and can be tried again."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine.session.open import open_unsettled
from omnigraphdb.errors import InternalError, MergeConflicts, OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import RECOVERY_ACTOR, BranchName, OperationId, TableKey
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage import addresses
from tests.support.child import KILLED, run_child
from tests.support.settled import assert_settled, fingerprint
from tests.support.story import reopen

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
"""
Content = list[dict[str, object]]


def people(*rows: tuple[str, int]) -> Content:
    return [{"type": "Person", "data": {"name": name, "age": age}} for name, age in rows]


def mixed_delta(graph: Graph, branch: str) -> None:
    """A new id, a changed one and a removed one, in one table; an edge in another."""
    edge = {"edge": "Knows", "from": "new", "to": "changed", "data": {"id": f"by {branch}"}}
    graph.load([*people(("new", 1), ("changed", 2)), edge], mode="merge", branch=branch)
    graph.mutate('query d() { delete Person where name = "removed" }', branch=branch)


@dataclass(frozen=True)
class Story:
    """A graph on the eve of a merge; `adopts` when the target did not touch the tables."""

    source: str
    target: str
    adopts: bool
    prepare: Callable[[Graph], None]
    chunks: int = 1
    """Commits that it takes to replace the changed people."""


def _adopt(graph: Graph) -> None:
    graph.branch_create("side")
    mixed_delta(graph, "side")


def _three_way(graph: Graph) -> None:
    _adopt(graph)
    edge = {"edge": "Knows", "from": "kept", "to": "kept", "data": {"id": "on main"}}
    graph.load([*people(("mine", 3)), edge], mode="append")


def _into_a_branch(graph: Graph) -> None:
    """The branch owns people and edges, not cities: their table is only pointed at."""
    graph.branch_create("side")
    edge = {"edge": "Knows", "from": "kept", "to": "kept", "data": {"id": "on side"}}
    graph.load([*people(("mine", 3)), edge], mode="append", branch="side")
    mixed_delta(graph, "main")
    graph.load([{"type": "City", "data": {"name": "Rome"}}], mode="append")


def _into_a_fresh_branch(graph: Graph) -> None:
    """The target has to be given its own lines first."""
    graph.branch_create("other")
    _adopt(graph)


def _in_chunks(graph: Graph) -> None:
    """Three changed rows, and room for one at a time."""
    graph.load(people(("changed 2", 0), ("changed 3", 0)), mode="append")
    _adopt(graph)
    graph.load(people(("changed 2", 2), ("changed 3", 2)), mode="merge", branch="side")


def _three_way_in_chunks(graph: Graph) -> None:
    _in_chunks(graph)
    edge = {"edge": "Knows", "from": "kept", "to": "kept", "data": {"id": "on main"}}
    graph.load([*people(("mine", 3)), edge], mode="append")


STORIES = {
    "adopt": Story("side", "main", True, _adopt),
    "three_way": Story("side", "main", False, _three_way),
    "into_a_branch": Story("main", "side", False, _into_a_branch),
    "into_a_fresh_branch": Story("side", "other", True, _into_a_fresh_branch),
    "in_chunks": Story("side", "main", True, _in_chunks, chunks=3),
    "three_way_in_chunks": Story("side", "main", False, _three_way_in_chunks, chunks=3),
}

BACK = (
    Failpoint.MERGE_ARMED,
    Failpoint.MERGE_APPENDED,
    Failpoint.MERGE_CHUNK_UPSERTED,
    Failpoint.MERGE_UPSERTED,
    Failpoint.MERGE_REWRITTEN,
    Failpoint.MERGE_TABLE_COMMITTED,
    Failpoint.MERGE_EFFECTS_DONE,
    Failpoint.SIDECAR_CONFIRM,
)
FORWARD = (Failpoint.MERGE_CONFIRMED, Failpoint.PUBLISH_PREPARED, Failpoint.PUBLISHED)
ONLY_CHUNKED = (Failpoint.MERGE_CHUNK_UPSERTED, Failpoint.MERGE_UPSERTED)
"""In one chunk, rows are replaced and removed by one commit: there is nothing between the two."""


def reached(story: Story, point: Failpoint) -> bool:
    if point in ONLY_CHUNKED and story.chunks == 1:
        return False
    if point in (Failpoint.MERGE_APPENDED, Failpoint.MERGE_UPSERTED):
        return story.adopts
    return not (story.adopts and point is Failpoint.MERGE_REWRITTEN)


def landed(story: Story, point: Failpoint) -> tuple[int, int]:
    """How many commits of edges and of people have landed when a merge stops."""
    new, last = 1, 1 + story.chunks
    match point:
        case Failpoint.MERGE_ARMED:
            return 0, 0
        case Failpoint.MERGE_TABLE_COMMITTED:
            return 1, 0
        case Failpoint.MERGE_APPENDED:
            return 1, new
        case Failpoint.MERGE_CHUNK_UPSERTED:
            return 1, new + 1
        case Failpoint.MERGE_UPSERTED | Failpoint.MERGE_REWRITTEN:
            return 1, last - 1
        case _:
            return 1, last


ROWS = [
    pytest.param(name, point, id=f"{name}-{point}")
    for name, story in STORIES.items()
    for point in (*BACK, *FORWARD)
    if reached(story, point)
]


def content(graph: Graph, branch: str) -> Content:
    return list(graph.export(branch=branch))


def begun(path: Path, story: Story) -> Graph:
    graph: Graph = omnigraphdb.init(path, SCHEMA)
    graph.load(people(("kept", 0), ("changed", 0), ("removed", 0)), mode="append")
    story.prepare(graph)
    return graph


@pytest.fixture(scope="session")
def merged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Content]:
    """The content of every story's target after an undisturbed merge."""
    found = {}
    for name, story in STORIES.items():
        with begun(tmp_path_factory.mktemp("undisturbed") / name, story) as graph:
            graph.merge(story.source, into=story.target)
            found[name] = content(graph, story.target)
    return found


def moves(graph: Graph, story: Story) -> tuple[int, int]:
    """How far the HEADs of edges and of people are past their pins."""
    engine = graph._engine
    entries = engine.manifest.load(BranchName(story.target)).snapshot.entries
    found = []
    for key in (TableKey("edge:Knows"), TableKey("node:Person")):
        at = entries[key].at
        line = None if story.target == "main" else story.target
        is_there = line is None or line in engine.store.tables.forks(at.path)
        head = engine.store.tables.head(at.path, line) if is_there else at.version
        found.append(head - at.version)
    return found[0], found[1]


def assert_recorded(graph: Graph, story: Story, kind: RecoveryKind) -> None:
    """The outcome is recorded once, by a commit that tells it; a second open changes nothing."""
    assert_settled(graph)
    rows = [r for r in graph.recoveries() if r.writer_kind == str(WriterKind.BRANCH_MERGE)]
    assert [row.recovery_kind for row in rows] == [kind]
    for row in rows:
        commit = graph.commit(row.commit)
        assert commit.actor == RECOVERY_ACTOR or kind is RecoveryKind.ROLLED_FORWARD
        if kind is RecoveryKind.ROLLED_BACK:
            assert all(one.from_version > one.to_version for one in row.tables)
            assert commit.merged_parent is None
    before = fingerprint(graph)
    with omnigraphdb.open(graph.uri) as again:
        assert fingerprint(again) == before


def check(graph: Graph, story: Story, point: Failpoint, before: Content, after: Content) -> None:
    """Whole or absent as the row says; the same merge then ends where it would have ended."""
    source = graph.commits(branch=story.source)[0].id
    if point in BACK:
        assert content(graph, story.target) == before
        assert_recorded(graph, story, RecoveryKind.ROLLED_BACK)
        assert str(graph.merge(story.source, into=story.target).outcome) != "already_up_to_date"
    else:
        assert content(graph, story.target) == after
        assert_recorded(graph, story, RecoveryKind.ROLLED_FORWARD)
        again = graph.merge(story.source, into=story.target)
        assert str(again.outcome) == "already_up_to_date"
        parents = [c.merged_parent for c in graph.commits(branch=story.target)]
        assert parents.count(source) == 1
    assert content(graph, story.target) == after
    assert_settled(graph)


@pytest.mark.parametrize(("name", "point"), ROWS)
def test_a_merge_that_fails_anywhere_is_whole_or_absent(
    tmp_path: Path, merged: dict[str, Content], name: str, point: Failpoint
) -> None:
    story = STORIES[name]
    graph = begun(tmp_path / "g", story)
    before = content(graph, story.target)
    with small_chunks(story), armed(point), pytest.raises(OmniError):
        graph.merge(story.source, into=story.target)
    if point is not Failpoint.PUBLISHED:
        assert moves(graph, story) == landed(story, point)
    graph.close()
    with omnigraphdb.open(graph.uri) as again:
        check(again, story, point, before, merged[name])


@pytest.mark.parametrize(("name", "point"), ROWS)
def test_a_merge_killed_anywhere_is_whole_or_absent(
    tmp_path: Path, merged: dict[str, Content], name: str, point: Failpoint
) -> None:
    story = STORIES[name]
    with begun(tmp_path / "g", story) as graph:
        before = content(graph, story.target)
    kill(merge, graph.uri, story.source, story.target, name, at=point)
    with Graph(open_unsettled(graph.uri)) as left:
        if point is not Failpoint.PUBLISHED:
            assert moves(left, story) == landed(story, point)
    with omnigraphdb.open(graph.uri) as again:
        check(again, story, point, before, merged[name])


def kill(work: Callable[..., None], *arguments: str, at: Failpoint) -> None:
    """Do something in a process that dies at a failpoint."""
    assert run_child(work, *arguments, failpoints=f"{at}=exit") == KILLED


@contextmanager
def small_chunks(story: Story) -> Iterator[None]:
    """Replace one row per commit, where a story is told in chunks."""
    with pytest.MonkeyPatch.context() as patch:
        if story.chunks > 1:
            patch.setattr(addresses, "COMPARE_ROWS_MAX", 1)
        yield


def merge(uri: str, source: str, target: str, name: str = "adopt") -> None:
    with small_chunks(STORIES[name]), omnigraphdb.open(uri) as graph:
        graph.merge(source, into=target)


@pytest.mark.parametrize("point", [Failpoint.MERGE_CONFIRMED, Failpoint.PUBLISHED])
def test_the_next_write_completes_a_merge_that_only_missed_its_publish(
    tmp_path: Path, merged: dict[str, Content], point: Failpoint
) -> None:
    story = STORIES["adopt"]
    graph = begun(tmp_path / "g", story)
    with armed(point), pytest.raises(OmniError):
        graph.merge("side")
    graph.load([{"type": "City", "data": {"name": "next"}}], mode="append")
    shown = [record for record in content(graph, "main") if record.get("type") != "City"]
    assert shown == merged["adopt"]
    assert str(graph.merge("side").outcome) == "already_up_to_date"
    assert graph.doctor() == []


def test_a_merge_stopped_halfway_blocks_its_own_tables_only(tmp_path: Path) -> None:
    graph = begun(tmp_path / "g", STORIES["adopt"])
    with armed(Failpoint.MERGE_APPENDED), pytest.raises(OmniError):
        graph.merge("side")
    graph.load([{"type": "City", "data": {"name": "free"}}], mode="append")
    assert graph.table("City").num_rows == 1
    assert graph.table("Person").num_rows == 3
    with omnigraphdb.open(graph.uri) as again:
        assert again.doctor() == []
        assert str(again.merge("side").outcome) == "merged"


def test_a_merge_in_conflict_leaves_no_trace(tmp_path: Path) -> None:
    graph = begun(tmp_path / "g", STORIES["adopt"])
    graph.load(people(("changed", 9)), mode="merge")
    before = (graph.snapshot().to_dict(), sorted(Path(graph.uri).rglob("*.manifest")))
    with pytest.raises(MergeConflicts):
        graph.merge("side")
    assert before == (graph.snapshot().to_dict(), sorted(Path(graph.uri).rglob("*.manifest")))
    assert graph.pending_recoveries() == []
    assert graph.recoveries() == []


def test_rows_a_stranger_put_on_a_confirmed_merge_are_not_adopted(
    tmp_path: Path, merged: dict[str, Content]
) -> None:
    story = STORIES["adopt"]
    graph = begun(tmp_path / "g", story)
    before = content(graph, "main")
    with armed(Failpoint.MERGE_CONFIRMED), pytest.raises(OmniError):
        graph.merge("side")
    tables = graph._engine.store.tables
    entry = graph._engine.view().snapshot.entry(TableKey("node:Person"))
    head = tables.open(
        type(entry.at)(path=entry.at.path, branch=None, version=tables.head(entry.at.path, None))
    )
    stranger = head.read().slice(0, 1).set_column(0, head.schema.field("id"), [["stranger"]])
    staged = tables.stage_append(head.at, stranger)
    tables.commit_staged(staged, operation_id=OperationId("stranger"), lock=None)
    graph.close()
    with omnigraphdb.open(graph.uri) as again:
        assert content(again, "main") == before
        again.merge("side")
        assert content(again, "main") == merged["adopt"]


def test_an_old_record_without_confirmation_is_read_by_its_own_meaning(
    tmp_path: Path, merged: dict[str, Content]
) -> None:
    graph = begun(tmp_path / "g", STORIES["adopt"])
    with armed(Failpoint.MERGE_CONFIRMED), pytest.raises(OmniError):
        graph.merge("side")
    graph.close()
    [file] = list((Path(graph.uri) / "__recovery").glob("*.json"))
    record = json.loads(file.read_text())
    record["schema_version"] = 1
    for pin in record["tables"]:
        for later in ("confirmed_version", "transaction_uuids", "forked", "fencing_token"):
            pin.pop(later, None)
    for later in ("commit_id", "read_set", "pointer_updates", "line"):
        record.pop(later, None)
    file.write_text(json.dumps(record))
    with omnigraphdb.open(graph.uri) as again:
        assert content(again, "main") == merged["adopt"]
        assert again.doctor() == []


def test_a_merge_cannot_confirm_a_table_without_its_version(tmp_path: Path) -> None:
    graph = begun(tmp_path / "g", STORIES["adopt"])
    with armed(Failpoint.MERGE_CONFIRMED), pytest.raises(OmniError):
        graph.merge("side")
    [sidecar] = graph._engine.committer.sidecars.pending()
    with pytest.raises(InternalError, match="edge:Knows"):
        sidecar.confirm({TableKey("node:Person"): sidecar.tables[0].expected})


def test_a_second_crash_after_the_roll_back_does_not_lose_the_merge(
    tmp_path: Path, merged: dict[str, Content]
) -> None:
    with begun(tmp_path / "g", STORIES["adopt"]) as graph:
        before = content(graph, "main")
    kill(merge, graph.uri, "side", "main", at=Failpoint.MERGE_APPENDED)
    kill(reopen, graph.uri, at=Failpoint.ROLLBACK_PUBLISHED)
    with omnigraphdb.open(graph.uri) as again:
        assert content(again, "main") == before
        kinds = [row.recovery_kind for row in again.recoveries()]
        assert kinds == [RecoveryKind.ROLLED_BACK]
        assert str(again.merge("side").outcome) == "merged"
        assert content(again, "main") == merged["adopt"]
        assert again.doctor() == []
