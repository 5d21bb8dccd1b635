"""Extraction of keys: the narrow columns of incoming or committed rows, under the keys of each side."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import TableType
from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.commit.constraints.keys import comparable
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import COMMITTED_SPLIT_ROWS
from omnigraphdb.pipeline.input.read import drop_rows, read_slices, split_rows
from omnigraphdb.pipeline.input.splits import CommittedSplit, Split, cut_table
from omnigraphdb.pipeline.keys.plan import ENDS, FORMER, ID, UNIQUE, KeyPlan, KeySide, Origin
from omnigraphdb.pipeline.messages import ScratchSlice
from omnigraphdb.pipeline.runner import KEY
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store
from omnigraphdb.values import dataclass


def cut_committed(key_plan: KeyPlan) -> list[CommittedSplit]:
    """Cut the tables whose committed rows a join reads."""
    tables = key_plan.load.store().tables
    rows_max = min(COMMITTED_SPLIT_ROWS, key_plan.load.held_ids_max)
    splits: list[CommittedSplit] = []
    for table in sorted({side.table_key for side in key_plan.committed_sides}):
        at = key_plan.pins[table]
        splits += cut_table(table, at, tables.open(at).fragments(), rows_max)
    return splits


@dataclass(frozen=True, slots=True)
class RemovedSplit:
    """The ids of committed rows that go without a row that replaces them."""

    table_key: TableKey
    slices: tuple[ScratchSlice, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """Reads the narrow columns of a split and yields them side by side, each row under its key."""

    key_plan: KeyPlan

    def __call__(
        self, split: Split | CommittedSplit | RemovedSplit
    ) -> Iterator[tuple[str, pa.Table]]:
        store = self.key_plan.load.store()
        for side, table in self._extract(split, store):
            keyed = _add_keys(side, self.key_plan.load.type(side.table_key), table)
            if self.key_plan.is_compact(side):
                keyed = pa.table({KEY: pc.unique(keyed[KEY])})
            schema = self.key_plan.schemas[side.name]
            yield side.name, keyed.select(schema.names).cast(schema)

    def _extract(
        self, split: Split | CommittedSplit | RemovedSplit, store: Store
    ) -> Iterator[tuple[KeySide, pa.Table]]:
        match split:
            case Split():
                return self._extract_incoming(split, store)
            case CommittedSplit():
                return self._extract_committed(split, store)
            case RemovedSplit():
                side = KeySide(Origin.REMOVED, split.table_key, ID)
                return iter([(side, read_slices(split.slices, store).select([ID]))])

    def _extract_incoming(self, split: Split, store: Store) -> Iterator[tuple[KeySide, pa.Table]]:
        assert split.table_key is not None, "shaped splits have a type"
        table = split.table_key
        type_ = self.key_plan.load.type(table)
        sides = [side for side in self.key_plan.incoming_sides if side.table_key == table]
        catalog = self.key_plan.load.catalog
        rows = split_rows(split, type_, _list_columns(sides, type_), catalog, store)
        rows = drop_rows(rows, self.key_plan.superseded.get((table, split.number), ()), store)
        for side in sides:
            yield side, rows

    def _extract_committed(
        self, split: CommittedSplit, store: Store
    ) -> Iterator[tuple[KeySide, pa.Table]]:
        key_plan = self.key_plan
        type_ = key_plan.load.type(split.table_key)
        sides = [side for side in key_plan.committed_sides if side.table_key == split.table_key]
        slices = [
            scratch_slice
            for fragment in split.fragments
            for scratch_slice in key_plan.replaced.get((split.table_key, fragment), ())
        ]
        rows = store.tables.open(split.at).read(
            [ID, *_list_columns(sides, type_)],
            fragments=split.fragments,
            row_id=key_plan.resolves_ids,
            row_address=key_plan.resolves_ids or bool(slices),
        )
        replaced, surviving = rows.slice(0, 0), rows
        if slices:
            addresses = column(read_slices(slices, store), ROW_ADDRESS)
            is_replaced = pc.is_in(rows[ROW_ADDRESS], value_set=addresses)
            replaced, surviving = rows.filter(is_replaced), rows.filter(pc.invert(is_replaced))
        for side in sides:
            if side.role == FORMER:
                yield side, replaced
            else:
                # The id of a replaced row still exists for the edges that name it.
                yield side, rows if side.role == ID else surviving


def _list_columns(sides: Sequence[KeySide], type_: TableType) -> list[str]:
    """List the columns beside `id` from which the keys of sides are made."""
    names: dict[str, None] = {}
    for side in sides:
        if side.role in ENDS:
            names[side.role] = None
        elif side.role == FORMER:
            names["src"] = None
        elif side.role == UNIQUE:
            names |= dict.fromkeys(type_.unique[side.group].columns)
    return list(names)


def _add_keys(side: KeySide, type_: TableType, rows: pa.Table) -> pa.Table:
    """Add the key column of a side; rows without a key are dropped."""
    if side.role == UNIQUE:
        keys = _make_tuple_keys(rows, type_.unique[side.group].columns)
    else:
        keys = column(rows, "src" if side.role == FORMER else side.role)
    keyed = rows.append_column(KEY, keys)
    return keyed.filter(keys.is_valid()) if keys.null_count else keyed


def _make_tuple_keys(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Make texts that are equal where tuples are equal; NULL where a value is missing, which exempts the row."""
    texts = [comparable(column(rows, name)).cast(pa.string()) for name in columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "\x1f")
