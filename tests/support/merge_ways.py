"""Random work on two branches, and merges of it in memory and in steps."""

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.merge.merge import MergeResult, merge
from omnigraphdb.engine.write.runner_choice import ChooseRunner, RunnerChoice
from omnigraphdb.errors import UserInputError
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import Runner

SCHEMA = """
node P { name: String @key  a: I32?  b: String?  u: I32? @unique  tags: [String]?  v: Vector(3)? }
edge E: P -> P { w: F64? }
edge One: P -> P @card(0..1)
"""
TYPES = ("P", "E", "One")
BYSTANDERS = 30

NAMES = st.sampled_from(["p0", "p1", "p2", "p3", "p4"])
SMALL = st.sampled_from([None, 1, 2])
operations = st.one_of(
    st.tuples(
        st.just("put"), NAMES, SMALL, st.sampled_from([None, "", "x"]), SMALL, st.integers(0, 3)
    ),
    st.tuples(st.just("edge"), st.sampled_from(["e0", "e1", "e2"]), NAMES, NAMES, SMALL),
    st.tuples(st.just("one"), st.sampled_from(["o0", "o1"]), NAMES, NAMES),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("cut"), NAMES),
    st.tuples(st.just("tend")),
)
FEW: list[tuple[str, tuple[Any, ...]]] = [
    ("main", ("put", "p0", 1, "m", 7, 1)),
    ("side", ("put", "p0", 2, "s", None, 2)),
    ("main", ("put", "p3", 1, "m", 8, 0)),
    ("side", ("put", "p3", 2, "s", None, 3)),
    ("side", ("drop", "p1")),
    ("main", ("put", "p1", 9, None, None, 1)),
    ("side", ("put", "p4", 1, None, 7, 1)),
    ("main", ("edge", "e0", "p2", "p2", 1)),
]
"""Work with a conflict of each kind."""

VECTORS = (None, [0.0, 1.0, 2.0], [-0.0, 1.0, 2.0], [0.5, 0.5, 0.5])


def apply_step(graph: Graph, branch: str, step: tuple[Any, ...]) -> None:
    """Do one step; a step the graph refuses (a missing end, a taken value) is no step."""
    try:
        _apply(graph, branch, step)
    except UserInputError:
        return


def _apply(graph: Graph, branch: str, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", name, a, b, u, n):
            tags = [[], ["x"], ["x", "y"], None][n]
            row = {"name": name, "a": a, "b": b, "u": u, "tags": tags, "v": VECTORS[n]}
            graph.load([{"type": "P", "data": row}], mode="merge", branch=branch)
        case ("edge", id_, src, dst, w):
            record = {"edge": "E", "from": src, "to": dst, "data": {"id": id_, "w": w}}
            graph.load([record], mode="merge", branch=branch)
        case ("one", id_, src, dst):
            record = {"edge": "One", "from": src, "to": dst, "data": {"id": id_}}
            graph.load([record], mode="merge", branch=branch)
        case ("drop", name):
            graph.mutate(
                "query d($n: String) { delete P where name = $n }", {"n": name}, branch=branch
            )
        case ("cut", name):
            graph.mutate(
                "query d($n: String) { delete E where from = $n }", {"n": name}, branch=branch
            )
        case ("tend",):
            graph.optimize()
        case _:
            raise AssertionError(step)


@contextmanager
def merge_graph() -> Iterator[Graph]:
    """A graph with rows that nobody touches around others, and a branch."""
    with (
        tempfile.TemporaryDirectory() as folder,
        omnigraphdb.init(Path(folder) / "g", SCHEMA) as graph,
    ):
        names = [f"p{n}" for n in range(3)] + [f"q{n:02d}" for n in range(BYSTANDERS)]
        rows = [{"type": "P", "data": {"name": name, "a": 1}} for name in names]
        graph.load(rows, mode="append")
        graph.branch_create("side")
        yield graph


def in_steps(buckets: int) -> ChooseRunner:
    """Choose steps in threads of this process."""
    return by_runner(LocalRunner(2, buckets=buckets))


def by_runner(runner: Runner) -> ChooseRunner:
    """Choose a runner, whatever the size."""
    return lambda _size: RunnerChoice(runner, "the test asks for it")


def merge_by(
    graph: Graph,
    choose_runner: Callable[[Any], RunnerChoice] | None,
    source: str = "side",
    target: str = "main",
    **options: Any,
) -> MergeResult:
    """Merge a branch by a chosen runner; without one in memory."""
    return merge(graph._engine, source, target, choose_runner=choose_runner, **options)


def content(graph: Graph, branch: str = "main") -> dict[str, list[dict[str, Any]]]:
    """Every row of every type, by id."""
    return {
        name: sorted(graph.table(name, branch=branch).to_pylist(), key=lambda row: row["id"])
        for name in TYPES
    }


def make_random_steps(chance: random.Random, count: int) -> list[tuple[str, tuple[Any, ...]]]:
    """Some work on both branches; the same numbers give the same work."""
    return [(chance.choice(["main", "side"]), _make_step(chance)) for _ in range(count)]


def _make_step(chance: random.Random) -> tuple[Any, ...]:
    name, other = (f"p{chance.randrange(5)}" for _ in range(2))
    small, text = chance.choice([None, 1, 2]), chance.choice([None, "", "x"])
    match chance.randrange(6):
        case 0:
            return ("edge", f"e{chance.randrange(3)}", name, other, small)
        case 1:
            return ("one", f"o{chance.randrange(2)}", name, other)
        case 2:
            return ("drop", name)
        case _:
            return ("put", name, small, text, chance.choice([None, 1, 2]), chance.randrange(4))
