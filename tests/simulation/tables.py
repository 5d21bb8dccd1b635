"""`Tables` on a store in memory: staged changes of rows, the commits that move a HEAD, forks; what no test stages is left out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa

from omnigraphdb.catalog.names import LAST_UPDATED
from omnigraphdb.errors import (
    ForkExists,
    HeadMoved,
    HistoryReclaimed,
    Interleaved,
    OmniError,
    TableExists,
    TableNotFound,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.storage.layout import Root, branch_path, root_of
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.tables import CommitLock, Tables
from omnigraphdb.storage.values import (
    BranchRef,
    Draft,
    IndexSpec,
    Landed,
    Reclaimed,
    Staged,
    StagedKind,
    TableAt,
    TransactionInfo,
    VersionInfo,
)
from tests.simulation.lines import Change, Commit, Lines, Row
from tests.simulation.objects import Asker, make_lone_asker

_KINDS: Mapping[StagedKind, Change] = {
    StagedKind.APPEND: Change.APPEND,
    StagedKind.MERGE: Change.UPDATE,
    StagedKind.DELETE: Change.UPDATE,
    StagedKind.OVERWRITE: Change.OVERWRITE,
    StagedKind.INDICES: Change.CREATE_INDEX,
    StagedKind.COMPACTION: Change.REWRITE,
}


@dataclass(frozen=True)
class SimulatedTable:
    """One opened version."""

    at: TableAt
    commit: Commit

    @property
    def schema(self) -> pa.Schema:
        return self.commit.schema

    def count(self, filter: object = None) -> int:
        assert filter is None, "nobody counts with a filter here"
        return len(self.commit.rows)

    def read(self, columns: Sequence[str] | None = None, **_: object) -> pa.Table:
        rows = pa.Table.from_pylist(list(self.commit.rows.values()), schema=self.schema)
        return rows if columns is None else rows.select(columns)

    def lookup(
        self, column: str, values: pa.Array, columns: Sequence[str] | None = None, **_: object
    ) -> pa.Table:
        """Look rows up by the values of a column; the version that wrote each one is a column too."""
        wanted, rows = set(values.to_pylist()), self.commit.rows
        picked = {key: row for key, row in rows.items() if row[column] in wanted}
        found = pa.Table.from_pylist(list(picked.values()), schema=self.schema)
        written = pa.array([self.commit.updated.get(key, 0) for key in picked], pa.int64())
        found = found.append_column(LAST_UPDATED, written)
        return found.select(found.column_names if columns is None else columns)


class SimulatedTables:
    """Implements the part of `Tables` that the protocol and recovery use, with the requests of `LanceTables`.

    With `conditions` that are honoured a change of rows of main is one request; without them Lance commits it.
    """

    def __init__(self, asker: Asker, root: Root, conditions: Conditions | None = None) -> None:
        self._lines = Lines(asker, root)
        self._client = asker.client
        self._conditions = conditions
        self._opened: dict[TableAt, Commit] = {}
        self._landed: dict[tuple[str, str | None], Version] = {}
        self._drafted: dict[TableAt, tuple[Commit, Callable[[], None] | None]] = {}

    # ---- whole tables

    def create(self, path: str, schema: pa.Schema) -> TableAt:
        made = Commit({}, schema, self._client.new_id(), Change.OVERWRITE, 0)
        if not self._lines.create_version(path, None, 1, made):
            raise TableExists(path)
        return self._keep(TableAt(path=path, branch=None, version=Version(1)), made)

    def exists(self, path: str) -> bool:
        return self._lines.find_head(path, None) is not None

    def delete_table(self, path: str) -> None:
        self._lines.delete_files(f"{path}/_versions")
        self._lines.delete_files(path)
        self.forget(path)

    def head(self, path: str, branch: str | None) -> Version:
        return self._lines.head(path, branch)

    def is_newest(self, at: TableAt) -> bool:
        return self.head(at.path, at.branch) == at.version

    def has_landed(self, at: TableAt) -> bool:
        return self._landed.get((at.path, at.branch)) == at.version

    def open(self, at: TableAt) -> SimulatedTable:
        return SimulatedTable(at, self._commit_at(at))

    def forget(self, path: str | None = None, branch: str | None = None) -> None:
        for at in [
            at for at in self._opened if path in (None, at.path) and branch in (None, at.branch)
        ]:
            del self._opened[at]
        for line in [
            one for one in self._landed if path in (None, one[0]) and branch in (None, one[1])
        ]:
            del self._landed[line]

    def find_cut(self, at: TableAt) -> None:
        """An object store takes an object whole or not at all."""

    def transactions(
        self, path: str, branch: str | None, after: Version, upto: Version
    ) -> tuple[TransactionInfo, ...]:
        versions = map(Version, range(after + 1, upto + 1))
        return tuple(_describe(one, self._lines.find(path, branch, one)) for one in versions)

    def versions(self, path: str, branch: str | None = None) -> tuple[VersionInfo, ...]:
        return tuple(
            VersionInfo(version=one, created_us=self._lines.changed_us(path, branch, one))
            for one in self._lines.list_versions(path, branch)
        )

    def read_attached_file(self, path: str, name: str) -> bytes | None:
        """No table of nodes has a file of neighbours beside it."""

    def sizes(self, path: str) -> Mapping[str | None, int]:
        """Give the lines of a table, each of one byte a file; one listing."""
        return self._lines.count_files(path)

    def reclaim(
        self, path: str, versions: Sequence[Version], *, branch: str | None, dry_run: bool
    ) -> Reclaimed:
        """Remove versions, whoever asked whether they are needed."""
        if not dry_run:
            self._lines.delete_versions(path, branch, versions)
            for version in versions:
                self._opened.pop(TableAt(path=path, branch=branch, version=version), None)
        return Reclaimed(versions=len(versions), bytes=0)

    def _commit_at(self, at: TableAt) -> Commit:
        known = self._opened.get(at)
        if known is not None:
            return known
        _, land = self._drafted.get(at, (None, None))
        if land is not None:
            land()
        found = self._lines.find(at.path, at.branch, at.version)
        if found is None:
            if self.head(at.path, at.branch) > at.version:
                raise HistoryReclaimed(at.name or at.path, at.version)
            raise TableNotFound(str(at), "table")
        self._keep(at, found)
        return found

    def _keep(self, at: TableAt, commit: Commit) -> TableAt:
        self._opened[at] = commit
        return at

    def _stage_base(self, at: TableAt) -> Commit:
        """The version that a change is staged on; a draft is known to its own group."""
        drafted = self._drafted.get(at)
        return self._commit_at(at) if drafted is None else drafted[0]

    # ---- staged changes

    def stage_append(self, at: TableAt, data: Any, *, parts: Sequence[Any] = ()) -> Staged:
        assert not parts, "nobody writes parts here"
        return self._stage(at, StagedKind.APPEND, added=data.to_pylist())

    def stage_merge(
        self, at: TableAt, rows: pa.Table, *, deletes: pa.Array | None = None
    ) -> Staged:
        ids = set(rows["id"].to_pylist()) | set([] if deletes is None else deletes.to_pylist())
        return self._stage(at, StagedKind.MERGE, added=rows.to_pylist(), ids=ids)

    def stage_delete(
        self, at: TableAt, ids: pa.Array, *, addresses: pa.Array | None = None
    ) -> Staged | None:
        staged = self._stage(at, StagedKind.DELETE, ids=set(ids.to_pylist()))
        return staged if staged.rows_deleted else None

    def stage_overwrite(self, at: TableAt, data: Any) -> Staged:
        return self._stage(at, StagedKind.OVERWRITE, added=data.to_pylist())

    def stage_indices(
        self, at: TableAt, specs: Sequence[IndexSpec], workers: object = None
    ) -> Staged | None:
        names = frozenset(f"{spec.column}_{spec.kind}" for spec in specs)
        staged = self._stage(at, StagedKind.INDICES)
        return replace(staged, transaction=replace(_made(staged), indexes=names))

    def stage_compaction(
        self, at: TableAt, rows_max: int | None = None, workers: object = None
    ) -> Staged | None:
        base = self._stage_base(at)
        rows = Counter(base.places.values())
        small = [one for one, count in rows.items() if rows_max is None or count < rows_max]
        fragments = frozenset(small)
        if len(fragments) < 2:
            return None
        moved = {key for key, place in base.places.items() if place in fragments}
        made = replace(
            _made(self._stage(at, StagedKind.COMPACTION)),
            places={**base.places, **dict.fromkeys(moved, base.fragments_made)},
            fragments_made=base.fragments_made + 1,
            touched=fragments,
        )
        return Staged(at=at, uuid=made.uuid, kind=StagedKind.COMPACTION, transaction=made)

    def _stage(
        self,
        at: TableAt,
        kind: StagedKind,
        *,
        added: Sequence[Row] = (),
        ids: set[str] | None = None,
    ) -> Staged:
        """Describe a change that removes the rows with these ids and adds others as one fragment."""
        base, uuid = self._stage_base(at), self._client.new_id()
        if kind is StagedKind.OVERWRITE:
            gone = set(base.rows)
        else:
            gone = {key for key, row in base.rows.items() if ids and row["id"] in ids}
        # Two rows of one id are two rows, as in Lance.
        new = {f"{row['id']}/{uuid}/{number}": row for number, row in enumerate(added)}
        places = {key: place for key, place in base.places.items() if key not in gone}
        made = Commit(
            rows={key: row for key, row in base.rows.items() if key not in gone} | new,
            schema=base.schema,
            uuid=uuid,
            change=_KINDS[kind],
            read_version=at.version,
            places=places | dict.fromkeys(new, base.fragments_made),
            updated={key: at_version for key, at_version in base.updated.items() if key in places}
            | dict.fromkeys(new, at.version + 1),
            fragments_made=base.fragments_made + bool(new),
            touched=frozenset(base.places[key] for key in gone),
            removed=frozenset(gone),
        )
        removed = 0 if kind is StagedKind.MERGE else len(gone)
        return Staged(
            at=at, uuid=uuid, kind=kind, rows_added=len(new), rows_deleted=removed, transaction=made
        )

    @contextmanager
    def reuse_appends(self, unused: Sequence[tuple[Staged, pa.Table]]) -> Iterator[None]:
        """Files have names of their own and cost no request here, so that none is used again."""
        yield

    def move_append(self, staged: Staged, at: TableAt) -> Staged:
        rows = [row for key, row in _made(staged).rows.items() if f"/{staged.uuid}/" in key]
        return self._stage(at, StagedKind.APPEND, added=rows)

    # ---- moving a HEAD

    def commit_staged(
        self,
        staged: Staged,
        *,
        operation_id: OperationId,
        actor: str | None = None,
        lock: CommitLock | None,
    ) -> Landed:
        at, line = staged.at, (staged.at.path, staged.at.branch)
        self._landed.pop(line, None)
        made = replace(_made(staged), operation_id=operation_id, actor=actor)
        try:
            version = self._commit(at, made)
        except OmniError as error:
            landed = self._resolve_failed(at, made, error)
        else:
            if version != at.version + 1:
                raise Interleaved(at.path, at.version + 1, version)
            landed = self._make_landed(at, made)
        self._landed[line] = landed.at.version
        return landed

    def _commit(self, at: TableAt, made: Commit) -> Version:
        """Create the next version of main by one request; Lance commits on branches, and what is no change of rows."""
        is_of_rows = made.change in (Change.APPEND, Change.UPDATE, Change.DELETE)
        if at.branch is not None or not is_of_rows or not self._has_drafts():
            return self._lines.commit(at.path, at.branch, self._commit_at(at), made)
        failed = self._lines.try_create(at.path, None, at.version + 1, made)
        if failed is not None:
            raise failed
        return Version(at.version + 1)

    def _has_drafts(self) -> bool:
        return self._conditions is not None and self._conditions.are_honoured()

    def _resolve_failed(self, base: TableAt, made: Commit, error: OmniError) -> Landed:
        """Find out what a failed commit did, as `storage.lance.commit.resolve_failed` does."""
        try:
            head = self.head(base.path, base.branch)
            found = None
            if head > base.version:
                found = self._lines.find(base.path, base.branch, base.version + 1)
        except OmniError:
            raise error from None
        if found is not None and found.uuid == made.uuid:
            return self._make_landed(base, found)
        if isinstance(error, HeadMoved):
            raise HeadMoved(base.path, base.version, head) from error
        raise error

    def _make_landed(self, base: TableAt, made: Commit) -> Landed:
        at = replace(base, version=Version(base.version + 1))
        self._keep(at, made)
        return Landed(at=at, row_count=len(made.rows), uuid=made.uuid)

    def restore(
        self,
        path: str,
        branch: str | None,
        version: Version,
        *,
        expected_head: Version,
        operation_id: OperationId,
        actor: str | None = None,
        lock: CommitLock | None,
    ) -> Landed:
        self._landed.pop((path, branch), None)
        head = self.head(path, branch)
        if head != expected_head:
            raise HeadMoved(path, expected_head, head)
        fail(Failpoint.RESTORE_LOOKED)
        if self._conditions is not None:
            self._conditions.require(self._lines.root)
        base = TableAt(path=path, branch=branch, version=expected_head)
        old, newest = (self._read_manifest(replace(base, version=v)) for v in (version, head))
        made = replace(
            old,
            uuid=self._client.new_id(),
            change=Change.RESTORE,
            read_version=expected_head,
            fragments_made=newest.fragments_made,
            restored=version,
            operation_id=operation_id,
            actor=actor,
        )
        failed = self._lines.try_create(path, branch, expected_head + 1, made)
        if failed is not None:
            return self._resolve_failed(base, made, failed)
        return self._make_landed(base, made)

    def _read_manifest(self, at: TableAt) -> Commit:
        found = self._lines.find(at.path, at.branch, at.version)
        if found is None:
            raise HistoryReclaimed(at.path, at.version)
        return found

    # ---- drafts of a group

    def draft_commit(
        self,
        staged: Staged,
        *,
        operation_id: OperationId,
        actor: str | None = None,
        land: Callable[[], None],
    ) -> Draft | None:
        at = staged.at
        is_append = staged.kind is StagedKind.APPEND
        if at.branch is not None or not is_append or not self._has_drafts():
            return None
        made = replace(_made(staged), operation_id=operation_id, actor=actor)
        following = replace(at, version=Version(at.version + 1))
        self._drafted[following] = (made, land)
        landed = Landed(at=following, row_count=len(made.rows), uuid=made.uuid)
        return Draft(landed, made.uuid.encode())

    def land_drafts(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self._landed.pop((draft.landed.at.path, None), None)
        try:
            # All are sent, whatever becomes of the first.
            failed = [error for draft in drafts if (error := self._land(draft)) is not None]
            if failed:
                raise min(failed, key=lambda error: not isinstance(error, HeadMoved))
        except BaseException:
            self.drop_drafts(drafts)
            raise
        for draft in drafts:
            at = draft.landed.at
            self._keep(at, self._drafted[at][0])
            self._landed[at.path, None] = at.version
        self.drop_drafts(drafts)

    def _land(self, draft: Draft) -> OmniError | None:
        at = draft.landed.at
        return self._lines.try_create(at.path, None, at.version, self._drafted[at][0])

    def drop_drafts(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self._drafted.pop(draft.landed.at, None)

    # ---- branches

    def fork(self, at: TableAt, branch: str) -> TableAt:
        self._lines.create_branch(at.path, branch, at.branch, at.version)
        return replace(at, branch=branch)

    def forks(self, path: str) -> Mapping[str, BranchRef]:
        return self._lines.refs(path)

    def drop_fork(self, path: str, branch: str) -> None:
        self._lines.drop_branch(path, branch)
        self.forget(path, branch)

    def drop_tree(self, path: str, branch: str) -> None:
        if branch in self._lines.refs(path):
            raise ForkExists(path, branch, has_ref=True)
        self._lines.delete_files(branch_path(path, branch))
        self.forget(path, branch)


def make_lone_tables() -> Tables:
    """Make tables of a store of their own, which commit as Lance does."""
    return as_tables(SimulatedTables(make_lone_asker(), root_of("s3://simulated/graph")))


def as_tables(tables: SimulatedTables) -> Tables:
    """The part of the seam that is there, for whoever needs no more."""
    return cast(Tables, tables)


def _made(staged: Staged) -> Commit:
    made = staged.transaction
    assert isinstance(made, Commit), "staged by another kind of tables"
    return made


def _describe(version: Version, made: Commit | None) -> TransactionInfo:
    if made is None:
        return TransactionInfo(version=version, uuid=None, operation=None)
    return TransactionInfo(
        version=version,
        uuid=made.uuid,
        operation=str(made.change),
        operation_id=None if made.operation_id is None else OperationId(made.operation_id),
        actor=made.actor,
        restored=None if made.restored is None else Version(made.restored),
    )
