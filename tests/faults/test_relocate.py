"""Relocating that fails or dies: the next run completes it, two at once come to the same, the original is never touched."""

import shutil
import threading
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniWarning, StorageError
from omnigraphdb.failpoints import Failpoint, Injected, armed
from omnigraphdb.storage.lance.unofficial.addresses import rebase_manifest
from tests.engine.test_moved import make_nested, names, person
from tests.support.child import KILLED, run_child, run_parked_child
from tests.support.settled import assert_settled, digest

POINTS = (
    (Failpoint.RELOCATE_REWRITTEN, 0),
    (Failpoint.RELOCATE_REWRITTEN, 2),
    (Failpoint.RELOCATE_REWRITTEN, 6),
    (Failpoint.RELOCATE_TABLES_DONE, 0),
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a graph with branches of branches, whose original must stay as it is."""
    make_nested(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("how", ["error", "exit"])
@pytest.mark.parametrize(("at", "skip"), POINTS, ids=lambda one: str(one))
def test_relocating_that_is_broken_off_is_completed_by_the_next(
    copy: Path, at: Failpoint, skip: int, how: str
) -> None:
    original = copy.parent / "old"
    before = digest(original)
    if how == "error":
        with armed(at, f"skip({skip})+error"), pytest.raises(Injected):
            omnigraphdb.relocate(copy)
    else:
        failpoints = f"{at}=skip({skip})+exit"
        assert run_child(omnigraphdb.relocate, str(copy), failpoints=failpoints) == KILLED
    _assert_each_branch_is_here_or_refused(copy)
    omnigraphdb.relocate(copy)
    assert digest(original) == before
    shutil.rmtree(original)
    with omnigraphdb.open(copy) as graph:
        assert names(graph, "nested/below") == ["Ada", "below"]
        for branch in ("main", "lazy", "side", "nested/below"):
            graph.load([person("new")], mode="append", branch=branch)
        assert_settled(graph)
    assert omnigraphdb.relocate(copy).files_rewritten == 0


def _assert_each_branch_is_here_or_refused(root: Path) -> None:
    """A branch that can be built upon half way is here in every table."""
    with pytest.warns(OmniWarning, match="moved or copied"):
        graph = omnigraphdb.open(root)
    for branch in ("lazy", "side", "nested/below"):
        if not _is_refused(graph, branch):
            assert _addresses_left(root, branch) == []
    graph.close()


def _is_refused(graph: Graph, branch: str) -> bool:
    try:
        graph.branch_create("probe", from_branch=branch)
    except StorageError:
        return True
    graph.branch_delete("probe")
    return False


def _addresses_left(root: Path, branch: str) -> list[Path]:
    """Manifests of a branch that relocating would still rewrite."""
    tables = [root / "__manifest", *(root / "nodes").iterdir()]
    return [
        file
        for table in tables
        for file in (table / "tree" / branch / "_versions").glob("*.manifest")
        if rebase_manifest(file.read_bytes(), str(root), str(table.relative_to(root)), file.name)
    ]


def test_two_that_relocate_at_once_come_to_the_same(copy: Path) -> None:
    found: list[int] = []
    with run_parked_child(
        omnigraphdb.relocate, str(copy), at=Failpoint.RELOCATE_REWRITTEN
    ) as child:
        second = threading.Thread(
            target=lambda: found.append(omnigraphdb.relocate(copy).files_rewritten)
        )
        second.start()
        child.release()
        second.join()
    assert found == [0]
    with omnigraphdb.open(copy) as graph:
        assert_settled(graph)
