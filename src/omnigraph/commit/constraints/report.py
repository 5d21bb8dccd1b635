"""Violations as they are collected: the first few in full, the rest counted."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.values import json_column
from omnigraph.commit.changes import TableChange, column
from omnigraph.errors import OmniError, Problem, data_error
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.values import dataclass


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
    change: TableChange, mask: pa.Array, rule: str, describe: Callable[[int], str], name: str | None
) -> Violations:
    """One violation per marked row of a change, by id."""
    marked = pc.indices_nonzero(pc.fill_null(mask, False))
    return of_indices(change, marked, rule, describe, name)


def of_indices(
    change: TableChange, rows: pa.Array, rule: str, describe: Callable[[int], str], name: str | None
) -> Violations:
    """One violation per row number of a change, by id; only those shown are described."""
    if len(rows) == 0:
        return Violations()
    shown = by_id(change, rows)[: change.shown_max]
    problems = tuple(
        change.origin(row).problem(
            rule,
            describe(row),
            table_key=change.type.table_key,
            row_id=change.ids[row].as_py(),
            property=name,
        )
        for row in shown
    )
    return Violations(problems, len(rows))


def by_id(change: TableChange, rows: pa.Array) -> list[int]:
    """Row numbers in the order of their ids."""
    ids = change.ids.take(rows)
    order: Sequence[int] = pc.sort_indices(ids).to_pylist()
    numbers: list[int] = rows.to_pylist()
    return [numbers[i] for i in order]


def cell(change: TableChange, name: str, row: int) -> object:
    """One value of a change as JSON spells it."""
    found = column(change.rows, name).slice(row, 1)
    declared = change.type.properties.get(name)
    value: object = json_column(found, declared.type)[0] if declared else found[0].as_py()
    return value
