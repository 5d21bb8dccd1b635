"""The indexes that the schema asks for, and those of them that a table version lacks."""

from collections.abc import Iterator

from omnigraphdb.catalog.model import EdgeType, NodeType, TableType
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.limits import (
    AUTO_COMPACT_ROWS_MAX,
    AUTO_INDEX_ROWS_MAX,
    AUTO_SEGMENTS_MAX,
    INDEX_ROWS_MIN,
)
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import IndexKind, IndexSpec


def list_wanted_indexes(type_: TableType) -> tuple[IndexSpec, ...]:
    """List the indexes of a type: always of ids and edge ends, of single-column `@index` of nodes by the property type."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    kinds = dict.fromkeys(("id", *ends), IndexKind.BTREE)
    if isinstance(type_, NodeType):
        for group in type_.indices:
            kind = index_kind_of(type_.properties[group.columns[0]].type)
            if len(group.columns) == 1 and kind is not None:
                kinds[group.columns[0]] = kind
    return tuple(IndexSpec(column=c, kind=k) for c, k in kinds.items())


def index_kind_of(type_: PropertyType) -> IndexKind | None:
    """Return the kind of index that a property type can have."""
    if type_.is_vector:
        return IndexKind.VECTOR
    if not type_.is_plain:
        return None
    free_text = type_.scalar is Scalar.STRING and not type_.is_enum
    return IndexKind.TEXT if free_text else IndexKind.BTREE


def list_absent_indexes(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """List the wanted indexes that the table does not have."""
    present = list_usable_indexes(table)
    return tuple(
        spec for spec in list_wanted_indexes(type_) if (spec.column, spec.kind) not in present
    )


def list_missing_indexes(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """List the wanted indexes that the table does not have and that can be built now."""
    return tuple(
        spec for spec in list_absent_indexes(type_, table) if why_untrainable(spec, table) is None
    )


def list_incomplete_indexes(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """List the indexes that can be built or extended now."""
    return (*list_missing_indexes(type_, table), *list_extensible_indexes(type_, table))


def list_extensible_indexes(type_: TableType, table: Table) -> Iterator[IndexSpec]:
    """List the indexes that the table has and that can cover more rows."""
    present = list_usable_indexes(table)
    for spec in list_wanted_indexes(type_):
        if (spec.column, spec.kind) in present:
            uncovered = table.uncovered(spec.column, spec.kind)
            if uncovered and _can_train(spec, table, uncovered):
                yield spec


def list_worthwhile_indexes(type_: TableType, table: Table) -> Iterator[IndexSpec]:
    """List the indexes that are worth a commit right after a write: small ones, and segments over many new rows."""
    rows = {fragment.id: fragment.rows for fragment in table.fragments()}
    if INDEX_ROWS_MIN <= sum(rows.values()) <= AUTO_INDEX_ROWS_MAX:
        yield from list_missing_indexes(type_, table)
    segments = {index.column: len(index.segments) - len(index.dead) for index in table.indices()}
    for spec in list_extensible_indexes(type_, table):
        uncovered = table.uncovered(spec.column, spec.kind)
        is_worth_it = sum(rows[fragment] for fragment in uncovered) >= AUTO_COMPACT_ROWS_MAX
        if is_worth_it and segments.get(spec.column, 0) < AUTO_SEGMENTS_MAX:
            # Named fragments get a segment of their own; the rest of the index stays as it is.
            yield IndexSpec(column=spec.column, kind=spec.kind, fragments=uncovered)


def list_usable_indexes(table: Table) -> frozenset[tuple[str, IndexKind | None]]:
    """List column and kind of every undamaged index, independent of the rows it covers."""
    return frozenset(
        (index.column, index.kind) for index in table.indices() if index.damage is None
    )


def why_untrainable(spec: IndexSpec, table: Table) -> str | None:
    """Return the reason why an index cannot be built yet: a vector index needs vectors to train on."""
    return None if _can_train(spec, table, None) else "no row has a vector yet"


def _can_train(spec: IndexSpec, table: Table, fragments: tuple[int, ...] | None) -> bool:
    return spec.kind is not IndexKind.VECTOR or table.has_values(spec.column, fragments)
