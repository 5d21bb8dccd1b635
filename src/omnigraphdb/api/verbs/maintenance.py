"""The maintenance of a graph: its description, indexes, compaction, cleanup, repair, recoveries, and the work that goes on."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from omnigraphdb.api.arguments import Reference
from omnigraphdb.api.results import (
    Job,
    OperationStatus,
    RecoveryAudit,
    RecoveryList,
    RecoverySidecar,
)
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import Age, Count, Flag, Key, OwnBranch, Point, arg, arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Verb
from omnigraphdb.engine.jobs import JobKind, JobList
from omnigraphdb.errors import NotFoundError, UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.values import replace

if TYPE_CHECKING:
    from omnigraphdb.api.description import Description
    from omnigraphdb.api.reports import (
        CleanupReport,
        Examination,
        IndexReport,
        OptimizeReport,
        RepairReport,
        TableCleaned,
    )
    from omnigraphdb.api.snapshot import Snapshot
    from omnigraphdb.api.types import Spark
    from omnigraphdb.api.verbs.handle import Handle
    from omnigraphdb.engine.maintenance.issues import IssueList
    from omnigraphdb.pipeline.progress import OnProgress
    from omnigraphdb.storage.tables import Workers

T = TypeVar("T")
Scope = Mapping[str, str | None]

_NAMED_BRANCH: Final = re.compile(r"(?:fork|branch) '([^']*)'")
"""A branch in the error of a table or of the manifest that cleanup could not clean."""


def _scope_of(operation: str) -> Callable[[Any, Any], Scope]:
    """Make the scope of a verb that is about the branch that it names, else that of the handle."""
    return lambda graph, asked: {"branch": graph._target(asked.branch, operation)}


def _scope_main(_graph: object, _asked: object) -> Scope:
    return {"branch": MAIN}


def _workers(graph: "Handle", call: Call) -> "Workers | None":
    from omnigraphdb.api.runners import workers_of

    return workers_of(graph._engine, None if call.spark == "auto" else call.spark)


def _keep_shown(
    entries: Iterable[T], branch_of: Callable[[T], str | None], may_show: Callable[[str], bool]
) -> tuple[T, ...]:
    """Leave out the entries about a branch that the caller may not see; an entry about no branch concerns main."""
    pairs = [(entry, branch_of(entry) or MAIN) for entry in entries]
    shown = {branch for branch in {branch for _, branch in pairs} if may_show(branch)}
    return tuple(entry for entry, branch in pairs if branch in shown)


# ---- description


@arguments
class GraphDescribe:
    """A description of a branch."""

    branch: OwnBranch = arg("The branch; main by default.", default=None)
    at: Point = arg("A commit or a manifest version of the branch.", default=None)


def _run_describe(graph: "Handle", asked: GraphDescribe, call: Call) -> "Description":
    from omnigraphdb.api.description import describe

    def read(snapshot: "Snapshot") -> "Description":
        with snapshot._reading():
            return describe(snapshot._engine, snapshot._view, call.may_show)

    return graph._read(asked.branch, asked.at, read)


DESCRIBE = Verb(
    arguments=GraphDescribe,
    result="omnigraphdb.api.description:Description",
    run=_run_describe,
    kind=CallKind.READ,
    scope=_scope_of("read"),
    summary="Describe types, branches, newest commits and pending operations",
    endpoint=Endpoint(
        method=Method.GET, path="/describe", operation="describeGraph", statuses=(410,)
    ),
)


# ---- indexes


@arguments
class IndexesShow:
    """The indexes to show."""

    branch: OwnBranch = arg("The branch; main by default.", default=None)


def _run_show_indexes(graph: "Handle", asked: IndexesShow, _call: Call) -> "IndexReport":
    from omnigraphdb.engine.maintenance.indexes import index_status

    return index_status(graph._engine, graph._target(asked.branch, "index status"))


SHOW_INDEXES = Verb(
    arguments=IndexesShow,
    result="omnigraphdb.engine.maintenance.indexes:IndexReport",
    run=_run_show_indexes,
    kind=CallKind.READ,
    scope=_scope_of("index status"),
    summary="Show how far indexes cover their tables",
    endpoint=Endpoint(method=Method.GET, path="/index_status", operation="indexStatus"),
)


@arguments
class IndexesEnsure:
    """The indexes to build: those that are missing."""

    branch: OwnBranch = arg("The branch; main by default.", default=None)


def _run_ensure_indexes(graph: "Handle", asked: IndexesEnsure, call: Call) -> "IndexReport":
    from omnigraphdb.engine.maintenance.indexes import ensure_indices

    target, workers = graph._target(asked.branch, "ensure indices"), _workers(graph, call)
    with graph._job(JobKind.INDEX, target, call.actor, call.progress) as on_progress:
        return ensure_indices(
            graph._engine, target, actor=call.actor, workers=workers, on_progress=on_progress
        )


ENSURE_INDEXES = Verb(
    arguments=IndexesEnsure,
    result="omnigraphdb.engine.maintenance.indexes:IndexReport",
    run=_run_ensure_indexes,
    kind=CallKind.MAINTAIN,
    scope=_scope_of("ensure indices"),
    summary="Build every index that the schema asks for and that is missing",
    endpoint=Endpoint(
        method=Method.POST, path="/indexes", operation="ensureIndices", input="EnsureIndicesInput"
    ),
    writes=True,
)


# ---- compaction


@arguments
class Optimize:
    """A compaction of the tables of main."""


def _run_optimize(graph: "Handle", _asked: Optimize, call: Call) -> "OptimizeReport":
    from omnigraphdb.engine.maintenance.optimize import optimize

    workers = _workers(graph, call)
    with graph._job(JobKind.OPTIMIZE, MAIN, call.actor, call.progress) as on_progress:
        report = optimize(graph._engine, actor=call.actor, workers=workers, on_progress=on_progress)
    if workers is None:
        return report
    return replace(report, engine="spark", reason="Spark was asked for")


OPTIMIZE = Verb(
    arguments=Optimize,
    result="omnigraphdb.engine.maintenance.optimize:OptimizeReport",
    run=_run_optimize,
    kind=CallKind.MAINTAIN,
    scope=_scope_main,
    summary="Compact the tables of main and bring their indexes up to date",
    endpoint=Endpoint(
        method=Method.POST, path="/optimize", operation="optimize", input="OptimizeInput"
    ),
    writes=True,
)


# ---- cleanup


@arguments
class Cleanup:
    """A removal of old table versions; without `confirm` nothing is removed."""

    keep: Count | None = arg("Versions of each table to keep.", default=None)
    older_than: Age = arg(
        "Keep the versions that were visible within so many seconds.",
        wire="older_than_seconds",
        default=None,
    )
    confirm: Flag = arg("Remove the versions; without it the answer is a preview.", default=False)


def _run_cleanup(graph: "Handle", asked: Cleanup, call: Call) -> "CleanupReport":
    from omnigraphdb.engine.maintenance.cleanup import cleanup

    with graph._job(JobKind.CLEANUP, MAIN, call.actor, call.progress) as on_progress:
        report = cleanup(
            graph._engine,
            keep=asked.keep,
            older_than=asked.older_than,
            confirm=asked.confirm,
            actor=call.actor,
            on_progress=on_progress,
        )
    tables = tuple(_hide_branches(table, call.may_show) for table in report.tables)
    return replace(report, tables=tables, manifest=_hide_branches(report.manifest, call.may_show))


def _hide_branches(table: "TableCleaned", may_show: Callable[[str], bool]) -> "TableCleaned":
    """Leave out the branches that the caller may not see; forks have the names of branches."""
    forks = tuple(filter(may_show, table.forks_removed))
    error = table.error
    if error is not None and not all(map(may_show, _NAMED_BRANCH.findall(error))):
        error = "branches that you may not read could not be cleaned"
    return replace(table, forks_removed=forks, error=error)


CLEANUP = Verb(
    arguments=Cleanup,
    result="omnigraphdb.engine.maintenance.cleanup:CleanupReport",
    run=_run_cleanup,
    kind=CallKind.MAINTAIN,
    scope=_scope_main,
    summary="Remove table versions that no rule keeps and no branch shows",
    endpoint=Endpoint(
        method=Method.POST, path="/cleanup", operation="cleanup", input="CleanupInput"
    ),
    writes=True,
)


# ---- repair


@arguments
class Repair:
    """A repair of tables of main; without `confirm` nothing is changed."""

    confirm: Flag = arg(
        "Adopt commits that changed no row, and restore unreadable tables.", default=False
    )
    force: Flag = arg("With `confirm`, adopt the other commits too.", default=False)


def _run_repair(graph: "Handle", asked: Repair, call: Call) -> "RepairReport":
    from omnigraphdb.engine.maintenance.repair import repair

    return repair(graph._engine, confirm=asked.confirm, force=asked.force, actor=call.actor)


REPAIR = Verb(
    arguments=Repair,
    result="omnigraphdb.engine.maintenance.repair:RepairReport",
    run=_run_repair,
    kind=CallKind.MAINTAIN,
    scope=_scope_main,
    summary="List table commits that no write explains, or adopt them",
    endpoint=Endpoint(method=Method.POST, path="/repair", operation="repair", input="RepairInput"),
    writes=True,
)


# ---- examination


@arguments
class Examine:
    """An examination of the invariants that hold between writes."""

    deep: Flag = arg(
        "Read every file and compare it with its recorded digest.", default=False, local=True
    )


def _run_examine(graph: "Handle", asked: Examine, call: Call) -> "IssueList":
    from omnigraphdb.engine.maintenance.doctor import examine

    examination = examine(graph._engine, deep=asked.deep)
    issues = _keep_shown(examination, lambda issue: issue.branch, call.may_show)
    return replace(examination.listed(), findings=issues)


EXAMINE = Verb(
    arguments=Examine,
    result="omnigraphdb.engine.maintenance.issues:IssueList",
    run=_run_examine,
    kind=CallKind.READ,
    scope=_scope_main,
    summary="Show what is wrong with the graph, and what to do about it",
    endpoint=Endpoint(method=Method.GET, path="/doctor", operation="doctor"),
)


# ---- recoveries


@arguments
class RecoveriesList:
    """The recoveries to list."""

    pending: Flag = arg(
        "List operations that recovery has yet to finish.", default=False, local=True
    )
    settled: Flag = arg("List operations that recovery finished.", default=False, local=True)


def _run_list_recoveries(graph: "Handle", asked: RecoveriesList, call: Call) -> RecoveryList:
    recovery, shows = graph._engine.recovery, call.may_show
    pending = map(RecoverySidecar.of, recovery.forecast()) if asked.pending else ()
    settled = map(RecoveryAudit.of, recovery.audit.rows()) if asked.settled else ()
    if call.shows is None:
        return RecoveryList(pending=tuple(pending), settled=tuple(settled))
    return RecoveryList(
        pending=_keep_shown(pending, lambda operation: operation.branch, shows),
        settled=_keep_shown(settled, lambda audit: _find_branch(graph, audit.commit), shows),
    )


def _find_branch(graph: "Handle", commit: str) -> str | None:
    """Name the branch that made a commit; None for a commit that no branch has any more."""
    from omnigraphdb.manifest.travel import find_commit

    try:
        return find_commit(graph._engine.manifest, commit).branch
    except (NotFoundError, UserInputError):
        return None


LIST_RECOVERIES = Verb(
    arguments=RecoveriesList,
    result="omnigraphdb.api.results:RecoveryList",
    run=_run_list_recoveries,
    kind=CallKind.READ,
    scope=_scope_main,
    summary="Show writes that recovery has yet to finish, and those it finished",
    endpoint=Endpoint(
        method=Method.GET,
        path="/recoveries",
        operation="listRecoveries",
        fixed={"pending": True, "settled": True},
    ),
)


# ---- requests and jobs


@arguments
class OperationShow:
    """A request with an idempotency key."""

    key: Key = arg("The idempotency key.")
    branch: OwnBranch = arg("The branch; main by default.", default=None)


def _run_show_operation(graph: "Handle", asked: OperationShow, call: Call) -> OperationStatus:
    from omnigraphdb.engine.keyed import find_status

    target = graph._target(asked.branch, "operation")
    return find_status(graph._engine, target, call.actor, asked.key)


SHOW_OPERATION = Verb(
    arguments=OperationShow,
    result="omnigraphdb.engine.results:OperationStatus",
    run=_run_show_operation,
    kind=CallKind.READ,
    scope=_scope_of("operation"),
    summary="Say what became of the caller's request with an idempotency key",
    endpoint=Endpoint(
        method=Method.GET,
        path="/operation/{key}",
        operation="getOperation",
        names={"key": "key"},
    ),
)


@arguments
class JobsList:
    """The jobs to list: all."""


def _run_list_jobs(graph: "Handle", _asked: JobsList, call: Call) -> JobList:
    jobs = graph._engine.jobs.list()
    return JobList(jobs=_keep_shown(jobs, lambda job: job.branch, call.may_show))


LIST_JOBS = Verb(
    arguments=JobsList,
    result="omnigraphdb.engine.jobs:JobList",
    run=_run_list_jobs,
    kind=CallKind.READ,
    # Jobs of branches that the caller may not read are left out.
    scope=lambda _graph, _asked: {},
    summary="List long work that runs, and what died",
    endpoint=Endpoint(method=Method.GET, path="/jobs", operation="listJobs"),
)

MAINTENANCE_VERBS: tuple[Verb[Any, Any], ...] = (
    DESCRIBE,
    SHOW_INDEXES,
    ENSURE_INDEXES,
    OPTIMIZE,
    CLEANUP,
    REPAIR,
    EXAMINE,
    LIST_RECOVERIES,
    SHOW_OPERATION,
    LIST_JOBS,
)


# ---- methods


class MaintenanceVerbs(Calls):
    """The maintenance of a graph: its description, indexes, compaction, cleanup, repair, recoveries, and the work that goes on."""

    def describe(self, *, branch: str | None = None, at: Reference | None = None) -> "Description":
        """What the graph holds: types with rows, sizes and indexes, branches, newest commits, pending operations.

        Opens every table once and reads no rows; print the result, or look at it in a notebook.

        Example:
            >>> found = graph.describe()
            >>> found.branch, [(one.kind, one.name) for one in found.types]
            ('main', [('edge', 'Knows'), ('node', 'Person')])
        """
        return self._call(DESCRIBE, GraphDescribe(branch=branch, at=at))

    def operation(
        self, key: str, *, branch: str | None = None, actor: str | None = None
    ) -> OperationStatus:
        """Say what became of the request of an idempotency key: `landed`, `not_landed` or `undecided`.

        Keys are per branch and actor; those of `branch_create` and `branch_delete` are on main.

        Example:
            >>> nobody = 'query q() { update Person set { age: 1 } where name = "nobody" }'
            >>> done = graph.mutate(nobody, idempotency_key="request-17")
            >>> graph.mutate(nobody, idempotency_key="request-17").replayed
            True
            >>> str(graph.operation("request-17").state)
            'landed'
        """
        return self._call(SHOW_OPERATION, OperationShow(key=key, branch=branch), Call(actor=actor))

    def ensure_indices(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        spark: "Spark" = None,
        progress: "OnProgress | None" = None,
    ) -> "IndexReport":
        """Build every index the schema asks for and that is missing; no row and no history changes.

        With `spark` (a session, or True) executors build the segments; only this process commits.

        Example:
            >>> {str(index.state) for index in graph.ensure_indices().indexes}
            {'ready'}
        """
        call = Call(actor=actor, spark=spark, progress=progress)
        return self._call(ENSURE_INDEXES, IndexesEnsure(branch=branch), call)

    def index_status(self, *, branch: str | None = None) -> "IndexReport":
        """Show the state of every index: `ready`, `partial`, `pending` or `damaged`.

        Example:
            >>> [(index.table_key, index.column, str(index.state)) for index in graph.index_status().indexes][:1]
            [('edge:Knows', 'id', 'ready')]
        """
        return self._call(SHOW_INDEXES, IndexesShow(branch=branch))

    def optimize(
        self,
        *,
        actor: str | None = None,
        spark: "Spark" = None,
        progress: "OnProgress | None" = None,
    ) -> "OptimizeReport":
        """Compact the tables of main and bring their indexes up to date; no row and no history changes.

        With `spark` (a session, or True) executors rewrite and index; only this process commits.

        Example:
            >>> [table.table_key for table in graph.optimize().tables]
            ['edge:Knows', 'node:Person']
        """
        call = Call(actor=actor, spark=spark, progress=progress)
        return self._call(OPTIMIZE, Optimize(), call)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        confirm: bool = False,
        actor: str | None = None,
        progress: "OnProgress | None" = None,
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
        asked = Cleanup(keep=keep, older_than=older_than, confirm=confirm)
        return self._call(CLEANUP, asked, Call(actor=actor, progress=progress))

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
        asked = Repair(confirm=confirm, force=force)
        return self._call(REPAIR, asked, Call(actor=actor))

    def doctor(self, *, deep: bool = False) -> "Examination":
        """Check every invariant that must hold between writes; an `Examination` is a list of issues, empty when all hold.

        With `deep` every file is read and compared with the digest that was recorded when it was written; the result
        then counts `files_compared` and `files_without_digest`.

        Example:
            >>> for issue in graph.doctor(deep=True):
            ...     print(issue)
        """
        from omnigraphdb.engine.maintenance.issues import Examination

        return Examination.of(self._call(EXAMINE, Examine(deep=deep)))

    def recoveries(self) -> list[RecoveryAudit]:
        """Operations that recovery completed, rolled back or discarded, oldest first.

        Example:
            >>> graph.recoveries()
            []
        """
        return list(self._call(LIST_RECOVERIES, RecoveriesList(settled=True)).settled)

    def pending_recoveries(self) -> list[RecoverySidecar]:
        """Pending operations, oldest first, including those of live writers.

        Example:
            >>> graph.pending_recoveries()
            []
        """
        return list(self._call(LIST_RECOVERIES, RecoveriesList(pending=True)).pending)

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first; a dead job fell silent before it ended.

        Loads, merges, exports, index builds, optimize, cleanup and schema changes show themselves after two seconds. A
        handle that only reads shows nothing of its own.

        Example:
            >>> graph.jobs()
            []
        """
        return list(self._call(LIST_JOBS, JobsList()).jobs)
