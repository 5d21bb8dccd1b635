"""The table work of a schema change: the tables that it creates, renames, reshapes and drops. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import field

from omnigraphdb.catalog.diff.matching import CatalogMatch, Matched
from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.ir.contract import Contract, advance, match
from omnigraphdb.catalog.model import Catalog, TableType
from omnigraphdb.commit.plan import NewTable
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.values import AddColumn, ColumnChange, DropColumn, RenameColumn
from omnigraphdb.values import dataclass

TABLE_KINDS = (TypeKind.NODE, TypeKind.EDGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The table work of a schema change, by table key.

    `renamed` maps old keys to new ones; `reshaped` holds column changes under the key a table has today.
    """

    contract: Contract
    created: Mapping[TableKey, NewTable] = field(default_factory=dict)
    renamed: Mapping[TableKey, TableKey] = field(default_factory=dict)
    reshaped: Mapping[TableKey, tuple[ColumnChange, ...]] = field(default_factory=dict)
    dropped: tuple[TableKey, ...] = ()

    @property
    def touched(self) -> frozenset[TableKey]:
        """Tables that are created, renamed, reshaped or dropped."""
        return frozenset((*self.created, *self.renamed, *self.reshaped, *self.dropped))

    @property
    def stripped(self) -> frozenset[TableKey]:
        """Tables, by the key they have today, that lose a column."""
        return frozenset(
            key
            for key, changes in self.reshaped.items()
            if any(isinstance(change, DropColumn) for change in changes)
        )


def work_of(accepted: Contract, desired: Catalog) -> Work:
    """List the table work that leads from the accepted schema to the desired one."""
    catalog_match = match(accepted, desired)
    next_contract = advance(accepted, desired)
    kept_tables = dict(_pair_kept_tables(catalog_match))
    return Work(
        contract=next_contract,
        created={
            key: NewTable(next_contract.stored_tables[key].path, type_.schema)
            for key, type_ in next_contract.catalog.tables.items()
            if key not in kept_tables.values()
        },
        renamed={old: new for old, new in kept_tables.items() if old != new},
        reshaped={
            old: changes
            for old, new in kept_tables.items()
            if (
                changes := _list_column_changes(
                    _match_properties(catalog_match, new), next_contract.catalog.tables[new]
                )
            )
        },
        dropped=tuple(key for key in accepted.catalog.tables if key not in kept_tables),
    )


def _pair_kept_tables(catalog_match: CatalogMatch) -> Iterator[tuple[TableKey, TableKey]]:
    """Pair the accepted keys of the tables that stay with their new keys."""
    for kind in TABLE_KINDS:
        for new, old in catalog_match.types[kind].continues.items():
            yield TableKey(f"{kind}:{old}"), TableKey(f"{kind}:{new}")


def _match_properties(catalog_match: CatalogMatch, key: TableKey) -> Matched:
    kind, _, name = key.partition(":")
    return catalog_match.properties[TypeKind(kind), name]


def _list_column_changes(properties: Matched, type_: TableType) -> tuple[ColumnChange, ...]:
    """List the column changes of one table. No name is both taken and freed, so that they fit in one step."""
    return (
        *(DropColumn(name) for name in properties.dropped),
        *(RenameColumn(old, new) for new, old in properties.continues.items() if old != new),
        *(AddColumn(type_.schema.field(name)) for name in properties.added),
    )
