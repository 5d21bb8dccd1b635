"""The maintenance of a graph: indexes, compaction, cleanup, repair, recovery, and the work that goes on."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraphdb.api.arguments import age_of, count_of, flag_of, text_of
from omnigraphdb.api.graph.handle import Handle
from omnigraphdb.api.results import DiscardedRecovery, RecoveryAudit, RecoverySidecar
from omnigraphdb.api.rights import CallKind
from omnigraphdb.engine.jobs import Job, JobKind
from omnigraphdb.engine.session.open import reopen_graph
from omnigraphdb.errors import warn_caller
from omnigraphdb.ids import MAIN, OperationId

if TYPE_CHECKING:
    from omnigraphdb.api.reports import (
        CleanupReport,
        Examination,
        IndexReport,
        OptimizeReport,
        RelocateReport,
        RepairReport,
    )
    from omnigraphdb.api.types import Spark
    from omnigraphdb.pipeline.progress import Tell


class Maintenance(Handle):
    """The maintenance of a graph: indexes, compaction, cleanup, repair, recovery, and the work that goes on."""

    def ensure_indices(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        spark: "Spark" = None,
        progress: "Tell | None" = None,
    ) -> "IndexReport":
        """Build every index the schema asks for and that is missing; no row and no history changes.

        With `spark` (a session, or True) executors build the segments; only this process commits.

        Example:
            >>> {str(index.state) for index in graph.ensure_indices().indexes}
            {'ready'}
        """
        from omnigraphdb.api.runners import workers_of
        from omnigraphdb.engine.maintenance.indexes import ensure_indices

        target = self._target(branch, "ensure indices")
        by = self._authorize(CallKind.MAINTAIN, actor).actor
        workers = workers_of(self._engine, spark)
        with self._job(JobKind.INDEX, target, by, progress) as tell:
            return ensure_indices(self._engine, target, actor=by, workers=workers, tell=tell)

    def index_status(self, *, branch: str | None = None) -> "IndexReport":
        """Show the state of every index: `ready`, `partial`, `pending` or `damaged`.

        Example:
            >>> [(index.table_key, index.column, str(index.state)) for index in graph.index_status().indexes][:1]
            [('edge:Knows', 'id', 'ready')]
        """
        from omnigraphdb.engine.maintenance.indexes import index_status

        return index_status(self._engine, self._target(branch, "index status"))

    def optimize(
        self,
        *,
        actor: str | None = None,
        spark: "Spark" = None,
        progress: "Tell | None" = None,
    ) -> "OptimizeReport":
        """Compact the tables of main and bring their indexes up to date; no row and no history changes.

        With `spark` (a session, or True) executors rewrite and index; only this process commits.

        Example:
            >>> [table.table_key for table in graph.optimize().tables]
            ['edge:Knows', 'node:Person']
        """
        from omnigraphdb.api.runners import workers_of
        from omnigraphdb.engine.maintenance.optimize import optimize

        by, workers = (
            self._authorize(CallKind.MAINTAIN, actor).actor,
            workers_of(self._engine, spark),
        )
        with self._job(JobKind.OPTIMIZE, MAIN, by, progress) as tell:
            report = optimize(self._engine, actor=by, workers=workers, tell=tell)
        if workers is None:
            return report
        return replace(report, engine="spark", reason="Spark was asked for")

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        confirm: bool = False,
        actor: str | None = None,
        progress: "Tell | None" = None,
    ) -> "CleanupReport":
        """Remove table versions that are neither among the newest `keep` nor were visible within `older_than`.

        Cleanup also removes forks of deleted branches, dropped tables, scratch files of loads that never ended, and
        records of dead jobs.
        States that a branch shows stay readable; without `confirm` nothing is removed and the report is a preview.

        Example:
            >>> from datetime import timedelta
            >>> graph.cleanup(older_than=timedelta(days=7)).confirmed
            False
        """
        from omnigraphdb.engine.maintenance.cleanup import cleanup

        by = self._authorize(CallKind.MAINTAIN, actor).actor
        with self._job(JobKind.CLEANUP, MAIN, by, progress) as tell:
            return cleanup(
                self._engine,
                keep=count_of("keep", keep),
                older_than=age_of("older_than", older_than),
                confirm=flag_of("confirm", confirm),
                actor=by,
                tell=tell,
            )

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

    def repair(
        self, *, confirm: bool = False, force: bool = False, actor: str | None = None
    ) -> "RepairReport":
        """List table commits that no write of the graph explains; with `confirm` adopt those that changed no row.

        `force` adopts the others too: their rows become visible as they are. A table of main of which a file is cut or
        missing is listed as unreadable; with `confirm` its last readable version is restored, in a commit of its own.

        Example:
            >>> graph.repair().commit is None
            True
        """
        from omnigraphdb.engine.maintenance.repair import repair

        by = self._authorize(CallKind.MAINTAIN, actor).actor
        return repair(
            self._engine,
            confirm=flag_of("confirm", confirm),
            force=flag_of("force", force),
            actor=by,
        )

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

    def doctor(self, *, deep: bool = False) -> "Examination":
        """Check every invariant that must hold between writes; an `Examination` is a list of issues, empty when all hold.

        With `deep` every file is read and compared with the digest that was recorded when it was written; the result
        then counts `files_compared` and `files_without_digest`.

        Example:
            >>> for issue in graph.doctor(deep=True):
            ...     print(issue)
        """
        from omnigraphdb.engine.maintenance.doctor import examine

        return examine(self._engine, deep=flag_of("deep", deep))

    def recoveries(self) -> list[RecoveryAudit]:
        """Operations that recovery completed, rolled back or discarded, oldest first.

        Example:
            >>> graph.recoveries()
            []
        """
        return [RecoveryAudit.of(row) for row in self._engine.recovery.audit.rows()]

    def pending_recoveries(self) -> list[RecoverySidecar]:
        """Pending operations, oldest first, including those of live writers.

        Example:
            >>> graph.pending_recoveries()
            []
        """
        return [RecoverySidecar.of(one) for one in self._engine.recovery.forecast()]

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

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first; a dead job fell silent before it ended.

        Loads, merges, exports, index builds, optimize, cleanup and schema changes show themselves after two seconds. A
        handle that only reads shows nothing of its own.

        Example:
            >>> graph.jobs()
            []
        """
        return self._engine.jobs.list()
