"""A graph whose directory was moved or copied: main is as it was, branches are told apart and say why."""

import shutil
import warnings
from pathlib import Path

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.errors import OmniWarning, StorageError
from tests.support.s3_counting import CountingBucket
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key }"


def person(name: str) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name}}


def made(root: Path, *branches: str) -> None:
    """A graph with a fork and lazy branches."""
    with omnigraph.init(root, SCHEMA) as graph:
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
    with omnigraph.open(tmp_path / "new") as graph:
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
        graph = omnigraph.open(tmp_path / "new", read_only=read_only)
    assert str(tmp_path / "old") in str(told[0].message)
    assert names(graph) == ["Ada", "Bo"]
    with pytest.raises(StorageError, match="moved or copied") as caught:
        names(graph, "side")
    assert str(tmp_path / "old") in (caught.value.hint or "")
    assert [one.check for one in graph.doctor()] == ["moved graph"]
    graph.close()


def test_a_copy_whose_branches_still_read_the_original_is_noticed(tmp_path: Path) -> None:
    made(tmp_path / "old", "side")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    with pytest.warns(OmniWarning, match="moved or copied"):
        omnigraph.open(tmp_path / "copy").close()


def test_the_advice_helps(tmp_path: Path) -> None:
    made(tmp_path / "old", "side")
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "old").symlink_to(tmp_path / "new")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = omnigraph.open(tmp_path / "new")
    assert names(graph, "side") == ["Ada", "side"]
    assert graph.merge("side").outcome == "merged"
    assert_settled(graph)
    graph.close()


def test_a_graph_opened_by_another_spelling_of_its_place_was_not_moved(tmp_path: Path) -> None:
    made(tmp_path / "g", "side")
    (tmp_path / "link").symlink_to(tmp_path / "g")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with omnigraph.open(tmp_path / "link") as graph:
            assert names(graph, "side") == ["Ada", "side"]


# ---- object stores


@pytest.mark.s3
def test_a_graph_is_not_made_on_a_store_that_ignores_conditions(
    counting_bucket: CountingBucket,
) -> None:
    uri, options = f"{counting_bucket.uri}/g", counting_bucket.storage_options
    counting_bucket.behave(ignore_conditions=True)
    with pytest.raises(StorageError, match="conditional puts"):
        omnigraph.init(uri, SCHEMA, storage_options=options)
    assert [
        r for r in counting_bucket.requests() if r.method == "PUT" and "__locks" not in r.key
    ] == []
    counting_bucket.behave()
    with omnigraph.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load([person("Ada")], mode="append")
        assert names(graph) == ["Ada"]
