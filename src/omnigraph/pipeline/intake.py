"""What a load takes in: typed parts per table in the order they came, and everything that is wrong with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, NodeType, TableType
from omnigraph.commit.changes import (
    ChangeKind,
    Changes,
    TableChange,
    changes_of,
    column,
    last_of_each_id,
)
from omnigraph.commit.origins import Origin, Origins, joined_origins
from omnigraph.errors import Problem, data_error, shorten
from omnigraph.ids import TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.pipeline.identity import fresh_ids, key_ids
from omnigraph.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one table that came together: every column but `id`, the ids that were given, and from where."""

    columns: Mapping[str, pa.Array]
    given: pa.Array
    origins: Origins

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.given)


@dataclass(slots=True)
class Intake:
    """Everything a load has read so far."""

    catalog: Catalog
    parts: dict[TableKey, list[Part]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    total: int = 0

    @property
    def is_full(self) -> bool:
        """Whether enough problems are described; the rest is only counted."""
        return len(self.problems) >= PROBLEMS_SHOWN_MAX

    def add(self, type_: TableType, part: Part) -> None:
        """Take in rows of a table."""
        self.parts.setdefault(type_.table_key, []).append(part)

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Note what is wrong, in the order given."""
        for problem in problems:
            self.total += 1
            if not self.is_full:
                self.problems.append(problem)

    def count(self, problems: int) -> None:
        """Note that more is wrong than is described."""
        self.total += problems

    @property
    def records(self) -> dict[TableKey, int]:
        """How many records came for each table."""
        return {key: sum(part.rows for part in self.parts[key]) for key in sorted(self.parts)}

    def changes(self, kind: ChangeKind, runtime: Runtime) -> Changes:
        """The change of every table; raises with all that is wrong."""
        self._raise()
        found: dict[TableKey, TableChange] = {}
        for key in sorted(self.parts):
            change = self._change(self.catalog.tables[key], kind, runtime)
            if change is not None:
                found[key] = change
        self._raise()
        return changes_of(found)

    def _raise(self) -> None:
        if self.total:
            raise data_error(self.problems, total=self.total)

    def _change(self, type_: TableType, kind: ChangeKind, runtime: Runtime) -> TableChange | None:
        parts = self.parts[type_.table_key]
        names = [name for name in type_.schema.names if name != "id"]
        columns = {
            name: pa.chunked_array([part.columns[name] for part in parts], _type(type_, name))
            for name in names
        }
        given = pa.chunked_array([part.given for part in parts], pa.string())
        origins = joined_origins([part.origins for part in parts])
        before = self.total
        ids = self._ids(type_, columns, column(pa.table({"id": given}), "id"), origins, runtime)
        if self.total > before:
            return None
        rows = pa.Table.from_arrays(
            [ids if name == "id" else columns[name] for name in type_.schema.names],
            schema=type_.schema,
        )
        return self._settled(type_, *_in_order(rows, origins), kind)

    # ---- ids

    def _ids(
        self,
        type_: TableType,
        columns: Mapping[str, pa.ChunkedArray],
        given: pa.Array,
        origins: Origins,
        runtime: Runtime,
    ) -> pa.Array:
        if not isinstance(type_, NodeType) or type_.key is None:
            if given.null_count == 0:
                return given
            return pc.coalesce(given, fresh_ids(runtime.new_id(), len(given)))
        ids = key_ids(type_, pa.table({name: columns[name] for name in type_.key_columns}))
        for row in self._shown(pc.is_null(ids)):
            message = f"the key of {type_.name} has no finite value"
            self._place(type_, origins.of(row), "W04", message)
        for row in self._shown(pc.not_equal(given, ids)):
            message = (
                f"id '{shorten(given[row].as_py())}' of {type_.name} contradicts its key, "
                f"whose id is '{shorten(ids[row].as_py())}'"
            )
            self._place(type_, origins.of(row), "J10", message, row_id=given[row].as_py())
        return ids

    def _shown(self, mask: pa.Array) -> list[int]:
        """Numbers of the marked rows that still get a description; the others are counted."""
        marked = pc.indices_nonzero(pc.fill_null(mask, False))
        room = PROBLEMS_SHOWN_MAX - len(self.problems)
        self.count(max(0, len(marked) - room))
        shown: list[int] = marked.slice(0, room).to_pylist()
        return shown

    def _place(
        self, type_: TableType, origin: Origin, rule: str, message: str, row_id: str | None = None
    ) -> None:
        self.refuse([origin.problem(rule, message, table_key=type_.table_key, row_id=row_id)])

    # ---- one id twice

    def _settled(
        self, type_: TableType, rows: pa.Table, origins: Origins, kind: ChangeKind
    ) -> TableChange | None:
        """Settle ids that occur twice: the last wins in a merge without key, else they are refused."""
        survivors = last_of_each_id(rows)
        if len(survivors) != rows.num_rows:
            is_keyed = isinstance(type_, NodeType) and type_.key is not None
            if is_keyed or kind is not ChangeKind.MERGE:
                self._refuse_twins(type_, column(rows, "id"), origins, is_keyed)
                return None
            rows, origins = rows.take(survivors), origins.take(survivors.to_numpy())
        return TableChange(type=type_, kind=kind, rows=rows, origins=origins)

    def _refuse_twins(
        self, type_: TableType, ids: pa.Array, origins: Origins, is_keyed: bool
    ) -> None:
        numbered = pa.table({"id": ids, "row": pa.array(np.arange(len(ids)), pa.int64())})
        grouped = numbered.group_by("id", use_threads=False)
        twins = grouped.aggregate([("row", "min"), ("row", "list"), ("row", "count")])
        twins = twins.filter(pc.greater(twins["row_count"], 1)).sort_by("row_min")
        what = "@unique violation on the key of" if is_keyed else "the same id twice in"
        rule = "W13" if is_keyed else "W20"
        room = max(0, PROBLEMS_SHOWN_MAX - len(self.problems))
        self.count(max(0, twins.num_rows - room))
        shown = twins.slice(0, room)
        for identity, rows in zip(
            shown["id"].to_pylist(), shown["row_list"].to_pylist(), strict=True
        ):
            first, second = origins.of(rows[0]), origins.of(rows[1])
            message = f"{what} {type_.name}: '{shorten(identity)}' is in {first} and in {second}"
            self._place(type_, second, rule, message, row_id=identity)


def _in_order(rows: pa.Table, origins: Origins) -> tuple[pa.Table, Origins]:
    """Rows as they were given: lines that were read with care came in after the others of their block."""
    order = origins.order
    return (rows, origins) if order is None else (rows.take(pa.array(order)), origins.take(order))


def _type(type_: TableType, name: str) -> pa.DataType:
    return type_.schema.field(name).type
