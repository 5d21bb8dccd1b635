"""A graph whose directory was moved or copied: main is as it was, branches are told apart and say why."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import GraphClosed, NotFound, OmniWarning, ReadOnlyError, StorageError
from omnigraphdb.failpoints import Failpoint, Injected, armed
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.cloud import StoreObjects, open_objects
from omnigraphdb.storage.objects.protocol import Objects
from tests.support.old_graphs import downgrade
from tests.support.s3_counting import CountingBucket
from tests.support.settled import assert_settled, digest

SCHEMA = "node Person { name: String @key }"


def person(name: str) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name}}


def made(root: Path, *branches: str) -> None:
    """A graph with a fork and lazy branches."""
    with omnigraphdb.init(root, SCHEMA) as graph:
        graph.load([person("Ada")], mode="append")
        for branch in branches:
            graph.branch_create(branch)
            graph.load([person(branch)], mode="append", branch=branch)
        graph.load([person("Bo")], mode="append")


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(graph.table("Person", branch=branch)["name"].to_pylist())


def test_a_moved_graph_without_branches_is_just_a_graph(tmp_path: Path) -> None:
    made(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    with omnigraphdb.open(tmp_path / "new") as graph:
        assert names(graph) == ["Ada", "Bo"]
        graph.branch_create("here")
        graph.load([person("Cy")], mode="append", branch="here")
        graph.merge("here")
        assert_settled(graph)


@pytest.mark.parametrize("read_only", [True, False])
def test_opening_a_moved_graph_with_branches_says_so_and_main_works(
    tmp_path: Path, read_only: bool
) -> None:
    made(tmp_path / "old", "side")
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.warns(OmniWarning, match=r"'side'.*moved or copied") as told:
        graph = omnigraphdb.open(tmp_path / "new", read_only=read_only)
    assert str(tmp_path / "old") in str(told[0].message)
    assert names(graph) == ["Ada", "Bo"]
    with pytest.raises(StorageError, match="moved or copied") as caught:
        names(graph, "side")
    assert str(tmp_path / "old") in str(caught.value)
    assert f"omnigraphdb relocate {tmp_path / 'new'}" in (caught.value.hint or "")
    assert [one.check for one in graph.doctor()] == ["moved graph"]
    graph.close()


def test_a_copy_whose_branches_still_read_the_original_is_noticed(tmp_path: Path) -> None:
    made(tmp_path / "old", "side")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    with pytest.warns(OmniWarning, match="moved or copied"):
        omnigraphdb.open(tmp_path / "copy").close()


WRITES: dict[str, Callable[[Graph], object]] = {
    "load": lambda graph: graph.load([person("new")], mode="append", branch="side"),
    "load into a new branch": lambda graph: graph.load(
        [person("new")], mode="append", branch="other", from_branch="side"
    ),
    "mutate": lambda graph: graph.mutate(
        'query m() { delete Person where name = "Ada" }', branch="side"
    ),
    "merge into": lambda graph: graph.merge("main", into="side"),
    "merge from": lambda graph: graph.merge("side"),
    "branch from": lambda graph: graph.branch_create("other", from_branch="side"),
    "branch from the past": lambda graph: graph.branch_create(
        "other", from_branch="side", at=graph.commits(branch="side")[1]
    ),
    "delete": lambda graph: graph.branch_delete("side"),
    "indexes": lambda graph: graph.ensure_indices(branch="side"),
    "cleanup": lambda graph: graph.cleanup(keep=1, confirm=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_nothing_is_written_through_the_branch_of_a_copy(
    tmp_path: Path, write: Callable[[Graph], object]
) -> None:
    made(tmp_path / "old", "side")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    before = digest(tmp_path / "old")
    with open_moved(tmp_path / "copy") as graph:
        # What opening writes, such as a heartbeat, is not meant.
        unchanged = digest(tmp_path / "copy")
        with pytest.raises(StorageError, match="moved or copied") as caught:
            write(graph)
        assert f"omnigraphdb relocate {tmp_path / 'copy'}" in (caught.value.hint or "")
        assert digest(tmp_path / "copy") == unchanged
        assert names(graph, "side") == ["Ada", "side"]
        graph.load([person("Cy")], mode="append")
        graph.branch_create("own")
        graph.load([person("Di")], mode="append", branch="own")
        assert names(graph, "own") == ["Ada", "Bo", "Cy", "Di"]
        assert graph.merge("own").outcome == "fast_forward"
    assert digest(tmp_path / "old") == before


def open_moved(root: Path) -> Graph:
    """Open a graph that says of its branches that it was moved."""
    with pytest.warns(OmniWarning, match="moved or copied"):
        return omnigraphdb.open(root)


def use(graph: Graph) -> None:
    """Write to every branch, merge, branch again, and let go of what is not needed."""
    for branch in sorted(one.name for one in graph.branches()):
        graph.load([person(f"later on {branch}")], mode="append", branch=branch)
    graph.branch_create("deep", from_branch="nested/below")
    graph.mutate('query m() { delete Person where name = "Ada" }', branch="deep")
    assert graph.merge("deep", into="nested/below").outcome == "fast_forward"
    assert graph.merge("side").outcome == "merged"
    graph.branch_delete("deep")
    graph.cleanup(keep=1, confirm=True)
    assert_settled(graph)


def make_nested(root: Path) -> None:
    """A graph with a branch of a branch, a lazy one, and a deleted row."""
    made(root, "side")
    with omnigraphdb.open(root) as graph:
        graph.branch_create("nested/below", from_branch="side")
        graph.load([person("below")], mode="append", branch="nested/below")
        graph.mutate('query m() { delete Person where name = "side" }', branch="nested/below")
        graph.branch_create("lazy")


@pytest.mark.parametrize(
    "place", ["copy", "a/much/longer/place/than/it/was/before/for/the/graph", "c"]
)
def test_a_copy_that_was_relocated_is_a_graph_of_its_own(tmp_path: Path, place: str) -> None:
    make_nested(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / place)
    before = digest(tmp_path / "old")
    done = omnigraphdb.relocate(tmp_path / place)
    assert dict(done.branches) == dict.fromkeys(
        ["lazy", "nested/below", "side"], str(tmp_path / "old")
    )
    assert done.files_rewritten > 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = omnigraphdb.open(tmp_path / place)
    assert names(graph, "nested/below") == ["Ada", "below"]
    use(graph)
    graph.close()
    assert digest(tmp_path / "old") == before
    shutil.rmtree(tmp_path / "old")
    with omnigraphdb.open(tmp_path / place) as graph:
        assert names(graph, "side") == ["Ada", "later on side", "side"]
        for branch in graph.branches():
            for commit in graph.commits(branch=branch.name, limit=1):
                graph.snapshot(branch=branch.name, at=commit).table("Person")
        assert_settled(graph)


def test_a_handle_relocates_its_graph_and_goes_on(tmp_path: Path) -> None:
    make_nested(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmniWarning)
        graph = omnigraphdb.open(tmp_path / "new", config={"lock_wait": 7})
    derived = graph.on("side")
    with pytest.raises(StorageError):
        graph.load([person("Cy")], mode="append", branch="side")
    assert graph.relocate().files_rewritten > 3
    graph.load([person("Cy")], mode="append", branch="side")
    assert names(graph, "side") == ["Ada", "Cy", "side"]
    with pytest.raises(GraphClosed):
        derived.branches()
    assert_settled(graph)
    graph.close()
    with omnigraphdb.open(tmp_path / "new", read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.relocate()


def test_a_moved_graph_is_relocated_there_and_back(tmp_path: Path) -> None:
    make_nested(tmp_path / "old")
    for source, target in (("old", "new"), ("new", "old")):
        (tmp_path / source).rename(tmp_path / target)
        assert omnigraphdb.relocate(tmp_path / target).files_rewritten > 3
        assert omnigraphdb.relocate(tmp_path / target).to_dict() == {
            "uri": str(tmp_path / target), "branches": [], "files_rewritten": 0,
        }  # fmt: skip
        with omnigraphdb.open(tmp_path / target) as graph:
            assert names(graph, "side") == ["Ada", "side"]
            assert_settled(graph)


def test_a_graph_that_lies_where_it_was_made_is_left_alone(tmp_path: Path) -> None:
    make_nested(tmp_path / "g")
    (tmp_path / "link").symlink_to(tmp_path / "g")
    before = digest(tmp_path / "g")
    for name in ("g", "link"):
        assert omnigraphdb.relocate(tmp_path / name).files_rewritten == 0
    assert digest(tmp_path / "g") == before
    with pytest.raises(NotFound):
        omnigraphdb.relocate(tmp_path / "nowhere")


def test_a_link_from_the_old_place_can_go_after_relocating(tmp_path: Path) -> None:
    make_nested(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "old").symlink_to(tmp_path / "new")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        omnigraphdb.open(tmp_path / "new").close()
    assert omnigraphdb.relocate(tmp_path / "new").files_rewritten > 3
    (tmp_path / "old").unlink()
    with omnigraphdb.open(tmp_path / "new") as graph:
        use(graph)


def test_a_write_that_was_interrupted_on_a_branch_is_settled_after_relocating(
    tmp_path: Path,
) -> None:
    made(tmp_path / "old", "side")
    graph = omnigraphdb.open(tmp_path / "old")
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(Injected):
        graph.load([person("late")], mode="append", branch="side")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    before = digest(tmp_path / "old")
    with pytest.raises(StorageError, match=r"recovery of .* is refused"):
        omnigraphdb.open(tmp_path / "copy")
    omnigraphdb.relocate(tmp_path / "copy")
    with omnigraphdb.open(tmp_path / "copy") as copy:
        assert names(copy, "side") == ["Ada", "late", "side"]
        assert_settled(copy)
    assert digest(tmp_path / "old") == before


def test_a_copy_whose_history_lies_in_tables_of_its_own_is_relocated_with_them(
    tmp_path: Path,
) -> None:
    made(tmp_path / "old", "side")
    with omnigraphdb.open(tmp_path / "old") as graph:
        commits = [commit.id for commit in graph.commits(branch="side")]
        downgrade(graph)
    (tmp_path / "old").rename(tmp_path / "new")
    omnigraphdb.relocate(tmp_path / "new")
    with omnigraphdb.open(tmp_path / "new") as graph:
        assert [commit.id for commit in graph.commits(branch="side")] == commits
        graph.load([person("new")], mode="append", branch="side")
        assert len(graph.commits(branch="side")) == len(commits) + 1
        assert_settled(graph)


@pytest.mark.parametrize("cut", [0, 8, 40])
def test_a_branch_manifest_that_is_no_manifest_is_named_and_left(tmp_path: Path, cut: int) -> None:
    made(tmp_path / "old", "side")
    (tmp_path / "old").rename(tmp_path / "new")
    broken = max((tmp_path / "new" / "nodes").glob("*/tree/side/_versions/*.manifest"))
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) - cut] if cut else b"")
    with pytest.raises(StorageError, match=broken.name) as caught:
        omnigraphdb.relocate(tmp_path / "new")
    assert "cannot be given another address" in str(caught.value)
    broken.write_bytes(whole)
    omnigraphdb.relocate(tmp_path / "new")
    with omnigraphdb.open(tmp_path / "new") as graph:
        assert_settled(graph)


def test_a_graph_opened_by_another_spelling_of_its_place_was_not_moved(tmp_path: Path) -> None:
    made(tmp_path / "g", "side")
    (tmp_path / "link").symlink_to(tmp_path / "g")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with omnigraphdb.open(tmp_path / "link") as graph:
            assert names(graph, "side") == ["Ada", "side"]


# ---- object stores


@pytest.mark.s3
def test_a_graph_is_not_made_on_a_store_that_ignores_conditions(
    counting_bucket: CountingBucket,
) -> None:
    uri, options = f"{counting_bucket.uri}/g", counting_bucket.storage_options
    counting_bucket.behave(ignore_conditions=True)
    with pytest.raises(StorageError, match="conditional puts"):
        omnigraphdb.init(uri, SCHEMA, storage_options=options)
    assert [
        r for r in counting_bucket.requests() if r.method == "PUT" and "__locks" not in r.key
    ] == []
    counting_bucket.behave()
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load([person("Ada")], mode="append")
        assert names(graph) == ["Ada"]


@pytest.mark.s3
def test_a_copied_prefix_is_refused_and_relocated_like_a_directory(
    counting_bucket: CountingBucket,
) -> None:
    uri, options = f"{counting_bucket.uri}/g", counting_bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load([person("Ada")], mode="append")
        graph.branch_create("side")
        graph.load([person("side")], mode="append", branch="side")
    bucket = open_objects(root_of(counting_bucket.uri), options)
    before = copy_prefix(bucket, "g", "copy")
    copied = f"{counting_bucket.uri}/copy"
    with pytest.warns(OmniWarning, match="moved or copied"):
        graph = omnigraphdb.open(copied, storage_options=options)
    with pytest.raises(StorageError, match=f"address of the graph it was made in, '{uri}'"):
        graph.load([person("new")], mode="append", branch="side")
    graph.close()
    assert omnigraphdb.relocate(copied, storage_options=options).branches == {"side": uri}
    with omnigraphdb.open(copied, storage_options=options) as graph:
        graph.load([person("new")], mode="append", branch="side")
        bucket.delete_prefix("g")
        assert names(graph, "side") == ["Ada", "new", "side"]
        assert graph.merge("side").outcome == "fast_forward"
        assert_settled(graph)
    assert before
    assert omnigraphdb.relocate(copied, storage_options=options).files_rewritten == 0


def copy_prefix(bucket: Objects, source: str, target: str) -> list[str]:
    """Copy everything below a prefix but the locks, whose leases belong to who took them."""
    assert isinstance(bucket, StoreObjects)
    found = [item["path"] for page in obstore.list(bucket._store, prefix=source) for item in page]
    keys = [key for key in found if "/__locks/" not in key]
    for key in keys:
        bucket.copy(key, f"{target}{key.removeprefix(source)}")
    return keys
