"""The entities of several tables: a row id that carries the number of its type, and the entities of such ids."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.engine.read.columns.compare import codes_of
from omnigraphdb.engine.read.columns.entities import ID, Entities
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers, RowIds, count_up, indices_of
from omnigraphdb.values import dataclass

_NUMBER_BITS = 48
"""A table would need as many rows to reach the bits of the number."""
_ROW_MASK = (1 << _NUMBER_BITS) - 1


def tag(row_ids: RowIds, number: int) -> RowIds:
    """Add the number of a type to row ids; -1 for no entity stays."""
    return np.where(row_ids == ABSENT, ABSENT, row_ids | (number << _NUMBER_BITS))


def untag(row_ids: RowIds) -> RowIds:
    """Remove the numbers of types from row ids."""
    return np.where(row_ids == ABSENT, ABSENT, row_ids & _ROW_MASK)


def numbers_of(row_ids: RowIds) -> Integers:
    """Return the numbers of the types of entities; -1 for no entity."""
    return np.asarray(row_ids >> _NUMBER_BITS)


@dataclass(frozen=True, slots=True)
class MixedEntities:
    """The entities of a mixed type, by the numbers of its types."""

    parts: Mapping[int, Entities]

    def values(self, name: str, row_ids: RowIds) -> pa.Array:
        """Read a property of entities; NULL for no entity."""
        return self.columns((name,), row_ids)[name]

    def columns(self, names: Sequence[str], row_ids: RowIds) -> dict[str, pa.Array]:
        """Read several properties of entities, each from the table of its type."""
        groups = list(self._split(row_ids))
        read = [part.columns(names, untag(row_ids[offsets])) for part, offsets in groups]
        positions = np.full(len(row_ids), ABSENT, dtype=np.int64)
        row_offsets = np.concatenate([offsets for _, offsets in groups])
        positions[row_offsets] = count_up(len(row_offsets))
        take_indices = indices_of(positions)
        return {
            name: _concat([columns[name] for columns in read]).take(take_indices) for name in names
        }

    def _split(self, row_ids: RowIds) -> Iterator[tuple[Entities, Integers]]:
        numbers = numbers_of(row_ids)
        for number, part in self.parts.items():
            yield part, np.flatnonzero(numbers == number)

    def codes(self, name: str, row_ids: RowIds) -> Integers:
        """Encode a property of entities as integers that are equal where the values are; -1 for NULL."""
        return codes_of(self.values(name, row_ids))

    def id_texts(self, row_ids: RowIds) -> pa.Array:
        """Return the ids of entities; NULL for no entity."""
        return self.values(ID, row_ids)

    def id_ranks(self, row_ids: RowIds, *, descending: bool = False) -> Integers:
        """Rank entities by id; no entity comes first.

        Entities of equal ids are ranked by type: in an order that descends by these ranks, types still ascend.
        """
        ranks = pc.rank(self.id_texts(row_ids), tiebreaker="dense")
        texts = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
        width = max(self.parts) + 1
        types = numbers_of(row_ids)
        return np.where(
            row_ids == ABSENT, ABSENT, texts * width + (width - types if descending else types)
        )


def _concat(columns: Sequence[pa.Array]) -> pa.Array:
    kind = next((column.type for column in columns if len(column)), columns[0].type)
    return pa.concat_arrays([column.cast(kind) for column in columns])
