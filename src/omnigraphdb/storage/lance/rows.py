"""Keyed rows on Lance: one table that is loaded and changed by compare-and-swap on its key column; old rows are loaded on use.

A guarded swap replaces one row, the guard, and adds others; rivals contend on the guard alone.
"""

import copy
import json
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import LanceFragment, write_fragments

from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.errors import (
    HeadMoved,
    HistoryReclaimed,
    InternalError,
    RowContention,
    StorageError,
    TableNotFound,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import Version
from omnigraphdb.limits import IMAGE_ROUNDS_MAX, IMAGES_MAX, TAIL_ROWS_MAX
from omnigraphdb.logs import get_logger
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.lance import branches, files
from omnigraphdb.storage.lance.datasets import Datasets, Mark
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.folds import (
    Fold,
    FragmentGroups,
    plan_fold,
    split_fragments,
    write_fold,
)
from omnigraphdb.storage.lance.fragments import fragment_of
from omnigraphdb.storage.lance.new_files import find_cut_file, make_cut_error, require_whole
from omnigraphdb.storage.lance.restores import Restores
from omnigraphdb.storage.lance.stage import STORAGE_VERSION
from omnigraphdb.storage.lance.unofficial.version_files import list_versions, version_file
from omnigraphdb.storage.layout import NEWEST, RECLAIMED, branch_path
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.rows import (
    History,
    Image,
    Split,
    fit_rows,
    is_foreign,
    move_image,
    replace_metadata,
    swap_rows,
)
from omnigraphdb.storage.values import BranchRef, Incarnation, Reclaimed, TableAt, VersionInfo
from omnigraphdb.values import dataclass

_log = get_logger(__name__)

_OFFSET_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class RowAddress:
    """The location of a stored row: its fragment, and its row offset in that fragment."""

    fragment: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The row that every rival replaces: its address, and the rows of its fragment where they are known."""

    key: str
    address: RowAddress
    rows: pa.Table | None = None

    @property
    def is_movable(self) -> bool:
        """Whether its fragment is so small that its other rows are written anew, and it goes as a whole."""
        return self.rows is not None and self.rows.num_rows <= TAIL_ROWS_MAX

    def list_beside(self) -> list[pa.Table]:
        """List the other rows of its fragment, if they are written anew."""
        if self.rows is None or not self.is_movable:
            return []
        at = self.address.offset
        return [self.rows.slice(0, at), self.rows.slice(at + 1)]


PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key"
"""Field metadata that lets Lance detect two writers of one key; without it both would land."""

_ImageKey = tuple[str | None, Version, Incarnation]


class LanceRows:
    """One keyed table under a graph root; safe between threads."""

    def __init__(self, datasets: Datasets, objects: Objects, path: str, key: str) -> None:
        self._datasets = datasets
        self._objects = objects
        self._path = path
        self._key = key
        self._images: Recent[_ImageKey, Image] = Recent(IMAGES_MAX)
        self._guards: Recent[_ImageKey, Guard] = Recent(IMAGES_MAX)
        self._incarnations: dict[str, Incarnation] = {}
        self._foreign: dict[Incarnation, frozenset[Version]] = {}
        self._inside_root: set[str] = set()

    # ---- the table

    def create(
        self, rows: pa.Table, *, metadata: Mapping[str, str], config: Mapping[str, str]
    ) -> Image:
        """Create the table at version 1 with these rows; config entries, if any, are version 2."""
        schema = rows.schema.with_metadata(dict(metadata))
        uri, options = self._datasets.uri(self._path), self._datasets.options
        with translate_faults(StoreAction.CREATE, self._datasets.location(self._path, None)):
            fragments = write_fragments(
                fit_rows(rows, schema),
                uri,
                mode="create",
                data_storage_version=STORAGE_VERSION,
                storage_options=options,
            )
            first = LanceOperation.Overwrite(schema, fragments)
            require_whole(self._datasets.location(self._path, None), first)
            created = LanceDataset.commit(
                uri,
                first,
                storage_options=options,
                enable_stable_row_ids=True,
                max_retries=0,
            )
            if config:
                update = LanceOperation.UpdateConfig(
                    config_updates=LanceOperation.UpdateMap(dict(config))
                )
                created = LanceDataset.commit(created, Transaction(created.version, update))
        return self.load(None, Version(created.version))

    def exists(self) -> bool:
        """Tell whether the table is there."""
        return self._datasets.exists(self._path)

    def head(self, branch: str | None) -> Version:
        """Read the newest version; one cheap probe, and a listing while a foreign version is in the way."""
        newest = self._datasets.head(self._path, branch)
        return self._find_own(branch) if newest in self.foreign(branch) else newest

    def find_head(self, branch: str | None) -> Version | None:
        """Find the newest version by names of files on this machine alone; None when the store must be asked."""
        return self._datasets.find_head(self._path, branch)

    def incarnation(self, branch: str | None) -> Incarnation:
        """Read the incarnation of a branch; one small read, none for main."""
        incarnation = branches.incarnation(self._datasets, self._objects, self._path, branch)
        if branch is not None and self._incarnations.get(branch, incarnation) != incarnation:
            # The versions that were opened under this name belong to another incarnation.
            self._datasets.forget(self._path, branch)
        if branch is not None:
            self._incarnations[branch] = incarnation
        return incarnation

    # ---- rows

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        """Load the rows, at HEAD or of a named version, and the history on use; a cached version is not read again."""
        for _ in range(IMAGE_ROUNDS_MAX):
            incarnation = self.incarnation(branch)
            target = version if version is not None else self.head(branch)
            cached = self._images.get((branch, target, incarnation))
            if cached is not None:
                return cached
            try:
                image = self._load(branch, target, incarnation)
            except StorageError:
                # A deletion of the branch removes its ref first and then its files, one by one.
                if self.incarnation(branch) == incarnation:
                    raise
                continue
            except HistoryReclaimed:
                # Others replaced the newest version, and cleanup removed it before it was read; or it is foreign.
                if version is not None:
                    raise
                continue
            if self.incarnation(branch) == incarnation:
                return self._cache(image)
        raise InternalError(
            f"branch '{branch or 'main'}' of {self._path} was replaced again and again while it was read"
        )

    def find_newest(self, branch: str | None, keys: Sequence[str]) -> pa.Table:
        """Give the rows at HEAD that are stored together with the newest of these keys; none when no row has one."""
        at = self._newest(branch)
        with translate_faults(StoreAction.READ, self._datasets.location_of(at)):
            return find_newest(self._datasets.at(at), self._key, keys)

    def count_where(self, branch: str | None, column: str, value: str) -> int:
        """Count the rows at HEAD with a value in a column; reads no other column."""
        at = self._newest(branch)
        with translate_faults(StoreAction.READ, self._datasets.location_of(at)):
            return int(self._datasets.at(at).count_rows(filter=is_equal(column, value)))

    def cached(
        self, branch: str | None, version: Version, incarnation: Incarnation
    ) -> Image | None:
        """Give the image of a version if it is cached; sends no request."""
        return self._images.get((branch, version, incarnation))

    def swap(self, image: Image, rows: pa.Table, guard: str | None = None) -> Version:
        """Insert or replace rows by key from the state of `image`; return the version that shows them."""
        self._require_own_head(image)
        fresh = fit_rows(rows, image.recent.schema)
        if guard is None:
            # The merge may replace any row, of the history too.
            image.load_history()
        guard_row = self._guard(image, fresh, guard) if guard is not None else None
        with translate_faults(
            StoreAction.WRITE, self._location(image), contention=lambda: self._contention(image)
        ):
            if guard_row is None:
                dataset = copy.copy(self._open_dataset(image))
                merge_rows(dataset, self._key, fresh)
                self._require_own_base(image, dataset)
                self._undo_cut_merge(image, dataset)
                version = self._open(image.branch, dataset)
            else:
                fresh = pa.concat_tables([*guard_row.list_beside(), fresh]).combine_chunks()
                version, dataset = self._swap_guarded(image, guard_row, fresh)
        self._datasets.settle(self._path)
        record(Cost.MANIFEST_SWAPS)
        if version == image.version + 1:
            cached = self._cache(swap_rows(image, rows, self._key, version))
            if guard_row is not None:
                after = find_in_newest(dataset, fresh, self._key, guard_row.key)
                self._guards.put(self._name(cached), after)
        return version

    def _undo_cut_merge(self, image: Image, merged: LanceDataset) -> None:
        """Take back a merge of rows of which the local disk took only a part; Lance names its files after the commit only."""
        at, root = replace(self._at(image), version=Version(merged.version)), self._datasets.root
        cut = find_cut_file(root, merged, at) if root.is_local else None
        if cut is not None:
            undo = Transaction(merged.version, LanceOperation.Restore(image.version))
            LanceDataset.commit(merged, undo, max_retries=0)
            raise make_cut_error(root, *cut)

    def _swap_guarded(
        self, image: Image, guard: Guard, rows: pa.Table
    ) -> tuple[Version, LanceDataset]:
        """Commit a guarded swap; return the version and its manifest.

        Every version of the table has the same columns, so that an open version serves to write rows.
        """
        if guard.is_movable:
            written = write_swap(self._datasets.any(self._path, image.branch), guard, rows)
        else:
            at_once = self._datasets.root.is_distant
            written = write_swap(self._open_dataset(image), guard, rows, at_once=at_once)
        landed = self._commit(image, written)
        return Version(landed.version), landed

    def _commit(self, image: Image, written: LanceOperation.Update) -> LanceDataset:
        """Commit a change of rows, by one request where a draft can be made of it; gives the manifest of its version."""
        require_whole(self._location(image), written)
        change = Transaction(image.version, written)
        at = self._at(image)
        drafts = self._datasets.drafts
        draft = None if drafts is None else drafts.make(at, change, self._location(image))
        if drafts is None or draft is None:
            landed = LanceDataset.commit(self._open_dataset(image), change, max_retries=0)
            self._require_own_base(image, landed)
            self._open(image.branch, landed)
            return landed
        try:
            drafts.land_alone(draft)
        except HeadMoved as error:
            raise self._contention(image) from error
        return self._manifest_of(draft.landed.at)

    def _manifest_of(self, at: TableAt) -> LanceDataset:
        """Give the manifest of a version: that on the local disk asks the store for nothing."""
        copied = None if self._datasets.drafts is None else self._datasets.drafts.copy_at(at)
        return self._datasets.at(at) if copied is None else copied

    def _guard(self, image: Image, rows: pa.Table, guard: str) -> "Guard | None":
        """Find the guard row; None when these rows replace other rows too."""
        if not replaces_only(image.cached, rows, self._key, guard):
            return None
        cached = self._guards.get(self._name(image))
        if cached is not None and cached.key == guard:
            return cached
        with translate_faults(StoreAction.READ, self._location(image)):
            address = find_row(self._open_dataset(image), self._key, guard)
        return None if address is None else Guard(key=guard, address=address)

    def set_metadata(self, image: Image, key: str, value: str) -> Image:
        """Set one entry of the schema metadata; `RowContention` when another writer changed any since."""
        update = LanceOperation.UpdateMap({key: value})
        version = self._configure(
            image, LanceOperation.UpdateConfig(schema_metadata_updates=update)
        )
        if version == image.version + 1:
            return self._cache(replace_metadata(image, key, value, version))
        return self.load(image.branch, version)

    def annotate_key(self, image: Image) -> Image:
        """Mark the key column as primary key; `RowContention` when another writer marked it since."""
        field = self._open_dataset(image).lance_schema.field(self._key)
        if field is None:
            raise InternalError(f"{self._path} has no column '{self._key}'")
        update = {field.id(): LanceOperation.UpdateMap({PRIMARY_KEY: "true"})}
        operation = LanceOperation.UpdateConfig(field_metadata_updates=update)
        return self.load(image.branch, self._configure(image, operation))

    def fragment_count(self, image: Image) -> int:
        """Count the fragments of the recent rows."""
        history = 0 if image.history is None else image.history.fragments
        return len(self._manifest_of(self._at(image)).fragment_ids()) - history

    def fold(self, branch: str | None, *, whole: bool = False, split: Split | None = None) -> bool:
        """Rewrite the recent rows into one fragment; False when there was nothing to fold or a swap came first.

        Recent rows are in memory, so that a fold reads nothing but the part of the history that it rewrites.
        """
        mark = self._datasets.read_mark()
        image = self.load(branch)
        parts = split_fragments(self._manifest_of(self._at(image)))
        fold = plan_fold(parts, image.recent, self._split(split), whole=whole)
        if fold is None:
            return False
        try:
            self._require_own_head(image)
            with translate_faults(StoreAction.WRITE, self._location(image)):
                old = pa.concat_tables([self._read_parts(image, fold.merged), fold.rows.old])
                written = write_fold(
                    self._datasets,
                    self._at(image),
                    self._datasets.any(self._path, branch),
                    fold,
                    old,
                )
                fail(Failpoint.FOLD_WRITTEN)
                landed = self._commit(image, written)
        except (HeadMoved, RowContention):
            return False
        record(Cost.MANIFEST_FOLDS)
        fail(Failpoint.FOLD_COMMITTED)
        self._cache_folded(image, landed, fold)
        self._note_newest(replace(self._at(image), version=Version(landed.version)), mark)
        return True

    def _note_newest(self, at: TableAt, mark: Mark) -> None:
        """Write the newest version of main down, so that an opening on a disk need not list all of them."""
        noted = self._datasets.describe_newest(at, mark) if at.branch is None else None
        if noted is not None:
            self._objects.put(NEWEST, noted)

    def _split(self, split: Split | None) -> Split | None:
        # Lance writes single files of a store in memory to a store of their own.
        return None if self._datasets.root.is_memory else split

    def _cache_folded(self, image: Image, landed: LanceDataset, fold: Fold) -> None:
        """Cache the image after a fold, and where its guard is now."""
        if landed.version != image.version + 1:
            return
        moved_image = move_image(image, Version(landed.version))
        history = self._history_after(image, landed, fold)
        folded = self._cache(replace(moved_image, recent=fold.rows.recent, history=history))
        guard = self._guards.get(self._name(image))
        if guard is not None:
            after = find_in_newest(landed, fold.rows.recent, self._key, guard.key)
            self._guards.put(self._name(folded), after)

    def _history_after(self, image: Image, landed: LanceDataset, fold: Fold) -> History | None:
        """Return the history after a fold; a history that is in memory is not read again."""
        before = image.history
        if not fold.rows.old.num_rows and not fold.merged:
            return before
        parts = split_fragments(landed)
        if before is not None and not before.is_read:
            at = replace(self._at(image), version=Version(landed.version))
            return self._find_history(at, image.incarnation, parts)
        earlier = [] if before is None else [before.rows]
        rows = pa.concat_tables([*earlier, fold.rows.old]).combine_chunks()
        return History.of(rows, last_key=parts.last_key, fragments=len(parts.history))

    # ---- versions

    def versions(self, branch: str | None) -> tuple[VersionInfo, ...]:
        """List the readable versions of a branch, oldest first, without opening them where that is possible."""
        if not self._datasets.unofficial or self._datasets.root.is_memory:
            return files.versions(self._datasets, self._path, branch)
        return list_versions(self._objects, branch_path(self._path, branch))

    def foreign(self, branch: str | None) -> frozenset[Version]:
        """Give the foreign versions that were met so far; sends no request."""
        incarnation = None if branch is None else self._incarnations.get(branch)
        return frozenset() if incarnation is None else self._foreign.get(incarnation, frozenset())

    def supersede(self, branch: str | None) -> None:
        """Put a copy of the shown version past a foreign newest one; `RowContention` when others moved the branch."""
        image = self.load(branch)
        if max(self.foreign(branch), default=0) > image.version:
            self._put_past_foreign(image)

    def has_version(self, branch: str | None, version: Version) -> bool:
        """Check whether a version can still be read, without a cache."""
        return self._datasets.is_there(TableAt(path=self._path, branch=branch, version=version))

    def reclaim(
        self, branch: str | None, versions: Sequence[Version], *, dry_run: bool
    ) -> Reclaimed:
        """Remove versions of a branch and the files that only they use; with `dry_run`, only count both."""
        if not dry_run and versions:
            # Before the first removal: no handle may take a kept version for the newest because the next one is gone.
            self._objects.put(RECLAIMED, json.dumps({"path": self._path, "branch": branch}))
            fail(Failpoint.CLEANUP_MARKED)
        reclaimed = files.reclaim(self._datasets, self._path, branch, versions, dry_run=dry_run)
        if not dry_run:
            removed = frozenset(versions)
            self._images.drop(lambda key: key[0] == branch and key[1] in removed)
            self._datasets.forget(self._path, branch)
        return reclaimed

    # ---- branches

    def branches(self) -> Mapping[str, BranchRef]:
        """List the branches, by name, without main."""
        return branches.refs(self._datasets, self._path)

    def branch_names(self) -> frozenset[str]:
        """List the names of the branches, without main, by one listing."""
        return branches.names(self._datasets, self._objects, self._path)

    def branch_marks(self) -> Mapping[str, Hashable]:
        """Give each branch a mark that another branch of the same name does not have; one listing where it can."""
        return branches.marks(self._datasets, self._objects, self._path)

    def address_outside(self, branch: str | None) -> str | None:
        """Find the root in which a branch looks for its files, when it is another root."""
        if branch is None or branch in self._inside_root:
            return None
        # Relocation rewrites the newest version last; an older one may have the new address already.
        newest = TableAt(path=self._path, branch=branch, version=self.head(branch))
        base = branches.base_outside(self._datasets, newest)
        if base is None:
            self._inside_root.add(branch)
        return base

    def branches_outside(self, limit: int | None = None) -> Mapping[str, str]:
        """Map every branch that looks for its files outside the root to the root in which it looks."""
        roots: dict[str, str] = {}
        for name in sorted(self.branch_names())[:limit]:
            # A branch that is deleted meanwhile needs no address.
            with suppress(TableNotFound):
                base = self.address_outside(name)
                if base is not None:
                    roots[name] = base
        return roots

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        """Create a branch at a version of another; `ForkExists` when the name is taken."""
        self._datasets.forget(self._path, name)
        try:
            branches.create(
                self._datasets, self._objects, self._path, name, source=source, version=version
            )
        except TableNotFound as error:
            if self.has_version(source, version):
                raise
            raise HistoryReclaimed(self._path, version) from error
        created = branches.ref(self._datasets, self._objects, self._path, name)
        if created is None:
            raise TableNotFound(str(self._datasets.location(self._path, name)), "branch")
        return created

    def delete_branch(self, name: str) -> None:
        """Remove a branch; nothing to do when it is gone, `BranchInUse` when others fork from it."""
        branches.drop(self._datasets, self._objects, self._path, name)
        self._images.drop(lambda key: key[0] == name)

    # ---- how it is done

    def _newest(self, branch: str | None) -> TableAt:
        # Drops the open table of this name when it belongs to an earlier incarnation.
        incarnation = self.incarnation(branch)
        at = TableAt(path=self._path, branch=branch, version=self.head(branch))
        if self._is_foreign(self._datasets.at(at), branch, incarnation):
            return replace(at, version=self._find_own(branch))
        return at

    def _load(self, branch: str | None, version: Version, incarnation: Incarnation) -> Image:
        at = TableAt(path=self._path, branch=branch, version=version)
        dataset = self._datasets.at(at)
        if self._is_foreign(dataset, branch, incarnation):
            raise HistoryReclaimed(self._path, version)
        parts = split_fragments(dataset)
        try:
            rows = self._scan(at, parts.recent)
        except StorageError as error:
            raise self._explain_unreadable(at, error) from error
        record(Cost.MANIFEST_SCANS)
        metadata = read_metadata(dataset)
        return Image(
            branch=branch,
            version=version,
            incarnation=incarnation,
            recent=rows,
            metadata=metadata,
            history=self._find_history(at, incarnation, parts) if parts.history else None,
        )

    def _explain_unreadable(self, at: TableAt, error: StorageError) -> StorageError:
        """Name the file of a version that a local disk does not hold whole, and the way back to the version before it."""
        root = self._datasets.root
        cut = find_cut_file(root, self._datasets.at(at), at) if root.is_local else None
        if cut is None:
            return error
        newest = root.at(version_file(branch_path(at.path, at.branch), at.version))
        return StorageError(
            f"could not read {self._datasets.location_of(at)}: its file '{cut[0]}' is cut or missing ({cut[1]}); nothing was changed",
            storage_kind="permanent",
            hint=f"put the file back from a copy of the graph; without a copy move '{newest}' aside: the graph is then as "
            "before its last commit, and `omnigraphdb doctor` tells what to repair",
        )

    def _find_history(
        self, at: TableAt, incarnation: Incarnation, parts: FragmentGroups
    ) -> History:
        """Return the history of a version, which is read on use."""

        def read() -> pa.Table:
            if self.incarnation(at.branch) != incarnation:
                # Another branch has the name now, and perhaps a version of that number.
                raise HistoryReclaimed(at.path, at.version)
            current_parts = split_fragments(self._datasets.at(at))
            rows = self._scan(at, current_parts.history).combine_chunks()
            record(Cost.MANIFEST_HISTORY_SCANS)
            return rows

        return History(read, last_key=parts.last_key, fragments=len(parts.history))

    def _scan(self, at: TableAt, fragments: Sequence[LanceFragment]) -> pa.Table:
        dataset = self._datasets.at(at)
        with translate_faults(StoreAction.READ, self._datasets.location_of(at)):
            rows = dataset.scanner(fragments=list(fragments)).to_table()
        return pa.Table.from_arrays(rows.columns, schema=dataset.schema)

    def _read_parts(self, image: Image, fragments: Sequence[LanceFragment]) -> pa.Table:
        if not fragments:
            return image.recent.slice(0, 0)
        return self._scan(self._at(image), fragments)

    def _configure(self, image: Image, operation: LanceOperation.UpdateConfig) -> Version:
        self._require_own_head(image)
        change = Transaction(image.version, operation)
        with translate_faults(
            StoreAction.WRITE, self._location(image), contention=lambda: self._contention(image)
        ):
            changed = LanceDataset.commit(self._open_dataset(image), change, max_retries=0)
            self._require_own_base(image, changed)
        return self._open(image.branch, changed)

    def _open(self, branch: str | None, dataset: LanceDataset) -> Version:
        version = Version(dataset.version)
        self._datasets.keep(TableAt(path=self._path, branch=branch, version=version), dataset)
        return version

    def _cache(self, image: Image) -> Image:
        return self._images.put(self._name(image), image)

    def _name(self, image: Image) -> _ImageKey:
        return (image.branch, image.version, image.incarnation)

    def _at(self, image: Image) -> TableAt:
        return TableAt(path=self._path, branch=image.branch, version=image.version)

    def _open_dataset(self, image: Image) -> LanceDataset:
        return self._datasets.at(self._at(image))

    def _location(self, image: Image) -> TableLocation:
        return self._datasets.location(self._path, image.branch, image.version)

    def _contention(self, image: Image) -> RowContention:
        return RowContention(self._path, image.branch, image.version)

    # ---- versions of an earlier branch of the name

    def _is_foreign(
        self, dataset: LanceDataset, branch: str | None, incarnation: Incarnation
    ) -> bool:
        if branch is None or not is_foreign(read_metadata(dataset), incarnation):
            return False
        versions = self._foreign.get(incarnation, frozenset())
        self._foreign[incarnation] = versions | {Version(dataset.version)}
        return True

    def _find_own(self, branch: str | None) -> Version:
        """Find the newest version that is not foreign."""
        incarnation = self.incarnation(branch)
        for info in reversed(self.versions(branch)):
            at = TableAt(path=self._path, branch=branch, version=info.version)
            if not self._is_foreign(self._datasets.at(at), branch, incarnation):
                return info.version
        raise TableNotFound(str(self._datasets.location(self._path, branch)), "branch")

    def _require_own_head(self, image: Image) -> None:
        """Refuse to write while a foreign version is the newest; first put a copy of the shown version past it."""
        if max(self.foreign(image.branch), default=0) > image.version:
            self._put_past_foreign(image)
            raise self._contention(image)

    def _require_own_base(self, image: Image, landed: LanceDataset) -> None:
        """Doubt a version that Lance did not make right after its base: with a foreign one between it is foreign, and not read."""
        if landed.version != image.version + 1 and self._is_foreign(
            landed, image.branch, image.incarnation
        ):
            raise self._contention(image)

    def _put_past_foreign(self, image: Image) -> None:
        """Create every free version up to the one past the newest as a copy of `image`, from below.

        No writer that looked before a foreign version came can then create a version that the newest hides:
        the store refuses either that version or this copy, and the refused writer looks again.
        """
        at = self._at(image)
        listed = [info.version for info in self.versions(image.branch)]
        later = [replace(at, version=number) for number in listed if number > image.version]
        for candidate in later:
            if not self._is_foreign(self._datasets.at(candidate), image.branch, image.incarnation):
                raise self._contention(image)
        for number in range(image.version + 1, max(listed) + 2):
            following = replace(at, version=Version(number))
            if following not in later:
                self._put_copy(image, at)
            at = following
        _log.warning("manifest.foreign_superseded", branch=image.branch, version=at.version)

    def _put_copy(self, image: Image, before: TableAt) -> None:
        """Create the version after another one as a copy of `image`."""
        change = Transaction(before.version, LanceOperation.Restore(image.version))
        restores = Restores(self._objects, Conditions(self._objects))
        try:
            restores.restore(before, image.version, change, self._location(image))
        except (HeadMoved, HistoryReclaimed) as error:
            raise self._contention(image) from error


def read_metadata(dataset: LanceDataset) -> dict[str, str]:
    """Read the schema metadata of a version."""
    return {k.decode(): v.decode() for k, v in (dataset.schema.metadata or {}).items()}


# ---- swaps
# The two commits that swap keyed rows: a guarded commit, and a commit that Lance merges by key.


def is_equal(column: str, value: str) -> str:
    """Spell the filter for a text in a column."""
    literal = value.replace("'", "''")
    return f"{column} = '{literal}'"


def find_row(dataset: LanceDataset, key: str, value: str) -> RowAddress | None:
    """Look a recent row up by its key."""
    matches = dataset.scanner(
        columns=[],
        filter=is_equal(key, value),
        with_row_address=True,
        fragments=list(split_fragments(dataset).recent),
    ).to_table()
    if matches.num_rows != 1:
        return None
    address = int(matches[ROW_ADDRESS][0].as_py())
    return RowAddress(address >> _OFFSET_BITS, address & ((1 << _OFFSET_BITS) - 1))


def find_newest(dataset: LanceDataset, key: str, values: Sequence[str]) -> pa.Table:
    """Read the newest fragment that has one of these keys; no rows when no fragment has one."""
    keys = pa.array(values, pa.string())
    parts = split_fragments(dataset)
    for fragment in reversed((*parts.history, *parts.recent)):
        rows = dataset.scanner(fragments=[fragment]).to_table()
        if pc.any(pc.is_in(rows[key], value_set=keys)).as_py():
            return rows
    return dataset.schema.empty_table()


def replaces_only(rows: pa.Table, fresh: pa.Table, key: str, guard: str) -> bool:
    """Tell whether the guard is the only row that fresh rows replace."""
    replaced = rows[key].filter(pc.is_in(rows[key], value_set=fresh[key].combine_chunks()))
    return bool(replaced.to_pylist() == [guard])


def write_swap(
    dataset: LanceDataset, guard: Guard, rows: pa.Table, *, at_once: bool = False
) -> LanceOperation.Update:
    """Describe one commit that removes the guard row and adds rows; Lance refuses it when a rival changed the guard's fragment.

    It searches and reads no row, so that its cost does not depend on the size of the table. Where `rows` bring the
    other rows of the guard's fragment along, the fragment goes, and no deletion file is written. `at_once` writes two
    files at the same time, where each is a request over a network.
    """
    if guard.is_movable:
        added, rest = _write_added(dataset, rows), None
    elif at_once:
        with ThreadPoolExecutor(1, "omnigraph-write") as pool:
            writing = pool.submit(_write_added, dataset, rows)
            rest = _delete_guard(dataset, guard.address)
        added = writing.result()
    else:
        added, rest = _write_added(dataset, rows), _delete_guard(dataset, guard.address)
    return LanceOperation.Update(
        removed_fragment_ids=[guard.address.fragment] if rest is None else [],
        updated_fragments=[] if rest is None else [rest],
        new_fragments=added,
    )


def _write_added(dataset: LanceDataset, rows: pa.Table) -> list[FragmentMetadata]:
    return write_fragments(rows, dataset, mode="append", data_storage_version=STORAGE_VERSION)


def _delete_guard(dataset: LanceDataset, guard: RowAddress) -> FragmentMetadata | None:
    """Delete the guard from its fragment; None when no row is left."""
    fragment = fragment_of(dataset, guard.fragment)
    return None if fragment.metadata.num_rows == 1 else fragment.delete_rows([guard.offset])


def find_in_newest(dataset: LanceDataset, rows: pa.Table, key: str, guard: str) -> Guard:
    """Find the guard after its swap: the rows of a swap are one fragment, in their order."""
    address = RowAddress(max(dataset.fragment_ids()), pc.index(rows[key], guard).as_py())
    return Guard(key=guard, address=address, rows=rows)


def merge_rows(dataset: LanceDataset, key: str, rows: pa.Table) -> None:
    """Insert or replace rows by key and commit, moving the handle to the new version.

    This is the only change that Lance cannot stage: a staged merge does not record the keys it inserted, so two of
    them could insert one key twice. Only the inline form carries the keys into the conflict check.
    """
    (
        dataset.merge_insert(key)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
        .use_index(False)
        .execute(rows)
    )
