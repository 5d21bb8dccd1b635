"""Which indexes the schema asks for, and what of them a table version lacks."""

from collections.abc import Iterator

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.storage.tables import IndexKind, IndexSpec, Table


def list_wanted_indexes(type_: TableType) -> tuple[IndexSpec, ...]:
    """The indexes of a type: ids and ends always, single-column intents of nodes by their type."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    found = dict.fromkeys(("id", *ends), IndexKind.BTREE)
    if isinstance(type_, NodeType):
        for group in type_.indices:
            kind = kind_of(type_.properties[group.columns[0]].type)
            if len(group.columns) == 1 and kind is not None:
                found[group.columns[0]] = kind
    return tuple(IndexSpec(column=c, kind=k) for c, k in found.items())


def kind_of(type_: PropertyType) -> IndexKind | None:
    """The index a property type can have."""
    if type_.is_vector:
        return IndexKind.VECTOR
    if not type_.is_plain:
        return None
    free_text = type_.scalar is Scalar.STRING and not type_.is_enum
    return IndexKind.TEXT if free_text else IndexKind.BTREE


def list_absent_indexes(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """The indexes that are not there."""
    present = presence(table)
    return tuple(
        spec for spec in list_wanted_indexes(type_) if (spec.column, spec.kind) not in present
    )


def missing(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """The indexes that are not there and can be built now."""
    return tuple(
        spec for spec in list_absent_indexes(type_, table) if untrainable(spec, table) is None
    )


def incomplete(type_: TableType, table: Table) -> tuple[IndexSpec, ...]:
    """The indexes that can be built or extended now."""
    return (*missing(type_, table), *extensible(type_, table))


def extensible(type_: TableType, table: Table) -> Iterator[IndexSpec]:
    """The indexes that are there and can cover more rows than they do."""
    present = presence(table)
    for spec in list_wanted_indexes(type_):
        if (spec.column, spec.kind) in present:
            late = table.uncovered(spec.column, spec.kind)
            if late and _can_learn(spec, table, late):
                yield spec


def presence(table: Table) -> frozenset[tuple[str, IndexKind | None]]:
    """Which columns have an index of which kind that can be used, whatever it covers."""
    return frozenset((one.column, one.kind) for one in table.indices() if one.damage is None)


def untrainable(spec: IndexSpec, table: Table) -> str | None:
    """Why an index cannot be built yet: a vector index needs a vector to learn from."""
    return None if _can_learn(spec, table, None) else "no row has a vector yet"


def _can_learn(spec: IndexSpec, table: Table, fragments: tuple[int, ...] | None) -> bool:
    return spec.kind is not IndexKind.VECTOR or table.has_values(spec.column, fragments)
