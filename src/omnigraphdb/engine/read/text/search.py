"""Text search in a table version: through its text index, or through cached postings."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers, Mask, RowIds, no_row_ids
from omnigraphdb.engine.read.text.postings import (
    Postings,
    Vocabulary,
    bm25,
    distinct_terms,
    find_near,
    find_terms,
    postings_of,
)
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.lance.search import tokens
from omnigraphdb.storage.values import FragmentInfo, IndexKind
from omnigraphdb.values import dataclass

_BLOCK_ROWS = 1 << 18
"""Texts that are analysed together."""

Scores = tuple[RowIds, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Texts:
    """One text property of one table version."""

    entities: Entities
    name: str
    note: Callable[[str], None]

    def matching(self, query: str) -> RowIds:
        """Find the entities whose text has at least one term of the query."""
        terms = distinct_terms(tokens(query))
        if not terms or not self._is_stored:
            return no_row_ids()
        if self._should_use_index():
            self.note(f"text index on {self.name}")
            indexed = self._search_index(query, terms)
            uncovered = self.entities.uncovered_fragments(self.name, IndexKind.TEXT)
            return np.concatenate(
                [indexed, self._row_ids_at(find_terms(self._postings(uncovered), terms).offsets)]
            )
        self.note(f"terms of {self.name} in memory")
        return self._row_ids_at(find_terms(self._postings(), terms).offsets)

    def near(self, query: str, distance: int) -> Integers:
        """Find the entities whose text has a term within an edit distance of a term of the query."""
        terms = distinct_terms(tokens(query))
        if not terms or not self._is_stored:
            return no_row_ids()
        self.note(f"terms of {self.name} in memory")
        return self._row_ids_at(find_near(self._postings(), terms, distance))

    def relevance(self, query: str) -> Scores:
        """Find the entities with at least one term of the query, and their BM25 scores."""
        terms = distinct_terms(tokens(query))
        if not terms or not self._is_stored:
            return no_row_ids(), np.empty(0, dtype=np.float64)
        self.note(f"terms of {self.name} in memory")
        offsets, scores = bm25(find_terms(self._postings(), terms))
        return self._row_ids_at(offsets), scores

    def is_present(self, row_ids: RowIds) -> Mask:
        """Mark the entities that have a text."""
        texts = self.entities.values(self.name, row_ids)
        return np.asarray(texts.is_valid().to_numpy(zero_copy_only=False), dtype=bool)

    @property
    def _is_stored(self) -> bool:
        return len(self.entities) > 0 and self.name in self.entities.table.field_ids

    def _row_ids_at(self, offsets: Integers) -> RowIds:
        return self.entities.row_offsets.at(offsets)

    # ---- the index of the table

    def _should_use_index(self) -> bool:
        """Whether to use the text index of the table instead of cached postings."""
        entities = self.entities
        uncovered = entities.uncovered_rows(self.name, IndexKind.TEXT)
        if uncovered == len(entities):
            return False
        missing = [part for part in entities.layout.fragments if not self._is_cached(part)]
        needed = sum(part.rows for part in missing) * costs.TEXT_ROW
        cost = costs.LOOKUP + uncovered * costs.TEXT_ROW
        spent = entities.cache.spend((entities.layout, "text", self._field), cost)
        return spent + cost < needed

    def _search_index(self, query: str, terms: tuple[str, ...]) -> RowIds:
        rows = self.entities.table.match(self.name, query, columns=(), row_id=True)
        hits = np.unique(column(rows, ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64))
        # A segment keeps the entries of rows that were deleted or updated, also once their fragments were compacted.
        offsets = self.entities.row_offsets.of(hits)
        hits = hits[(offsets != ABSENT) & ~self._are_uncovered(offsets)]
        if self._segments == 1:
            return np.asarray(hits)
        # The row may have its present text in another segment: check the texts.
        texts = self.entities.values(self.name, hits)
        (postings,) = postings_of(texts, [len(texts)], Vocabulary())
        return np.asarray(hits[find_terms([(0, postings)], terms).offsets])

    def _are_uncovered(self, offsets: Integers) -> Mask:
        """Mark the rows of fragments that no index covers; rows that were updated since are in such fragments."""
        mask = np.zeros(len(offsets), dtype=bool)
        for part in self.entities.uncovered_fragments(self.name, IndexKind.TEXT):
            start = self.entities.layout.starts[part]
            mask |= (offsets >= start) & (offsets < start + part.rows)
        return mask

    @property
    def _segments(self) -> int:
        table = self.entities.table
        kinds = (index for index in table.indices() if index.column == self.name)
        return sum(len(index.segments) for index in kinds if index.kind is IndexKind.TEXT)

    # ---- terms in memory

    @property
    def _field(self) -> int:
        return self.entities.table.field_ids[self.name]

    def _key(self, part: FragmentInfo) -> tuple[object, ...]:
        return ("postings", self.entities.layout.path, self._field, part)

    def _is_cached(self, part: FragmentInfo) -> bool:
        return self.entities.cache.peek(self._key(part)) is not None

    def _postings(
        self, parts: tuple[FragmentInfo, ...] | None = None
    ) -> Iterator[tuple[int, Postings]]:
        """List the postings of every fragment with the offset of its first row.

        Missing postings are built, those of several fragments at a time.
        """
        layout = self.entities.layout
        block: list[FragmentInfo] = []
        for part in layout.fragments if parts is None else parts:
            cached = self.entities.cache.peek(self._key(part))
            if cached is not None:
                yield layout.starts[part], cached
                continue
            block.append(part)
            if sum(fragment.rows for fragment in block) >= _BLOCK_ROWS:
                yield from self._make_postings(block)
                block = []
        if block:
            yield from self._make_postings(block)

    def _make_postings(self, block: list[FragmentInfo]) -> Iterator[tuple[int, Postings]]:
        rows = self.entities.table.read((self.name,), fragments=[part.id for part in block])
        texts = column(rows, self.name)
        new_postings = postings_of(texts, [part.rows for part in block], self._vocabulary())
        for part, postings in zip(block, new_postings, strict=True):
            cached = self.entities.cache.keep(self._key(part), postings, postings.nbytes)
            yield self.entities.layout.starts[part], cached

    def _vocabulary(self) -> Vocabulary:
        key = ("vocabulary", self.entities.layout.path, self._field)
        return self.entities.cache.get(key, Vocabulary, lambda _: 100)


def positions_in(row_ids: RowIds, among: RowIds) -> Integers:
    """Find the position of each row id in an ascending list; -1 for row ids that are not in it."""
    if not len(among):
        return np.full(len(row_ids), ABSENT, dtype=np.int64)
    positions = np.minimum(np.searchsorted(among, row_ids), len(among) - 1)
    return np.where(among[positions] == row_ids, positions, ABSENT)
