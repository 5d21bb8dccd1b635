"""What a Lance commit refuses, what it rebases, and what it proves afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata, write_fragments

from tests.support.lance_bare import (
    Op,
    append,
    commit,
    compaction,
    create,
    fence,
    fragments,
    ids,
    index,
    replace_rows,
    rows,
    table_of,
    upsert,
)
from tests.support.store_roots import race_threads


@pytest.fixture
def base(tmp_path: Path) -> LanceDataset:
    """Two fragments: a, b and c."""
    return table_of(tmp_path / "t", rows("a", "b"), rows("c"))


# ---- creating


def test_of_racing_creates_without_retries_one_wins(tmp_path: Path) -> None:
    def make(barrier: Any, path: Path) -> str:
        barrier.wait()
        try:
            return f"created {create(path).version}"
        except OSError as error:
            return str(error)

    for number in range(10):
        said = race_threads(make, [(tmp_path / f"t{number}",)] * 4)
        assert sum(text == "created 1" for text in said) == 1
        lost = [text for text in said if text != "created 1"]
        known = ("Dataset already exists", "_versions/0.manifest was not found")
        assert all(any(k in text for k in known) for text in lost), lost


def test_a_create_with_retries_overwrites_what_is_there(tmp_path: Path) -> None:
    table_of(tmp_path / "t", rows("a"))
    again = LanceDataset.commit(str(tmp_path / "t"), Op.Overwrite(rows().schema, []))
    assert (again.version, again.count_rows()) == (3, 0)


def test_a_created_table_has_the_settings_we_ask_for(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t")
    assert (dataset.version, dataset.count_rows()) == (1, 0)
    assert dataset.has_stable_row_ids
    assert dataset.data_storage_version == "2.2"
    assert dataset.config() == {}


# ---- no exact-base commit by itself


def test_without_retries_a_stale_append_still_lands(base: LanceDataset) -> None:
    stale = write_fragments(rows("x"), base, return_transaction=True)
    append(base, rows("y"))
    landed = LanceDataset.commit(base, stale, max_retries=0)
    assert landed.version == base.version + 2
    assert ids(landed) == ["a", "b", "c", "x", "y"]


def test_only_an_overwrite_is_strict_by_itself(base: LanceDataset) -> None:
    stale = Transaction(base.version, Op.Overwrite(base.lance_schema, []))
    append(base, rows("y"))
    with pytest.raises(CommitConflictError) as caught:
        LanceDataset.commit(base, stale, max_retries=0)
    assert caught.value.retryable


def test_two_staged_upserts_of_one_new_key_leave_it_twice(base: LanceDataset) -> None:
    one, two = upsert(base, rows("new", n=1)), upsert(base, rows("new", n=2))
    LanceDataset.commit(base, one, max_retries=0)
    assert ids(LanceDataset.commit(base, two, max_retries=0)).count("new") == 2


def test_two_staged_upserts_of_one_row_conflict(base: LanceDataset) -> None:
    one, two = upsert(base, rows("a", n=1)), upsert(base, rows("a", n=2))
    LanceDataset.commit(base, one, max_retries=0)
    with pytest.raises(CommitConflictError) as caught:
        LanceDataset.commit(base, two, max_retries=0)
    assert caught.value.retryable


def test_two_hand_made_upserts_of_one_row_conflict(base: LanceDataset) -> None:
    for offsets in ([0], [0, 1]):
        head = base.checkout_version(base.latest_version)
        first = fragments(head)[0]
        row_ids = head.scanner(columns=[], with_row_id=True).to_table()["_rowid"].to_pylist()
        ours = rows(*ids(head)[: len(offsets)], n=1)
        one = replace_rows(head, first, offsets, ours, row_ids[: len(offsets)])
        two = replace_rows(head, first, offsets, ours, row_ids[: len(offsets)])
        LanceDataset.commit(head, one, max_retries=0)
        with pytest.raises(CommitConflictError):
            LanceDataset.commit(head, two, max_retries=0)


def test_an_append_over_an_overwrite_is_hopeless(base: LanceDataset) -> None:
    stale = write_fragments(rows("x"), base, return_transaction=True)
    commit(base, Op.Overwrite(base.lance_schema, []))
    with pytest.raises(CommitConflictError) as caught:
        LanceDataset.commit(base, stale, max_retries=0)
    assert not caught.value.retryable


def test_a_restore_lands_over_anything(base: LanceDataset) -> None:
    append(base, rows("lost"))
    restored = LanceDataset.commit(
        base, Transaction(base.version, Op.Restore(base.version)), max_retries=0
    )
    assert ids(restored) == ["a", "b", "c"]
    assert restored.version == base.version + 2


def without_row(base: LanceDataset, offset: int) -> FragmentMetadata:
    """The first fragment with one row marked as deleted."""
    first = base.get_fragment(0)
    assert first is not None
    rest = first.delete_rows([offset])
    assert rest is not None
    return rest


@pytest.mark.parametrize("kind", ["append", "upsert", "delete", "index", "compaction", "restore"])
def test_the_fence_lets_only_the_next_version_through(base: LanceDataset, kind: str) -> None:
    operations: dict[str, Callable[[], Any]] = {
        "append": lambda: Op.Append(write_fragments(rows("x"), base)),
        "upsert": lambda: upsert(base, rows("a")).operation,
        "delete": lambda: Op.Delete([without_row(base, 0)], [], "by hand"),
        "index": lambda: Op.CreateIndex(
            [base.create_index_uncommitted("n", "BTREE", name="n", fragment_ids=[0, 1])], []
        ),
        "compaction": lambda: compaction(base),
        "restore": lambda: Op.Restore(2),
    }
    stale = Transaction(base.version, operations[kind]())
    append(base, rows("y"))
    with pytest.raises(OSError, match="Error from commit handler: RuntimeError: not 4"):
        LanceDataset.commit(base, stale, max_retries=0, commit_lock=fence(base.version + 1))
    assert base.latest_version == base.version + 1
    head = base.checkout_version(base.latest_version)
    fresh = Transaction(head.version, Op.Restore(2))
    landed = LanceDataset.commit(head, fresh, max_retries=0, commit_lock=fence(head.version + 1))
    assert landed.version == head.version + 1


def test_the_fence_works_on_a_branch(base: LanceDataset) -> None:
    forked = base.create_branch("side", (None, base.version))
    staged = write_fragments(rows("x"), forked, return_transaction=True)
    append(forked, rows("y"))
    with pytest.raises(OSError, match="Error from commit handler"):
        LanceDataset.commit(forked, staged, max_retries=0, commit_lock=fence(forked.version + 1))
    append(base, rows("z"))
    assert ids(base.checkout_version(("side", None))) == ["a", "b", "c", "y"]


# ---- proof and place


def test_a_commit_can_be_proved_by_its_transaction(base: LanceDataset) -> None:
    staged = write_fragments(rows("x"), base, return_transaction=True)
    staged.transaction_properties = {"operation": "01J"}
    landed = LanceDataset.commit(base, staged, max_retries=0)
    found = landed.read_transaction(landed.version)
    assert found is not None
    assert (found.uuid, found.transaction_properties) == (staged.uuid, {"operation": "01J"})
    assert type(found.operation).__name__ == "Append"


def test_transactions_of_maintenance_can_be_read_one_by_one(base: LanceDataset) -> None:
    indexed = index(base)
    landed = commit(indexed, compaction(indexed))
    names = [
        type(t.operation).__name__
        for t in (landed.read_transaction(v) for v in range(1, landed.version + 1))
        if t is not None
    ]
    assert names == ["Overwrite", "Append", "Append", "CreateIndex", "Rewrite"]


def test_counting_rows_needs_no_scan(base: LanceDataset) -> None:
    deleted = commit(base, Op.Delete([without_row(base, 1)], [], "by hand"))
    deleted.io_stats_incremental()
    assert deleted.count_rows() == 2
    assert deleted.io_stats_incremental().read_iops == 0


def test_a_handle_sees_later_versions_without_moving(base: LanceDataset) -> None:
    append(base, rows("x"))
    assert (base.version, base.latest_version) == (3, 4)
    assert ids(base) == ["a", "b", "c"]


@pytest.mark.parametrize("text", ['{"version":1}', '{"version":99}', "{", None])
def test_a_wrong_hint_of_the_newest_version_misleads_nobody(
    base: LanceDataset, text: str | None
) -> None:
    hint = Path(base.uri, "_versions", "latest_version_hint.json")
    hint.unlink()
    if text is not None:
        hint.write_text(text)
    assert base.latest_version == LanceDataset(base.uri).version == base.version
    assert append(base, rows("x")).version == base.version + 1


def test_a_commit_triggers_auto_cleanup_only_where_it_is_configured(tmp_path: Path) -> None:
    def grown(**config: str) -> list[int]:
        dataset = table_of(tmp_path / f"t{len(config)}", rows("a"))
        if config:
            keys: dict[str, str | None] = {f"lance.auto_cleanup.{k}": v for k, v in config.items()}
            dataset = commit(dataset, Op.UpdateConfig(config_updates=Op.UpdateMap(keys)))
        for name in "bcde":
            dataset = append(dataset, rows(name))
        return [ref["version"] for ref in dataset.version_refs()]

    assert grown() == [1, 2, 3, 4, 5, 6]
    assert len(grown(interval="1", older_than="0s")) < 6


def test_auto_cleanup_keys_can_be_stripped_without_losing_a_version(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a"), rows("b"))
    keys: dict[str, str | None] = {
        "lance.auto_cleanup.interval": "1",
        "lance.auto_cleanup.older_than": "0s",
    }
    dataset = commit(dataset, Op.UpdateConfig(config_updates=Op.UpdateMap(keys)))
    before = {ref["version"] for ref in dataset.version_refs()}
    dataset = commit(dataset, Op.UpdateConfig(config_updates=Op.UpdateMap(dict.fromkeys(keys))))
    dataset = append(dataset, rows("c"))
    assert dataset.config() == {}
    assert before <= {ref["version"] for ref in dataset.version_refs()}


def test_staged_fragments_travel_as_text(base: LanceDataset) -> None:
    import json

    from lance import FragmentMetadata

    written = write_fragments(rows("x"), base)
    text = json.dumps(written[0].to_json())
    landed = commit(base, Op.Append([FragmentMetadata.from_json(text)]))
    assert ids(landed) == ["a", "b", "c", "x"]


def test_an_append_may_lack_a_nullable_column_and_nothing_else(base: LanceDataset) -> None:
    lacking = append(base, pa.table({"id": ["x"]}))
    assert lacking.to_table(filter="id = 'x'").to_pylist() == [{"id": "x", "n": None}]
    for wrong in (pa.table({"id": ["x"], "zip": [1]}), pa.table({"id": [1]})):
        with pytest.raises(OSError, match="Append with different schema"):
            write_fragments(wrong, base, return_transaction=True)
