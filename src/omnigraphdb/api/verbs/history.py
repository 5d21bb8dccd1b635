"""The commits of a graph, and the drawing of their history."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from omnigraphdb.api.results import Commit, CommitList, Commits, RecoveryAudit
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import (
    CommitName,
    Count,
    CountFromOne,
    Flag,
    Moment,
    Names,
    OwnBranch,
    Start,
    Text,
    arg,
    arguments,
)
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Verb
from omnigraphdb.errors import CursorRejected
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR
from omnigraphdb.runtime import us_of
from omnigraphdb.values import replace

if TYPE_CHECKING:
    from omnigraphdb.api.log_drawings import LogDrawing
    from omnigraphdb.api.verbs.handle import Handle
    from omnigraphdb.manifest.records import GraphCommit
    from omnigraphdb.manifest.state import BranchState

_PAGE: Final = "og1c."
"""The kind of a token that continues a list of commits."""
COMMITS_DRAWN_MAX: Final = 1_000
"""Commits of a page that a request may ask for."""


# ---- list


@arguments
class CommitsList:
    """The commits to list."""

    branch: OwnBranch = arg("The branch; main by default.", default=None)
    limit: Count | None = arg("Commits of a page; without it there are no pages.", default=None)
    page_token: Text | None = arg("Continue after an earlier page.", default=None)
    actor: Text | None = arg("Only commits of this actor.", default=None)
    since: Start | None = arg("Only commits after this commit or moment.", default=None)
    until: Moment | None = arg("Only commits up to this moment.", default=None)
    all: Flag = arg("`true` for commits of other branches that were merged as well.", default=False)


def _run_list(graph: "Handle", asked: CommitsList, call: Call) -> CommitList:
    state = graph._engine.manifest.current(graph._target(asked.branch, "commits"))
    limit = asked.limit
    is_plain = asked == CommitsList(branch=asked.branch, limit=limit) and call.shows is None
    if limit and is_plain:
        newest = state.newest(limit).listed(limit=limit)
        return _make_page(newest, has_more=newest[-1].parent is not None)
    commits = _list_commits(graph, state, asked, call.may_show)
    if asked.page_token is not None:
        commits = _list_after(commits, asked.page_token)
    listed = tuple(islice(commits, None if limit is None else limit + 1))
    page = listed[:limit]
    return _make_page(page, has_more=len(page) < len(listed))


def _list_commits(
    graph: "Handle", state: "BranchState", asked: CommitsList, may_show: Callable[[str], bool]
) -> "Iterable[GraphCommit]":
    lineage, since = state.lineage, asked.since
    if asked.all:
        lineage = lineage.with_merged(state.merged.commits)
    start = since if isinstance(since, datetime) or since is None else graph._commit_id(since)
    until = None if asked.until is None else us_of(asked.until)  # type: ignore[arg-type]
    commits = lineage.listed(actor=asked.actor, since=start)
    readable = {branch for branch in {c.branch for c in commits} if may_show(branch)}
    return (
        commit
        for commit in commits
        if commit.branch in readable and (until is None or commit.created_at <= until)
    )


def _list_after(commits: "Iterable[GraphCommit]", token: str) -> "Iterable[GraphCommit]":
    """List the commits after the last one of the page before."""
    from omnigraphdb.engine.history.feed import decode_token

    last = decode_token(_PAGE, token, {"after"})["after"]
    rest = iter(commits)
    if all(commit.id != last for commit in rest):
        raise CursorRejected("the page before asked for other commits")
    return rest


def _make_page(commits: "Sequence[GraphCommit]", *, has_more: bool) -> CommitList:
    token = None
    if has_more and commits:
        from omnigraphdb.engine.history.feed import encode_token

        token = encode_token(_PAGE, {"after": commits[-1].id})
    return CommitList(commits=tuple(map(Commit.of, commits)), next_page_token=token)


LIST_COMMITS = Verb(
    arguments=CommitsList,
    result="omnigraphdb.api.results:CommitList",
    run=_run_list,
    kind=CallKind.READ,
    scope=lambda graph, asked: {"branch": graph._target(asked.branch, "commits")},
    summary="List commits, newest first; all of them unless `limit` is given",
    endpoint=Endpoint(method=Method.GET, path="/commits", operation="listCommits"),
)


# ---- drawing


def _cut_drawn(_name: str, value: int) -> int:
    return min(value, COMMITS_DRAWN_MAX)


@arguments
class LogDraw:
    """The commits to draw."""

    branches: Names | None = arg(
        "Only this branch; every one by default.", wire="branch", default=None
    )
    limit: CountFromOne | None = arg("Commits of a page; 100.", default=100, served=_cut_drawn)
    before: CommitName | None = arg("The last commit of the page before.", default=None)
    counts: Flag = arg("`true` to count what the first 25 commits changed.", default=False)


def _run_draw(graph: "Handle", asked: LogDraw, call: Call) -> "LogDrawing":
    from omnigraphdb.api.log_drawings import draw_log

    return draw_log(
        graph._engine,
        asked.branches,
        asked.limit or 1,
        asked.before,
        call.may_show,
        counts=asked.counts,
    )


DRAW_LOG = Verb(
    arguments=LogDraw,
    result="omnigraphdb.api.log_drawings:LogDrawing",
    run=_run_draw,
    kind=CallKind.READ,
    # Which branches are drawn, `shows` says.
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="Show commits with the lanes of a drawing, newest first",
    endpoint=Endpoint(method=Method.GET, path="/log/graph", operation="drawLog"),
)


# ---- show


@arguments
class CommitShow:
    """A commit to show."""

    id: CommitName = arg("The commit.")


def _run_show(graph: "Handle", asked: CommitShow, _call: Call) -> Commit:
    from omnigraphdb.manifest.travel import find_commit

    commit = Commit.of(find_commit(graph._engine.manifest, asked.id))
    if commit.actor != RECOVERY_ACTOR:
        return commit
    return replace(commit, recovery=_find_recovery(graph, commit))


def _find_recovery(graph: "Handle", commit: Commit) -> RecoveryAudit | None:
    rows = graph._engine.recovery.audit.rows()
    return next((RecoveryAudit.of(row) for row in rows if row.commit == commit.id), None)


def _scope_show(graph: "Handle", asked: CommitShow) -> dict[str, str | None]:
    from omnigraphdb.manifest.travel import find_commit

    return {"branch": find_commit(graph._engine.manifest, asked.id).branch}


SHOW_COMMIT = Verb(
    arguments=CommitShow,
    result="omnigraphdb.api.results:Commit",
    run=_run_show,
    kind=CallKind.READ,
    scope=_scope_show,
    summary="Show one commit",
    endpoint=Endpoint(
        method=Method.GET,
        path="/commits/{commit}",
        operation="getCommit",
        names={"commit": "id"},
    ),
)

HISTORY_VERBS: tuple[Verb[Any, Any], ...] = (LIST_COMMITS, DRAW_LOG, SHOW_COMMIT)


# ---- methods


class HistoryVerbs(Calls):
    """The commits of a graph, and the drawing of their history."""

    def commits(
        self,
        *,
        branch: str | None = None,
        limit: int | None = None,
        actor: str | None = None,
        since: str | datetime | Commit | None = None,
        until: str | datetime | None = None,
        all: bool = False,
    ) -> list[Commit]:
        """Commits visible on a branch, newest first; `all` adds commits of other branches that were merged.

        Example:
            >>> [(str(commit.kind), commit.actor) for commit in graph.commits(limit=2)]
            [('load', 'ada'), ('load', 'ada')]
        """
        asked = CommitsList(
            branch=branch, limit=limit, actor=actor, since=since, until=until, all=all
        )
        return Commits(self._call(LIST_COMMITS, asked).commits)

    def log_drawing(
        self,
        branches: Sequence[str] | None = None,
        *,
        limit: int = 100,
        before: str | Commit | None = None,
        counts: bool = False,
        shows: Callable[[str], bool] | None = None,
    ) -> "LogDrawing":
        """The commits of branches and of what was merged into them, newest first, each with the lane of a drawing.

        `before` is the last commit of the page before. With `counts` the first 25 commits of the page say how much they
        changed. `shows` says which branches are shown, all by default.

        Example:
            >>> page = graph.log_drawing(["main"], limit=2)
            >>> [commit.lane for commit in page.commits], page.next == page.commits[-1].id
            ([0, 0], True)
        """
        asked = LogDraw(
            branches=branches,
            limit=limit,
            before=before,  # type: ignore[arg-type]
            counts=counts,
        )
        return self._call(DRAW_LOG, asked, Call(shows=shows))

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id, unique prefix or tag.

        Example:
            >>> newest = graph.commits()[0]
            >>> graph.commit(newest.id).tables
            ('node:Person',)
        """
        return self._call(SHOW_COMMIT, CommitShow(id=id))  # type: ignore[arg-type]
