"""The maintenance that needs the handle or the files of a graph: previews, relocation, refresh, discarded operations."""

from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraphdb.api.arguments import age_of, count_of, text_of
from omnigraphdb.api.results import DiscardedRecovery
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.handle import Handle
from omnigraphdb.engine.session.open import reopen_graph
from omnigraphdb.errors import warn_caller
from omnigraphdb.ids import OperationId

if TYPE_CHECKING:
    from omnigraphdb.api.reports import CleanupReport, RelocateReport


class Maintenance(Handle):
    """The maintenance that needs the handle or the files of a graph: previews, relocation, refresh, discarded operations."""

    def cleanup_preview(
        self, *, keep: int | None = None, older_than: timedelta | None = None
    ) -> "CleanupReport":
        """What `cleanup` would remove of tables now, by the same rules; also of a graph that is open for reading alone.

        Example:
            >>> {table.versions_removed for table in graph.cleanup_preview(keep=1000).tables}
            {0}
        """
        from omnigraphdb.engine.maintenance.cleanup import preview_cleanup

        rules = count_of("keep", keep), age_of("older_than", older_than)
        return preview_cleanup(self._engine, *rules)

    def relocate(self) -> "RelocateReport":
        """Write the present address of this graph, which was moved or copied, into its branches.

        This handle continues with the relocated graph; handles made from it with `on` are closed.

        Example:
            >>> graph.relocate().branches
            {}
        """
        from omnigraphdb.engine.maintenance.relocate import relocate_graph

        self._authorize(CallKind.MAINTAIN, None)
        engine = self._engine
        engine.require_writable("relocate")
        location = engine.location
        done = relocate_graph(
            location.uri, storage_options=dict(location.options), runtime=engine.runtime
        )
        self._opened = reopen_graph(engine)
        self._guard = self._guard.on(self._opened)
        return done

    def refresh(self, *, roll_back: bool = False, settle: bool | None = None) -> None:
        """Reload the graph and complete interrupted writes; with `roll_back`, roll back those that cannot be completed.

        `settle` is the deprecated name of `roll_back`.

        Example:
            >>> graph.refresh()
        """
        if settle is not None:
            warn_caller("refresh: settle= is deprecated; use roll_back=")
            roll_back = roll_back or settle
        self._engine.contracts.forget()
        self._engine.manifest.heads.clear()
        if self._engine.read_only:
            return
        if roll_back:
            self._engine.recovery.sweep()
        else:
            self._engine.recovery.refresh()

    def discard_recovery(self, operation_id: str) -> DiscardedRecovery:
        """Discard a pending operation: the rows it wrote stay in its tables, and the result lists them.

        Example:
            >>> for operation in graph.pending_recoveries():
            ...     if operation.problem:
            ...         graph.discard_recovery(operation.operation_id)
        """
        from omnigraphdb.recovery.discard import discard_operation

        self._engine.require_writable("recovery discard")
        engine, chosen = self._engine, OperationId(text_of("operation_id", operation_id))
        return discard_operation(engine.committer, engine.recovery.audit, chosen)
