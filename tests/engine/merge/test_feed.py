"""The change feed: whole commits in order, a cursor that survives, and gaps that are told."""

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    ChangeDiffRefused,
    ChangeFeedGap,
    CursorRejected,
    HistoryReclaimed,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, armed
from tests.engine.merge.test_scenarios import add, know


def list_changes(graph: Graph, **options: object) -> list[list[str]]:
    page = graph.changes(**options)  # type: ignore[arg-type]
    return [[str(change) for change in block.changes] for block in page.blocks]


def test_the_feed_tells_every_commit_of_a_branch_oldest_first(graph: Graph) -> None:
    start = graph.changes()
    assert start.caught_up
    assert [len(block.changes) for block in start.blocks] == [7]
    add(graph, "Eve", age=1)
    graph.mutate('query d() { delete Person where name = "Bob" }')
    page = graph.changes(since=start.cursor)
    assert [str(change) for change in page.blocks[0].changes] == ["+ node:Person Eve"]
    assert [str(change) for change in page.blocks[1].changes] == [
        "- edge:Knows k1 Bob -> Carol",
        "- node:Person Bob",
    ]
    assert [block.commit.id for block in page.blocks] == [c.id for c in graph.commits()[:2][::-1]]
    assert graph.changes(since=page.cursor).blocks == ()


def test_a_page_holds_whole_commits_and_its_cursor_goes_on(graph: Graph) -> None:
    for n in range(5):
        add(graph, f"new {n}", age=n)
    seen, cursor, pages = [], None, 0
    while True:
        page = graph.changes(since=cursor, limit=2)
        seen += [change.id for block in page.blocks for change in block.changes]
        cursor, pages = page.cursor, pages + 1
        if page.caught_up:
            break
    assert seen[-5:] == [f"new {n}" for n in range(5)]
    assert (len(seen), pages) == (12, 4)


def test_a_stream_tells_what_the_pages_tell_and_its_cursors_are_theirs(graph: Graph) -> None:
    for n in range(3):
        add(graph, f"new {n}", age=n)
    page = graph.changes()
    chapters = [(one.commit.id, one.cursor, list(one.changes)) for one in graph.changes_stream()]
    assert [c[0] for c in chapters] == [block.commit.id for block in page.blocks]
    assert [c[2] for c in chapters] == [list(block.changes) for block in page.blocks]
    assert chapters[-1][1] == page.cursor
    spelled = [one.to_dict() for one in graph.changes_stream(since=chapters[-2][1])]
    told = {"cursor": page.cursor, "engine": page.engine, "reason": page.reason}
    assert spelled == [page.blocks[-1].to_dict() | told | {"reason": spelled[0]["reason"]}]
    for number, (_, cursor, _) in enumerate(chapters):
        assert list_changes(graph, since=cursor) == list_changes(graph)[number + 1 :]


def test_a_stream_ends_where_the_branch_stood_when_it_began(graph: Graph) -> None:
    stream = graph.changes_stream(types=["Person"], ops=["insert"])
    add(graph, "Eve", age=1)
    assert [change.id for one in stream for change in one.changes] == [
        "Alice",
        "Bob",
        "Carol",
        "Dan",
    ]


def test_a_stream_that_is_not_read_to_the_end_of_a_commit_goes_on_with_the_next(
    graph: Graph,
) -> None:
    add(graph, "Eve", age=1)
    firsts = [next(one.changes) for one in graph.changes_stream()]
    assert [str(change) for change in firsts] == [
        "+ edge:Knows k1 Bob -> Carol",
        "+ node:Person Eve",
    ]


def test_a_stream_refuses_a_cursor_at_once_and_tells_a_gap_when_it_gets_there(graph: Graph) -> None:
    with pytest.raises(CursorRejected):
        graph.changes_stream(since="og1.damaged")
    stream = graph.changes_stream()

    def reclaimed() -> None:
        raise HistoryReclaimed("node:Person", 2)

    with armed(Failpoint.FEED_OPENING, reclaimed), pytest.raises(ChangeFeedGap):
        list(next(stream).changes)


