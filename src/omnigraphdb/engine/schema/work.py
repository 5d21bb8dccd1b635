"""What a schema change does to tables: which are made, renamed, reshaped and dropped. Pure."""

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
    """Lay out the way from the accepted schema to the next one."""
    paired = match(accepted, desired)
    following = advance(accepted, desired)
    continued = dict(_pair_kept_tables(paired))
    return Work(
        contract=following,
        created={
            key: NewTable(following.stored_tables[key].path, type_.schema)
            for key, type_ in following.catalog.tables.items()
            if key not in continued.values()
        },
        renamed={old: new for old, new in continued.items() if old != new},
        reshaped={
            old: changes
            for old, new in continued.items()
            if (
                changes := _list_column_changes(
                    _match_properties(paired, new), following.catalog.tables[new]
                )
            )
        },
        dropped=tuple(key for key in accepted.catalog.tables if key not in continued),
    )


def _pair_kept_tables(paired: CatalogMatch) -> Iterator[tuple[TableKey, TableKey]]:
    """Accepted table keys that stay, and their new keys."""
    for kind in TABLE_KINDS:
        for new, old in paired.types[kind].continues.items():
            yield TableKey(f"{kind}:{old}"), TableKey(f"{kind}:{new}")


def _match_properties(paired: CatalogMatch, key: TableKey) -> Matched:
    kind, _, name = key.partition(":")
    return paired.properties[TypeKind(kind), name]


def _list_column_changes(properties: Matched, type_: TableType) -> tuple[ColumnChange, ...]:
    """The column changes of one table. No name is both taken and freed, so that they fit in one step."""
    return (
        *(DropColumn(name) for name in properties.dropped),
        *(RenameColumn(old, new) for new, old in properties.continues.items() if old != new),
        *(AddColumn(type_.schema.field(name)) for name in properties.added),
    )
