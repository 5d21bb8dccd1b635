"""A view: branch, head, catalog and snapshot, captured once and used for the whole of one operation."""

from dataclasses import dataclass

from omnigraph.catalog.contract import Contract
from omnigraph.catalog.model import Catalog
from omnigraph.ids import MAIN, BranchName, CommitId, Version
from omnigraph.manifest.contracts import Accepted, Contracts
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import At, state_at


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one operation sees. It is discarded after a commit or a failed attempt; a retry captures another."""

    branch: BranchName
    accepted: Accepted
    state: BranchState

    @property
    def catalog(self) -> Catalog:
        """The types of the graph as they are now, whatever time is read."""
        return self.accepted.catalog

    @property
    def contract(self) -> Contract:
        """The accepted schema with its identities."""
        return self.accepted.contract

    @property
    def snapshot(self) -> Snapshot:
        """The visible table versions."""
        return self.state.snapshot

    @property
    def head(self) -> GraphCommit | None:
        """The commit that is read."""
        return self.state.head

    @property
    def commit(self) -> CommitId | None:
        """The id of the commit that is read."""
        return self.state.head.id if self.state.head is not None else None

    @property
    def version(self) -> Version:
        """The manifest version that is read."""
        return self.state.version

    @property
    def lineage(self) -> Lineage:
        """The history up to the commit that is read."""
        return self.state.lineage


def capture(
    manifest: Manifest, contracts: Contracts, branch: BranchName = MAIN, at: At | None = None
) -> View:
    """Capture a branch as it is now, or as it was at a point of its history."""
    accepted = contracts.current()
    state = manifest.current(branch) if at is None else state_at(manifest, branch, at)
    return View(branch=branch, accepted=accepted, state=state)
