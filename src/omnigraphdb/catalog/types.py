"""Property types: their values, their text form, their Arrow storage."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from omnigraphdb.later import Later
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Later("pyarrow")


class Scalar(StrEnum):
    """The plain types of the schema language."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMBERS = INTEGERS | FLOATS

INTEGER_BOUNDS: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


@cache
def _arrow_types() -> dict[Scalar, pa.DataType]:
    return {
        Scalar.STRING: pa.string(),
        Scalar.BLOB: pa.large_binary(),
        Scalar.BOOL: pa.bool_(),
        Scalar.I32: pa.int32(),
        Scalar.I64: pa.int64(),
        Scalar.U32: pa.uint32(),
        Scalar.U64: pa.uint64(),
        Scalar.F32: pa.float32(),
        Scalar.F64: pa.float64(),
        Scalar.DATE: pa.date32(),
        Scalar.DATETIME: pa.date64(),
    }


@cache
def _scalars() -> dict[pa.DataType, Scalar]:
    return {arrow: scalar for scalar, arrow in _arrow_types().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyType:
    """A scalar, a list of one, an enum or a vector; `scalar` is the item type of lists and vectors.

    With `fields` it is a whole entity, or a record of a parameter: no property of a schema is that.
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] = ()
    dimension: int | None = None
    fields: tuple[tuple[str, PropertyType], ...] = ()

    def with_nullable(self, nullable: bool) -> PropertyType:
        """Return the same type, with NULL among its values or without."""
        return self if nullable is self.nullable else replace(self, nullable=nullable)

    @property
    def is_vector(self) -> bool:
        """Whether this is `Vector(n)`."""
        return self.dimension is not None

    @property
    def is_enum(self) -> bool:
        """Whether values come from a closed set."""
        return bool(self.enum_values)

    @property
    def is_blob(self) -> bool:
        """Whether this is a `Blob`."""
        return self.scalar is Scalar.BLOB

    @property
    def is_plain(self) -> bool:
        """Whether this is one scalar value (an enum included), neither list, vector nor Blob."""
        return not (self.is_list or self.is_vector or self.is_blob or self.fields)

    @property
    def is_text(self) -> bool:
        """Whether this is one String or enum value."""
        return self.is_plain and self.scalar is Scalar.STRING

    @property
    def is_numeric(self) -> bool:
        """Whether this is one number."""
        return self.is_plain and self.scalar in NUMBERS

    @property
    def display(self) -> str:
        """The name used in messages: `I32?`, `[String]`, `enum(a, b)`, `Vector(8)`."""
        if self.is_vector:
            core = f"Vector({self.dimension})"
        elif self.is_enum:
            core = f"enum({', '.join(self.enum_values)})"
        elif self.fields:
            listed = ", ".join(f"{name}: {type_}" for name, type_ in self.fields)
            core = f"[{{ {listed} }}]" if self.is_list else f"{{ {listed} }}"
        else:
            core = f"[{self.scalar}]" if self.is_list else str(self.scalar)
        return core + "?" if self.nullable else core

    def __str__(self) -> str:
        return self.display

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type; a Blob is its logical `large_binary`."""
        if self.fields:
            record = pa.struct([pa.field(name, type_.arrow) for name, type_ in self.fields])
            return pa.list_(pa.field("item", record, nullable=True)) if self.is_list else record
        if self.is_vector:
            return pa.list_(pa.field("item", pa.float32(), nullable=True), self.dimension)
        if self.is_list:
            return pa.list_(pa.field("item", _arrow_types()[self.scalar], nullable=True))
        return _arrow_types()[self.scalar]

    def required(self) -> PropertyType:
        """Return the same type without NULL."""
        return replace(self, nullable=False)


def stored_type(arrow: pa.DataType) -> PropertyType:
    """Return the type of a stored column that no schema at hand declares; an enum is a String there."""
    if pa.types.is_fixed_size_list(arrow):
        return PropertyType(scalar=Scalar.F32, dimension=arrow.list_size)
    if pa.types.is_list(arrow):
        return PropertyType(scalar=_scalars()[arrow.value_type], is_list=True)
    return PropertyType(scalar=_scalars()[arrow])
