"""The id index: from ids to row ids, for tables with many lookups by id."""

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from omnigraphdb.engine.read.columns.layout import Layout
from omnigraphdb.engine.read.columns.row_ids import ABSENT
from omnigraphdb.engine.read.columns.row_offsets import RowOffsets
from omnigraphdb.values import dataclass

_ENTRY_BYTES = 130
"""The approximate size of an id and its row id in a dictionary."""
_RECENT_PART = 8
"""An index is built again when more than one in this many of its ids are recent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdIndex:
    """The row id of every id of a layout. `recent` ids were added after `known`, which earlier indexes share."""

    layout: Layout
    row_offsets: RowOffsets
    texts: pa.Array
    known: dict[str, int]
    recent: dict[str, int] = field(default_factory=dict)
    inherited: bool = False
    """True if `known` was built for another layout, so that its answers must be checked."""

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return _ENTRY_BYTES * (len(self.recent) + (0 if self.inherited else len(self.known)))

    def row_id_of(self, text: str) -> int:
        """Find the entity with an id, or -1."""
        if not self.inherited:
            return self.known.get(text, ABSENT)
        return next((n for n in self._candidates(text) if self._has_id(n, text)), ABSENT)

    def _candidates(self, text: str) -> Sequence[int]:
        row_ids = self.recent.get(text), self.known.get(text)
        return [row_id for row_id in row_ids if row_id is not None]

    def _has_id(self, row_id: int, text: str) -> bool:
        offset = self.row_offsets.offset_of(row_id)
        return offset != ABSENT and self.texts[offset].as_py() == text


def build_id_index(
    layout: Layout, row_offsets: RowOffsets, texts: pa.Array, previous: IdIndex | None
) -> IdIndex:
    """Index the ids of a layout; the previous index is extended if most of its fragments remain."""
    fresh = _count_new_rows(layout, previous)
    if previous is None or fresh * _RECENT_PART > layout.rows:
        row_id_by_text = dict(zip(texts.to_pylist(), row_offsets.all().tolist(), strict=True))
        return IdIndex(layout=layout, row_offsets=row_offsets, texts=texts, known=row_id_by_text)
    recent = dict(previous.recent)
    row_ids = row_offsets.all()
    for fragment in layout.fragments:
        if fragment not in previous.layout.starts:
            start = layout.starts[fragment]
            ids = texts.slice(start, fragment.rows).to_pylist()
            recent |= zip(ids, row_ids[start : start + fragment.rows].tolist(), strict=True)
    return IdIndex(
        layout=layout,
        row_offsets=row_offsets,
        texts=texts,
        known=previous.known,
        recent=recent,
        inherited=True,
    )


def _count_new_rows(layout: Layout, previous: IdIndex | None) -> int:
    if previous is None:
        return layout.rows
    starts = previous.layout.starts
    new = sum(fragment.rows for fragment in layout.fragments if fragment not in starts)
    return new + len(previous.recent)
