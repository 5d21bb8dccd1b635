"""Added, dropped and renamed columns as one change of the schema; no data is rewritten.

Lance's API numbers the fields of a new schema from zero, and field ids have gaps after a drop: a schema that was numbered
anew would point at the wrong columns, now and in every past version. So the new schema is cut from the messages of the
stored one, as pickling gives them. Nothing else keeps the field ids, so the switch of `unofficial` does not turn this off.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.schema import LanceSchema

from omnigraphdb.errors import InternalError
from omnigraphdb.storage.lance.physical import physical
from omnigraphdb.storage.values import AddColumn, ColumnChange, DropColumn, RenameColumn

_SYSTEM: Final = ("id", "src", "dst")
"""These columns come first, in this order; properties follow by name."""

_NAME_FIELD: Final = 2
"""The field of the message that holds the name of a column."""


def change_columns(
    dataset: LanceDataset, changes: Sequence[ColumnChange]
) -> LanceOperation.Merge | LanceOperation.Project:
    """Describe the changed schema as one Lance operation."""
    metadata, *stored = _protos(dataset.lance_schema)
    fields = _by_name(dataset.lance_schema, stored)
    before = frozenset(fields)
    free_id = dataset.max_field_id + 1
    for change in changes:
        _apply(fields, change, free_id)
        if isinstance(change, AddColumn):
            # Lance takes a stored name under a new field id for a mistake; a second step may add it.
            _require(
                change.field.name not in before, f"column '{change.field.name}' was there before"
            )
        free_id += len(fields[change.field.name]) if isinstance(change, AddColumn) else 0
    ordered = [proto for name in sorted(fields, key=_position) for proto in fields[name]]
    schema = LanceSchema._from_protos(metadata, *ordered)
    if not any(isinstance(change, AddColumn) for change in changes):
        return LanceOperation.Project(schema)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    return LanceOperation.Merge(fragments, schema, preserves_nullability=True)


def _apply(fields: dict[str, tuple[bytes, ...]], change: ColumnChange, free_id: int) -> None:
    match change:
        case AddColumn(field):
            _require(field.name not in fields, f"column '{field.name}' exists")
            _require(
                field.nullable, f"column '{field.name}' is not nullable, old rows have no value"
            )
            fields[field.name] = _new_field(field, free_id)
        case DropColumn(name):
            _require(name in fields, f"there is no column '{name}'")
            del fields[name]
        case RenameColumn(name, to):
            _require(name in fields, f"there is no column '{name}'")
            _require(to not in fields, f"column '{to}' exists")
            head, *children = fields.pop(name)
            fields[to] = (_rename_field(head, to), *children)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InternalError(
            f"a column change does not fit the table: {message}; nothing was staged"
        )


def _position(name: str) -> tuple[int, str]:
    return (_SYSTEM.index(name), "") if name in _SYSTEM else (len(_SYSTEM), name)


# ---- Lance's own form of a schema: one protobuf message per field, children after their parent


def _protos(schema: LanceSchema) -> tuple[Any, ...]:
    """Take a schema apart as pickling does."""
    _, arguments = cast(tuple[Any, tuple[Any, ...]], schema.__reduce__())
    return arguments


def _by_name(schema: LanceSchema, protos: Sequence[bytes]) -> dict[str, tuple[bytes, ...]]:
    grouped: dict[str, tuple[bytes, ...]] = {}
    start = 0
    for field in schema.fields():
        end = start + _width(field)
        grouped[field.name()] = tuple(protos[start:end])
        start = end
    return grouped


def _width(field: Any) -> int:
    return 1 + sum(_width(child) for child in field.children())


def _new_field(field: pa.Field, free_id: int) -> tuple[bytes, ...]:
    """Give a new field the ids after every id that the table ever used."""
    padding = [pa.field(f"_{number}", pa.int8()) for number in range(free_id)]
    (stored,) = physical(pa.schema([field]))
    _, *protos = _protos(LanceSchema.from_pyarrow(pa.schema([*padding, stored])))
    return tuple(protos[free_id:])


def _rename_field(proto: bytes, name: str) -> bytes:
    text = name.encode()
    renamed = bytearray()
    position = 0
    while position < len(proto):
        start = position
        key, position = _varint(proto, position)
        length, position = _varint(proto, position)
        if key & 7 == 2:
            position += length
        if key >> 3 == _NAME_FIELD:
            renamed += bytes([key]) + _as_varint(len(text)) + text
        else:
            renamed += proto[start:position]
    return bytes(renamed)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
