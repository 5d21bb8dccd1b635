"""The commits of a served graph."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from omnigraph.api.results import Commit
from omnigraph.engine.results import Commits
from omnigraph.remote import decode
from omnigraph.remote.arguments import refuse_local
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraph.api.log_drawings import LogDrawing


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
        body = self._server.get(
            self._server.path("commits"),
            branch=self._branch_of(branch),
            limit=limit,
            actor=actor,
            since=None if start is None else str(start),
        )
        return Commits(decode.read_commit(one) for one in body["commits"])

    def log_drawing(
        self,
        branches: Sequence[str] | None = None,
        *,
        limit: int = 100,
        before: str | Commit | None = None,
        counts: bool = False,
    ) -> "LogDrawing":
        """The commits of branches and of what was merged into them, newest first, each with the lane of a drawing."""
        from omnigraph.remote.pictures import read_log

        last = None if before is None else str(before)
        path = self._server.path("log", "graph")
        asked = {"branch": branches, "limit": limit, "before": last}
        return read_log(self._server.get(path, **asked, counts="true" if counts else None))

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id or unique prefix."""
        return decode.read_commit(self._server.get(self._server.path("commits", str(id))))
