"""A Restore that Lance makes in a copy of a table which holds two manifests alone: its file is a version of the table."""

import shutil
from pathlib import Path

import lance
import pytest
from lance import LanceDataset
from lance.dataset import Transaction

from tests.support.lance_bare import Op, append, commit, covered, ids, index, rows, table_of


def manifest(home: str | Path, version: int) -> Path:
    return Path(home, "_versions", f"{2**64 - 1 - version:020d}.manifest")


def restore_in_copy(head: LanceDataset, version: int, copy: Path) -> LanceDataset:
    """Make the Restore in a directory that has no other file, and put its manifest after HEAD."""
    copy.joinpath("_versions").mkdir(parents=True)
    for known in {version, head.version}:
        shutil.copy(manifest(head.uri, known), manifest(copy, known))
    change = Transaction(
        head.version, Op.Restore(version), transaction_properties={"operation": "1"}
    )
    copied = lance.dataset(str(copy), version=head.version)
    made = LanceDataset.commit(copied, change, max_retries=0)
    assert made.version == head.version + 1
    assert not manifest(head.uri, made.version).exists()
    shutil.copy(manifest(copy, made.version), manifest(head.uri, made.version))
    return lance.dataset(head.uri)


@pytest.fixture(params=["main", "a branch"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> LanceDataset:
    """A table with an index, of which a row was deleted, on main or on a branch."""
    table = index(table_of(tmp_path / "t", rows("a", "b", "c")))
    if request.param == "a branch":
        table = append(table.create_branch("side", (None, table.version)), rows("d"))
    fragment = table.get_fragment(0)
    assert fragment is not None
    rest = fragment.delete_rows([1])
    assert rest is not None
    return commit(table, Op.Delete([rest], [], "id = 'b'"))


def test_it_reads_as_the_earlier_version_did(earlier: LanceDataset, tmp_path: Path) -> None:
    head = append(append(earlier, rows("x")), rows("y"))
    restored = restore_in_copy(head, earlier.version, tmp_path / "copy")
    assert restored.version == head.version + 1
    assert restored.to_table(with_row_id=True).equals(earlier.to_table(with_row_id=True))
    assert covered(restored) == covered(earlier)
    assert "ScalarIndexQuery" in restored.scanner(filter="id = 'a'").explain_plan(True)
    assert restored.to_table(filter="id = 'b'").num_rows == 0
    assert restored.count_rows() == earlier.count_rows()


def test_it_tells_what_it_restored_and_takes_appends(earlier: LanceDataset, tmp_path: Path) -> None:
    head = append(append(earlier, rows("x")), rows("y"))
    restored = restore_in_copy(head, earlier.version, tmp_path / "copy")
    change = restored.read_transaction(restored.version)
    assert change is not None
    assert isinstance(change.operation, Op.Restore)
    assert (change.operation.version, change.read_version) == (earlier.version, head.version)
    assert change.transaction_properties == {"operation": "1"}
    grown = append(restored, rows("n"))
    assert ids(grown) == sorted([*ids(earlier), "n"])
    row_ids = grown.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    # No row gets the id of one that was appended before the Restore.
    taken = head.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    assert len(set(row_ids)) == len(row_ids)
    assert max(row_ids) > max(taken)


def test_a_restore_of_head_itself_needs_one_manifest(earlier: LanceDataset, tmp_path: Path) -> None:
    restored = restore_in_copy(earlier, earlier.version, tmp_path / "copy")
    assert restored.version == earlier.version + 1
    assert ids(append(restored, rows("n"))) == sorted([*ids(earlier), "n"])
