"""The commits of a graph, their names, and what became of requests."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from omnigraphdb.api.arguments import (
    count_of,
    flag_of,
    name_of,
    names_of,
    shows_of,
    text_of,
)
from omnigraphdb.api.graph.handle import Handle
from omnigraphdb.api.results import Commit, Commits
from omnigraphdb.manifest.travel import find_commit

if TYPE_CHECKING:
    from omnigraphdb.api.log_drawings import LogDrawing


class History(Handle):
    """The commits of a graph, their names, and what became of requests."""

    def commits(
        self,
        *,
        branch: str | None = None,
        limit: int | None = None,
        actor: str | None = None,
        since: str | datetime | Commit | None = None,
        all: bool = False,
    ) -> list[Commit]:
        """Commits visible on a branch, newest first; `all` adds commits of other branches that were merged.

        Example:
            >>> [(str(commit.kind), commit.actor) for commit in graph.commits(limit=2)]
            [('load', 'ada'), ('load', 'ada')]
        """
        target = self._target(branch, "commits")
        state = self._engine.manifest.current(target)
        wanted = count_of("limit", limit)
        with_merged = flag_of("all", all)
        if wanted and actor is None and since is None and not with_merged:
            return Commits(map(Commit.of, state.newest(wanted).listed(limit=wanted)))
        lineage = state.lineage.with_merged(state.merged.commits) if with_merged else state.lineage
        start = since if isinstance(since, datetime) or since is None else self._commit_id(since)
        by = None if actor is None else text_of("actor", actor)
        listed = lineage.listed(actor=by, since=start, limit=wanted)
        return Commits(map(Commit.of, listed))

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
        from omnigraphdb.api.log_drawings import draw_log

        named = names_of("branches", branches)
        size = count_of("limit", limit, least=1) or 1
        start = None if before is None else str(before)
        return draw_log(
            self._engine,
            named,
            size,
            start,
            shows_of("shows", shows),
            counts=flag_of("counts", counts),
        )

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id, unique prefix or tag.

        Example:
            >>> newest = graph.commits()[0]
            >>> graph.commit(newest.id).tables
            ('node:Person',)
        """
        return Commit.of(find_commit(self._engine.manifest, text_of("id", name_of(id))))
