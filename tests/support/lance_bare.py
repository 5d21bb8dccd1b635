"""Bare Lance, without our code: how the substrate tests make and change datasets."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import RowIdSequence, write_fragments
from lance.optimize import Compaction

Op = LanceOperation
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])

KEYED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False).with_metadata(
            {"lance-schema:unenforced-primary-key": "true"}
        ),
        pa.field("n", pa.int64()),
    ]
)


def rows(*ids: str, n: int = 0) -> pa.Table:
    """Rows of the bare table."""
    return pa.table({"id": list(ids), "n": pa.array([n] * len(ids), pa.int64())}, schema=SCHEMA)


def create(uri: str | Path, schema: pa.Schema = SCHEMA) -> LanceDataset:
    """An empty table at version 1 with stable row ids."""
    return LanceDataset.commit(
        str(uri), Op.Overwrite(schema, []), enable_stable_row_ids=True, max_retries=0
    )


def append(dataset: LanceDataset, table: pa.Table) -> LanceDataset:
    """Commit an append."""
    staged = write_fragments(table, dataset, return_transaction=True)
    return LanceDataset.commit(dataset, staged, max_retries=0)


def table_of(uri: str | Path, *parts: pa.Table) -> LanceDataset:
    """A table with one fragment per part."""
    dataset = create(uri)
    for part in parts:
        dataset = append(dataset, part)
    return dataset


def commit(dataset: LanceDataset, operation: Any, **options: Any) -> LanceDataset:
    """Commit an operation on the handle's own version."""
    change = Transaction(dataset.version, operation)
    return LanceDataset.commit(dataset, change, max_retries=0, **options)


def upsert(dataset: LanceDataset, table: pa.Table) -> Transaction:
    """Stage an upsert the library's way."""
    staged, _ = (
        dataset.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
        .execute_uncommitted(table)
    )
    return staged


def swap(dataset: LanceDataset, table: pa.Table, key: str = "id") -> None:
    """Upsert inline, without retries; the handle moves along."""
    (
        dataset.merge_insert(key)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
        .execute(table)
    )


def replace_rows(
    dataset: LanceDataset, fragment: int, offsets: list[int], table: pa.Table, row_ids: list[int]
) -> Transaction:
    """Stage an upsert by hand: rows deleted by position, their new copies under the old row ids."""
    kept = dataset.get_fragment(fragment)
    assert kept is not None
    rest = kept.delete_rows(offsets)
    fresh = write_fragments(table, dataset)
    if row_ids:
        fresh[0].row_id_meta = RowIdSequence(row_ids).to_inline_metadata()
    operation = Op.Update(
        removed_fragment_ids=[] if rest else [fragment],
        updated_fragments=[rest] if rest else [],
        new_fragments=fresh,
        fields_for_preserving_frag_bitmap=[f.id() for f in dataset.lance_schema.fields()],
        update_mode="rewrite_rows",
    )
    return Transaction(dataset.version, operation)


def fragments(dataset: LanceDataset) -> list[int]:
    """The ids of all fragments."""
    return sorted(dataset.fragment_ids())


def index(dataset: LanceDataset, column: str = "id", kind: str = "BTREE") -> LanceDataset:
    """Build and commit an index over all fragments."""
    segment = dataset.create_index_uncommitted(
        column, kind, name=f"{column}_{kind}", fragment_ids=fragments(dataset)
    )
    return commit(dataset, Op.CreateIndex([segment], []))


def covered(dataset: LanceDataset) -> dict[str, list[int]]:
    """Which fragments each index claims to cover."""
    return {
        described.name: sorted(f for s in described.segments for f in s.fragment_ids)
        for described in dataset.describe_indices()
    }


def compaction(dataset: LanceDataset) -> Any:
    """Stage a compaction of everything."""
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000_000})
    done: list[Any] = [task.execute(dataset) for task in plan.tasks]
    groups = [Op.RewriteGroup(r.original_fragments, r.new_fragments) for r in done]
    return Op.Rewrite(groups, [])


def ids(dataset: LanceDataset) -> list[str]:
    """All ids, sorted."""
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def fence(expected: int) -> Callable[[int], AbstractContextManager[None]]:
    """A commit hook that lets only one version through."""

    @contextmanager
    def lock(version: int) -> Iterator[None]:
        if version != expected:
            raise RuntimeError(f"not {expected}")
        yield

    return lock


def keyed_table(path: Path, schema: pa.Schema = KEYED) -> LanceDataset:
    """A table created with rows and a marked key column."""
    written = write_fragments(
        rows("head", "a").cast(schema), str(path), mode="create", data_storage_version="2.2"
    )
    return LanceDataset.commit(
        str(path), Op.Overwrite(schema, written), enable_stable_row_ids=True, max_retries=0
    )
