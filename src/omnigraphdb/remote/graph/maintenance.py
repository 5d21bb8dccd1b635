"""What a served graph tells of its maintenance."""

from typing import TYPE_CHECKING

from omnigraphdb.api.results import Job, RecoveryAudit, RecoverySidecar
from omnigraphdb.remote import forms
from omnigraphdb.remote.arguments import refuse_local
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraphdb.api.reports import Examination, IndexReport


@check_arguments
class Maintenance(Handle):
    """What a served graph tells of its maintenance."""

    def index_status(self, *, branch: str | None = None) -> "IndexReport":
        """Show the state of every index: `ready`, `partial`, `pending` or `damaged`."""
        from omnigraphdb.remote.reports import INDEXES

        path = self._server.path("index_status")
        return self._server.get(path, INDEXES, branch=self._branch_of(branch))

    def doctor(self, **local: object) -> "Examination":
        """Check every invariant that must hold between writes; branches that may not be read are left out."""
        from omnigraphdb.remote.reports import EXAMINATION

        refuse_local(local)
        return self._server.get(self._server.path("doctor"), EXAMINATION)

    def recoveries(self) -> list[RecoveryAudit]:
        """Operations that recovery completed, rolled back or discarded, oldest first."""
        from omnigraphdb.remote.reports import RECOVERIES

        return self._server.get(self._server.path("recoveries"), RECOVERIES)

    def pending_recoveries(self) -> list[RecoverySidecar]:
        """Pending operations, oldest first, including those of live writers."""
        from omnigraphdb.remote.reports import PENDING

        return self._server.get(self._server.path("recoveries"), PENDING)

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first."""
        return self._server.get(self._server.path("jobs"), forms.JOBS)
