"""`Rows` on a store in memory: the manifest and the audit, with the requests of `LanceRows`."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import (
    BranchInUse,
    HeadMoved,
    HistoryReclaimed,
    InternalError,
    RowContention,
    TableExists,
    TableNotFound,
)
from omnigraphdb.ids import Version
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.layout import Root, root_of
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.rows import Image, Split, is_foreign
from omnigraphdb.storage.values import BranchRef, Incarnation, Reclaimed, VersionInfo
from tests.simulation.lines import EVERYTHING, Change, Commit, Lines
from tests.simulation.objects import Asker, make_lone_asker

_PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
_KEY_MARK = "metadata:key"
_ROUNDS = 9
_Name = tuple[str | None, Version, Incarnation]


class SimulatedRows:
    """Implements `Rows`; swaps contend on keys exactly when the key column carries the primary-key mark.

    With `conditions` that are honoured a guarded swap of main is one request, which contends with whatever landed since;
    without them Lance commits it.
    """

    def __init__(
        self, asker: Asker, root: Root, path: str, key: str, conditions: Conditions | None = None
    ) -> None:
        self._lines = Lines(asker, root)
        self._client = asker.client
        self._conditions = conditions
        self._path = path
        self._key = key
        self._images: dict[_Name, Image] = {}
        self._commits: dict[_Name, Commit] = {}
        self._incarnations: dict[str | None, Incarnation] = {}
        self._foreign: dict[Incarnation, frozenset[Version]] = {}

    # ---- reading

    def exists(self) -> bool:
        return self._lines.find_head(self._path, None) is not None

    def head(self, branch: str | None) -> Version:
        version = self._lines.find_head(self._path, branch)
        if version is None:
            raise TableNotFound(f"{self._path} on branch '{branch}'", "branch")
        record(Cost.MANIFEST_PROBES)
        return self._find_own(branch) if version in self.foreign(branch) else version

    def find_head(self, branch: str | None) -> Version | None:
        return None

    def incarnation(self, branch: str | None) -> Incarnation:
        self._incarnations[branch] = self._lines.incarnation(self._path, branch)
        return self._incarnations[branch]

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        for _ in range(_ROUNDS):
            incarnation = self.incarnation(branch)
            at = self.head(branch) if version is None else version
            known = self._images.get((branch, at, incarnation))
            if known is not None:
                return known
            try:
                commit = self._read(branch, at)
                if self._note_foreign(commit, branch, at, incarnation):
                    raise HistoryReclaimed(self._path, at)
            except HistoryReclaimed:
                if version is not None:
                    raise
                continue
            if self.incarnation(branch) == incarnation:
                record(Cost.MANIFEST_OPENS)
                record(Cost.MANIFEST_SCANS)
                return self._cache((branch, at, incarnation), commit)
        raise InternalError(f"branch '{branch}' of {self._path} was replaced again and again")

    def _read(self, branch: str | None, version: Version) -> Commit:
        found = self._lines.find(self._path, branch, version)
        if found is not None:
            return found
        if self.head(branch) > version:
            raise HistoryReclaimed(self._path, version)
        raise TableNotFound(f"{self._path} at version {version}")

    def find_newest(self, branch: str | None, keys: Sequence[str]) -> pa.Table:
        rows = self.load(branch).rows
        has_key = pc.any(pc.is_in(rows[self._key], value_set=pa.array(keys))).as_py()
        return rows if has_key else rows.slice(0, 0)

    def count_where(self, branch: str | None, column: str, value: str) -> int:
        rows = self.load(branch).rows
        return int(pc.sum(pc.equal(rows[column], value)).as_py() or 0)

    def cached(
        self, branch: str | None, version: Version, incarnation: Incarnation
    ) -> Image | None:
        return self._images.get((branch, version, incarnation))

    def fragment_count(self, image: Image) -> int:
        return self._commit_of(image).fragments

    # ---- writing

    def create(
        self, rows: pa.Table, *, metadata: Mapping[str, str], config: Mapping[str, str]
    ) -> Image:
        made = Commit(
            self._by_key(rows),
            rows.schema,
            self._client.new_id(),
            Change.OVERWRITE,
            0,
            wrote=frozenset({EVERYTHING}),
            metadata=dict(metadata),
        )
        if not self._lines.create_version(self._path, None, 1, made):
            raise TableExists(self._path)
        return self.load(None, Version(1))

    def swap(self, image: Image, rows: pa.Table, guard: str | None = None) -> Version:
        base, fresh = self._commit_of(image), self._by_key(rows)
        is_marked = _PRIMARY_KEY in (base.schema.field(self._key).metadata or {})
        made = replace(
            base,
            rows={**base.rows, **fresh},
            wrote=frozenset(fresh) if is_marked else frozenset(),
            fragments=base.fragments + 1,
        )
        version = self._land(image, made, is_guarded=guard in base.rows)
        record(Cost.MANIFEST_SWAPS)
        return version

    def set_metadata(self, image: Image, key: str, value: str) -> Image:
        base = self._commit_of(image)
        made = replace(
            base, metadata={**base.metadata, key: value}, wrote=frozenset({f"metadata:{key}"})
        )
        return self.load(image.branch, self._land(image, made, change=Change.CONFIG))

    def annotate_key(self, image: Image) -> Image:
        base = self._commit_of(image)
        position = base.schema.get_field_index(self._key)
        marked = base.schema.field(position).with_metadata({_PRIMARY_KEY: b"true"})
        schema = base.schema.set(position, marked)
        made = replace(base, schema=schema, wrote=frozenset({_KEY_MARK}))
        return self.load(image.branch, self._land(image, made, change=Change.CONFIG))

    def fold(self, branch: str | None, *, whole: bool = False, split: Split | None = None) -> bool:
        image = self.load(branch)
        base = self._commit_of(image)
        if base.fragments <= 1:
            return False
        # A fold changes every fragment: it gives way to a swap that came first, and a swap from before it contends.
        made = replace(base, fragments=1, wrote=frozenset(base.rows))
        try:
            self._land(image, made, is_guarded=True)
        except RowContention:
            return False
        record(Cost.MANIFEST_FOLDS)
        return True

    def _land(
        self,
        image: Image,
        made: Commit,
        *,
        change: Change = Change.UPDATE,
        is_guarded: bool = False,
    ) -> Version:
        """Create the version after an image; a guarded swap of main takes one request, and else Lance commits."""
        base, branch = self._commit_of(image), image.branch
        self._require_own_head(image)
        made = replace(made, uuid=self._client.new_id(), change=change, read_version=image.version)
        has_drafts = self._conditions is not None and self._conditions.are_honoured()
        if is_guarded and branch is None and has_drafts:
            version = Version(image.version + 1)
            failed = self._lines.try_create(self._path, None, version, made)
            if isinstance(failed, HeadMoved):
                raise self._contention(image) from failed
            if failed is not None:
                raise failed
        else:
            try:
                version = self._lines.commit(self._path, branch, base, made)
            except HeadMoved as error:
                raise self._contention(image) from error
            if version != image.version + 1:
                # The answer of the commit tells what it stands on.
                landed = self._lines.peek(self._path, branch, version)
                if self._note_foreign(landed, branch, version, image.incarnation):
                    raise self._contention(image)
        if version == image.version + 1:
            self._cache((branch, version, image.incarnation), made)
        return version

    # ---- versions of an earlier branch of the name

    def foreign(self, branch: str | None) -> frozenset[Version]:
        incarnation = None if branch is None else self._incarnations.get(branch)
        return frozenset() if incarnation is None else self._foreign.get(incarnation, frozenset())

    def supersede(self, branch: str | None) -> None:
        image = self.load(branch)
        if max(self.foreign(branch), default=0) > image.version:
            self._put_past_foreign(image)

    def _note_foreign(
        self, commit: Commit, branch: str | None, version: Version, incarnation: Incarnation
    ) -> bool:
        if branch is None or not is_foreign(commit.metadata, incarnation):
            return False
        self._foreign[incarnation] = self._foreign.get(incarnation, frozenset()) | {version}
        return True

    def _find_own(self, branch: str | None) -> Version:
        incarnation = self.incarnation(branch)
        for version in reversed(self._lines.list_versions(self._path, branch)):
            commit = self._read(branch, version)
            if not self._note_foreign(commit, branch, version, incarnation):
                return version
        raise TableNotFound(f"{self._path} on branch '{branch}'", "branch")

    def _require_own_head(self, image: Image) -> None:
        if max(self.foreign(image.branch), default=0) > image.version:
            self._put_past_foreign(image)
            raise self._contention(image)

    def _put_past_foreign(self, image: Image) -> None:
        """Create every free version up to the one past the newest as a copy of an image, from below."""
        branch, base = image.branch, self._commit_of(image)
        listed = self._lines.list_versions(self._path, branch)
        later = [version for version in listed if version > image.version]
        for version in later:
            commit = self._read(branch, version)
            if not self._note_foreign(commit, branch, version, image.incarnation):
                raise self._contention(image)
        for number in range(image.version + 1, max(listed) + 2):
            copy = replace(
                base,
                uuid=self._client.new_id(),
                change=Change.RESTORE,
                read_version=number - 1,
                restored=image.version,
            )
            if number not in later and self._lines.try_create(self._path, branch, number, copy):
                raise self._contention(image)

    # ---- versions

    def versions(self, branch: str | None) -> tuple[VersionInfo, ...]:
        listed = self._lines.list_versions(self._path, branch)
        if not listed:
            raise TableNotFound(f"{self._path} on branch '{branch}'", "branch")
        return tuple(
            VersionInfo(version=one, created_us=self._lines.changed_us(self._path, branch, one))
            for one in listed
        )

    def has_version(self, branch: str | None, version: Version) -> bool:
        return self._lines.find(self._path, branch, version) is not None

    def reclaim(
        self, branch: str | None, versions: Sequence[Version], *, dry_run: bool
    ) -> Reclaimed:
        listed = self._lines.list_versions(self._path, branch)
        forks = self._lines.refs(self._path).values()
        kept = {listed[-1], *(ref.parent_version for ref in forks if ref.parent == branch)}
        gone = [one for one in versions if one in listed and one not in kept]
        if not dry_run:
            self._lines.delete_versions(self._path, branch, gone)
            for name in [one for one in self._images if one[0] == branch and one[1] in gone]:
                del self._images[name], self._commits[name]
        return Reclaimed(versions=len(gone), bytes=0)

    # ---- branches

    def branches(self) -> Mapping[str, BranchRef]:
        return self._lines.refs(self._path)

    def branch_names(self) -> frozenset[str]:
        return frozenset(self._lines.list_ref_names(self._path))

    def branch_marks(self) -> Mapping[str, Hashable]:
        return {name: ref.incarnation for name, ref in self.branches().items()}

    def address_outside(self, branch: str | None) -> str | None:
        return None

    def branches_outside(self, limit: int | None = None) -> Mapping[str, str]:
        return {}

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        try:
            self._lines.create_branch(self._path, name, source, version)
        except TableNotFound as error:
            if self.has_version(source, version):
                raise
            raise HistoryReclaimed(self._path, version) from error
        made = self._lines.find_ref(self._path, name)
        if made is None:
            raise TableNotFound(f"{self._path} on branch '{name}'", "branch")
        return made

    def delete_branch(self, name: str) -> None:
        children = [ref.name for ref in self.branches().values() if ref.parent == name]
        if children:
            raise BranchInUse(name, children, "other branches fork from it")
        self._lines.drop_branch(self._path, name)
        for known in [one for one in self._images if one[0] == name]:
            del self._images[known], self._commits[known]

    # ---- inside

    def _by_key(self, rows: pa.Table) -> dict[str, dict[str, object]]:
        return {row[self._key]: row for row in rows.to_pylist()}

    def _commit_of(self, image: Image) -> Commit:
        name = (image.branch, image.version, image.incarnation)
        known = self._commits.get(name)
        if known is None:
            known = self._commits[name] = self._read(image.branch, image.version)
        return known

    def _cache(self, name: _Name, commit: Commit) -> Image:
        branch, version, incarnation = name
        image = Image(
            branch=branch,
            version=version,
            incarnation=incarnation,
            recent=pa.Table.from_pylist(list(commit.rows.values()), schema=commit.schema),
            metadata=dict(commit.metadata),
        )
        self._commits[name] = commit
        self._images[name] = image
        return image

    def _contention(self, image: Image) -> RowContention:
        return RowContention(self._path, image.branch, image.version)


def make_lone_rows(name: str = "__manifest", key: str = "object_id") -> SimulatedRows:
    """Make keyed rows of a store of their own, for one process, which commit as Lance does."""
    root = root_of("s3://simulated/graph")
    return SimulatedRows(make_lone_asker(), root, name, key)
