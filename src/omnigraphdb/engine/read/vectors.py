"""Vector search: squared distances to a query vector, and the closest entities."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.row_ids import RowIds, no_row_ids
from omnigraphdb.storage.values import IndexKind
from omnigraphdb.values import dataclass

Distances = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]

_BLOCK_CELLS = 1 << 22
"""Vector items whose differences are computed at once."""
_MORE = 2
"""The factor by which a search asks for more rows if the first ones are not enough."""
_FILTERED_PART = 8
"""The index is used only if at least one in this many of its rows is a candidate."""
_SLACK = 8
"""Rows beyond the requested rows, so that equal distances at the end are seen."""
_ROUNDING = 1e-6
"""The relative error, per term, of a sum in single precision."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector property of one table version."""

    entities: Entities
    name: str
    note: Callable[[str], None]

    def distances(self, row_ids: RowIds, query: Matrix) -> pa.Array:
        """Compute the squared distance of every entity; NULL for an entity without a vector."""
        distinct_ids, inverse = np.unique(row_ids, return_inverse=True)
        distances, mask = self._measure(distinct_ids, query)
        return pa.array(distances[inverse], mask=mask[inverse])

    def closest(self, row_ids: RowIds, query: Matrix, count: int) -> tuple[RowIds, Distances]:
        """Find the candidates nearest to a query, by distance, then by id; `row_ids` ascend and differ."""
        if not len(row_ids) or not count or not self._is_stored:
            return no_row_ids(), np.empty(0, dtype=np.float64)
        candidates = (
            self._search_index(row_ids, query, count)
            if self._should_use_index(len(row_ids))
            else None
        )
        if candidates is None:
            self.note(f"vectors of {self.name} compared one by one")
            candidates = row_ids
        else:
            self.note(f"vector index on {self.name}")
        return self._sort_all(candidates, query, count)

    @property
    def _is_stored(self) -> bool:
        return len(self.entities) > 0 and self.name in self.entities.table.field_ids

    def _sort_all(self, row_ids: RowIds, query: Matrix, count: int) -> tuple[RowIds, Distances]:
        row_ids = self._shortlist(row_ids, query, count)
        distances, mask = self._measure(row_ids, query)
        row_ids, distances = row_ids[~mask], distances[~mask]
        if count < len(row_ids):
            last = np.partition(distances, count - 1)[count - 1]
            within = distances <= last
            row_ids, distances = row_ids[within], distances[within]
        order = np.lexsort((self.entities.id_ranks(row_ids), distances))[:count]
        return row_ids[order], distances[order]

    def _shortlist(self, row_ids: RowIds, query: Matrix, count: int) -> RowIds:
        """Drop entities that are surely too far, by distances in single precision and their possible error."""
        if len(row_ids) * len(query) <= _BLOCK_CELLS or not self.entities.fits(self.name):
            return row_ids
        matrix, squares = self._whole(len(query))
        offsets = self.entities.row_offsets.of(row_ids)
        square = float(query @ query)
        few = len(offsets) * _FILTERED_PART < len(matrix)
        # The items of a missing vector are undefined; their results are not used.
        with np.errstate(all="ignore"):
            rough = matrix[offsets] @ query if few else (matrix @ query)[offsets]
            squares = squares[offsets]
            distances = squares - 2 * rough + square
        error = _ROUNDING * len(query) * (squares + square)
        measured = ~np.isnan(distances)
        if count >= int(measured.sum()):
            return row_ids
        last = np.partition((distances + error)[measured], count - 1)[count - 1]
        return np.asarray(row_ids[measured & (distances - error <= last)])

    def _whole(self, dimension: int) -> tuple[Matrix, Matrix]:
        """Read all vectors and their squared lengths; NaN for an entity without a vector."""
        vectors = self.entities.whole(self.name)
        matrix = _matrix(vectors, dimension)
        squares = self.entities.cache.get(
            (self.entities.layout, "squares", self.entities.fields[self.name]),
            lambda: _squares(matrix, vectors),
            lambda array: int(array.nbytes),
        )
        return matrix, squares

    # ---- measuring

    def _measure(self, row_ids: RowIds, query: Matrix) -> tuple[Distances, npt.NDArray[np.bool_]]:
        """Compute distances in double precision, and a mask of entities without a distance."""
        size = max(1, _BLOCK_CELLS // len(query))
        distances = np.empty(len(row_ids), dtype=np.float64)
        mask = np.zeros(len(row_ids), dtype=bool)
        for start in range(0, len(row_ids), size):
            part = slice(start, start + size)
            vectors = self.entities.values(self.name, row_ids[part])
            with np.errstate(all="ignore"):
                difference = _matrix(vectors, len(query)).astype(np.float64) - query
                distances[part] = np.einsum("ij,ij->i", difference, difference)
            mask[part] = ~_valid(vectors) | np.isnan(distances[part])
        return distances, mask

    # ---- the index of the table

    def _should_use_index(self, candidates: int) -> bool:
        """Whether the index is faster than comparing all candidates."""
        entities = self.entities
        rows = len(entities)
        uncovered = entities.uncovered_rows(self.name, IndexKind.VECTOR)
        if uncovered == rows or candidates * _FILTERED_PART < rows:
            return False
        return rows * costs.SCANNED_ROW > costs.LOOKUP + uncovered * costs.SCANNED_ROW

    def _search_index(self, row_ids: RowIds, query: Matrix, count: int) -> RowIds | None:
        """Find candidates that include the closest ones; None if the index does not help."""
        rows = len(self.entities)
        limit = (count * rows) // len(row_ids) + _SLACK
        while limit < rows // 2:
            hits = self.entities.table.nearest(
                self.name, pa.array(query), limit, columns=(), row_id=True
            )
            nearest_ids = hits[ROW_ID].to_numpy().astype(np.int64)
            distances = hits["_distance"].to_numpy().astype(np.float64)
            # A segment keeps the entries of rows that were deleted or updated: only vectors that are read have true distances.
            near = np.intersect1d(nearest_ids, row_ids)
            if len(nearest_ids) < limit or self._have_closer(near, query, count, distances.max()):
                return near
            limit *= _MORE
        return None

    def _have_closer(self, row_ids: RowIds, query: Matrix, count: int, limit: float) -> bool:
        """Whether so many entities are closer than a limit, with its possible error."""
        distances, mask = self._measure(row_ids, query)
        closer = distances[~mask] * (1 + _ROUNDING * len(query)) < limit
        return int(closer.sum()) >= count


def _matrix(vectors: pa.Array, dimension: int) -> Matrix:
    """Return the items of vectors as a matrix; rows of missing vectors are undefined."""
    start = vectors.offset * dimension
    items = vectors.values.slice(start, len(vectors) * dimension)
    floats = items.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return np.asarray(floats).reshape(len(vectors), dimension)


def _squares(matrix: Matrix, vectors: pa.Array) -> Matrix:
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    return np.where(_valid(vectors), squares, np.float32(np.nan)).astype(np.float32)


def _valid(vectors: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
