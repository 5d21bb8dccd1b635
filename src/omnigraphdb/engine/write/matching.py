"""The rows that the condition of a statement is true for: pending ones, and committed ones they do not hide."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import NodeType, TableType
from omnigraphdb.catalog.types import Scalar
from omnigraphdb.catalog.values import key_text
from omnigraphdb.commit.delta import Accumulator
from omnigraphdb.compile.checked import AllOf, Compare, Condition, Const, Now, ParamRef, PropertyRef
from omnigraphdb.compile.plan.visit import Change, change_part, walk
from omnigraphdb.engine.read.evaluate import truth
from omnigraphdb.engine.read.operators.pushdown import render_filter
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.engine.write.table_source import StatementValues, TableSource
from omnigraphdb.storage.arrow import column
from omnigraphdb.values import dataclass

_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Matching:
    """The committed and the pending rows that a condition searches, and the values that it compares them with."""

    committed: SnapshotRows
    pending: Accumulator
    given: StatementValues

    def find_rows(self, type_: TableType, where: Condition) -> pa.Table:
        """Return the whole rows that satisfy a condition."""
        tests = _split(_spell_ends(where, self.given))
        names = type_.schema.names
        rows = self._read_committed(type_, tests, names)
        committed = rows.select(names).cast(type_.schema)
        pending = self.pending.rows(type_)
        if not pending.num_rows:
            return committed
        hidden = pc.is_in(committed["id"], value_set=column(pending, "id"))
        visible = committed.filter(pc.invert(hidden))
        return pa.concat_tables([self._keep(pending, tests), visible])

    def find_ids(self, type_: TableType, where: Condition) -> pa.Array:
        """Return the ids of committed rows that satisfy a condition."""
        tests = _split(_spell_ends(where, self.given))
        return column(self._read_committed(type_, tests, ["id"]), "id")

    def _read_committed(
        self, type_: TableType, tests: Sequence[Condition], names: Sequence[str]
    ) -> pa.Table:
        """Read columns of committed rows; storage filters rows where it compares values as the evaluator does."""
        for test in tests:
            ids = self._find_id(type_, test)
            if ids is not None:
                rest = [other for other in tests if other is not test]
                return self._keep(self._look_up(type_, ids, names, rest), rest)
        pairs = [(test, render_filter(test, self.given.of)) for test in tests]
        filters = [text for _, text in pairs if text is not None]
        rest = [test for test, text in pairs if text is None]
        filter = " and ".join(f"({text})" for text in filters) if filters else None
        rows = self.committed.matching(type_.table_key, _list_needed(names, rest), filter)
        return self._keep(rows, rest).select(list(names))

    def _look_up(
        self, type_: TableType, ids: pa.Array, names: Sequence[str], rest: Sequence[Condition]
    ) -> pa.Table:
        if list(names) == type_.schema.names:
            return self.committed.whole(type_.table_key, ids)
        return self.committed.where(type_.table_key, "id", ids, _list_needed(names, rest))

    def _find_id(self, type_: TableType, test: Condition) -> pa.Array | None:
        """Return the id that a test requires, if equality on its property is equality on the id."""
        match test:
            case Compare(
                left=PropertyRef() as reference, op="=", right=Const() | ParamRef() as fixed
            ):
                value = self.given.of(fixed)
                if _is_identity(type_, reference.property) and (
                    value is None or isinstance(value, str)
                ):
                    return pa.array([] if value is None else [value], pa.string())
            case _:
                pass
        return None

    def _keep(self, rows: pa.Table, tests: Sequence[Condition]) -> pa.Table:
        """Keep the rows for which every test is true; each test sees only the rows that passed the tests before."""
        for test in tests:
            if not rows.num_rows:
                break
            is_true = truth(test, TableSource(table=rows, given=self.given))
            rows = rows.filter(pc.fill_null(is_true, False))
        return rows


def _split(where: Condition) -> tuple[Condition, ...]:
    return where.parts if isinstance(where, AllOf) else (where,)


def _list_needed(names: Sequence[str], tests: Sequence[Condition]) -> list[str]:
    """List the requested columns, and the columns that tests read."""
    read = (
        reference.property for reference in walk(tuple(tests)) if isinstance(reference, PropertyRef)
    )
    return list(dict.fromkeys([*names, "id", *read]))


def _is_identity(type_: TableType, name: str) -> bool:
    is_key = isinstance(type_, NodeType) and type_.key_columns == (name,)
    return is_key and type_.properties[name].type.scalar is Scalar.STRING


def _spell_ends(where: Condition, statement_values: StatementValues) -> Condition:
    """Replace values of keys that ends of edges are compared with by the ids that they stand for."""
    keyed: dict[int, Const] = {}
    for test in walk(where):
        if not isinstance(test, Compare) or not isinstance(test.left, PropertyRef):
            continue
        fixed = test.right
        is_fixed = isinstance(fixed, ParamRef | Now) and not fixed.type.is_text
        if test.left.property in _ENDS and test.left.type.is_text and is_fixed:
            assert isinstance(fixed, ParamRef | Now)
            text = key_text(statement_values.of(fixed), fixed.type)
            keyed[id(fixed)] = Const(value=text, type=test.left.type)
    if not keyed:
        return where
    return change_part(where, Change(fixed=lambda leaf: keyed.get(id(leaf), leaf)))
