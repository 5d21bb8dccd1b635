"""Two processes: one deletes a branch and makes it again while the other is in the middle of something with the first one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConflictError, OmniError
from omnigraphdb.failpoints import Failpoint
from tests.support.child import run_parked_child
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

SCHEMA = "node Person { name: String @key  age: I64? } node City { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"
OLDER = 'query q() { update Person set { age: 9 } where name = "main" }'
OFF = {"maintenance": "off"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A graph with a branch that owns one table of two."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=OFF) as graph:
        graph.mutate(ADD, {"n": "main"})
        make(graph)
    return tmp_path / "g"


def make(graph: Graph) -> None:
    graph.branch_create("b")
    graph.mutate(ADD, {"n": "first"}, branch="b")


def make_again(home: Path) -> None:
    with omnigraphdb.open(home, config=OFF) as graph:
        graph.branch_delete("b")
        make(graph)


def write(uri: str, verb: str) -> None:
    with (
        omnigraphdb.open(uri, config=OFF) as graph,
        pytest.raises(ConflictError, match="was deleted and made again"),
    ):
        WRITES[verb](graph)


def load(graph: Graph, type_: str, mode: "Mode") -> None:
    graph.load([{"type": type_, "data": {"name": "late"}}], mode=mode, branch="b")


WRITES: dict[str, Callable[[Graph], object]] = {
    "insert": lambda graph: graph.mutate(ADD, {"n": "late"}, branch="b"),
    "update": lambda graph: graph.mutate(OLDER, branch="b"),
    "insert with a key": lambda graph: graph.mutate(
        ADD, {"n": "late"}, branch="b", idempotency_key="k"
    ),
    "append": lambda graph: load(graph, "Person", "append"),
    "upsert": lambda graph: load(graph, "Person", "merge"),
    "overwrite": lambda graph: load(graph, "Person", "overwrite"),
    "first write of a table": lambda graph: load(graph, "City", "append"),
    "merge": lambda graph: graph.merge("main", into="b"),
}
"""Every kind of write of a branch."""


def assert_left(home: Path, *names: str) -> None:
    with omnigraphdb.open(home, config=OFF) as graph:
        assert sorted(graph.table("Person", branch="b")["name"].to_pylist()) == sorted(names)
        assert graph.table("City", branch="b").num_rows == 0
        graph.mutate(ADD, {"n": "next"}, branch="b")
        load(graph, "City", "append")
        assert graph.cleanup(keep=1, confirm=True)
        assert sorted(graph.table("Person", branch="b")["name"].to_pylist()) == sorted(
            [*names, "next"]
        )
        assert_settled(graph)


@pytest.mark.parametrize("verb", [verb for verb in WRITES if verb != "merge"])
def test_a_write_that_was_prepared_on_a_branch_does_not_land_on_the_next_one_of_that_name(
    home: Path, verb: str
) -> None:
    with run_parked_child(write, str(home), verb, at=Failpoint.PREPARED) as child:
        make_again(home)
        child.release()
    assert_left(home, "main", "first")


def test_a_merge_that_was_prepared_on_a_branch_does_not_land_on_the_next_one_of_that_name(
    home: Path,
) -> None:
    with omnigraphdb.open(home, config=OFF) as graph:
        graph.mutate(ADD, {"n": "more"})
    with run_parked_child(write, str(home), "merge", at=Failpoint.MERGE_PLANNED) as child:
        make_again(home)
        child.release()
    assert_left(home, "main", "more", "first")


@pytest.mark.parametrize("verb", ["insert", "first write of a table"])
@pytest.mark.parametrize(
    "at",
    [Failpoint.STAGED, Failpoint.ARMED, Failpoint.TABLES_COMMITTED, Failpoint.PUBLISH_PREPARED],
)
def test_a_delete_waits_for_a_write_that_has_begun(home: Path, verb: str, at: Failpoint) -> None:
    with run_parked_child(finish, str(home), verb, at=at) as child:
        with (
            omnigraphdb.open(home, config=OFF | {"lock_wait": 0.2}) as graph,
            pytest.raises(ConflictError),
        ):
            graph.branch_delete("b")
        child.release()
    with omnigraphdb.open(home, config=OFF) as graph:
        type_ = "City" if verb == "first write of a table" else "Person"
        assert "late" in graph.table(type_, branch="b")["name"].to_pylist()
        assert_settled(graph)


def finish(uri: str, verb: str) -> None:
    with omnigraphdb.open(uri, config=OFF) as graph:
        WRITES[verb](graph)


# ---- late deletes


def delete(uri: str, key: str | None) -> None:
    with omnigraphdb.open(uri, config=OFF | {"lock_wait": 20}) as graph:
        graph.branch_delete("b", idempotency_key=key)


LATE = [
    (Failpoint.BRANCH_DROP_LISTED, None),
    (Failpoint.BRANCH_DROP_FORKS, None),
    (Failpoint.BRANCH_DROP_LISTED, "k"),
    (Failpoint.BRANCH_DROP_FORKS, "k"),
]


@pytest.mark.parametrize(("at", "key"), LATE)
def test_the_name_of_a_branch_is_free_when_its_delete_has_ended(
    home: Path, at: Failpoint, key: str | None
) -> None:
    """Nobody makes the branch again, and writes it, while what is left of the first one is removed."""
    with run_parked_child(delete, str(home), key, at=at) as child:
        with omnigraphdb.open(home, config=OFF | {"lock_wait": 0.2}) as graph:
            with pytest.raises(OmniError) as refused:
                make(graph)
            assert refused.value.kind in ("lock_timeout", "branch_exists")
        child.release()
    with omnigraphdb.open(home, config=OFF) as graph:
        make(graph)
    assert_left(home, "main", "first")


def test_a_delete_with_a_key_that_comes_late_leaves_the_next_branch(home: Path) -> None:
    with run_parked_child(delete, str(home), "k", at=Failpoint.BRANCH_INTENT) as child:
        make_again(home)
        child.release()
    assert_left(home, "main", "first")
