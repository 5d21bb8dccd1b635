"""Pages of one commit, the baseline handshake, gaps after a real cleanup, and where a comparison is refused."""

import json
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.comparisons import Change
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    ChangeDiffRefused,
    ChangeFeedGap,
    CursorRejected,
    HistoryReclaimed,
    StorageError,
    UserInputError,
)
from tests.engine.merge.test_scenarios import add

MANY = 25


@pytest.fixture
def busy(graph: Graph) -> Graph:
    """A graph whose last commit changed rows of two types."""
    people = [{"type": "Person", "data": {"name": f"n{n:02d}", "age": n}} for n in range(MANY)]
    ring = [
        {"edge": "Knows", "from": f"n{n:02d}", "to": "Alice", "data": {"id": f"e{n:02d}"}}
        for n in range(MANY)
    ]
    graph.load([*people, *ring], mode="merge")
    return graph


# ---- pages


@pytest.mark.parametrize("limit", [1, 7, 25, 26, 49, 50, 51])
def test_pages_of_a_commit_put_together_are_the_whole(busy: Graph, limit: int) -> None:
    newest = busy.commits()[0]
    whole = busy.commit_changes(newest)
    assert (len(whole.changes), whole.next_page_token) == (2 * MANY, None)
    seen: list[Change] = []
    token, pages = None, 0
    while pages == 0 or token is not None:
        page = busy.commit_changes(newest, limit=limit, page_token=token)
        assert 0 < len(page.changes) <= limit
        seen += page.changes
        token, pages = page.next_page_token, pages + 1
    assert tuple(seen) == whole.changes
    assert pages == -(-2 * MANY // limit)


def test_a_token_means_one_commit_and_one_choice(busy: Graph) -> None:
    newest, before, *_ = busy.commits()
    token = busy.commit_changes(newest, limit=3).next_page_token
    assert token is not None
    with pytest.raises(CursorRejected, match="belongs to commit"):
        busy.commit_changes(before, page_token=token)
    with pytest.raises(CursorRejected, match="other types"):
        busy.commit_changes(newest, page_token=token, types=["Person"])
    for wrong in ("x", token[:-9], busy.changes().cursor):
        with pytest.raises(CursorRejected):
            busy.commit_changes(newest, page_token=wrong)
    with pytest.raises(UserInputError, match="at least 1"):
        busy.commit_changes(newest, limit=0)
    chosen = busy.commit_changes(newest, types=["Person"], limit=20)
    rest = busy.commit_changes(newest, types=["Person"], page_token=chosen.next_page_token)
    assert len(rest.changes) == MANY - 20


def test_a_page_reads_no_rows_before_it(busy: Graph) -> None:
    newest = busy.commits()[0]
    token = busy.commit_changes(newest, limit=MANY + 5).next_page_token
    rest = busy.commit_changes(newest, page_token=token, images=True)
    assert {change.type_name for change in rest.changes} == {"Person"}
    assert all(change.after is not None for change in rest.changes)


def test_a_diff_can_be_taken_one_change_at_a_time(busy: Graph) -> None:
    newest, before, *_ = busy.commits()
    stream = busy.diff_stream(before, newest)
    assert not isinstance(stream, (tuple, list))
    first = next(stream)
    assert (first, *stream) == busy.diff(before, newest).changes


# ---- where the schema changed


def test_a_commit_that_reshaped_a_type_is_refused_for_that_type_only(graph: Graph) -> None:
    with_mail = graph.schema_source.replace("age:", "mail: String?  age:", 1)
    graph.schema_apply(with_mail)
    newest = graph.commits()[0]
    with pytest.raises(ChangeDiffRefused, match="schema of Person") as caught:
        graph.commit_changes(newest)
    refusal = caught.value.details["change_diff_refusal"]
    assert refusal == {
        "reason": "schema_boundary",
        "graph_commit_id": newest.id,
        "type_name": "Person",
    }
    assert graph.commit_changes(newest, types=["Knows"]).changes == ()
    add(graph, "Eve")
    assert len(graph.commit_changes(graph.commits()[0]).changes) == 1


# ---- baseline


def test_a_baseline_and_the_feed_after_it_give_the_graph_as_it_is(
    busy: Graph, tmp_path: Path
) -> None:
    out = tmp_path / "state.jsonl"
    found = busy.baseline(out)
    assert found.commit.id == busy.commits()[0].id
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines == list(busy.export())
    assert found.records == len(lines)
    assert busy.changes(since=found.cursor).blocks == ()
    add(busy, "Eve", age=4)
    [block] = busy.changes(since=found.cursor).blocks
    assert [change.id for change in block.changes] == ["Eve"]
    again = omnigraphdb.init(tmp_path / "copy", busy.schema_source)
    again.load(out, mode="append")
    assert list(again.export()) == lines


def test_a_baseline_replaces_its_file_whole_or_not_at_all(busy: Graph, tmp_path: Path) -> None:
    out = tmp_path / "state.jsonl"
    out.write_text("old")
    with pytest.raises(omnigraphdb.OmniError):
        busy.baseline(out, types=["Nobody"])
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".state")] == []
    busy.baseline(out, types=["Person"])
    assert {json.loads(line)["type"] for line in out.read_text().splitlines()} == {"Person"}
    with pytest.raises(StorageError, match="nothing was written"):
        busy.baseline(tmp_path / "nowhere" / "state.jsonl")


# ---- after cleanup


def test_after_a_cleanup_the_feed_has_a_gap_and_a_baseline_closes_it(
    graph: Graph, tmp_path: Path
) -> None:
    start = graph.changes().cursor
    for number in range(6):
        add(graph, "Alice", age=number)
    reached = graph.changes(since=start, limit=3).cursor
    graph.cleanup(keep=2, confirm=True)
    fresh = omnigraphdb.open(graph.uri)
    with pytest.raises(ChangeFeedGap) as caught:
        fresh.changes(since=reached)
    gap = caught.value.details["change_feed_gap"]
    assert gap["cursor"] == reached
    chain = [commit.id for commit in graph.commits()][::-1]
    unreadable = chain.index(gap["first_unreadable_commit_id"])
    with pytest.raises(HistoryReclaimed) as gone:
        fresh.commit_changes(chain[unreadable])
    assert gone.value.details["history_reclaimed"]["table_key"] == "__manifest"
    found = fresh.baseline(tmp_path / "state.jsonl")
    assert fresh.changes(since=found.cursor).caught_up
    assert len(fresh.changes(since=chain[-2]).blocks) == 1
