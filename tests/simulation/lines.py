"""Versions of a table on its branches, as Lance keeps them: each is one object that is created under a condition.

Lance rebases a commit whose base is old over what landed since, or refuses it; `tests/substrate/test_lance_commits.py` and
`test_lance_restores.py` pin these rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.errors import ForkExists, HeadMoved, OmniError, StorageError, TableNotFound
from omnigraphdb.ids import Version
from omnigraphdb.storage.layout import REFS, Root, branch_path
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import MAIN_INCARNATION, BranchRef, Incarnation
from tests.simulation.objects import Asker, make_failure
from tests.simulation.requested import Lost, Verb

Row = Mapping[str, Any]
EVERYTHING: Final = "*"
"""Stands for every key, or every index."""


class Change(StrEnum):
    """Lance's names of transactions."""

    APPEND = "Append"
    UPDATE = "Update"
    DELETE = "Delete"
    OVERWRITE = "Overwrite"
    CREATE_INDEX = "CreateIndex"
    REWRITE = "Rewrite"
    RESTORE = "Restore"
    CLONE = "Clone"
    CONFIG = "UpdateConfig"


_REPLACING: Final = (Change.OVERWRITE, Change.RESTORE)
"""After one of these nothing lands that was prepared before."""
_TOUCHING: Final = (Change.UPDATE, Change.DELETE, Change.REWRITE)


@dataclass(frozen=True)
class Commit:
    """One version: its rows by key, where they lie, and the transaction that made it."""

    rows: Mapping[str, Row]
    schema: pa.Schema
    uuid: str
    change: Change
    read_version: int
    places: Mapping[str, int] = field(default_factory=dict)
    """The fragment of each row."""
    updated: Mapping[str, int] = field(default_factory=dict)
    """The version that wrote each row."""
    fragments_made: int = 0
    """How many fragments the table ever had; their ids are the numbers below."""
    touched: frozenset[int] = frozenset()
    """The fragments that the transaction rewrote, or from which it removed rows."""
    indexes: frozenset[str] = frozenset()
    """The names of the indexes that the transaction made."""
    wrote: frozenset[str] = frozenset()
    """The keys that the transaction wrote, of keyed rows."""
    removed: frozenset[str] = frozenset()
    """The keys that the transaction removed."""
    restored: int | None = None
    """The version whose rows a Restore brings back."""
    operation_id: str | None = None
    actor: str | None = None
    fragments: int = 1
    """How many fragments keyed rows have, for folds."""
    metadata: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.change} {self.uuid}"


def list_marks(commit: Commit) -> Iterator[tuple[str, str]]:
    """List the names that rows show, each with a mark of the attempt that wrote it: a list shows several."""
    for key, row in commit.rows.items():
        # The first one is the name of the row itself.
        first, *others = str(row["name"]).split(",")
        yield first, key
        for extended in others:
            yield extended.partition("~")[0], extended


def refuses(stale: Commit, landed: Commit) -> bool:
    """Whether Lance refuses a commit because of another one that landed after its base."""
    if stale.change is Change.RESTORE:
        return False
    if stale.change is Change.OVERWRITE or landed.change in _REPLACING:
        return True
    if stale.wrote & landed.wrote:
        return True
    if stale.change is Change.CREATE_INDEX and landed.change is Change.CREATE_INDEX:
        return bool(stale.indexes & landed.indexes)
    if stale.change is Change.CREATE_INDEX:
        return landed.change is Change.REWRITE
    if stale.change is Change.REWRITE and landed.change is Change.CREATE_INDEX:
        return True
    return stale.change in _TOUCHING and landed.change in _TOUCHING and _meet(stale, landed)


def _meet(stale: Commit, landed: Commit) -> bool:
    return bool(stale.touched & landed.touched)


def rebase(made: Commit, base: Commit, head: Commit, version: int) -> Commit:
    """Make the version after HEAD from a transaction that was made on another base, and that Lance lets land."""
    if made.change is Change.RESTORE:
        return made
    new = {key: row for key, row in made.rows.items() if key in made.wrote or key not in base.rows}
    rows = {key: row for key, row in head.rows.items() if key not in made.removed} | new
    shift = head.fragments_made - base.fragments_made
    moved = {k: place + shift for k, place in made.places.items() if place >= base.fragments_made}
    places = {key: place for key, place in head.places.items() if key in rows} | moved
    updated = {key: at for key, at in head.updated.items() if key in rows}
    return replace(
        made,
        rows=rows,
        places=places,
        updated=updated | dict.fromkeys(new, version),
        fragments_made=made.fragments_made + shift,
        fragments=head.fragments + 1,
        schema=head.schema if made.schema.equals(base.schema, check_metadata=True) else made.schema,
        metadata=head.metadata
        | {k: v for k, v in made.metadata.items() if base.metadata.get(k) != v},
    )


