"""What a served graph tells of its maintenance."""

from typing import TYPE_CHECKING

from omnigraph.api.results import Job, RecoveryAudit, RecoverySidecar
from omnigraph.remote import decode
from omnigraph.remote.arguments import refuse_local
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraph.api.reports import Examination, IndexReport


@check_arguments
class Maintenance(Handle):
    """What a served graph tells of its maintenance."""

    def index_status(self, *, branch: str | None = None) -> "IndexReport":
        """Show the state of every index: `ready`, `partial`, `pending` or `damaged`."""
        from omnigraph.remote.reports import read_indexes

        path = self._server.path("index_status")
        return read_indexes(self._server.get(path, branch=self._branch_of(branch)))

    def doctor(self, **local: object) -> "Examination":
        """Check every invariant that must hold between writes; branches that may not be read are left out."""
        from omnigraph.remote.reports import read_examination

        refuse_local(local)
        return read_examination(self._server.get(self._server.path("doctor")))

    def recoveries(self) -> list[RecoveryAudit]:
        """Operations that recovery completed, rolled back or discarded, oldest first."""
        from omnigraph.remote.reports import read_recovery

        found = self._server.get(self._server.path("recoveries"))["settled"]
        return [read_recovery(one) for one in found]

    def pending_recoveries(self) -> list[RecoverySidecar]:
        """Pending operations, oldest first, including those of live writers."""
        from omnigraph.remote.reports import read_pending

        found = self._server.get(self._server.path("recoveries"))["pending"]
        return [read_pending(one) for one in found]

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first."""
        found = self._server.get(self._server.path("jobs"))["jobs"]
        return [decode.read_job(one) for one in found]
