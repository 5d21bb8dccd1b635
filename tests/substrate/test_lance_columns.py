"""Schema changes as one transaction, and the protobuf form of a schema they are cut from."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.schema import LanceSchema

from tests.support.lance_bare import Op, append, commit, covered, create, index, rows


@pytest.fixture
def base(tmp_path: Path) -> LanceDataset:
    return index(append(create(tmp_path / "t"), rows("a", "b", n=1)), "n")


def protos(schema: LanceSchema) -> tuple[str, list[bytes]]:
    arguments: Any = schema.__reduce__()
    metadata, *fields = arguments[1]
    return metadata, fields


def test_a_schema_can_be_taken_apart_and_put_together(base: LanceDataset) -> None:
    metadata, fields = protos(base.lance_schema)
    again = LanceSchema._from_protos(metadata, *reversed(fields))
    assert [(f.name(), f.id()) for f in again.fields()] == [("n", 1), ("id", 0)]


def test_children_follow_their_parent(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("tags", pa.list_(pa.string()))])
    _, fields = protos(LanceSchema.from_pyarrow(schema))
    assert len(fields) == 3


def test_an_all_null_column_and_a_drop_fit_one_merge_without_data(base: LanceDataset) -> None:
    metadata, fields = protos(base.lance_schema)
    padded = pa.schema(
        [pa.field(f"_{i}", pa.int8()) for i in range(5)] + [pa.field("x", pa.int64())]
    )
    _, numbered = protos(LanceSchema.from_pyarrow(padded))
    schema = LanceSchema._from_protos(metadata, fields[0], numbered[5])
    kept = [fragment.metadata for fragment in base.get_fragments()]
    landed = commit(base, Op.Merge(kept, schema, preserves_nullability=True))
    assert [(f.name(), f.id()) for f in landed.lance_schema.fields()] == [("id", 0), ("x", 5)]
    assert landed.to_table().to_pylist() == [{"id": "a", "x": None}, {"id": "b", "x": None}]
    assert covered(landed) == {}
    assert landed.max_field_id == 5


def test_a_known_name_under_a_new_number_is_refused(base: LanceDataset) -> None:
    metadata, fields = protos(base.lance_schema)
    padded = pa.schema(
        [pa.field(f"_{i}", pa.int8()) for i in range(5)] + [pa.field("n", pa.int64())]
    )
    _, numbered = protos(LanceSchema.from_pyarrow(padded))
    schema = LanceSchema._from_protos(metadata, fields[0], numbered[5])
    kept = [fragment.metadata for fragment in base.get_fragments()]
    with pytest.raises(OSError, match="remaps existing field"):
        commit(base, Op.Merge(kept, schema, preserves_nullability=True))


def test_numbers_of_dropped_columns_are_not_given_out_again(base: LanceDataset) -> None:
    metadata, fields = protos(base.lance_schema)
    dropped = commit(base, Op.Project(LanceSchema._from_protos(metadata, fields[0])))
    assert dropped.schema.names == ["id"]
    assert dropped.max_field_id == 1


def test_a_schema_numbered_afresh_points_at_the_wrong_columns(base: LanceDataset) -> None:
    metadata, fields = protos(base.lance_schema)
    dropped = commit(base, Op.Project(LanceSchema._from_protos(metadata, fields[1])))
    assert [f.id() for f in dropped.lance_schema.fields()] == [1]
    assert [f.id() for f in LanceSchema.from_pyarrow(dropped.schema).fields()] == [0]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.uint32(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.date64(),
        pa.list_(pa.field("item", pa.string(), nullable=True)),
        pa.list_(pa.field("item", pa.date64(), nullable=True)),
        pa.list_(pa.field("item", pa.float32(), nullable=True), 3),
    ],
)
def test_every_property_type_comes_back_as_it_went_in(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("p", kind)])
    values: dict[bool, list[Any]] = {
        True: [None, [], [None]] if not pa.types.is_fixed_size_list(kind) else [None, [1, 2, 3]],
        False: [None, *pa.array([1, 0]).cast(pa.int64()).cast(_plain(kind)).to_pylist()],
    }
    cells = values[pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)]
    ids = [f"{i}" for i in range(len(cells))]
    table = pa.table([pa.array(ids), pa.array(cells, kind)], schema=schema)
    stored = append(create(tmp_path / "t", schema), table)
    assert stored.schema == schema
    assert stored.to_table().equals(table)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_date(kind) or pa.types.is_nested(kind) else kind