class Lines:
    """The tables under one root: each branch of a table is a line of versions."""

    def __init__(self, asker: Asker, root: Root) -> None:
        self.asker = asker
        self.root = root
        self._store = asker.store

    def ask(self, verb: Verb, action: StoreAction, key: str, effect: Any) -> Any:
        """Send one request; one without an answer is the error that the store raises."""
        try:
            return self.asker.ask(verb, key, effect)
        except Lost as lost:
            raise make_failure(lost, action, self.root, key) from lost

    # ---- versions

    def list_versions(self, path: str, branch: str | None) -> list[Version]:
        """List the versions of a line, ascending; one listing."""
        directory = _directory(path, branch)
        keys = self.ask(Verb.LIST, StoreAction.LIST, directory, lambda: self._store.list(directory))
        return [Version(int(key.rpartition("/")[2])) for key in keys]

    def find_head(self, path: str, branch: str | None) -> Version | None:
        """Find the greatest version that is listed, gaps or not."""
        return max(self.list_versions(path, branch), default=None)

    def head(self, path: str, branch: str | None) -> Version:
        """Read the newest version."""
        found = self.find_head(path, branch)
        if found is None:
            raise TableNotFound(branch_path(path, branch), "table")
        return found

    def find(self, path: str, branch: str | None, version: int) -> Commit | None:
        """Read one version; None when it is not there."""
        key = _key(path, branch, version)
        found = self.ask(Verb.READ, StoreAction.READ, key, lambda: self._store.get(key))
        if found is None:
            return None
        assert isinstance(found.value, Commit), "only versions lie there"
        return found.value

    def peek(self, path: str, branch: str | None, version: int) -> Commit:
        """Give a version that a request has told of already."""
        stored = self._store.objects[_key(path, branch, version)]
        assert isinstance(stored.value, Commit), "only versions lie there"
        return stored.value

    def read(self, path: str, branch: str | None, version: int) -> Commit:
        """Read one version."""
        found = self.find(path, branch, version)
        if found is None:
            raise TableNotFound(f"{branch_path(path, branch)} at version {version}", "table")
        return found

    def create_version(self, path: str, branch: str | None, version: int, made: Commit) -> bool:
        """Create a version by one conditional PUT; False when there is one."""
        key = _key(path, branch, version)
        self._note_writers(made)
        put = self.ask(
            Verb.CONDITIONAL,
            StoreAction.CREATE,
            key,
            lambda: self._store.put(key, made, is_new=True),
        )
        return put is not None

    def _note_writers(self, made: Commit) -> None:
        """Note the operation of what a commit writes, for the judge: cleanup may remove the version."""
        new = [key for key in made.rows if f"/{made.uuid}/" in key]
        if made.operation_id is not None and new:
            # A list that was extended ends with the mark of the attempt.
            marks = (str(made.rows[key].get("name", "")).rpartition(",") for key in new)
            ends = (
                last if comma else key for key, (_, comma, last) in zip(new, marks, strict=True)
            )
            self._store.writers.update(dict.fromkeys(ends, made.operation_id))

    def try_create(
        self, path: str, branch: str | None, version: int, made: Commit
    ) -> OmniError | None:
        """Create a version as `try_put_version` does: None when this very version is in the store, else the error."""
        try:
            if self.create_version(path, branch, version, made):
                return None
            lost: OmniError = HeadMoved(path, version - 1, version)
        except StorageError as error:
            lost = error
        try:
            found = self.find(path, branch, version)
        except StorageError as unseen:
            return unseen
        return None if found is not None and found.uuid == made.uuid else lost

    def commit(self, path: str, branch: str | None, base: Commit, made: Commit) -> Version:
        """Commit as Lance does: rebase over what landed since, and create the version after HEAD; `HeadMoved` else."""
        expected = made.read_version
        versions = [one for one in self.list_versions(path, branch) if one > expected]
        head, newest = expected, base
        for version in versions:
            landed = self.read(path, branch, version)
            if refuses(made, landed):
                raise HeadMoved(path, expected, None)
            head, newest = version, landed
        if versions:
            if made.change is Change.REWRITE and newest.fragments_made > base.fragments_made:
                # Its new fragments have ids that other commits gave since.
                raise HeadMoved(path, expected, None)
            made = rebase(made, base, newest, head + 1)
        following = Version(head + 1)
        if not self.create_version(path, branch, following, made):
            raise HeadMoved(path, expected, None)
        return following

    # ---- branches

    def find_ref(self, path: str, name: str) -> BranchRef | None:
        """Read one ref; None when there is none."""
        key = _ref_key(path, name)
        found = self.ask(Verb.READ, StoreAction.READ, key, lambda: self._store.get(key))
        if found is None:
            return None
        assert isinstance(found.value, BranchRef), "only refs lie there"
        return found.value

    def list_ref_names(self, path: str) -> list[str]:
        """List the branches; one listing."""
        directory = f"{path}/{REFS}"
        keys = self.ask(Verb.LIST, StoreAction.LIST, directory, lambda: self._store.list(directory))
        return [_name_of(key, directory) for key in keys]

    def refs(self, path: str) -> dict[str, BranchRef]:
        """Read all refs; a branch that goes meanwhile is left out."""
        found = ((name, self.find_ref(path, name)) for name in self.list_ref_names(path))
        return {name: ref for name, ref in found if ref is not None}

    def incarnation(self, path: str, branch: str | None) -> Incarnation:
        """Read the incarnation of a branch; one small read, none for main."""
        if branch is None:
            return MAIN_INCARNATION
        ref = self.find_ref(path, branch)
        if ref is None:
            raise TableNotFound(f"{path} on branch '{branch}'", "branch")
        return ref.incarnation

    def create_branch(
        self, path: str, name: str, source: str | None, version: Version
    ) -> BranchRef:
        """Create a branch as Lance does: it looks, copies a version, writes the ref; `ForkExists` tells what is there."""
        try:
            return self._create_branch(path, name, source, version)
        except OmniError as error:
            taken = self._find_taken(path, name)
            if taken is None:
                raise
            raise taken from error

    def _create_branch(
        self, path: str, name: str, source: str | None, version: Version
    ) -> BranchRef:
        if self.find_ref(path, name) is not None:
            raise HeadMoved(path, version, None)
        parent = self.incarnation(path, source)
        base = self.read(path, source, version)
        client = self.asker.client
        clone = replace(base, change=Change.CLONE, uuid=client.new_id(), wrote=frozenset())
        if not self.create_version(path, name, version, clone):
            raise HeadMoved(path, version, None)
        made = BranchRef(
            name=name,
            parent=source,
            parent_version=version,
            created_us=client.now_us(),
            incarnation=(*parent, (version, client.new_id())),
        )
        key = _ref_key(path, name)
        self.ask(Verb.WRITE, StoreAction.CREATE, key, lambda: self._store.put(key, made))
        return made

    def _find_taken(self, path: str, name: str) -> ForkExists | None:
        if self.find_ref(path, name) is not None:
            return ForkExists(path, name, has_ref=True)
        if self.list_versions(path, name):
            return ForkExists(path, name, has_ref=False)
        return None

    def drop_branch(self, path: str, name: str) -> None:
        """Remove a branch: its ref first, then its files; nothing to do when there is no ref."""
        if self.find_ref(path, name) is not None:
            self._delete([_ref_key(path, name)])
            self.delete_files(branch_path(path, name))

    def delete_files(self, directory: str) -> None:
        """Remove everything below a directory, one by one."""
        self._delete(
            self.ask(
                Verb.LIST,
                StoreAction.DELETE,
                directory,
                lambda: self._store.list(directory, below=True),
            )
        )

    def delete_versions(self, path: str, branch: str | None, versions: Iterable[Version]) -> None:
        """Remove versions of a line."""
        self._delete([_key(path, branch, version) for version in versions])

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.ask(Verb.DELETE, StoreAction.DELETE, key, lambda key=key: self._store.delete(key))

    def count_files(self, path: str) -> dict[str | None, int]:
        """Count the files of each line of a table, of those without a ref too; one listing."""
        listed = self.ask(
            Verb.LIST, StoreAction.LIST, path, lambda: self._store.list(path, below=True)
        )
        counts: dict[str | None, int] = {}
        for key in listed:
            inner = key.removeprefix(f"{path}/")
            if "_versions/" in inner:
                line = inner.partition("_versions/")[0].removeprefix("tree/").rstrip("/") or None
                counts[line] = counts.get(line, 0) + 1
        return counts

    def changed_us(self, path: str, branch: str | None, version: Version) -> int:
        """When a version was made, by a listing that the caller has made already."""
        stored = self._store.get(_key(path, branch, version))
        return 0 if stored is None else stored.changed_us


def _directory(path: str, branch: str | None) -> str:
    return f"{branch_path(path, branch)}/_versions"


def _key(path: str, branch: str | None, version: int) -> str:
    # Numbers of one length are in order by name.
    return f"{_directory(path, branch)}/{version:06d}"


def _ref_key(path: str, name: str) -> str:
    return f"{path}/{REFS}/{name.replace('/', '%2F')}.json"


def _name_of(key: str, directory: str) -> str:
    return key.removeprefix(f"{directory}/").removesuffix(".json").replace("%2F", "/")
