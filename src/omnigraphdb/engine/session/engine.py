"""One opened graph: its store, its caches, its commits and its recovery."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import partial
from weakref import finalize

from omnigraphdb.commit.arrivals import PreparingWriters
from omnigraphdb.commit.locks import TableLocks, queue_of
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.embedding.config import EmbeddingConfig, choose_config
from omnigraphdb.embedding.services import Embedder, LazyEmbedder
from omnigraphdb.engine.cached.cache import ByteCache, FragmentCounts
from omnigraphdb.engine.cached.ids import CachedIds
from omnigraphdb.engine.cached.plans import Plans
from omnigraphdb.engine.cached.traversal import Traversal, traversal_of
from omnigraphdb.engine.jobs import Jobs
from omnigraphdb.engine.session.settings import Settings
from omnigraphdb.errors import GraphClosed, NotFoundError, ReadOnlyError, TableNotFound
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.limits import BRANCH_STATES_MAX, CACHED_ID_BYTES, ENTRY_SECONDS_MAX, FILE_BYTES_MAX
from omnigraphdb.manifest.accepted_schema import AcceptedSchemas
from omnigraphdb.manifest.lineage import LegacyLineage
from omnigraphdb.manifest.manifest import Heads, Manifest
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.stamp import CURRENT
from omnigraphdb.manifest.travel import At
from omnigraphdb.manifest.view import View, Views, capture, find_unmoved, may_be_amid_change
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.recovery.audit import AUDIT_KEY, Audit
from omnigraphdb.recovery.reconciler import Reconciler
from omnigraphdb.recovery.sweep import Recovery
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage import layout
from omnigraphdb.storage.lance.faults import make_moved_error
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.protocol import is_object_path
from omnigraphdb.storage.store import Store, open_store
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Engine:
    """The parts of an opened graph, for the verbs."""

    store: Store
    location: StoreLocation
    """The location by which a task in another process finds the store."""
    manifest: Manifest
    contracts: AcceptedSchemas
    committer: Committer
    recovery: Recovery
    views: Views
    entered: Recent[BranchName, float]
    """The monotonic time of the last full check of the store before a write, by branch."""
    arrivals: PreparingWriters
    """The callers that prepare an insert at this moment."""
    plans: Plans
    cache: ByteCache
    cached_ids: CachedIds
    workers: ThreadPoolExecutor
    """Threads that stage tables at the same time; they end with the handle."""
    fragment_counts: FragmentCounts
    embedder: Embedder
    """Set up at the first text, then kept."""
    traversal: Traversal
    jobs: Jobs
    runtime: Runtime
    settings: Settings
    is_distant: bool
    """True if every access to the store is a network request, as `store.root` says; every read looks at it."""
    read_only: bool = False
    reconciler: Reconciler | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def uri(self) -> str:
        """The address of the graph, without credentials."""
        return self.store.root.display

    def view(self, branch: BranchName = MAIN, at: At | None = None) -> View:
        """Capture the state that one operation sees."""
        return capture(
            self.manifest, self.contracts, self.views, branch, at, at_once=self.is_distant
        )

    def find_unmoved_view(self) -> View | None:
        """Return the last view of main if a few look-ups of files show that it is the newest; None for a distant store."""
        if self.is_distant:
            return None
        return find_unmoved(self.manifest, self.contracts, self.views)

    def find_recent_view(self, branch: BranchName) -> View | None:
        """Return the view of main as this handle left it, if the handle fully checked the store a moment ago."""
        checked_at = self.entered.get(branch)
        accepted, state = self.contracts.cached, self.manifest.heads.get(branch)
        if checked_at is None or accepted is None or state is None or branch != MAIN:
            return None
        if self.runtime.monotonic() - checked_at > ENTRY_SECONDS_MAX or state.stamp != CURRENT:
            return None
        view = View(branch=branch, accepted=accepted, state=state)
        return None if may_be_amid_change(view) else view

    def require_open(self) -> "Engine":
        """Refuse new operations on a graph after it was closed; operations that began before may end."""
        if self.ended.is_set():
            raise GraphClosed(self.uri)
        return self

    def require_writable(self, operation: str) -> None:
        """Refuse a writer on a read-only handle."""
        if self.read_only:
            raise ReadOnlyError(operation)

    def require_here(self, branch: BranchName, operation: str) -> None:
        """Refuse a writer on a branch that looks for its files in another root: the graph was moved or copied."""
        if not is_object_path(branch) or len(branch) > FILE_BYTES_MAX:
            # No store can hold a branch of such a name; the code that needs it reports that it does not exist.
            return
        try:
            other_root = self.manifest.rows.address_outside(lance_branch(branch))
        except TableNotFound:
            # The code that needs the branch reports that it does not exist.
            return
        if other_root is not None:
            refusal = f"{operation} is refused, branch '{branch}' is not at home here"
            raise make_moved_error(refusal, other_root, self.store.root)

    def start(self) -> "Engine":
        """Start the background recovery, if the settings ask for it."""
        if self.reconciler is not None:
            self.reconciler.start()
            finalize(self, self.reconciler.end)
        return self

    def stop(self) -> None:
        """Stop the background recovery, and drop the caches."""
        self.ended.set()
        if self.reconciler is not None:
            self.reconciler.stop()
        self.cache.clear()
        self.cached_ids.clear()
        self.manifest.heads.clear()
        self.views.drop(lambda _: True)


def assemble(
    uri: str,
    settings: Settings,
    runtime: Runtime,
    storage_options: Mapping[str, str] | None = None,
    *,
    read_only: bool = False,
) -> Engine:
    """Put the parts of a handle together; nothing is read or written yet."""
    fsync, unofficial = settings.durability == "fsync", settings.unofficial_lance == "on"
    store = open_store(
        uri, storage_options, runtime, fsync=fsync, unofficial=unofficial, read_only=read_only
    )
    legacy = LegacyLineage(
        commits=store.keyed_rows(layout.LEGACY_COMMITS, "graph_commit_id"),
        actors=store.keyed_rows(layout.LEGACY_ACTORS, "graph_commit_id"),
        has_files=store.objects.exists,
    )
    manifest = Manifest(
        rows=store.manifest,
        runtime=runtime,
        legacy=legacy,
        heads=Heads(_make_forget(store)),
        # A kernel lock costs microseconds; a lease would cost requests that a lost swap may never need.
        publish_locks=store.locks if store.root.is_local else None,
        has_table=partial(_has_table, store),
    )
    committer = Committer(
        root=store.root,
        tables=store.tables,
        manifest=manifest,
        sidecars=Sidecars(store.objects, store.root),
        locks=TableLocks(queue_of(str(store.root)), store.locks, settings.lock_wait, runtime),
        runtime=runtime,
    )
    recovery = Recovery(committer, Audit(store.keyed_rows(layout.AUDIT, AUDIT_KEY)))
    pause = 0.0 if read_only else settings.reconcile_seconds
    return Engine(
        store=store,
        location=StoreLocation.of(
            store.root.uri, storage_options, fsync=fsync, unofficial=unofficial
        ),
        manifest=manifest,
        contracts=AcceptedSchemas(store.objects, runtime),
        committer=committer,
        recovery=recovery,
        views=Recent(BRANCH_STATES_MAX),
        entered=Recent(BRANCH_STATES_MAX),
        arrivals=PreparingWriters(runtime),
        plans=Plans(),
        cache=ByteCache(settings.cache_bytes),
        cached_ids=CachedIds(settings.cache_bytes // CACHED_ID_BYTES),
        workers=ThreadPoolExecutor(settings.load_concurrency, "omnigraph-stage"),
        fragment_counts=FragmentCounts(),
        embedder=_make_embedder(settings, runtime),
        traversal=traversal_of(),
        jobs=Jobs(store.objects, runtime, writes=not read_only),
        runtime=runtime,
        settings=settings,
        is_distant=store.root.is_distant,
        read_only=read_only,
        reconciler=Reconciler(recovery, pause) if pause else None,
    )


def _make_embedder(settings: Settings, runtime: Runtime) -> Embedder:
    def config() -> EmbeddingConfig:
        return choose_config(settings.embed_provider, settings.embed_model, settings.embed_base_url)

    return LazyEmbedder(config, runtime)


def _has_table(store: Store, at: TableAt) -> bool:
    """Whether a version of a table exists; another process may have removed a version that is open here."""
    store.tables.forget(at.path, at.branch)
    try:
        store.tables.open(at)
    except NotFoundError:
        return False
    return True


def _make_forget(store: Store) -> Callable[[BranchName], None]:
    """Return a function that drops opened table versions of a branch name, which may have begun another incarnation.

    Main has only one incarnation.
    """

    def forget(branch: BranchName) -> None:
        if branch != MAIN:
            store.tables.forget(branch=branch)

    return forget
