"""Index segments whose files no read can use: noted once, told once, and left alone from then on."""

import re
import warnings
from collections.abc import Iterable
from dataclasses import replace

from omnigraph.errors import InternalError, OmniError, OmniWarning, StorageError
from omnigraph.logs import get_logger
from omnigraph.storage.lance.faults import clean_message, is_panic
from omnigraph.storage.objects.faults import StorageKind
from omnigraph.storage.values import Filter, IndexInfo, IndexKind, TableAt

_log = get_logger(__name__)

_PASSING = frozenset({StorageKind.TRANSIENT, StorageKind.CONFIGURATION, StorageKind.PRECONDITION})
"""Failures of a store that say nothing about its files."""

_SPOKEN = {
    IndexKind.BTREE: "B-tree",
    IndexKind.TEXT: "text index",
    IndexKind.VECTOR: "vector index",
    None: "index",
}

_OPENING = re.compile(r"^Failed to get index statistics for index .*?: ")


class DamagedSegments:
    """The damaged index segments of a graph by uuid; all versions of all tables of one handle share them."""

    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    @property
    def uuids(self) -> frozenset[str]:
        """The segments that are known as damaged."""
        return frozenset(self._reasons)

    def mark(self, infos: Iterable[IndexInfo]) -> tuple[IndexInfo, ...]:
        """Describe indices as they can be used: one with a damaged segment covers nothing.

        Lance asks all segments of an index, so that one damaged segment spoils the others.
        """
        return tuple(self._marked(info) for info in infos)

    def _marked(self, info: IndexInfo) -> IndexInfo:
        reason = next((self._reasons[one] for one in info.segments if one in self._reasons), None)
        return info if reason is None else replace(info, fragments=frozenset(), damage=reason)

    def note(self, info: IndexInfo, reason: str) -> bool:
        """Note that an index is damaged; tells whether that is news."""
        fresh = [uuid for uuid in info.segments if uuid not in self._reasons]
        self._reasons |= dict.fromkeys(fresh, reason)
        return bool(fresh)


def warn_of_damage(at: TableAt, info: IndexInfo, reason: str) -> None:
    """Tell whoever reads that an index is of no use to the read."""
    table = at.name or at.path
    _log.warning("index.damaged", table=table, column=info.column, reason=reason)
    warnings.warn(
        f"the {_SPOKEN[info.kind]} on '{info.column}' of {table} is damaged ({reason}) and reads scan the "
        "table instead; build it anew with `ensure_indices` or `omnigraph index build`",
        OmniWarning,
        stacklevel=2,
    )


def may_be_damage(error: OmniError) -> bool:
    """Tell whether a failed read may be the fault of a damaged file, not of the store or the request."""
    if isinstance(error, InternalError):
        return error.__cause__ is not None and is_panic(error.__cause__)
    return isinstance(error, StorageError) and error.storage_kind not in _PASSING


def reason_of(error: OmniError) -> str:
    """What Lance said of a damaged file."""
    return _OPENING.sub("", clean_message(error.__cause__ or error))


def is_named(column: str, filter: Filter) -> bool:
    """Tell whether a filter may be answered by an index on a column."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", str(filter)) is not None
