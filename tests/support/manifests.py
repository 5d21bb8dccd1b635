"""Small manifests for tests: a clock that never waits, a graph of two tables, changes in one line."""

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping

from omnigraphdb.errors import StorageError
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import Published, publish
from omnigraphdb.manifest.records import (
    CommitKind,
    GraphCommit,
    GraphHead,
    Record,
    Registration,
    TableVersion,
    encode,
    lance_branch,
)
from omnigraphdb.manifest.stamp import CURRENT, STAMP
from omnigraphdb.storage.rows import Rows
from omnigraphdb.storage.values import BranchRef, TableAt

PERSON, CITY, KNOWS = TableKey("node:Person"), TableKey("node:City"), TableKey("edge:Knows")
PATHS = {PERSON: "nodes/person", CITY: "nodes/city", KNOWS: "edges/knows"}
START_US = 1_700_000_000_000_000
_ids = itertools.count(1)


class StillRuntime:
    """A clock that ticks one microsecond per look, and on which waiting takes no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._lock = threading.Lock()
        self._ticks = itertools.count(START_US)

    def now_us(self) -> int:
        with self._lock:
            return next(self._ticks)

    def monotonic(self) -> float:
        return self.now_us() / 1e6 + sum(self.waits)

    def new_id(self) -> str:
        with self._lock:
            return f"01TEST{next(_ids):020d}"

    def wait(self, seconds: float) -> None:
        with self._lock:
            self.waits.append(seconds)

    def jitter(self, seconds: float) -> float:
        return seconds


class FakeForks:
    """The Lance branches of tables, as names."""

    def __init__(self) -> None:
        self.refs: dict[str, dict[str, BranchRef]] = {}
        self.trees_dropped: list[tuple[str, str]] = []
        self.broken = False

    def add(self, path: str, name: str, parent: str | None = None) -> None:
        self.refs.setdefault(path, {})[name] = BranchRef(
            name=name,
            parent=parent,
            parent_version=Version(1),
            created_us=0,
            incarnation=((1, name),),
        )

    def forks(self, path: str) -> Mapping[str, BranchRef]:
        return self.refs.get(path, {})

    def drop_fork(self, path: str, branch: str) -> None:
        if self.broken:
            raise StorageError("the store is away", storage_kind="transient")
        self.refs.get(path, {}).pop(branch, None)

    def drop_tree(self, path: str, branch: str) -> None:
        self.trees_dropped.append((path, branch))


def first_records(tables: Iterable[TableKey], commit: str) -> list[Record]:
    """What the creating commit of a graph with these tables holds."""
    records: list[Record] = []
    for table in sorted(tables):
        path = PATHS[table]
        records.append(Registration(table_key=table, path=path))
        records.append(
            TableVersion(table_key=table, path=path, version=Version(1), branch=None, row_count=0)
        )
    records.append(
        GraphCommit(
            id=CommitId(commit),
            branch=MAIN,
            manifest_version=Version(1),
            created_at=START_US,
            kind=CommitKind.INIT,
            tables=tuple(sorted(tables)),
        )
    )
    records.append(GraphHead(branch=MAIN, commit=CommitId(commit), parent=None))
    return records


def new_manifest(
    rows: Rows, tables: Iterable[TableKey] = (PERSON, CITY), runtime: StillRuntime | None = None
) -> Manifest:
    """Create a manifest with empty tables and give a handle on it."""
    clock = runtime or StillRuntime()
    rows.create(
        encode(first_records(tables, clock.new_id())),
        metadata={STAMP: str(CURRENT)},
        config={},
    )
    return Manifest(rows=rows, runtime=clock)


def another_handle(manifest: Manifest) -> Manifest:
    """A handle that shares nothing but the store, as another process would."""
    return Manifest(rows=manifest.rows, runtime=manifest.runtime, legacy=manifest.legacy)


def update(manifest: Manifest, table: TableKey, branch: BranchName = MAIN, rows: int = 1) -> Update:
    """The next version of a table, as if a write had just landed on this branch's own fork."""
    latest = manifest.load(branch).table_history.latest(table)
    assert latest is not None
    at = TableAt(path=latest.path, branch=lance_branch(branch), version=Version(latest.pin + 1))
    return Update(table_key=table, at=at, row_count=latest.row_count + rows)


def change(
    manifest: Manifest,
    *tables: TableKey,
    branch: BranchName = MAIN,
    actor: str | None = None,
    kind: CommitKind = CommitKind.MUTATION,
) -> Change:
    """A commit that moves these tables by one version, with their pins expected."""
    updates = tuple(update(manifest, table, branch) for table in tables)
    return Change(
        branch=branch,
        updates=updates,
        expected={u.table_key: Version(u.at.version - 1) for u in updates},
        draft=Draft(commit=CommitId(manifest.runtime.new_id()), kind=kind, actor=actor),
    )


def write(
    manifest: Manifest,
    *tables: TableKey,
    branch: BranchName = MAIN,
    actor: str | None = None,
) -> Published:
    """Publish one such commit."""
    return publish(manifest, change(manifest, *tables, branch=branch, actor=actor))


def together(*calls: Callable[[], object]) -> list[object]:
    """Run calls at the same moment in threads; give results, or what they raised, in order."""
    barrier = threading.Barrier(len(calls))
    results: list[object] = [None] * len(calls)

    def run(place: int, call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            results[place] = call()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(i, call)) for i, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def publish_often(manifest: Manifest, times: int) -> None:
    """Publish commits that move one table each."""
    pin = manifest.current(MAIN).snapshot.pins[PERSON]
    for number in range(1, times + 1):
        at = TableAt(path=PATHS[PERSON], branch=None, version=Version(pin + number))
        draft = Draft(commit=CommitId(manifest.runtime.new_id()), kind=CommitKind.MUTATION)
        publish(
            manifest,
            Change(
                branch=MAIN,
                updates=(Update(table_key=PERSON, at=at, row_count=number),),
                draft=draft,
            ),
        )
