"""A bucket: the rows of a set of keys, as the rules of a schema look at them."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import TableKey
from omnigraph.pipeline.checks import Job
from omnigraph.pipeline.keys.plan import FORMER, ID, UNIQUE, KeyPlan, KeySide
from omnigraph.pipeline.runner import KEY
from omnigraph.storage.lance.search import ROW_ID
from omnigraph.storage.lance.table import ROW_ADDRESS
from omnigraph.storage.store import Store
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of a set of keys; it answers what rules ask about committed rows."""

    key_plan: KeyPlan
    sides: Mapping[str, pa.Table]
    store: Store

    @property
    def job(self) -> Job:
        """What the load is about."""
        return self.key_plan.job

    def put(self, table: TableKey, role: str, group: int = 0) -> pa.Table:
        """Incoming rows under one kind of key, named as the table names its columns; none when nothing asks for them."""
        side = KeySide("put", table, role, group)
        if side.name not in self.sides:
            return self._name_columns(side, self.key_plan.schema(side).empty_table())
        return self._name_columns(side, self.sides[side.name])

    def held(self, table: TableKey, role: str, group: int = 0) -> pa.Table | None:
        """Committed rows under one kind of key; None when they were not brought here."""
        side = KeySide("held", table, role, group)
        return self._name_columns(side, self.sides[side.name]) if side.name in self.sides else None

    def _name_columns(self, side: KeySide, rows: pa.Table) -> pa.Table:
        if side.role == UNIQUE:
            return rows.drop([KEY])
        name = "src" if side.role == FORMER else side.role
        return rows.rename_columns([name if one == KEY else one for one in rows.column_names])

    # ---- as rules see what is committed

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Rows whose column holds one of the values."""
        if name == "id" and "src" in columns:
            former = self.held(table, FORMER)
            return self._nothing(table, columns) if former is None else former.select(list(columns))
        rows = self._find_incoming(table, name, columns)
        if rows is None:
            return self._look_up(table, name, values, columns)
        return rows.filter(pc.is_in(rows[name], value_set=values)).select(list(columns))

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Every row of this bucket under the end that is asked for."""
        side = next(name for name in ("src", "dst") if name in columns)
        rows = self.held(table, side)
        return self._nothing(table, columns) if rows is None else rows.select(list(columns))

    def _find_incoming(self, table: TableKey, name: str, columns: Sequence[str]) -> pa.Table | None:
        if name == "id" or not set(columns) - {"id", name}:
            found = self.held(table, name)
            if found is not None:
                return found
        for group, one in enumerate(self.job.type(table).unique):
            if name == one.columns[0] and set(columns) == {"id", *one.columns}:
                return self.held(table, UNIQUE, group)
        return None

    def _look_up(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        if not self.key_plan.held.get(table):
            return self._nothing(table, columns)
        opened = self.store.tables.open(self.key_plan.pins[table])
        return opened.lookup(name, values, list(columns))

    def _nothing(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        return self.job.type(table).schema.empty_table().select(list(columns))

    def addressed(self, table: TableKey, ids: pa.Array) -> pa.Table:
        """Committed rows with one of the ids, and where they are."""
        brought = self.held(table, ID)
        if brought is not None:
            return brought.filter(pc.is_in(brought["id"], value_set=ids))
        if not self.key_plan.held.get(table):
            return pa.table({"id": ids.slice(0, 0), ROW_ID: _NO_NUMBERS, ROW_ADDRESS: _NO_NUMBERS})
        opened = self.store.tables.open(self.key_plan.pins[table])
        return opened.lookup("id", ids, ("id",), row_id=True, row_address=True)


_NO_NUMBERS = pa.array([], pa.uint64())
