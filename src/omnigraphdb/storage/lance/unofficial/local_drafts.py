"""Drafts on a local disk: the versions of a group's appends are made in memory and linked into the table one after the other.

A commit through Lance takes two milliseconds of the processor, most of it for files that are small and known. Nobody
else makes versions of a table whose kernel lock is held, and a link is refused when there is one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lance.dataset import LanceOperation, Transaction

from omnigraphdb.errors import OmniError
from omnigraphdb.ids import Version
from omnigraphdb.limits import DRAFT_FILE_BYTES_MAX, DRAFT_FILES_MAX
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.lance.faults import TableLocation
from omnigraphdb.storage.lance.unofficial.drafts import Drafts
from omnigraphdb.storage.lance.unofficial.manifest_files import ManifestFile
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import Draft, Landed, TableAt
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class _Made:
    """A version that the next draft may stand on."""

    at: TableAt
    file: ManifestFile
    row_count: int


class LocalDrafts(Drafts):
    """Drafts of the tables of one root on a local disk; a lone commit is left to Lance.

    The facts of a draft are dropped with it. The newest landed draft is kept: a version never changes. The first
    append of a group that stands on another version reads that version.
    """

    def __init__(self, objects: Objects, conditions: Conditions, runtime: Runtime = SYSTEM) -> None:
        super().__init__(objects, conditions)
        self._runtime = runtime
        self._made: dict[TableAt, _Made] = {}
        self._landed: Recent[str, _Made] = Recent(DRAFT_FILES_MAX)

    def make(self, *_: object) -> None:
        """Leave a lone commit to Lance."""

    def _append(
        self,
        base: TableAt,
        transaction: Transaction,
        location: TableLocation,  # noqa: ARG002 - no call of Lance can fail here
        count_rows: Callable[[TableAt], int],
    ) -> Draft | None:
        parent = None if base.branch is not None else self._find(base, count_rows)
        now_us = self._runtime.now_us()
        manifest = None if parent is None else parent.file.append(transaction, now_us)
        if parent is None or manifest is None:
            return None
        operation = transaction.operation
        assert isinstance(operation, LanceOperation.Append), "nothing else was made"
        rows = parent.row_count + sum(fragment.physical_rows for fragment in operation.fragments)
        at = replace(base, version=Version(manifest.version))
        self._made[at] = _Made(at, manifest, rows)
        return Draft(
            landed=Landed(at=at, row_count=rows, uuid=transaction.uuid), file=manifest.encode()
        )

    def _find(self, base: TableAt, count_rows: Callable[[TableAt], int]) -> _Made | None:
        """Find the version that an append stands on, in memory or on the disk; None if Lance has to commit."""
        cached = self._made.get(base) or self._landed.get(base.path)
        if cached is not None and cached.at == base:
            return cached
        try:
            file = self._objects.read_bytes(version_file(base.path, base.version))
            if file is None or len(file) > DRAFT_FILE_BYTES_MAX:
                return None
            parsed = ManifestFile.parse(file)
            return None if parsed is None else _Made(base, parsed, count_rows(base))
        except OmniError:
            # The commit by Lance then reports the fault of the version.
            return None

    def _put_all(self, drafts: Sequence[Draft]) -> Sequence[OmniError | None]:
        """Link one version after the other: a file takes less than a thread for it."""
        for draft in drafts:
            failed = self._try_put_of_many(draft)
            if failed is not None:
                return [failed]
        return []

    def _keep_copies(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            version = self._made.get(draft.landed.at)
            if version is not None:
                self._landed.put(version.at.path, version)

    def forget(self, path: str | None) -> None:
        """Forget the versions of a table that was removed, or of all tables."""
        super().forget(path)
        self._landed.drop(lambda table_path: path in (None, table_path))

    def _end(self, drafts: Sequence[Draft]) -> None:
        super()._end(drafts)
        for draft in drafts:
            self._made.pop(draft.landed.at, None)
