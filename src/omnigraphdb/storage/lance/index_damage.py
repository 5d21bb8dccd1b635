"""Damaged index segments: a read finds one, warns once, and no later read uses its index."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from omnigraphdb.errors import InternalError, OmniError, StorageError, warn_caller
from omnigraphdb.logs import get_logger
from omnigraphdb.storage.lance import search
from omnigraphdb.storage.lance.digests import Digests, digest_file, digest_key, name_below_branch
from omnigraphdb.storage.lance.faults import (
    TableLocation,
    clean_message,
    is_panic,
    translate_faults,
)
from omnigraphdb.storage.lance.index import index_infos, unfit_size
from omnigraphdb.storage.objects.faults import StorageKind, StoreAction
from omnigraphdb.storage.values import Filter, IndexInfo, IndexKind, TableAt

_log = get_logger(__name__)

_Answer = TypeVar("_Answer")

_PASSING = frozenset({StorageKind.TRANSIENT, StorageKind.CONFIGURATION, StorageKind.PRECONDITION})
"""Failures of a store that do not point to a damaged file."""

_SPOKEN = {
    IndexKind.BTREE: "B-tree",
    IndexKind.TEXT: "text index",
    IndexKind.VECTOR: "vector index",
    None: "index",
}

_OPENING = re.compile(r"^Failed to get index statistics for index .*?: ")


class DamagedSegments:
    """The damaged index segments of a graph by uuid; all tables of one handle share them."""

    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    @property
    def uuids(self) -> frozenset[str]:
        """The damaged segments that were found so far."""
        return frozenset(self._reasons)

    def mark(self, infos: Iterable[IndexInfo]) -> tuple[IndexInfo, ...]:
        """Describe indices as they can be used: an index with a damaged segment covers nothing.

        Lance searches all segments of an index, so that one damaged segment fails every search.
        """
        return tuple(self._marked(info) for info in infos)

    def _marked(self, info: IndexInfo) -> IndexInfo:
        reason = next(
            (self._reasons[segment] for segment in info.segments if segment in self._reasons), None
        )
        return info if reason is None else replace(info, fragments=frozenset(), damage=reason)

    def note(self, info: IndexInfo, reason: str) -> bool:
        """Note that an index is damaged; True when it was not noted before."""
        fresh = [uuid for uuid in info.segments if uuid not in self._reasons]
        self._reasons |= dict.fromkeys(fresh, reason)
        return bool(fresh)


def warn_of_damage(at: TableAt, info: IndexInfo, reason: str) -> None:
    """Warn the reader that reads do not use an index."""
    table = at.name or at.path
    _log.warning("index.damaged", table=table, column=info.column, reason=reason)
    warn_caller(
        f"the {_SPOKEN[info.kind]} on '{info.column}' of {table} is damaged ({reason}) and reads scan the "
        "table instead; build it anew with `ensure_indices` or `omnigraphdb index build`",
    )


def may_be_damage(error: OmniError) -> bool:
    """Tell whether a damaged file may have caused a failed read, rather than the store or the request."""
    if isinstance(error, InternalError):
        return error.__cause__ is not None and is_panic(error.__cause__)
    return isinstance(error, StorageError) and error.storage_kind not in _PASSING


def reason_of(error: OmniError) -> str:
    """Give Lance's message about a damaged file."""
    return _OPENING.sub("", clean_message(error.__cause__ or error))


