"""Violations as they are collected: the first few in full, the rest counted."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.values import json_column
from omnigraphdb.commit.delta import TableDelta
from omnigraphdb.errors import OmniError, Problem, data_error, shorten
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from omnigraphdb.storage.arrow import column
from omnigraphdb.values import dataclass

_ENDS = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class Violations:
    """Problems in reporting order, and how many there are in all."""

    problems: tuple[Problem, ...] = ()
    total: int = 0

    def __add__(self, other: "Violations") -> "Violations":
        return Violations(self.problems + other.problems, self.total + other.total)

    def __bool__(self) -> bool:
        return self.total > 0

    def error(self) -> OmniError:
        """Build the error of these violations."""
        return data_error(self.problems[:PROBLEMS_SHOWN_MAX], total=self.total)


def of_rows(
    delta: TableDelta, mask: pa.Array, rule: str, describe: Callable[[int], str], name: str | None
) -> Violations:
    """Make one violation per marked row of a change, by id."""
    marked = pc.indices_nonzero(pc.fill_null(mask, False))
    return of_indices(delta, marked, rule, describe, name)


def of_indices(
    delta: TableDelta, rows: pa.Array, rule: str, describe: Callable[[int], str], name: str | None
) -> Violations:
    """Make one violation per row number of a change, by id; only the first few of them are described."""
    if len(rows) == 0:
        return Violations()
    described = first_by_id(delta, rows)
    problems = tuple(
        delta.origin(row).problem(
            rule,
            describe(row),
            table_key=delta.type.table_key,
            row_id=row_id,
            property=name,
            value=_spell_value(delta, name, row, row_id),
        )
        for row, row_id in zip(
            described, delta.ids.take(pa.array(described, pa.int64())).to_pylist(), strict=True
        )
    )
    return Violations(problems, len(rows))


def _spell_value(delta: TableDelta, name: str | None, row: int, row_id: str) -> str | None:
    """Spell the value that breaks a rule, several values separated by commas; without a property it is the id."""
    if name is None:
        return shorten(row_id)
    names = [_ENDS.get(property_name, property_name) for property_name in name.split(", ")]
    if not set(names) <= set(delta.rows.column_names):
        return None
    return ", ".join(shorten(cell(delta, property_name, row)) for property_name in names)


def first_by_id(delta: TableDelta, rows: pa.Array) -> list[int]:
    """List row numbers in the order of their ids, only as many as are described."""
    count = min(delta.shown_max, len(rows))
    order = pc.sort_indices(delta.ids.take(rows)).slice(0, count)
    numbers: list[int] = rows.take(order).to_pylist()
    return numbers


def cell(delta: TableDelta, name: str, row: int) -> object:
    """Return one value of a change as JSON spells it."""
    values = column(delta.rows.select([name]).slice(row, 1), name)
    declared = delta.type.properties.get(name)
    value: object = json_column(values, declared.type)[0] if declared else values[0].as_py()
    return value
