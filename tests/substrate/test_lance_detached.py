"""Detached versions, which we do not use: enough to know that the reasons still stand."""

from pathlib import Path

from lance import LanceDataset
from lance.dataset import Transaction
from lance.fragment import write_fragments

from tests.support.lance_bare import Op, ids, rows, table_of


def test_a_detached_commit_moves_no_head_and_can_be_reopened(tmp_path: Path) -> None:
    base = table_of(tmp_path / "t", rows("a"))
    change = Transaction(base.version, Op.Append(write_fragments(rows("b"), base)))
    aside = LanceDataset.commit(base, change, detached=True, max_retries=1)
    assert base.latest_version == base.version
    assert aside.version > 2**63
    assert ids(LanceDataset(base.uri, version=aside.version)) == ["a", "b"]


def test_a_detached_commit_checks_no_conflict(tmp_path: Path) -> None:
    base = table_of(tmp_path / "t", rows("a", "b"))
    first = base.get_fragment(0)
    assert first is not None
    rest = first.delete_rows([0])
    assert rest is not None
    deleted = Transaction(base.version, Op.Delete([rest], [], "by hand"))
    LanceDataset.commit(base, deleted, max_retries=0)
    stale = Transaction(base.version, Op.Append(write_fragments(rows("c"), base)))
    aside = LanceDataset.commit(base, stale, detached=True, max_retries=1)
    assert ids(aside) == ["a", "b", "c"]
