"""Keys of a split: the narrow columns of incoming or committed rows, under the keys they meet by."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import TableType
from omnigraph.pipeline.input.read import positions_in, split_rows, without
from omnigraph.pipeline.input.splits import CommittedSplit, Split
from omnigraph.pipeline.keys.plan import FORMER, ID, UNIQUE, KeyPlan, KeySide, tuple_keys
from omnigraph.pipeline.runner import KEY
from omnigraph.storage.arrow import column
from omnigraph.storage.lance.table import ROW_ADDRESS
from omnigraph.storage.store import Store
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Reads the narrow columns of a split and hands them out under their keys."""

    key_plan: KeyPlan

    def __call__(self, split: Split | CommittedSplit) -> Iterator[tuple[str, pa.Table]]:
        store = self.key_plan.job.store()
        rows = (
            self._extract_incoming(split, store)
            if isinstance(split, Split)
            else self._extract_committed(split, store)
        )
        for side, table in rows:
            keyed = _key_rows(side, self.key_plan.job.type(side.table_key), table)
            schema = self.key_plan.schemas[side.name]
            yield side.name, keyed.select(schema.names).cast(schema)

    def _extract_incoming(self, split: Split, store: Store) -> Iterator[tuple[KeySide, pa.Table]]:
        assert split.table_key is not None, "rows that are told apart have a type"
        table = split.table_key
        type_ = self.key_plan.job.type(table)
        sides = [side for side in self.key_plan.put if side.table_key == table]
        rows = split_rows(split, type_, _list_columns(sides, type_), store)
        rows = without(rows, self.key_plan.superseded.get((table, split.number), ()), store)
        for side in sides:
            yield side, rows

    def _extract_committed(
        self, split: CommittedSplit, store: Store
    ) -> Iterator[tuple[KeySide, pa.Table]]:
        key_plan = self.key_plan
        type_ = key_plan.job.type(split.table_key)
        sides = [side for side in key_plan.gathered if side.table_key == split.table_key]
        pieces = [
            piece
            for fragment in split.fragments
            for piece in key_plan.replaced.get((split.table_key, fragment), ())
        ]
        rows = store.tables.open(split.at).read(
            ["id", *_list_columns(sides, type_)],
            fragments=split.fragments,
            row_id=key_plan.identifies,
            row_address=key_plan.identifies or bool(pieces),
        )
        gone = rows.slice(0, 0)
        kept = rows
        if pieces:
            replaced = pc.is_in(
                rows[ROW_ADDRESS], value_set=column(positions_in(pieces, store), ROW_ADDRESS)
            )
            gone, kept = rows.filter(replaced), rows.filter(pc.invert(replaced))
        for side in sides:
            if side.role == FORMER:
                yield side, gone
            else:
                # An id that is replaced is still there for the edges that name it.
                yield side, rows if side.role == ID else kept


def _list_columns(sides: Sequence[KeySide], type_: TableType) -> list[str]:
    """The columns beside `id` that sides are made of."""
    names: dict[str, None] = {}
    for side in sides:
        if side.role in ("src", "dst"):
            names[side.role] = None
        elif side.role == FORMER:
            names["src"] = None
        elif side.role == UNIQUE:
            names |= dict.fromkeys(type_.unique[side.group].columns)
    return list(names)


def _key_rows(side: KeySide, type_: TableType, rows: pa.Table) -> pa.Table:
    """Rows under the key of a side; those without one take no part."""
    if side.role == UNIQUE:
        keys = tuple_keys(rows, type_.unique[side.group].columns)
    else:
        keys = column(rows, "src" if side.role == FORMER else side.role)
    keyed = rows.append_column(KEY, keys)
    return keyed.filter(keys.is_valid()) if keys.null_count else keyed
