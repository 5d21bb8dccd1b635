"""Violations as they are collected: the first few in full, the rest counted."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.values import json_column
from omnigraph.commit.delta import TableDelta
from omnigraph.errors import OmniError, Problem, data_error, shorten
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.storage.arrow import column
from omnigraph.values import dataclass

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
        """The error these violations deserve."""
        return data_error(self.problems[:PROBLEMS_SHOWN_MAX], total=self.total)


def of_rows(
    delta: TableDelta, mask: pa.Array, rule: str, describe: Callable[[int], str], name: str | None
) -> Violations:
    """One violation per marked row of a change, by id."""
    marked = pc.indices_nonzero(pc.fill_null(mask, False))
    return of_indices(delta, marked, rule, describe, name)


def of_indices(
    delta: TableDelta, rows: pa.Array, rule: str, describe: Callable[[int], str], name: str | None
) -> Violations:
    """One violation per row number of a change, by id; only those shown are described."""
    if len(rows) == 0:
        return Violations()
    shown = by_id(delta, rows)[: delta.shown_max]
    problems = tuple(
        delta.origin(row).problem(
            rule,
            describe(row),
            table_key=delta.type.table_key,
            row_id=delta.ids[row].as_py(),
            property=name,
            value=_spell_value(delta, name, row),
        )
        for row in shown
    )
    return Violations(problems, len(rows))


def _spell_value(delta: TableDelta, name: str | None, row: int) -> str | None:
    """The value that breaks a rule, of several properties separated by commas; without a property it is the id."""
    if name is None:
        return shorten(delta.ids[row].as_py())
    names = [_ENDS.get(one, one) for one in name.split(", ")]
    if not set(names) <= set(delta.rows.column_names):
        return None
    return ", ".join(shorten(cell(delta, one, row)) for one in names)


def by_id(delta: TableDelta, rows: pa.Array) -> list[int]:
    """Row numbers in the order of their ids."""
    ids = delta.ids.take(rows)
    order: Sequence[int] = pc.sort_indices(ids).to_pylist()
    numbers: list[int] = rows.to_pylist()
    return [numbers[i] for i in order]


def cell(delta: TableDelta, name: str, row: int) -> object:
    """One value of a change as JSON spells it."""
    found = column(delta.rows, name).slice(row, 1)
    declared = delta.type.properties.get(name)
    value: object = json_column(found, declared.type)[0] if declared else found[0].as_py()
    return value
