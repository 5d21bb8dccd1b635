"""The conflicts of a merge: kind, row, what each side did, and the three rows."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from omnigraph.engine.diff.rows import Row
from omnigraph.errors import Problem, shorten
from omnigraph.ids import TableKey
from omnigraph.values import dataclass


class ConflictKind(StrEnum):
    """The closed set of conflict kinds."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One conflict of a merge; `base`, `source` and `target` are the rows of the three sides, None where there is none."""

    table_key: str
    row_id: str | None
    kind: ConflictKind
    message: str
    base: Row | None = None
    source: Row | None = None
    target: Row | None = None
    properties: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "table_key": self.table_key,
            "row_id": self.row_id,
            "kind": str(self.kind),
            "message": self.message,
            "base": self.base,
            "source": self.source,
            "target": self.target,
            "properties": list(self.properties),
        }

    def __str__(self) -> str:
        return f"{self.table_key} {self.row_id} {self.kind}: {self.message}"


_KIND_OF_RULE: Mapping[str, ConflictKind] = {
    "W13": ConflictKind.UNIQUE_VIOLATION,
    "W14": ConflictKind.CARDINALITY_VIOLATION,
    "W15": ConflictKind.ORPHAN_EDGE,
    "W16": ConflictKind.ORPHAN_EDGE,
}


def kind_of(problem: Problem) -> ConflictKind:
    """The kind of a rule that the merged graph would break."""
    return _KIND_OF_RULE.get(problem.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)


def in_order(conflicts: Iterable[Conflict]) -> tuple[Conflict, ...]:
    """By table key, then id, then kind."""
    return tuple(sorted(conflicts, key=lambda c: (c.table_key, c.row_id or "", c.kind)))


# ---- words


def row_message(
    table_key: TableKey,
    kind: ConflictKind,
    row_id: str,
    rows: tuple[Row | None, Row | None, Row | None],
    properties: Sequence[str],
) -> str:
    """Say what each side did to a row; `rows` are base, source and target."""
    base, source, target = rows
    name = f"{table_key} '{shorten(row_id)}'"
    match kind:
        case ConflictKind.DIVERGENT_INSERT:
            shown = "; ".join(
                _show_values(p, (None, source, target)) for p in properties[:_SHOWN_MAX]
            )
            return f"{name} was inserted on both sides with different values: {shown}"
        case ConflictKind.DELETE_VS_UPDATE if source is None:
            return f"{name} was deleted by the source and updated by the target: {_show_moves(base, target)}"
        case ConflictKind.DELETE_VS_UPDATE:
            return f"{name} was updated by the source and deleted by the target: {_show_moves(base, source)}"
        case _:
            shown = "; ".join(_show_values(p, rows) for p in properties[:_SHOWN_MAX])
            return f"{name} was updated on both sides in different ways: {shown}"


_SHOWN_MAX = 3
"""Properties that one message names; the rows carry all of them."""


def _show_values(name: str, rows: tuple[Row | None, Row | None, Row | None]) -> str:
    base, source, target = rows
    if source is None or name not in source:
        return f"{name} (a blob) differs"
    before = f"base {_show_value(base[name])}, " if base is not None and name in base else ""
    return f"{name}: {before}source {_show_value(source[name])}, target {_show_value((target or {}).get(name))}"


def _show_moves(base: Row | None, now: Row | None) -> str:
    if base is None or now is None:
        return "it is not as either side found it"
    moved = [n for n in now if now[n] != base.get(n)]
    shown = ", ".join(
        f"{n} {_show_value(base.get(n))} to {_show_value(now[n])}" for n in moved[:_SHOWN_MAX]
    )
    return shown or "its blob changed"


def _show_value(value: object) -> str:
    return "NULL" if value is None else f"'{shorten(value)}'"