def is_named(column: str, filter: Filter) -> bool:
    """Tell whether a filter may be answered by an index on a column."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", str(filter)) is not None


# ---- reads that indices may answer


class IndexReads:
    """Reads of one version that indices may answer; a damaged index is found by a read and not used again."""

    __slots__ = ("_at", "_damaged", "_dataset", "_location")

    def __init__(
        self,
        at: TableAt,
        dataset: LanceDataset,
        location: TableLocation,
        damaged: DamagedSegments,
    ) -> None:
        self._at = at
        self._dataset = dataset
        self._location = location
        self._damaged = damaged

    def infos(self) -> tuple[IndexInfo, ...]:
        """Describe the indices of this version, by name, as far as they can be used."""
        with translate_faults(StoreAction.READ, self._location):
            infos = index_infos(self._dataset)
        return self._damaged.mark(infos) if self._damaged else infos

    @property
    def damaged_segments(self) -> frozenset[str]:
        """The damaged index segments that reads of this graph found so far."""
        return self._damaged.uuids

    def check(
        self, files: Mapping[str, Mapping[str, int]], noted: Digests
    ) -> tuple[IndexInfo, ...]:
        """Note the indices whose files are missing, cut, changed, or cannot be opened; `files` are those of each segment."""
        for info in self.infos():
            if (
                info.damage is None
                and (reason := self._find_damage(info, files, noted)) is not None
            ):
                self._damaged.note(info, reason)
        return self.infos()

    def _find_damage(
        self, info: IndexInfo, files: Mapping[str, Mapping[str, int]], noted: Digests
    ) -> str | None:
        with translate_faults(StoreAction.READ, self._location):
            reason = unfit_size(self._dataset, info, files)
        if reason is not None:
            return reason
        names = [name for uuid in info.segments for name in files[uuid]]
        expected = {name: noted.get(digest_key(name_below_branch(name) or name)) for name in names}
        if not self._location.root.is_local or None in expected.values():
            return self._try_open(info)
        # Some damage makes Lance ask for more memory than there is; so an index with correct digests is not opened.
        directory = self._location.root.at(self._at.path)
        with translate_faults(StoreAction.READ, self._location):
            changed = (
                name for name in names if digest_file(f"{directory}/{name}") != expected[name]
            )
            changed_name = next(changed, None)
        return None if changed_name is None else f"'{changed_name}' is not what was written"

    def _try_open(self, info: IndexInfo) -> str | None:
        """Open an index; gives the reason when it is damaged."""
        try:
            with translate_faults(StoreAction.READ, self._location):
                self._open_index(info)
        except (StorageError, InternalError) as error:
            if not may_be_damage(error):
                raise
            return reason_of(error)
        return None

    def _open_index(self, info: IndexInfo) -> None:
        if info.kind is not IndexKind.VECTOR:
            self._dataset.stats.index_stats(info.name)
            return
        # The statistics of a vector index hold all of its centroids, and Lance warns about that.
        size = self._dataset.schema.field(info.column).type.list_size
        origin = pa.array(np.zeros(size, np.float32))
        search.nearest(
            self._dataset,
            info.column,
            origin,
            1,
            columns=(),
            filter=None,
            row_id=True,
            indexed=True,
        )

    def answer(self, served: Filter | None, ask: Callable[[bool], _Answer]) -> _Answer:
        """Run a read with the indices on the columns of `served`, a filter or a column, but without a damaged index.

        Lance reads the files of an index at its first use, and its error for a damaged one depends on the damaged
        byte. So the read itself decides: an index is damaged when the same read succeeds without it.
        """
        indexed = served is not None and not (self._damaged and self._has_damaged(served))
        try:
            with translate_faults(StoreAction.READ, self._location):
                return ask(indexed)
        except (StorageError, InternalError) as error:
            if not indexed or served is None or not may_be_damage(error):
                raise
            answer = self._ask_without_indices(ask, error)
            self.note(self._list_suspects(served), error)
            return answer

    def _ask_without_indices(
        self, ask: Callable[[bool], _Answer], first: StorageError | InternalError
    ) -> _Answer:
        try:
            with translate_faults(StoreAction.READ, self._location):
                return ask(False)
        except OmniError:
            # No index caused the failure; the first error names the cause.
            raise first from first.__cause__

    def _has_damaged(self, served: Filter) -> bool:
        return any(info.damage and is_named(info.column, served) for info in self.infos())

    def _list_suspects(self, served: Filter) -> list[IndexInfo]:
        """List the indices that a failed read may have used: only the unreadable ones, or all if each can be opened."""
        relevant = [i for i in self.infos() if i.damage is None and is_named(i.column, served)]
        helping = [info for info in relevant if info.kind is not IndexKind.TEXT]
        return [info for info in helping if self._try_open(info) is not None] or helping

    def note(self, infos: Sequence[IndexInfo], error: OmniError) -> None:
        for info in infos:
            if self._damaged.note(info, reason_of(error)):
                warn_of_damage(self._at, info, reason_of(error))
