"""A branch is made while the schema changes: it has the tables of the one schema that all branches share, or it is not made."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConflictError, SchemaApplyConflict, UserInputError
from omnigraphdb.failpoints import Failpoint, armed

SCHEMA = "node Person { name: String @key }"
WIDER = "node Person { name: String @key  age: I32? }"
MAKE: dict[str, Callable[[Graph], object]] = {
    "plain": lambda graph: graph.branch_create("side"),
    "keyed": lambda graph: graph.branch_create("side", idempotency_key="once"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "ada"}}], mode="append")
    return tmp_path / "g"


@pytest.mark.parametrize(
    ("make", "point"),
    [
        ("plain", Failpoint.BRANCH_CAPTURED),
        ("keyed", Failpoint.BRANCH_INTENT),
        ("keyed", Failpoint.BRANCH_PAST),
    ],
)
def test_a_branch_is_prepared_again_after_a_schema_change(
    home: Path, make: str, point: Failpoint
) -> None:
    with omnigraphdb.open(home) as graph, omnigraphdb.open(home) as other:
        changes: Iterator[Callable[[], object]] = iter([lambda: other.schema_apply(WIDER)])

        def change() -> None:
            next(changes, lambda: None)()

        with armed(point, change):
            MAKE[make](graph)
        assert graph.snapshot(branch="side").table("Person").column_names == ["id", "name", "age"]
        if make == "keyed":
            MAKE[make](graph)
        assert [one.name for one in graph.branches()] == ["main", "side"]
        assert graph.doctor() == []


def test_a_point_that_was_named_is_refused_as_before(home: Path) -> None:
    with omnigraphdb.open(home) as graph:
        named = graph.commits()[0].id
        graph.schema_apply(WIDER)
        with pytest.raises(UserInputError, match="the schema changed in commit"):
            graph.branch_create("side", at=named, idempotency_key="once")


@pytest.mark.parametrize("make", MAKE)
def test_branches_race_with_schema_changes(home: Path, make: str) -> None:
    refused: list[BaseException] = []
    columns = ["id", "name"]

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            refused.append(error)

    with omnigraphdb.open(home) as graph, omnigraphdb.open(home) as other:
        for round_ in range(6):
            added = "  ".join(f"age{n}: I32?" for n in range(round_ + 1))
            schema = SCHEMA.replace("}", f"{added} }}")
            works = (lambda: MAKE[make](graph), lambda s=schema: other.schema_apply(s))
            threads = [threading.Thread(target=run, args=(work,)) for work in works]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            columns = graph.table("Person").column_names
            if len(graph.branches()) > 1:
                side = graph.snapshot(branch="side").table("Person").column_names
                assert side == columns
                graph.branch_delete("side")
            assert graph.doctor() == []
    # Nothing that would be done at a second try is the fault of the request.
    assert not [one for one in refused if not isinstance(one, ConflictError)]
    assert all(isinstance(one, SchemaApplyConflict) for one in refused) or make == "keyed"
