"""A view: branch, head, catalog and snapshot, captured once and used for the whole of one operation."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.errors import OmniError, RecoveryRequired
from omnigraphdb.ids import MAIN, BranchName, CommitId, Version
from omnigraphdb.limits import CONTRACT_LOOKS_MAX, CONTRACT_ROUNDS_MAX, CONTRACT_WAIT_SECONDS
from omnigraphdb.manifest.accepted_schema import (
    SCHEMA_COMMITS,
    AcceptedSchema,
    AcceptedSchemas,
)
from omnigraphdb.manifest.lineage import Lineage
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import At, state_at
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.lru import Recent
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state one operation reads. It is discarded after a commit or a failed attempt; a retry captures another."""

    branch: BranchName
    accepted: AcceptedSchema
    state: BranchState
    renamed: Snapshot | None = None
    """The snapshot under the present keys, for a past view in which some types had other names."""
    past: Contract | None = None
    """The schema of the past commit that is read, when it differs from the present one and is stored."""

    @property
    def catalog(self) -> Catalog:
        """The types of the graph as they are now, also in a view of the past."""
        return self.accepted.catalog

    @property
    def contract(self) -> Contract:
        """The accepted schema with its identities."""
        return self.accepted.contract

    @property
    def snapshot(self) -> Snapshot:
        """The visible table versions."""
        return self.state.snapshot if self.renamed is None else self.renamed

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


Views = Recent[BranchName, View]
"""The last view of each branch in use."""


def capture(
    manifest: Manifest,
    contracts: AcceptedSchemas,
    views: Views,
    branch: BranchName = MAIN,
    at: At | None = None,
    *,
    at_once: bool = False,
) -> View:
    """Capture a branch as it is now, or as it was at a point of its history; from afar, both its parts `at_once`."""
    if at is None:
        read = _read_at_once if at_once else _read_in_order
        (accepted, state), cached = read(manifest, contracts, branch), views.get(branch)
        if cached is not None and cached.accepted is accepted and cached.state is state:
            return cached
        seen = View(branch=branch, accepted=accepted, state=state)
        return views.put(branch, _capture_steady(manifest, contracts, seen))
    accepted = contracts.current()
    state = state_at(manifest, branch, at)
    renamed = by_identity(state.snapshot, accepted.contract)
    past = _contract_of(manifest, contracts, state)
    return View(branch=branch, accepted=accepted, state=state, renamed=renamed, past=past)


def find_unmoved(manifest: Manifest, contracts: AcceptedSchemas, views: Views) -> View | None:
    """Return the last view of main, if neither its schema nor its tables moved since; nothing is read."""
    cached = views.get(MAIN)
    if cached is None or cached.accepted is not contracts.find_unchanged():
        return None
    return cached if cached.state is manifest.find_unmoved() else None


def _read_in_order(
    manifest: Manifest, contracts: AcceptedSchemas, branch: BranchName
) -> tuple[AcceptedSchema, BranchState]:
    """Read the schema before the tables: a schema change that comes between the two shows in the tables."""
    return contracts.current(), manifest.current(branch)


def _read_at_once(
    manifest: Manifest, contracts: AcceptedSchemas, branch: BranchName
) -> tuple[AcceptedSchema, BranchState]:
    """Read both at the same time while the schema stays as it was; the tables of a new schema are read after it."""
    cached = contracts.cached
    if cached is None:
        return _read_in_order(manifest, contracts, branch)
    with ThreadPoolExecutor(1, "omnigraph-view") as threads:
        future = threads.submit(carry_context(contracts.current))
        try:
            state = manifest.current(branch)
        except OmniError:
            # Errors of the schema come first.
            future.result()
            raise
        accepted = future.result()
    return accepted, state if accepted is cached else manifest.current(branch)


def _contract_of(
    manifest: Manifest, contracts: AcceptedSchemas, state: BranchState
) -> Contract | None:
    """Find the schema of a past state: the first schema change since then replaced it."""
    for commit in manifest.current(MAIN).lineage.commits:
        if commit.kind in SCHEMA_COMMITS and state.shows(commit.id) is None:
            replaced = contracts.replaced_by(commit)
            if replaced is not None:
                return replaced
    return None


def _capture_steady(manifest: Manifest, contracts: AcceptedSchemas, view: View) -> View:
    """Capture schema and tables of one moment; waits while a schema change is published and its files are not in place."""
    branch, steady_rounds = view.branch, 0
    for _ in range(CONTRACT_LOOKS_MAX):
        is_settled = not may_be_amid_change(view) or _is_steady(view, contracts)
        if is_settled or steady_rounds == CONTRACT_ROUNDS_MAX:
            break
        manifest.runtime.wait(CONTRACT_WAIT_SECONDS)
        seen, view = view, _read_view(manifest, contracts, branch)
        # Changes that follow one another restart the count of rounds; a change that stands still ends the wait.
        is_steady = view.accepted is seen.accepted and view.state is seen.state
        steady_rounds = steady_rounds + 1 if is_steady else 0
    if not _belong_together(view):
        raise RecoveryRequired(
            "unknown",
            f"the tables of branch '{branch}' are not those of the schema: a schema change is published and its "
            "schema files are not in place; nothing was changed, open the graph read-write once",
        )
    return view


def _read_view(manifest: Manifest, contracts: AcceptedSchemas, branch: BranchName) -> View:
    return View(branch=branch, accepted=contracts.current(), state=manifest.current(branch))


def may_be_amid_change(view: View) -> bool:
    """Whether a schema change may be unfinished: its commit or its recovery is the head, or keys differ."""
    return _head_may_change_schema(view.state) or not _belong_together(view)


def _head_may_change_schema(state: BranchState) -> bool:
    # A legacy history is not read for this: tables can be read without it, also when it is lost.
    if not state.has_lineage:
        return True
    return state.head is not None and state.head.kind in SCHEMA_COMMITS


def _is_steady(view: View, contracts: AcceptedSchemas) -> bool:
    """Whether the schema that was read before the tables is still accepted, and no other is staged."""
    return contracts.current() is view.accepted and not view.accepted.is_staged


def _belong_together(view: View) -> bool:
    return view.state.snapshot.entries.keys() == view.contract.stored_tables.keys()


def by_identity(snapshot: Snapshot, contract: Contract) -> Snapshot:
    """Show every table under the present key of its type: a type keeps its table through renames.

    A table whose key belongs to another type now is not shown; a table of no present type keeps its key.
    """
    current_keys = {stored.path: key for key, stored in contract.stored_tables.items()}
    if all(
        current_keys.get(entry.at.path, key if key not in contract.stored_tables else None) == key
        for key, entry in snapshot.entries.items()
    ):
        return snapshot
    entries_by_key = {
        current_keys.get(entry.at.path, key): entry
        for key, entry in snapshot.entries.items()
        if entry.at.path in current_keys or key not in contract.stored_tables
    }
    entries = {key: replace(entries_by_key[key], table_key=key) for key in sorted(entries_by_key)}
    return replace(snapshot, entries=entries)
