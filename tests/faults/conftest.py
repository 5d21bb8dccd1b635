"""A stage for every fault: a graph of its own on which a story is about to be written."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.story import BASE, SCHEMA, WRITES, Content, Write, content

PLACES = ("main", "owned", "fresh")
"""Where a story is written: on main, on a branch that owns its tables, on one that has to fork them first."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A graph, and where on it a story is written."""

    uri: str
    branch: str
    write: Write
    before: Content
    after: Callable[..., Content]

    def open(self, **options: object) -> Graph:
        """Another handle."""
        return omnigraphdb.open(self.uri, **options)  # type: ignore[arg-type]

    def write_with(self, graph: Graph, tag: str, actor: str | None = "ada") -> None:
        """Write the story."""
        self.write.run(graph, self.branch, tag, actor)

    def content(self, graph: Graph) -> Content:
        """What the branch shows."""
        return content(graph, self.branch)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a few entities, to be copied; it has no branches, whose files know where they are."""
    root = tmp_path_factory.mktemp("template") / "graph"
    with omnigraphdb.init(root, SCHEMA) as graph:
        graph.load(BASE, mode="append")
    return root


@pytest.fixture(scope="session")
def models(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, tuple[str, ...]], Content]:
    """What a graph shows after stories were written one after the other, with no fault."""
    numbers = iter(range(10**6))
    root = tmp_path_factory.mktemp("models")

    @cache
    def model(name: str, tags: tuple[str, ...]) -> Content:
        place = root / str(next(numbers))
        shutil.copytree(template, place)
        with omnigraphdb.open(place) as graph:
            for tag in tags:
                WRITES[name].run(graph, "main", tag, None)
            return content(graph)

    return model


@pytest.fixture
def stage(
    template: Path, models: Callable[[str, tuple[str, ...]], Content], tmp_path: Path
) -> Callable[[str, str], Stage]:
    """Set a graph up for a story at a place."""

    def build(name: str, place: str) -> Stage:
        root = tmp_path / "graph"
        shutil.copytree(template, root)
        first: tuple[str, ...] = ("0",) if place == "owned" else ()
        if place != "main":
            with omnigraphdb.open(root) as graph:
                graph.branch_create(place)
                for tag in first:
                    WRITES[name].run(graph, place, tag, None)
        return Stage(
            uri=str(root),
            branch=place,
            write=WRITES[name],
            before=models(name, first),
            after=lambda *tags: models(name, (*first, *tags)),
        )

    return build


SHORT_OWNED = frozenset({"insert", "merge"})
"""Stories that the default run also writes on a branch that owns its tables; the long runs write all of them there."""

TWINS = {
    "test_a_failed_write_is_whole_or_absent": "test_a_killed_write_is_whole_or_absent",
    "test_a_failed_load_is_whole_or_absent": "test_a_killed_load_is_whole_or_absent",
    "test_a_load_of_two_commits_that_fails_is_whole_or_absent": "test_a_load_of_two_commits_that_is_killed_is_whole_or_absent",
    "test_a_merge_that_fails_anywhere_is_whole_or_absent": "test_a_merge_killed_anywhere_is_whole_or_absent",
    "test_a_group_that_fails_is_whole_or_absent": "test_a_group_that_is_killed_is_whole_or_absent",
}
"""Tests of the same cells, as an error and as a death: the default run tries a cell as one of them, the long runs as both."""
HALVED = frozenset(
    {
        "test_a_recovery_that_dies_twice_at_every_failpoint_leaves_one_commit_and_one_record",
        "test_r2_r3_r4_a_recovery_that_dies_again_and_again_ends_as_it_began",
    }
)
"""Tests of which the default run tries every other cell; each goes through all failpoints of recovery."""
DRAW = b"f"
"""A draw in which every failpoint that stands in two cells fails in one and kills in another."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the long runs what differs from another case by the branch or by the kind of end alone."""
    for item in items:
        cell = getattr(getattr(item, "callspec", None), "id", "")
        given = set(cell.split("-"))
        test = getattr(item, "originalname", "")
        is_write = item.path.name == "test_writes.py"
        is_long = is_write and "owned" in given and not given & SHORT_OWNED
        is_odd = crc32(DRAW + cell.encode()) % 2
        is_long |= test in TWINS.values() and not is_odd
        if is_long or (is_odd and (test in TWINS or test in HALVED)):
            item.add_marker(pytest.mark.soak)
