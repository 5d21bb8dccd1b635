"""Rows by key: what merges compare, what they forget, and what updated rows keep."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraphdb.storage.lance.unofficial.manifest_files import read_max_fragment
from tests.support.lance_bare import (
    KEYED,
    SCHEMA,
    Op,
    append,
    commit,
    compaction,
    covered,
    create,
    fragments,
    ids,
    index,
    keyed_table,
    replace_rows,
    rows,
    swap,
    table_of,
    upsert,
)


def two(dataset: LanceDataset) -> tuple[LanceDataset, LanceDataset]:
    """Two handles at the same version."""
    return (
        LanceDataset(dataset.uri, version=dataset.version),
        LanceDataset(dataset.uri, version=dataset.version),
    )


# ---- compare-and-swap


@pytest.mark.parametrize("key", ["new", "head"])
def test_inline_merges_of_one_key_have_one_winner(tmp_path: Path, key: str) -> None:
    one, other = two(keyed_table(tmp_path / "t"))
    swap(one, rows(key, n=1))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        swap(other, rows(key, n=2))
    found = LanceDataset(one.uri).to_table(filter=f"id = '{key}'").to_pylist()
    assert found == [{"id": key, "n": 1}]


def test_inline_merges_of_other_rows_both_land(tmp_path: Path) -> None:
    one, other = two(keyed_table(tmp_path / "t"))
    swap(one, rows("x"))
    swap(other, rows("y"))
    assert (one.version, other.version) == (2, 3)
    assert ids(other) == ["a", "head", "x", "y"]


def test_without_the_key_mark_a_key_is_inserted_twice(tmp_path: Path) -> None:
    one, other = two(keyed_table(tmp_path / "t", SCHEMA))
    swap(one, rows("new"))
    swap(other, rows("new"))
    assert ids(other).count("new") == 2


def test_a_staged_merge_forgets_its_keys_even_with_the_mark(tmp_path: Path) -> None:
    one, other = two(keyed_table(tmp_path / "t"))
    staged = [upsert(handle, rows("new").cast(KEYED)) for handle in (one, other)]
    LanceDataset.commit(one, staged[0], max_retries=0)
    landed = LanceDataset.commit(other, staged[1], max_retries=0)
    assert ids(landed).count("new") == 2


def test_the_key_mark_is_kept_by_reads_and_can_be_set_later(tmp_path: Path) -> None:
    marked = keyed_table(tmp_path / "t")
    mark = {b"lance-schema:unenforced-primary-key": b"true"}
    assert marked.schema.field("id").metadata == mark
    plain = keyed_table(tmp_path / "plain", SCHEMA)
    update = {0: Op.UpdateMap({"lance-schema:unenforced-primary-key": "true"})}
    later = commit(plain, Op.UpdateConfig(field_metadata_updates=update))
    assert later.schema.field("id").metadata == mark
    one, other = two(later)
    swap(one, rows("new"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        swap(other, rows("new"))


def test_two_schema_metadata_updates_conflict(tmp_path: Path) -> None:
    dataset = keyed_table(tmp_path / "t")
    updates = [
        Op.UpdateConfig(schema_metadata_updates=Op.UpdateMap({"stamp": value})) for value in "12"
    ]
    commit(dataset, updates[0])
    with pytest.raises(CommitConflictError, match="Incompatible transaction") as caught:
        commit(dataset, updates[1])
    assert not caught.value.retryable


def test_a_fold_and_a_swap_contend_both_ways(tmp_path: Path) -> None:
    dataset = keyed_table(tmp_path / "t")
    for number in range(3):
        swap(dataset, rows("head", f"c{number}"))
    early, late = two(dataset)
    folding = compaction(dataset)
    swap(early, rows("head", n=1))
    with pytest.raises(CommitConflictError):
        commit(dataset, folding)
    fold = LanceDataset(dataset.uri)
    early, late = two(fold)
    commit(fold, compaction(fold))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        swap(late, rows("head", n=2))


# ---- merges


def test_a_source_with_one_existing_key_twice_is_refused_and_a_new_one_is_not(
    tmp_path: Path,
) -> None:
    dataset = table_of(tmp_path / "t", rows("a"))
    with pytest.raises(Exception, match="Ambiguous merge inserts are prohibited"):
        upsert(dataset, rows("a", "a"))
    doubled = LanceDataset.commit(dataset, upsert(dataset, rows("b", "b")), max_retries=0)
    assert ids(doubled) == ["a", "b", "b"]


def test_a_large_keyed_merge_over_an_index_exhausts_its_pool(tmp_path: Path) -> None:
    schema = pa.schema([SCHEMA.field("id"), pa.field("pad", pa.string())])

    def wide(count: int) -> pa.Table:
        names = [f"k{number:07d}" for number in range(count)]
        return pa.table([names, ["x" * 500] * count], schema=schema)

    dataset = index(append(create(tmp_path / "t", schema), wide(1_000)))
    source = wide(100_000)
    with pytest.raises(OSError, match="Resources exhausted"):
        upsert(dataset, source)
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    staged, _ = builder.use_index(False).execute_uncommitted(source)
    assert LanceDataset.commit(dataset, staged, max_retries=0).count_rows() == 100_000


# ---- updated by hand


def facts(dataset: LanceDataset) -> dict[str, tuple[int, int, int, int]]:
    columns = ["id", "n", "_row_created_at_version", "_row_last_updated_at_version"]
    found = dataset.scanner(columns=columns, with_row_id=True).to_table()
    return {r["id"]: (r["_rowid"], r["n"], r[columns[2]], r[columns[3]]) for r in found.to_pylist()}


def test_a_row_rewritten_under_its_row_id_keeps_identity_and_birth(tmp_path: Path) -> None:
    dataset = index(table_of(tmp_path / "t", rows("a", "b", "c")))
    staged = replace_rows(dataset, 0, [0, 2], rows("a", "c", "new", n=7), [0, 2])
    landed = LanceDataset.commit(dataset, staged, max_retries=0)
    assert facts(landed) == {
        "b": (1, 0, 2, 2),
        "a": (0, 7, 2, 4),
        "c": (2, 7, 2, 4),
        "new": (3, 7, 4, 4),
    }
    assert append(landed, rows("d")).count_rows() == 5
    assert len(set(facts(append(landed, rows("e"))))) == 6


def relocated(dataset: LanceDataset, table: pa.Table, row_ids: list[int]) -> Any:
    """Rows written under row ids that are there already."""
    [fragment] = write_fragments(table, dataset)
    fragment.row_id_meta = RowIdSequence(row_ids).to_inline_metadata()
    return fragment


def test_only_an_update_keeps_the_birth_of_rows_that_are_written_elsewhere(tmp_path: Path) -> None:
    """Its commit looks for them in every fragment whose row ids lie around theirs; no other operation does as much.

    Fragments that are there already are taken as they are described: see `test_lance_takeover`.
    """
    dataset = table_of(tmp_path / "t", rows("a", "b", "c"))
    emptied = commit(dataset, Op.Delete([], [0], "by hand"))
    appended = commit(emptied, Op.Append([relocated(dataset, rows("a", n=7), [0])]))
    assert facts(appended) == {"a": (0, 7, 4, 4)}
    kept = [part.metadata for part in appended.get_fragments()]
    moved = relocated(appended, rows("b", n=7), [1])
    moved.id = 9
    with pytest.raises(OSError, match="must not carry row ids"):
        commit(appended, Op.Merge([*kept, moved], appended.lance_schema))


def test_indices_answer_right_after_a_rewrite_by_hand(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a", "b", "c", n=1))
    dataset = index(index(dataset), "n")
    staged = replace_rows(dataset, 0, [0], rows("a", n=2), [0])
    landed = LanceDataset.commit(dataset, staged, max_retries=0)
    assert covered(landed) == {"id_BTREE": [0], "n_BTREE": [0]}
    for condition, expected in {"n = 1": ["b", "c"], "n = 2": ["a"], "id = 'a'": ["a"]}.items():
        assert landed.to_table(columns=["id"], filter=condition)["id"].to_pylist() == expected
        assert "ScalarIndexQuery" in landed.scanner(filter=condition).explain_plan(True)


def test_an_index_built_over_rewritten_rows_survives_the_next_rewrite(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a", "b", n=1))
    staged = replace_rows(dataset, 0, [0], rows("a", n=2), [0])
    dataset = index(LanceDataset.commit(dataset, staged, max_retries=0), "n")
    again = replace_rows(dataset, 1, [0], rows("a", n=3), [0])
    landed = LanceDataset.commit(dataset, again, max_retries=0)
    assert landed.to_table(columns=["id"], filter="n = 2").num_rows == 0
    assert landed.to_table(columns=["id"], filter="n = 3")["id"].to_pylist() == ["a"]


def test_an_emptied_fragment_is_removed_by_name(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a"), rows("b"))
    first = dataset.get_fragment(0)
    assert first is not None
    assert first.delete_rows([0]) is None
    landed = commit(dataset, Op.Delete([], [0], "by hand"))
    assert (ids(landed), fragments(landed)) == (["b"], [1])


def test_a_predicate_delete_also_names_fragments_it_did_not_change(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a", "b"), rows("c"))
    second = dataset.get_fragment(1)
    assert second is not None
    rest = second.delete("id = 'a'")
    assert rest is not None
    assert rest.num_deletions == 0


def test_row_ids_in_order_take_little_room(tmp_path: Path) -> None:
    count = 20_000
    dataset = append(create(tmp_path / "t"), rows(*(f"k{i:06d}" for i in range(count))))
    chosen = np.random.default_rng(1).permutation(count)[: count // 2]
    sizes = []
    for row_ids in (chosen, np.sort(chosen)):
        copies = rows(*(f"k{i:06d}" for i in row_ids))
        staged = replace_rows(dataset, 0, row_ids.tolist(), copies, row_ids.tolist())
        LanceDataset.commit(dataset, staged, max_retries=0)
        newest = min((tmp_path / "t" / "_versions").glob("*.manifest"))
        sizes.append(newest.stat().st_size)
        restored = Transaction(dataset.version + 1, Op.Restore(dataset.version))
        LanceDataset.commit(LanceDataset(dataset.uri), restored, max_retries=0)
        dataset = LanceDataset(dataset.uri)
    assert sizes[1] * 3 < sizes[0]


# ---- compaction


def test_a_rewrite_keeps_rows_ids_and_birth_and_drops_coverage(tmp_path: Path) -> None:
    dataset = index(table_of(tmp_path / "t", rows("a", "b"), rows("c"), rows("d")))
    before = facts(dataset)
    landed = commit(dataset, compaction(dataset))
    assert facts(landed) == before
    assert fragments(landed) == [3]
    assert covered(landed) == {"id_BTREE": []}
    assert landed.to_table(filter="id = 'c'").num_rows == 1


def test_an_old_segment_claimed_for_new_fragments_answers_wrongly(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a"), rows("b"))
    segment = dataset.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[0, 1])
    dataset = commit(dataset, Op.CreateIndex([segment], []))
    dataset = commit(dataset, compaction(dataset))
    dataset = append(dataset, rows("late"))
    claimed = replace(segment, fragment_ids=set(fragments(dataset)))  # type: ignore[arg-type]
    wrong = commit(dataset, Op.CreateIndex([claimed], [segment]))
    assert wrong.to_table(filter="id = 'late'").num_rows == 0


def test_new_fragments_may_have_the_next_free_ids(tmp_path: Path) -> None:
    """Ids count on from the greatest that any fragment had, also one that is gone."""
    dataset = table_of(tmp_path / "t", rows("a"), rows("b"), rows("c"))
    dataset = commit(dataset, Op.Delete([], [2], "id = 'c'"))
    assert read_max_fragment(dataset) == 2
    (group,) = compaction(dataset).groups
    named = [replace(one, id=3) for one in group.new_fragments]
    landed = commit(dataset, Op.Rewrite([Op.RewriteGroup(group.old_fragments, named)], []))
    assert (fragments(landed), read_max_fragment(landed)) == ([3], 3)
    assert fragments(append(landed, rows("d"))) == [3, 4]


def test_fragments_of_unlike_coverage_are_not_rewritten_together(tmp_path: Path) -> None:
    dataset = index(table_of(tmp_path / "t", rows("a"), rows("b")))
    dataset = append(append(dataset, rows("c")), rows("d"))
    landed = commit(dataset, compaction(dataset))
    assert len(fragments(landed)) == 2


# ---- difference


def test_version_columns_tell_what_changed_along_one_line(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a", "b", "c"))
    fork = dataset.version
    landed = LanceDataset.commit(dataset, upsert(dataset, rows("b", "x", n=5)), max_retries=0)
    landed = commit(landed, compaction(landed))
    changed: Any = landed.to_table(columns=["id"], filter=f"_row_last_updated_at_version > {fork}")
    assert sorted(changed["id"].to_pylist()) == ["b", "x"]
