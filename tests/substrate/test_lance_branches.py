"""Branches of a Lance dataset: what their refs tell, what they refuse, what they leave behind."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from lance import LanceDataset
from lance.fragment import write_fragments
from lance.lance import _Session as Session

from tests.support.lance_bare import append, ids, rows, table_of


@pytest.fixture
def base(tmp_path: Path) -> LanceDataset:
    return table_of(tmp_path / "t", rows("a", "b"))


def test_a_branch_starts_at_the_version_it_forks_from(base: LanceDataset) -> None:
    forked = base.create_branch("team/x", (None, base.version))
    assert forked.version == base.version
    assert forked.uri == f"{base.uri}/tree/team/x"
    grown = append(forked, rows("c"))
    assert (ids(grown), ids(LanceDataset(base.uri))) == (["a", "b", "c"], ["a", "b"])


def test_the_path_of_a_branch_opens_what_a_checkout_gives(base: LanceDataset) -> None:
    grown = append(base.create_branch("team/x", (None, base.version)), rows("c"))
    by_path = lance.dataset(f"{base.uri}/tree/team/x", version=grown.version)
    by_name = base.checkout_version(("team/x", grown.version))
    assert by_path.to_table().equals(by_name.to_table())
    assert append(by_path, rows("d")).version == grown.version + 1


@pytest.mark.parametrize(
    ("name", "file"), [("team/x", "team%2Fx"), ("ä", "%C3%A4"), ("a.b-c_d", "a.b-c_d")]
)
def test_a_ref_is_one_small_text_that_names_its_life(
    base: LanceDataset, name: str, file: str
) -> None:
    base.create_branch(name, (None, base.version))
    listed = base.branches.list()[name]
    text = Path(base.uri, "_refs", "branches", f"{file}.json").read_text()
    mapping = json.loads(text)["identifier"]["version_mapping"]
    assert [tuple(pair) for pair in mapping] == listed["branch_identifier"]
    assert (listed["parent_branch"], listed["parent_version"]) == (None, base.version)


def test_a_recreated_branch_has_another_identifier(base: LanceDataset) -> None:
    incarnations = []
    for _ in range(2):
        base.create_branch("side", (None, base.version))
        incarnations.append(base.branches.list()["side"]["branch_identifier"])
        base.branches.delete("side")
    assert incarnations[0] != incarnations[1]


def test_a_session_never_shows_the_former_life_of_a_branch(base: LanceDataset) -> None:
    session = Session()
    seen = []
    for name in ("old", "new"):
        append(base.create_branch("side", (None, base.version)), rows(name))
        path = f"{base.uri}/tree/side"
        seen.append(ids(lance.dataset(path, version=base.version + 1, session=session)))
        base.branches.delete("side")
    assert seen == [["a", "b", "old"], ["a", "b", "new"]]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("has_ref", [True, False])
def test_a_name_in_use_fails_opaquely_and_changes_nothing(
    base: LanceDataset, version: int, has_ref: bool
) -> None:
    head = append(append(base, rows("c")), rows("d"))
    kept = append(head.create_branch("side", (None, 2)), rows("kept"))
    ref = Path(base.uri, "_refs", "branches", "side.json")
    text = ref.read_text()
    if not has_ref:
        ref.unlink()
    before = {p: p.read_bytes() for p in Path(base.uri, "tree").rglob("*") if p.is_file()}
    with pytest.raises(OSError, match=r"Clone operation should not enter|was not found"):
        head.create_branch("side", (None, version))
    assert (ref.read_text() == text) if has_ref else not ref.exists()
    assert {p: p.read_bytes() for p in before} == before
    assert LanceDataset(f"{base.uri}/tree/side").version == kept.version


def test_deleting_refuses_parents_and_absent_names(base: LanceDataset) -> None:
    with pytest.raises(ValueError, match=r"^Ref not found"):
        base.branches.delete("nowhere")
    parent = base.create_branch("parent", (None, base.version))
    parent.create_branch("child", ("parent", base.version))
    with pytest.raises(OSError, match=r'^Ref conflict.*"child"'):
        base.branches.delete("parent")


def test_deleting_a_branch_keeps_its_files_when_another_nests_below(base: LanceDataset) -> None:
    base.create_branch("team", (None, base.version))
    base.create_branch("team/x", (None, base.version))
    base.branches.delete("team")
    assert set(base.branches.list()) == {"team/x"}
    assert Path(base.uri, "tree", "team", "_versions").exists()
    base.branches.delete("team/x")
    base.create_branch("other", (None, base.version))
    base.branches.delete("other")
    assert not Path(base.uri, "tree", "other").exists()


@pytest.mark.parametrize("name", ["main", "a..b", "/a", "a/", "a//b", "a.lock", "a b", "a\\b", ""])
def test_names_that_lance_refuses(base: LanceDataset, name: str) -> None:
    with pytest.raises(OSError, match=r"^Ref is invalid"):
        base.create_branch(name, (None, base.version))


def test_a_moved_directory_breaks_its_branches(base: LanceDataset, tmp_path: Path) -> None:
    append(base.create_branch("side", (None, base.version)), rows("c"))
    moved = tmp_path / "moved"
    shutil.move(base.uri, moved)
    assert ids(LanceDataset(str(moved))) == ["a", "b"]
    with pytest.raises((OSError, ValueError)):
        LanceDataset(str(moved / "tree" / "side")).to_table()


def test_cleanup_keeps_what_branches_fork_from(base: LanceDataset) -> None:
    forked = base.create_branch("side", (None, base.version))
    head = base
    for name in "cdef":
        head = append(head, rows(name))
    head.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    left = [ref["version"] for ref in head.version_refs()]
    assert base.version in left
    assert head.version - 1 not in left
    assert ids(forked) == ["a", "b"]


def test_restoring_on_a_branch_cannot_reach_below_its_fork(base: LanceDataset) -> None:
    forked = append(base.create_branch("side", (None, base.version)), rows("c"))
    assert ids(forked.checkout_version(base.version)) == ["a", "b"]
    with pytest.raises((OSError, ValueError), match=r"[Nn]ot found"):
        forked.checkout_version(base.version - 1)


def test_memory_is_shared_only_under_its_own_scheme() -> None:
    table_of("shared-memory://substrate/t", rows("a"))
    assert ids(lance.dataset("shared-memory://substrate/t")) == ["a"]
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset("memory://substrate/t")


def test_staged_files_of_a_branch_stay_below_it(base: LanceDataset) -> None:
    forked = base.create_branch("side", (None, base.version))
    before = set(Path(base.uri, "data").iterdir())
    write_fragments(rows("c"), forked, return_transaction=True)
    assert set(Path(base.uri, "data").iterdir()) == before
    assert len(list(Path(base.uri, "tree", "side", "data").iterdir())) == 1
