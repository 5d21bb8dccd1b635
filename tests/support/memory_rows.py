"""Keyed rows in memory: the `Rows` seam without Lance, for tests of what stands on it."""

import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import (
    BranchInUse,
    ForkExists,
    HistoryReclaimed,
    RowContention,
    TableExists,
    TableNotFound,
)
from omnigraph.ids import Version
from omnigraph.storage.counters import Cost, record
from omnigraph.storage.rows import Image, Split
from omnigraph.storage.values import (
    MAIN_INCARNATION,
    BranchRef,
    Incarnation,
    Reclaimed,
    VersionInfo,
)

_EVERYTHING = "*"
_PRIMARY_KEY = b"lance-schema:unenforced-primary-key"


@dataclass(frozen=True, kw_only=True)
class _Commit:
    """One version: all rows by key, and which keys it wrote."""

    rows: Mapping[str, dict[str, object]]
    schema: pa.Schema
    metadata: Mapping[str, str]
    fragments: int
    wrote: frozenset[str]


@dataclass(kw_only=True)
class _Line:
    """One branch: its versions and its incarnation."""

    incarnation: Incarnation
    parent: str | None = None
    parent_version: int = 0
    commits: dict[int, _Commit] = field(default_factory=dict)

    @property
    def head(self) -> int:
        return max(self.commits)


