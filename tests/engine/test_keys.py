"""Requests with idempotency keys: each is carried out once, and repeated it gives its first result."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import OperationState
from omnigraphdb.errors import IdempotencyConflict, OmniError, PreconditionFailed, UserInputError
from tests.support.keyed import INSERT, KEY, REQUESTS, describe, make_graph
from tests.support.manifests import together
from tests.support.settled import assert_settled, digest

BOTH = {"p": "b", "c": "y"}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    make_graph(str(tmp_path / "g"), "mutate")
    with omnigraphdb.open(tmp_path / "g") as opened:
        yield opened


def add(graph: Graph, name: str = "b", **options: Any) -> Any:
    return graph.mutate(INSERT, {"p": name, "c": f"c{name}"}, idempotency_key=KEY, **options)


# ---- repeated


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_repeated_request_writes_nothing_and_gives_its_first_result(
    tmp_path: Path, request_: str
) -> None:
    place = tmp_path / "g"
    make_graph(str(place), request_)
    run = REQUESTS[request_]
    with omnigraphdb.open(place) as graph:
        first = run(graph, KEY)
        after = describe(graph)
        second = run(graph, KEY)
        assert describe(graph) == after
    with omnigraphdb.open(place) as again:
        third = run(again, KEY)
        assert describe(again) == after
        assert again.operation(KEY).state is OperationState.LANDED
        assert_settled(again)
    if first is None:
        return
    assert (first.replayed, second.replayed, third.replayed) == (False, True, True)
    expected = first.to_dict() | {"replayed": True}
    assert second.to_dict() == third.to_dict() == expected


def test_an_update_of_nothing_stays_an_update_of_nothing(graph: Graph) -> None:
    text = 'query m() { update Person set { n: 7 } where k = "later" }'
    assert graph.mutate(text, idempotency_key=KEY).commit is None
    graph.mutate('query m() { insert Person { k: "later" } }')
    again = graph.mutate(text, idempotency_key=KEY)
    assert (again.replayed, again.affected_nodes, again.commit) == (True, 0, None)
    assert graph.entity("Person", "later") == {"id": "later", "k": "later", "n": None}


def test_a_request_on_a_head_is_repeated_after_the_head_moved(graph: Graph) -> None:
    head = graph.commits()[0]
    first = add(graph, if_commit=head)
    graph.mutate('query m() { insert Person { k: "other" } }')
    assert add(graph, if_commit=head).commit == first.commit


def test_a_merge_is_repeated_after_its_source_is_gone(graph: Graph) -> None:
    first = graph.merge("side", idempotency_key=KEY)
    graph.branch_delete("side")
    again = graph.merge("side", idempotency_key=KEY)
    assert (again.replayed, again.commit, again.tables) == (True, first.commit, first.tables)


def test_a_branch_that_was_made_again_is_not_deleted_by_the_repeated_request(graph: Graph) -> None:
    graph.branch_delete("side", idempotency_key=KEY)
    graph.branch_create("side")
    graph.branch_delete("side", idempotency_key=KEY)
    assert "side" in [branch.name for branch in graph.branches()]


def test_a_key_outlives_optimize_and_cleanup(graph: Graph) -> None:
    first = add(graph)
    for number in range(3):
        graph.mutate(f'query m() {{ insert Person {{ k: "o{number}" }} }}')
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    assert add(graph).commit == first.commit


def test_threads_with_one_key_make_one_commit_and_all_get_it(graph: Graph) -> None:
    before = len(graph.commits())
    found: list[Any] = together(*[partial(add, graph) for _ in range(4)])
    assert {result.commit.id for result in found} == {graph.commits()[0].id}
    assert sorted(result.replayed for result in found) == [False, True, True, True]
    assert len(graph.commits()) == before + 1


# ---- another request


@pytest.mark.parametrize(
    "other",
    [
        lambda graph: add(graph, "c"),
        lambda graph: add(graph, if_commit=graph.commits()[0]),
        lambda graph: graph.mutate(INSERT + " ", BOTH, idempotency_key=KEY),
        lambda graph: graph.load([], mode="append", idempotency_key=KEY),
        lambda graph: graph.merge("side", idempotency_key=KEY),
        lambda graph: graph.schema_apply(graph.schema_source, idempotency_key=KEY),
        lambda graph: graph.branch_create("more", idempotency_key=KEY),
        lambda graph: graph.branch_delete("side", idempotency_key=KEY),
    ],
)
def test_a_key_of_another_request_is_refused_and_nothing_is_written(
    graph: Graph, other: Callable[[Graph], Any]
) -> None:
    first = add(graph)
    before = describe(graph)
    with pytest.raises(IdempotencyConflict, match=first.commit.id) as refused:
        other(graph)
    assert refused.value.to_dict()["kind"] == "idempotency_conflict"
    assert describe(graph) == before


REFUSED_BRANCHES: dict[str, Callable[[Graph], Any]] = {
    "main": lambda graph: graph.branch_delete("main", idempotency_key=KEY),
    "the branch of the handle": lambda graph: graph.on("side").branch_delete(
        "side", idempotency_key=KEY
    ),
    "a parent": lambda graph: graph.branch_delete("parent", idempotency_key=KEY),
    "a tagged branch": lambda graph: graph.branch_delete("tagged", idempotency_key=KEY),
    "commits that are not merged": lambda graph: graph.branch_delete(
        "tagged", merged_into="main", idempotency_key=KEY
    ),
    "a branch that is not there": lambda graph: graph.branch_delete("none", idempotency_key=KEY),
    "a name that is taken": lambda graph: graph.branch_create("side", idempotency_key=KEY),
    "a name below another": lambda graph: graph.branch_create("side/new", idempotency_key=KEY),
    "an older schema": lambda graph: graph.branch_create(
        "new", at=graph.commits()[-1], idempotency_key=KEY
    ),
}


@pytest.mark.parametrize("name", REFUSED_BRANCHES)
def test_a_refused_branch_operation_leaves_no_key(graph: Graph, tmp_path: Path, name: str) -> None:
    graph.branch_delete("side")
    graph.schema_apply(graph.schema_source + "\nnode Added { k: String @key }")
    for branch in ("side", "parent", "tagged"):
        graph.branch_create(branch)
    graph.branch_create("child", from_branch="parent")
    add(graph, branch="tagged")
    graph.tag("kept", branch="tagged")
    before = digest(tmp_path / "g")
    for _ in range(2):
        with pytest.raises(OmniError):
            REFUSED_BRANCHES[name](graph)
        assert digest(tmp_path / "g") == before
    assert graph.operation(KEY).state is OperationState.NOT_LANDED


def test_a_write_on_another_head_stages_nothing(graph: Graph, tmp_path: Path) -> None:
    seen = graph.commits()[0]
    add(graph)
    before = digest(tmp_path / "g")
    record = {"type": "Person", "data": {"k": "late"}}
    for write in (
        lambda: graph.mutate(INSERT, {"p": "z", "c": "z"}, if_commit=seen),
        lambda: graph.load([record], mode="append", if_commit=seen),
        lambda: graph.merge("side", if_commit=seen),
    ):
        with pytest.raises(PreconditionFailed):
            write()
        assert digest(tmp_path / "g") == before


def test_a_file_with_other_content_is_another_request(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    file.write_text('{"type": "Person", "data": {"k": "f"}}\n')
    first = graph.load(file, mode="merge", idempotency_key=KEY)
    moved = file.rename(tmp_path / "moved.jsonl")
    assert graph.load(moved, mode="merge", idempotency_key=KEY).commit == first.commit
    moved.write_text('{"type": "Person", "data": {"k": "g"}}\n')
    with pytest.raises(IdempotencyConflict):
        graph.load(moved, mode="merge", idempotency_key=KEY)


def test_parameters_count_by_their_values(graph: Graph) -> None:
    graph.mutate(INSERT, {"p": "b", "c": "y"}, idempotency_key=KEY)
    assert graph.mutate(INSERT, {"c": "y", "p": "b"}, idempotency_key=KEY).replayed


def test_other_branches_and_actors_have_keys_of_their_own(graph: Graph) -> None:
    results = [
        add(graph),
        add(graph, "c", actor="ann"),
        add(graph, "d", branch="side"),
    ]
    assert len({result.commit.id for result in results}) == 3
    assert graph.operation(KEY, actor="ann").commit == results[1].commit
    assert graph.operation(KEY, branch="side").commit == results[2].commit


def test_a_fork_and_a_merge_do_not_carry_keys_along(graph: Graph) -> None:
    add(graph)
    graph.branch_create("child")
    assert graph.operation(KEY, branch="child").state is OperationState.NOT_LANDED
    assert not add(graph, "e", branch="child").replayed
    graph.mutate(INSERT, {"p": "q", "c": "q"}, branch="child", idempotency_key="of the child")
    graph.merge("child")
    assert graph.operation("of the child").state is OperationState.NOT_LANDED


@pytest.mark.parametrize("bad", ["", " ", "k" * 256, "a\nb", "a\x00b", "\udc80", 7])
def test_a_key_that_cannot_be_stored_is_refused_before_anything(graph: Graph, bad: Any) -> None:
    before = describe(graph)
    for call in (
        lambda: graph.mutate(INSERT, BOTH, idempotency_key=bad),
        lambda: graph.operation(bad),
    ):
        with pytest.raises(UserInputError, match="idempotency key"):
            call()
    assert describe(graph) == before


def test_a_long_key_of_any_letters_is_a_key(graph: Graph) -> None:
    key = ("ключ/§ 鍵 " * 40)[:255]
    assert not graph.mutate(INSERT, BOTH, idempotency_key=key).replayed
    assert graph.mutate(INSERT, BOTH, idempotency_key=key).replayed


def test_a_dry_run_does_not_use_its_key(graph: Graph) -> None:
    graph.mutate(INSERT, BOTH, idempotency_key=KEY, dry_run=True)
    assert graph.operation(KEY).state is OperationState.NOT_LANDED


def test_a_read_only_handle_tells_what_became_of_a_key(graph: Graph) -> None:
    made = add(graph)
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        assert reader.operation(KEY).commit == made.commit
        assert reader.operation("never").state is OperationState.NOT_LANDED


# ---- messages


def test_a_message_is_stored_with_the_commit_and_brought_by_merges(graph: Graph) -> None:
    said = 'Adds b.\n\nBecause "it", {was}: missing\\ 世界'
    made = graph.mutate(INSERT, BOTH, branch="side", message=said)
    assert made.commit is not None
    assert made.commit.message == said
    merged = graph.merge("side", message="Takes side in")
    assert merged.commit is not None
    assert graph.commits()[0].message == "Takes side in"
    graph.branch_delete("side")
    assert graph.commit(made.commit.id).message == said


@pytest.mark.parametrize("bad", ["", " \n", "m" * 4097, "a\x07b", "\udc80", 7])
def test_a_message_that_cannot_be_stored_is_refused(graph: Graph, bad: Any) -> None:
    before = describe(graph)
    with pytest.raises(UserInputError, match="message"):
        graph.mutate(INSERT, BOTH, message=bad)
    assert describe(graph) == before
