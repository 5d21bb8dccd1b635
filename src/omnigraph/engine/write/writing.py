"""One write of rows that are held in memory, over all its attempts."""

from collections.abc import Callable

from omnigraph.commit.delta import Deltas
from omnigraph.commit.plan import WritePlan
from omnigraph.engine.attempt import attempt
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.committed import SnapshotRows
from omnigraph.engine.write.prepare import Header, prepare
from omnigraph.ids import BranchName
from omnigraph.manifest.publish import Published
from omnigraph.manifest.records import GraphCommit
from omnigraph.manifest.view import View
from omnigraph.values import dataclass


@dataclass(slots=True)
class Writing:
    """One write over all its attempts; what it made true is remembered for the next one."""

    engine: Engine
    header: Header
    prepared: tuple[View, Deltas] | None = None

    def run(
        self, branch: BranchName, deltas: Callable[[View, SnapshotRows], Deltas]
    ) -> GraphCommit | None:
        """Prepare and commit; None when there was nothing to write."""

        def prepared(view: View) -> WritePlan | None:
            committed = open_committed_rows(self.engine, view)
            found = deltas(view, committed)
            self.prepared = (view, found)
            return prepare(view, found, committed, self.engine.workers, self.header)

        published = attempt(self.engine, branch, prepared, str(self.header.commit_kind))
        if published is None:
            return None
        self._remember(published)
        return published.commit

    def _remember(self, published: Published) -> None:
        assert self.prepared is not None, "a write is prepared before it is published"
        view, deltas = self.prepared
        after = published.state.snapshot.entries
        for change in deltas:
            table = change.type.table_key
            base = view.snapshot.entry(table)
            if after[table].version == base.version + 1:
                self.engine.known.advance(base, after[table], change)


def open_committed_rows(engine: Engine, view: View) -> SnapshotRows:
    """The rows of a view, for rules to look at."""
    return SnapshotRows(snapshot=view.snapshot, tables=engine.store.tables, known=engine.known)