class MemoryRows:
    """Implements `Rows`; swaps contend on keys exactly when the key column carries the primary-key mark."""

    def __init__(self, name: str = "__manifest", key: str = "object_id") -> None:
        self.name, self.key = name, key
        self.lines: dict[str | None, _Line] = {}
        self.leftovers: set[str] = set()
        self._incarnations = 0
        self._lock = threading.Lock()

    # ---- reading

    def exists(self) -> bool:
        return bool(self.lines)

    def head(self, branch: str | None) -> Version:
        with self._lock:
            version = self._line(branch).head
        record(Cost.MANIFEST_PROBES)
        return Version(version)

    def find_head(self, branch: str | None) -> Version | None:
        return self.head(branch)

    def incarnation(self, branch: str | None) -> Incarnation:
        with self._lock:
            return self._line(branch).incarnation

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        with self._lock:
            line = self._line(branch)
            at = line.head if version is None else version
            if at not in line.commits and at < line.head:
                raise HistoryReclaimed(self.name, at)
            if at not in line.commits:
                raise TableNotFound(f"{self.name} at version {at}")
            image = self._image(branch, line, at)
        record(Cost.MANIFEST_OPENS)
        record(Cost.MANIFEST_SCANS)
        return image

    def find_newest(self, branch: str | None, keys: Sequence[str]) -> pa.Table:
        rows = self.load(branch).rows
        is_there = pc.any(pc.is_in(rows[self.key], value_set=pa.array(keys))).as_py()
        return rows if is_there else rows.slice(0, 0)

    def count_where(self, branch: str | None, column: str, value: str) -> int:
        rows = self.load(branch).rows
        return int(pc.sum(pc.equal(rows[column], value)).as_py() or 0)

    def cached(
        self, branch: str | None, version: Version, incarnation: Incarnation
    ) -> Image | None:
        return None

    def fragment_count(self, image: Image) -> int:
        with self._lock:
            return self._line(image.branch).commits[image.version].fragments

    # ---- writing

    def create(
        self, rows: pa.Table, *, metadata: Mapping[str, str], config: Mapping[str, str]
    ) -> Image:
        with self._lock:
            if self.lines:
                raise TableExists(self.name)
            first = _Commit(
                rows=self._keyed(rows),
                schema=rows.schema,
                metadata=dict(metadata),
                fragments=1,
                wrote=frozenset({_EVERYTHING}),
            )
            self.lines[None] = _Line(incarnation=MAIN_INCARNATION, commits={1: first})
            return self._image(None, self.lines[None], 1)

    def swap(self, image: Image, rows: pa.Table, guard: str | None = None) -> Version:
        fresh = self._keyed(rows)
        with self._lock:
            line = self._line(image.branch)
            marked = _PRIMARY_KEY in (line.commits[line.head].schema.field(self.key).metadata or {})
            self._refuse_rivals(image, line, fresh if marked else ())
            head = line.commits[line.head]
            version = self._commit(
                line,
                replace(
                    head,
                    rows={**head.rows, **fresh},
                    fragments=head.fragments + 1,
                    wrote=frozenset(fresh),
                ),
            )
        record(Cost.MANIFEST_SWAPS)
        return version

    def set_metadata(self, image: Image, key: str, value: str) -> Image:
        with self._lock:
            line = self._line(image.branch)
            self._refuse_rivals(image, line, [f"metadata:{key}"], fold=False)
            head = line.commits[line.head]
            changed = {**head.metadata, key: value}
            version = self._commit(
                line, replace(head, metadata=changed, wrote=frozenset({f"metadata:{key}"}))
            )
            return self._image(image.branch, line, version)

    def annotate_key(self, image: Image) -> Image:
        with self._lock:
            line = self._line(image.branch)
            self._refuse_rivals(image, line, ["metadata:key"], fold=False)
            head = line.commits[line.head]
            at = head.schema.get_field_index(self.key)
            marked = head.schema.field(at).with_metadata({_PRIMARY_KEY: b"true"})
            version = self._commit(
                line,
                replace(
                    head, schema=head.schema.set(at, marked), wrote=frozenset({"metadata:key"})
                ),
            )
            return self._image(image.branch, line, version)

    def fold(self, branch: str | None, *, whole: bool = False, split: Split | None = None) -> bool:
        with self._lock:
            line = self._line(branch)
            head = line.commits[line.head]
            if head.fragments <= 1:
                return False
            self._commit(line, replace(head, fragments=1, wrote=frozenset({_EVERYTHING})))
        record(Cost.MANIFEST_FOLDS)
        return True

    # ---- versions

    def versions(self, branch: str | None) -> tuple[VersionInfo, ...]:
        with self._lock:
            found = sorted(self._line(branch).commits)
        return tuple(VersionInfo(version=Version(one), created_us=one) for one in found)

    def has_version(self, branch: str | None, version: Version) -> bool:
        with self._lock:
            return version in self._line(branch).commits

    def reclaim(
        self, branch: str | None, versions: Sequence[Version], *, dry_run: bool
    ) -> Reclaimed:
        with self._lock:
            line = self._line(branch)
            forked = {one.parent_version for one in self.lines.values() if one.parent == branch}
            gone = [v for v in versions if v in line.commits and v not in {line.head, *forked}]
            for version in () if dry_run else gone:
                del line.commits[version]
        return Reclaimed(versions=len(gone), bytes=0)

    # ---- branches

    def branches(self) -> Mapping[str, BranchRef]:
        with self._lock:
            return {name: self._ref(name) for name in self.lines if name is not None}

    def branch_names(self) -> frozenset[str]:
        return frozenset(self.branches())

    def branch_marks(self) -> Mapping[str, Hashable]:
        return {name: ref.incarnation for name, ref in self.branches().items()}

    def address_outside(self, branch: str | None) -> str | None:
        return None

    def branches_outside(self, limit: int | None = None) -> Mapping[str, str]:
        return {}

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        with self._lock:
            if name in self.lines:
                raise ForkExists(self.name, name, has_ref=True)
            if name in self.leftovers:
                raise ForkExists(self.name, name, has_ref=False)
            parent = self._line(source)
            if version not in parent.commits:
                raise HistoryReclaimed(self.name, version)
            self._incarnations += 1
            self.lines[name] = _Line(
                incarnation=(*parent.incarnation, (version, f"life-{self._incarnations}")),
                parent=source,
                parent_version=version,
                commits={version: parent.commits[version]},
            )
            return self._ref(name)

    def delete_branch(self, name: str) -> None:
        with self._lock:
            children = [n for n, line in self.lines.items() if n and line.parent == name]
            if children:
                raise BranchInUse(name, children, "other branches fork from it")
            self.lines.pop(name, None)

    # ---- inside

    def _line(self, branch: str | None) -> _Line:
        if branch not in self.lines:
            raise TableNotFound(f"{self.name} on branch '{branch}'", "branch")
        return self.lines[branch]

    def _ref(self, name: str) -> BranchRef:
        line = self.lines[name]
        return BranchRef(
            name=name,
            parent=line.parent,
            parent_version=Version(line.parent_version),
            created_us=0,
            incarnation=line.incarnation,
        )

    def _image(self, branch: str | None, line: _Line, version: int) -> Image:
        commit = line.commits[version]
        return Image(
            branch=branch,
            version=Version(version),
            incarnation=line.incarnation,
            recent=pa.Table.from_pylist(list(commit.rows.values()), schema=commit.schema),
            metadata=dict(commit.metadata),
        )

    def _keyed(self, rows: pa.Table) -> dict[str, dict[str, object]]:
        return {row[self.key]: row for row in rows.to_pylist()}

    def _refuse_rivals(
        self, image: Image, line: _Line, keys: Iterable[str], fold: bool = True
    ) -> None:
        mine = set(keys)
        for version in range(image.version + 1, line.head + 1):
            theirs = line.commits[version].wrote
            if mine & theirs or (fold and mine and _EVERYTHING in theirs):
                raise RowContention(self.name, image.branch, image.version)

    def _commit(self, line: _Line, commit: _Commit) -> Version:
        version = line.head + 1
        line.commits[version] = commit
        return Version(version)
