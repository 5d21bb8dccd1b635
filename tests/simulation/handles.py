"""One opened graph of one client: the real engine below the verbs, on the simulated store."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import pyarrow as pa

from omnigraphdb.catalog.ir.contract import create_contract
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.commit.arrivals import PreparingWriters
from omnigraphdb.commit.delta import DeltaKind, TableDelta
from omnigraphdb.commit.lock_queue import LockQueue
from omnigraphdb.commit.locks import TableLocks
from omnigraphdb.commit.plan import (
    ANONYMOUS,
    Header,
    TableWrite,
    WriteOptions,
    WritePlan,
    mint_header,
    plan_of,
)
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.commit.stage import stage_write
from omnigraphdb.engine.attempt import attempt
from omnigraphdb.engine.branching import create, delete
from omnigraphdb.engine.cached.cache import ByteCache, FragmentCounts
from omnigraphdb.engine.cached.ids import CachedIds
from omnigraphdb.engine.cached.plans import Plans
from omnigraphdb.engine.cached.traversal import Traversal
from omnigraphdb.engine.jobs import Jobs
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.session.settings import Settings
from omnigraphdb.engine.writer import Prepared
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey
from omnigraphdb.language.source import Source
from omnigraphdb.limits import BRANCH_STATES_MAX
from omnigraphdb.manifest.accepted_schema import AcceptedSchema, AcceptedSchemas
from omnigraphdb.manifest.genesis import initialise
from omnigraphdb.manifest.manifest import Heads, Manifest
from omnigraphdb.manifest.migrate import load_migrated
from omnigraphdb.manifest.records import KEY, CommitKind
from omnigraphdb.manifest.view import View
from omnigraphdb.recovery.audit import AUDIT_KEY, Audit
from omnigraphdb.recovery.sweep import Recovery
from omnigraphdb.storage.layout import AUDIT, MANIFEST, root_of
from omnigraphdb.storage.locks.lease import LeaseLocks
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.cloud import prove_conditional_puts
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.store import Store as RealStore
from tests.simulation.objects import Asker, SimulatedObjects
from tests.simulation.rows import SimulatedRows
from tests.simulation.tables import SimulatedTables, as_tables

ROOT: Final = root_of("s3://bucket/graph")
_SCHEMA: Final = "".join(f"node {name} {{ name: String @key }}\n" for name in "ABC")
TABLES: Final = tuple(TableKey(f"node:{name}") for name in "ABC")
_CACHE_BYTES: Final = 1 << 20


class Handle:
    """An opened graph. Handles of one client are handles of one process, so they share their `queue` of locks."""

    def __init__(self, asker: Asker, queue: LockQueue | None = None) -> None:
        runtime = asker.client
        self.client = runtime
        self.objects = SimulatedObjects(asker, ROOT)
        conditions = Conditions(self.objects)
        self.tables = SimulatedTables(asker, ROOT, conditions)
        tables = as_tables(self.tables)
        self.manifest = Manifest(
            rows=SimulatedRows(asker, ROOT, MANIFEST, KEY, conditions),
            runtime=runtime,
            heads=Heads(self._forget),
        )
        locks = LeaseLocks(self.objects, runtime)
        settings = Settings()
        self.committer = Committer(
            root=ROOT,
            tables=tables,
            manifest=self.manifest,
            sidecars=Sidecars(self.objects, ROOT),
            locks=TableLocks(queue or LockQueue(), locks, settings.lock_wait, runtime),
            runtime=runtime,
        )
        self.audit = Audit(SimulatedRows(asker, ROOT, AUDIT, AUDIT_KEY, conditions))
        self.recovery = Recovery(self.committer, self.audit)
        unused = cast(Any, None)
        self.engine = Engine(
            store=RealStore(
                root=ROOT,
                objects=self.objects,
                tables=tables,
                manifest=self.manifest.rows,
                locks=locks,
                scratch=unused,
                internal=unused,
            ),
            location=unused,
            manifest=self.manifest,
            contracts=AcceptedSchemas(self.objects, runtime),
            committer=self.committer,
            recovery=self.recovery,
            views=Recent(BRANCH_STATES_MAX),
            entered=Recent(BRANCH_STATES_MAX),
            arrivals=PreparingWriters(runtime),
            plans=Plans(),
            cache=ByteCache(_CACHE_BYTES),
            cached_ids=CachedIds(_CACHE_BYTES),
            workers=ThreadPoolExecutor(1),
            fragment_counts=FragmentCounts(),
            embedder=unused,
            traversal=Traversal(),
            jobs=Jobs(self.objects, runtime, writes=True),
            runtime=runtime,
            settings=settings,
            is_distant=ROOT.is_distant,
        )

    def _forget(self, branch: BranchName) -> None:
        if branch != MAIN:
            self.tables.forget(branch=branch)

    # ---- what clients do

    def initialise(self) -> None:
        """Create the graph: three types of nodes."""

        prove_conditional_puts(self.objects, ROOT, self.client)

        def accept() -> AcceptedSchema:
            contract = create_contract(
                compile_schema(Source(_SCHEMA, "_schema.pg")), self.client.new_id()
            )
            return AcceptedSchema(source=_SCHEMA, contract=contract)

        initialise(
            self.objects,
            as_tables(self.tables),
            self.manifest,
            accept,
            uri=str(ROOT),
            is_alone=True,
        )

    def open(self) -> None:
        """Open the graph read-write: recover every interrupted write."""
        load_migrated(self.manifest, MAIN)
        self.recovery.sweep()
        self.engine.contracts.current()

    def create_branch(self, name: str) -> None:
        """Make a branch of main."""
        create(self.engine, name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        delete(self.engine, name, MAIN)

    def insert(
        self,
        branch: str,
        name: str,
        tables: Sequence[TableKey] = TABLES,
        options: WriteOptions = ANONYMOUS,
    ) -> CommitId:
        """Insert a row of that name into each of the tables, in one commit."""
        header = mint_header(self.client, WriterKind.MUTATION, CommitKind.MUTATION, options)

        def prepare(view: View) -> Prepared[None]:
            return Prepared(self.plan_insert(view, header, name, tables), None)

        done = attempt(
            self.engine,
            BranchName(branch),
            prepare,
            "insert",
            may_rely_on_memory=options.if_commit is None,
            only_inserts=True,
        )
        assert done.commit is not None, "an insert makes a commit"
        return done.commit.id

    def plan_insert(
        self, view: View, header: Header, name: str, tables: Sequence[TableKey]
    ) -> WritePlan:
        """Plan an insert of a row of that name into each of the tables."""
        staged = (self.stage_insert(view, key, name) for key in tables)
        writes = [write for write in staged if write is not None]
        return plan_of(header, view.snapshot, writes)

    def stage_insert(
        self, view: View, table: TableKey, name: str, id_: str | None = None
    ) -> TableWrite | None:
        """Stage a row of a name; its id is the name too, if nothing else is said."""
        type_ = view.catalog.tables[table]
        rows = pa.table({"id": [id_ or name], "name": [name]}, schema=type_.schema)
        delta = TableDelta(type=type_, kind=DeltaKind.INSERT, rows=rows)
        return stage_write(as_tables(self.tables), view.snapshot.entry(table), view.branch, delta)
