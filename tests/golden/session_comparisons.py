"""The comparisons of the session: what commits changed, the feed, and diffs."""

from pathlib import Path
from typing import Any

from tests.golden.forms import Notes, read_file
from tests.golden.world import NOWHERE, Handle


def read_commit_changes(notes: Notes, graph: Handle) -> None:
    note = notes.note
    commits = graph.commits(branch="side")
    last = commits[0].id
    note("commit_changes", lambda: graph.commit_changes(commits[1], images=True))
    note("commit_changes, bare", lambda: graph.commit_changes(last, images=False))
    note(
        "commit_changes, filters",
        lambda: graph.commit_changes(commits[3], types=["Knows"], kinds=["edge"], ops=["insert"]),
    )
    page = note("commit_changes, page", lambda: graph.commit_changes(commits[3], limit=3))
    note(
        "commit_changes, next page",
        lambda: graph.commit_changes(commits[3], limit=3, page_token=page.next_page_token),
    )
    note("commit_changes, no token", lambda: graph.commit_changes(last, page_token="nonsense"))
    note("commit_changes, nothing", lambda: graph.commit_changes(NOWHERE))
    note("commit_changes, no kind", lambda: graph.commit_changes(last, kinds=["nodes"]))


def read_changes(notes: Notes, graph: Handle, folder: Path) -> None:
    note = notes.note
    commits = graph.commits(branch="side")
    first = commits[-1].id
    note("changes", lambda: graph.changes(branch="side", images=True, types=["Person"]))
    note("changes, since", lambda: graph.changes(branch="side", since=commits[1]))
    note("changes, limit", lambda: graph.changes(branch="side", since=first, limit=1))
    note("changes, nowhere", lambda: graph.changes(since=NOWHERE))
    note(
        "changes_stream",
        lambda: [
            _list_block(block) for block in graph.changes_stream(branch="side", since=commits[2])
        ],
    )
    note("changes_frame", lambda: graph.changes_frame(commits[2], branch="side", engine="arrow"))
    begin = note(
        "change_page", lambda: graph.change_page(branch="side", start="beginning", limit=3)
    )
    note(
        "change_page, token",
        lambda: graph.change_page(
            branch="side", start="beginning", limit=3, page_token=begin.next_page_token
        ),
    )
    now = note("change_page, now", lambda: graph.change_page())
    note("change_page, cursor", lambda: graph.change_page(cursor=now.cursor))
    note(
        "change_page, after",
        lambda: graph.change_page(branch="side", start=f"after:{commits[1].id}"),
    )
    note("change_page, no start", lambda: graph.change_page(start="later"))
    note("change_page, no cursor", lambda: graph.change_page(cursor="nonsense"))
    note("baseline", lambda: graph.baseline(folder / "base.jsonl", types=["City"]))
    note("baseline_stream", lambda: _list_baseline(graph.baseline_stream(types=["City"])))


def _list_block(block: Any) -> list[Any]:
    return [block.commit, list(block.changes)]


def _list_baseline(stream: Any) -> list[Any]:
    return [b"".join(map(bytes, stream.lines)), stream.commit, {"cursor": stream.cursor}]


def read_differences(notes: Notes, graph: Handle, folder: Path) -> None:
    note = notes.note
    note("diff", lambda: graph.diff("main", "side", images=True))
    note("diff, bare", lambda: graph.diff("main", "side"))
    note(
        "diff, filters",
        lambda: graph.diff("main", "side", types=["Person"], kinds=["node"], ops=["update"]),
    )
    note("diff, of nothing", lambda: graph.diff("main", "main"))
    note("diff, to a file", lambda: graph.diff("main", "side", out=folder / "diff.jsonl"))
    note("diff, the file", lambda: read_file(folder / "diff.jsonl"))
    note("diff, no state", lambda: graph.diff("main", "nowhere"))
    note("diff, no type", lambda: graph.diff("main", "side", types=["Persn"]))
    note("diff_stream", lambda: sorted(map(str, graph.diff_stream("main", "side"))))
    note("diff_frame", lambda: graph.diff_frame("main", "side", engine="arrow"))
    page = note("diff_page", lambda: graph.diff_page("main", "side", limit=2))
    note(
        "diff_page, next",
        lambda: graph.diff_page("main", "side", limit=2, page_token=page.next_page_token),
    )
    note(
        "diff_page, filters",
        lambda: graph.diff_page("main", "side", properties=["age"], actors=["bo"]),
    )
    note("diff_page, no token", lambda: graph.diff_page("main", "side", page_token="nonsense"))
    note("diff_drawing", lambda: graph.diff_drawing("main", "side"))
    note(
        "diff_drawing, small",
        lambda: graph.diff_drawing("main", "side", nodes_max=1, ops=["update"]),
    )
    note("diff_drawing, no state", lambda: graph.diff_drawing("main", "nowhere"))
