"""The commits of a served graph."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from omnigraphdb.api.results import Commit
from omnigraphdb.engine.results import Commits
from omnigraphdb.remote import forms
from omnigraphdb.remote.arguments import refuse_local
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraphdb.api.log_drawings import LogDrawing


@check_arguments
class History(Handle):
    """The commits of a served graph."""

    def commits(
        self,
        *,
        branch: str | None = None,
        limit: int | None = None,
        actor: str | None = None,
        since: str | datetime | Commit | None = None,
        **local: object,
    ) -> Commits:
        """Commits visible on a branch, newest first."""
        refuse_local(local)
        start = since.isoformat() if isinstance(since, datetime) else since
        return self._server.get(
            self._server.path("commits"),
            forms.COMMITS,
            branch=self._branch_of(branch),
            limit=limit,
            actor=actor,
            since=None if start is None else str(start),
        )

    def log_drawing(
        self,
        branches: Sequence[str] | None = None,
        *,
        limit: int = 100,
        before: str | Commit | None = None,
        counts: bool = False,
    ) -> "LogDrawing":
        """The commits of branches and of what was merged into them, newest first, each with the lane of a drawing."""
        from omnigraphdb.remote.pictures import LOG

        last = None if before is None else str(before)
        path = self._server.path("log", "graph")
        asked = {"branch": branches, "limit": limit, "before": last}
        return self._server.get(path, LOG, **asked, counts="true" if counts else None)

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id or unique prefix."""
        return self._server.get(self._server.path("commits", str(id)), forms.COMMIT)