def test_a_merge_is_one_block_with_all_it_brought(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side")
    know(graph, "Eve", "Alice", "side")
    cursor = graph.changes().cursor
    graph.merge("side")
    [block] = graph.changes(since=cursor).blocks
    assert [change.type_name for change in block.changes] == ["Knows", "Person"]
    assert block.to_dict()["cause"]["merged_parent_commit_id"] == graph.commits(branch="side")[0].id


def test_a_branch_feed_goes_through_its_fork(graph: Graph) -> None:
    graph.branch_create("side")
    add(graph, "Eve", "side")
    assert len(graph.changes(branch="side").blocks) == 2
    assert len(graph.changes().blocks) == 1


def test_a_cursor_is_bound_to_its_branch_and_its_life(graph: Graph) -> None:
    graph.branch_create("side")
    cursor = graph.changes(branch="side").cursor
    with pytest.raises(CursorRejected, match="belongs to branch 'side'"):
        graph.changes(since=cursor)
    graph.branch_delete("side")
    graph.branch_create("side")
    with pytest.raises(CursorRejected, match="made again"):
        graph.changes(branch="side", since=cursor)


@pytest.mark.parametrize("cursor", ["og1.", "og1.!!!", "og1.e30", "nonsense"])
def test_a_broken_cursor_is_refused(graph: Graph, cursor: str) -> None:
    with pytest.raises(CursorRejected, match="change cursor rejected"):
        graph.changes(since=cursor)


def test_a_commit_that_came_through_a_merge_is_no_place_in_the_feed(graph: Graph) -> None:
    graph.branch_create("side")
    tip = add(graph, "Eve", "side")
    graph.merge("side")
    with pytest.raises(CursorRejected):
        graph.changes(since=tip)


def test_changes_can_be_chosen_by_type_kind_and_operation(graph: Graph) -> None:
    graph.mutate('query d() { delete Person where name = "Bob" }')
    assert list_changes(graph, types=["Knows"])[-1] == ["- edge:Knows k1 Bob -> Carol"]
    assert list_changes(graph, kinds=["node"])[-1] == ["- node:Person Bob"]
    assert list_changes(graph, ops=["insert"])[-1] == []
    with pytest.raises(UserInputError, match="insert, update, delete"):
        graph.changes(ops=["upsert"])  # type: ignore[list-item]


def test_one_commit_tells_what_it_changed_and_the_first_has_nothing_to_compare(
    graph: Graph,
) -> None:
    add(graph, "Alice", age=31)
    newest, *_, first = graph.commits()
    [change] = graph.commit_changes(newest).changes
    assert (str(change.op), change.id, change.properties) == ("update", "Alice", ("age",))
    with pytest.raises(ChangeDiffRefused):
        graph.commit_changes(first)


def test_history_that_was_removed_is_a_gap_that_names_the_commit(graph: Graph) -> None:
    add(graph, "Eve")

    def reclaimed() -> None:
        raise HistoryReclaimed("node:Person", 2)

    with armed(Failpoint.FEED_OPENING, reclaimed), pytest.raises(ChangeFeedGap) as caught:
        graph.changes()
    gap = caught.value.details["change_feed_gap"]
    assert gap["first_unreadable_commit_id"] == graph.commits()[-2].id


def test_the_feed_shows_one_moment_whatever_is_written_meanwhile(graph: Graph) -> None:
    done: list[str] = []

    def write() -> None:
        if not done:
            done.append(add(graph, "late"))

    with armed(Failpoint.FEED_CAPTURED, write):
        page = graph.changes()
    assert len(page.blocks) == 1
    assert [b.commit.id for b in graph.changes(since=page.cursor).blocks] == done
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        assert reader.changes(since=page.cursor).caught_up


def test_changes_can_carry_the_rows_before_and_after(graph: Graph) -> None:
    add(graph, "Alice", age=31)
    graph.mutate('query d() { delete Person where name = "Bob" }')
    updated, deleted = graph.changes(images=True).blocks[-2:]
    [change] = updated.changes
    assert change.before is not None
    assert change.after is not None
    assert (change.before["age"], change.after["age"]) == (30, 31)
    edge, node = deleted.changes
    assert edge.to_dict()["before"] == {"id": "k1", "src": "Bob", "dst": "Carol", "since": None}
    assert (node.after, "after" in node.to_dict()) == (None, False)
    assert graph.changes().blocks[-1].changes[0].before is None
