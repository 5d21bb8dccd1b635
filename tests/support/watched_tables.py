"""Tables with an eye on the two doors that move a HEAD: a test may look, fail or interfere there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from omnigraphdb.api.graph import Graph
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import Landed, Staged

FragmentCounts = Callable[[Staged], None]


class WatchedTables:
    """Other tables, and what happens just before and just after a change is committed to one of them."""

    def __init__(
        self,
        inner: Tables,
        before: FragmentCounts,
        after: FragmentCounts,
        restoring: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._before = before
        self._after = after
        self._restoring = restoring

    def commit_staged(self, staged: Staged, **facts: Any) -> Landed:
        """Commit, watched."""
        self._before(staged)
        landed = self._inner.commit_staged(staged, **facts)
        self._after(staged)
        return landed

    def restore(self, *place: Any, **facts: Any) -> Landed:
        """Restore, watched."""
        self._restoring()
        return self._inner.restore(*place, **facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _nothing(*_: Any) -> None:
    return None


def watched(
    graph: Graph,
    *,
    before: FragmentCounts = _nothing,
    after: FragmentCounts = _nothing,
    restoring: Callable[[], None] = _nothing,
) -> Graph:
    """The same graph, its table commits watched."""
    engine = graph._engine
    tables: Any = WatchedTables(engine.committer.tables, before, after, restoring)
    committer = replace(engine.committer, tables=tables)
    recovery = replace(engine.recovery, committer=committer)
    return Graph(replace(engine, committer=committer, recovery=recovery), actor=graph._actor)
