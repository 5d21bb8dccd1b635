"""The description of a query for its callers: its parameters, its columns, and the types it touches."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import (
    Checked,
    CheckedDelete,
    CheckedInsert,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    CheckedUpsert,
    Pattern,
    VariableKind,
)
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_KINDS: Mapping[Scalar, str] = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDescriptor(Value):
    """A parameter or a result column: its name, and the values that it takes."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = field(default=None, metadata=wire(omit=True))
    vector_dim: int | None = field(default=None, metadata=wire(omit=True))
    fields: "tuple[ValueDescriptor, ...]" = field(default=(), metadata=wire(omit=True))
    """The fields of the records of a list."""
    choices: tuple[str, ...] | None = field(default=None, metadata=wire(omit=True))
    """The values of the enum that a parameter is compared with or assigned to."""


def describe_value(name: str, value_type: PropertyType) -> ValueDescriptor:
    """Describe one value in the words clients know."""
    kind, item_kind = _KINDS[value_type.scalar], None
    fields = value_type.fields if value_type.is_list else ()
    if value_type.fields:
        kind, item_kind = ("list", "object") if value_type.is_list else ("object", None)
    elif value_type.is_vector:
        kind = "vector"
    elif value_type.is_list:
        kind, item_kind = "list", kind
    return ValueDescriptor(
        name=name,
        kind=kind,
        item_kind=item_kind,
        vector_dim=value_type.dimension,
        nullable=value_type.nullable,
        fields=tuple(describe_value(field_name, type_) for field_name, type_ in fields),
    )


# ---- reads and writes of an operation


@dataclass(frozen=True, slots=True, order=True)
class TypeUse:
    """A node or edge type that a query touches."""

    kind: str
    type_name: str

    def to_dict(self) -> dict[str, str]:
        """The wire form."""
        return {"kind": self.kind, "type_name": self.type_name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The columns a query gives, and the types it reads and writes, sorted."""

    result: tuple[ValueDescriptor, ...] = ()
    reads: tuple[TypeUse, ...] = ()
    writes: tuple[TypeUse, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "result": [column.to_dict() for column in self.result],
            "reads": [use.to_dict() for use in self.reads],
            "writes": [use.to_dict() for use in self.writes],
        }


def describe_operation(checked: Checked, catalog: Catalog) -> Operation:
    """Describe the columns, the reads and the writes of a query."""
    if isinstance(checked, CheckedRead):
        reads = _read_uses(checked, catalog)
        result = tuple(describe_value(column.name, column.type) for column in checked.columns)
        return Operation(result=result, reads=tuple(sorted(reads)))
    written = {use for s in checked.statements for use in _writes(s, catalog)}
    reads = {use for s in checked.statements for use in _ends(s, catalog)} | written
    for match in checked.matches:
        reads |= _read_uses(match, catalog)
    return Operation(
        result=describe_returned(checked),
        reads=tuple(sorted(reads)),
        writes=tuple(sorted(written)),
    )


def describe_returned(checked: Checked) -> tuple[ValueDescriptor, ...]:
    """Describe the columns that a mutation returns; a read returns nothing besides its rows."""
    columns = () if isinstance(checked, CheckedRead) else checked.returning
    return tuple(describe_value(column.name, column.type) for column in columns)


def _read_uses(read: CheckedRead, catalog: Catalog) -> set[TypeUse]:
    uses = {*_variable_uses(read)}
    for pattern in read.patterns:
        uses |= {*_pattern_uses(pattern, catalog)}
    return uses


def _variable_uses(read: CheckedRead) -> Iterator[TypeUse]:
    for variable in read.variables.values():
        kind = "node" if variable.is_node else "edge"
        yield from (TypeUse(kind, name) for name in variable.types)


def _pattern_uses(pattern: Pattern, catalog: Catalog) -> Iterator[TypeUse]:
    for hop in pattern.hops:
        for name in split_types(hop.edge):
            yield from _edge_uses(name, catalog)
    for block in pattern.nested:
        yield from _pattern_uses(block, catalog)


def _edge_uses(name: str, catalog: Catalog) -> Iterator[TypeUse]:
    edge = catalog.edges[name]
    yield TypeUse("edge", edge.name)
    yield TypeUse("node", edge.source)
    yield TypeUse("node", edge.target)


def _writes(statement: CheckedStatement, catalog: Catalog) -> Iterator[TypeUse]:
    match statement:
        case CheckedInsert() | CheckedUpsert() | CheckedUpdate():
            yield TypeUse(str(statement.kind), statement.type_name)
        case CheckedDelete():
            yield TypeUse(str(statement.kind), statement.type_name)
            if statement.kind is VariableKind.NODE:
                incident = catalog.incident(statement.type_name)
                yield from (TypeUse("edge", edge.name) for edge in incident)


def _ends(statement: CheckedStatement, catalog: Catalog) -> Iterator[TypeUse]:
    if isinstance(statement, CheckedInsert) and statement.kind is VariableKind.EDGE:
        yield from _edge_uses(statement.type_name, catalog)
