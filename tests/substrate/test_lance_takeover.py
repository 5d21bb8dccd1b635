"""Fragments described by hand: rows that take over row ids and births, files and deletion files of another line."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lance import LanceDataset
from lance.fragment import DeletionFile, FragmentMetadata, RowIdSequence, write_fragments

from omnigraphdb.storage.lance.unofficial.sequences import versions_of
from tests.support.lance_bare import Op, append, commit, covered, ids, index, rows, table_of

FACTS = ["id", "n", "_row_created_at_version", "_row_last_updated_at_version"]


def facts(dataset: LanceDataset) -> dict[str, tuple[int, int, int, int]]:
    found = dataset.scanner(columns=FACTS, with_row_id=True).to_table().to_pylist()
    return {r["id"]: (r["_rowid"], r["n"], r[FACTS[2]], r[FACTS[3]]) for r in found}


def described(
    fragment: FragmentMetadata, row_ids: list[int], births: list[int], written: list[int]
) -> FragmentMetadata:
    """A fragment that is there, with another account of its rows."""
    fragment.row_id_meta = RowIdSequence(pa.array(row_ids, pa.uint64())).to_inline_metadata()
    fragment.created_at_version_meta = versions_of(np.array(births, np.uint64))
    fragment.last_updated_at_version_meta = versions_of(np.array(written, np.uint64))
    return fragment


def without(dataset: LanceDataset, number: int, offsets: list[int]) -> FragmentMetadata:
    fragment = dataset.get_fragment(number)
    assert fragment is not None
    rest = fragment.delete_rows(offsets)
    assert rest is not None
    return rest


def test_an_update_takes_a_fragment_that_is_there_as_it_is_described(tmp_path: Path) -> None:
    """Both rows are there in between; afterwards the later one is as old as the one whose place it took."""
    dataset = index(table_of(tmp_path / "t", rows("a", "b"), rows("c")))
    assert dataset.version == 4
    brought = append(dataset, rows("a", "new", n=7))
    assert sorted(ids(brought)) == ["a", "a", "b", "c", "new"]
    landed = brought.get_fragments()[-1].metadata
    successors = described(landed, [0, 4], [2, 5], [6, 5])
    operation = Op.Update(
        updated_fragments=[without(brought, 0, [0]), successors], update_mode="rewrite_rows"
    )
    taken = commit(brought, operation)
    taken.validate()
    expected = {"a": (0, 7, 2, 6), "b": (1, 0, 2, 2), "c": (2, 0, 3, 3), "new": (4, 7, 5, 5)}
    for seen in (taken, LanceDataset(taken.uri)):
        assert facts(seen) == expected
        assert seen._take_rows([0, 4], columns=["n"])["n"].to_pylist() == [7, 7]
        assert seen.to_table(filter="id = 'a'")["n"].to_pylist() == [7]
    assert covered(taken) == {"id_BTREE": [0, 1]}
    again = append(taken, rows("later"))
    again.validate()
    assert len({row_id for row_id, *_ in facts(again).values()}) == 5


def test_versions_are_spelled_as_lance_spells_them(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a", "b"), rows("c"), rows("d"))
    [fresh] = write_fragments(rows("a", "b", "c", "d", n=1), dataset)
    fresh.row_id_meta = RowIdSequence([0, 1, 2, 3]).to_inline_metadata()
    operation = Op.Update(
        removed_fragment_ids=[0, 1, 2], new_fragments=[fresh], update_mode="rewrite_rows"
    )
    metadata: Any = commit(dataset, operation).get_fragments()[0].metadata
    ours = [versions_of(np.array(versions, np.uint64)) for versions in ([2, 2, 3, 4], [5] * 4)]
    assert metadata.created_at_version_meta.json() == ours[0].json()
    assert metadata.last_updated_at_version_meta.json() == ours[1].json()


def test_files_of_a_branch_may_be_copied_and_appended(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a"))
    branch = append(dataset.create_branch("side"), rows("b", "c", n=3))
    fragment = branch.get_fragments()[-1].metadata
    [file] = fragment.files
    shutil.copy(
        tmp_path / "t" / "tree" / "side" / "data" / file.path, tmp_path / "t" / "data" / "own.lance"
    )
    told = {**fragment.to_json(), "id": 0}
    told |= dict.fromkeys(
        ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")
    )
    told["files"] = [{**told["files"][0], "path": "own.lance"}]
    copied = commit(dataset, Op.Append([FragmentMetadata.from_json(json.dumps(told))]))
    dataset.branches.delete("side")
    copied.validate()
    assert facts(copied) == {"a": (0, 0, 2, 2), "b": (1, 3, 3, 3), "c": (2, 3, 3, 3)}


def test_a_deletion_file_may_serve_two_lines_under_two_names(tmp_path: Path) -> None:
    dataset = table_of(tmp_path / "t", rows("a", "b", "c"))
    branch = dataset.create_branch("side")
    rest = without(branch, 0, [0, 2])
    branch = commit(branch, Op.Delete([rest], [], "by hand"))
    file = branch.get_fragments()[0].metadata.deletion_file
    assert file is not None
    name = file.path(0)
    os.makedirs(tmp_path / "t" / "_deletions", exist_ok=True)
    os.link(tmp_path / "t" / "tree" / "side" / name, tmp_path / "t" / name)
    own = dataset.get_fragments()[0].metadata
    own.deletion_file = DeletionFile(
        file.read_version, file.id, file.file_type, file.num_deleted_rows, base_id=None
    )
    landed = commit(dataset, Op.Delete([own], [], "by hand"))
    dataset.branches.delete("side")
    landed.validate()
    assert ids(LanceDataset(landed.uri)) == ["b"]
