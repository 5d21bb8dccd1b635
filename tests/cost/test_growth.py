"""What a commit adds to the manifest does not grow with the history, and branches cost what is looked at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.ids import MAIN, CommitId, Version
from omnigraph.limits import MANIFEST_FRAGMENTS_MAX
from omnigraph.manifest.change import Change, Draft, Update
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publish import publish
from omnigraph.manifest.records import CommitKind
from omnigraph.storage.counters import Cost, Costs, counting
from omnigraph.storage.store import open_store
from omnigraph.storage.values import TableAt
from tests.support.manifests import PATHS, PERSON, new_manifest

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
SPAN = 64
"""Commits between two measurements: some folds are among them."""


def commit_often(manifest: Manifest, times: int) -> None:
    pin = manifest.current(MAIN).snapshot.pins[PERSON]
    for number in range(1, times + 1):
        at = TableAt(path=PATHS[PERSON], branch=None, version=Version(pin + number))
        draft = Draft(commit=CommitId(manifest.runtime.new_id()), kind=CommitKind.MUTATION)
        publish(
            manifest,
            Change(
                branch=MAIN,
                updates=(Update(table_key=PERSON, at=at, row_count=number),),
                draft=draft,
            ),
        )


def count_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_span(manifest: Manifest, folder: Path) -> float:
    """Bytes that a commit adds, on the average of a span of commits."""
    before = count_bytes(folder)
    commit_often(manifest, SPAN)
    return (count_bytes(folder) - before) / SPAN


def measure(folder: Path, histories: list[int]) -> list[float]:
    """Bytes that a commit adds after so many commits."""
    manifest = new_manifest(open_store(folder).manifest)
    found: list[float] = []
    made = 0
    for history in histories:
        commit_often(manifest, history - made)
        found.append(measure_span(manifest, folder))
        made = history + SPAN
    return found


def test_bytes_of_a_commit_are_flat(tmp_path: Path) -> None:
    first, later = measure(tmp_path / "g", [64, 448])
    assert later <= 1.5 * first


@pytest.mark.soak
def test_bytes_of_a_commit_are_flat_up_to_ten_thousand(tmp_path: Path) -> None:
    first, *later = measure(tmp_path / "g", [100, 1_000, 3_000, 10_000])
    assert max(later) <= 1.5 * first


# ---- many branches

BRANCHES = 8


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """A graph with some branches, half of them written, and a history."""
    with omnigraph.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"}) as made:
        for number in range(BRANCHES):
            made.mutate(ADD, {"name": f"m{number}"})
            made.branch_create(f"b{number}")
            if number % 2:
                made.mutate(ADD, {"name": f"b{number}"}, branch=f"b{number}")
        yield made


def count_costs(graph: Graph, work: Callable[[Graph], object]) -> Costs:
    """What work costs a handle that has seen nothing yet."""
    with omnigraph.open(graph.uri, config={"maintenance": "off"}) as fresh, counting() as costs:
        work(fresh)
    return costs


def test_a_listing_of_branches_reads_no_history(graph: Graph) -> None:
    heads = {one.name: (one.head, one.head_at) for one in graph.branches(compare=True)}
    found: dict[str, object] = {}

    def list_branches(fresh: Graph) -> None:
        found.update({one.name: (one.head, one.head_at) for one in fresh.branches()})

    costs = count_costs(graph, list_branches)
    assert costs[Cost.MANIFEST_SCANS] == 0
    assert costs[Cost.MANIFEST_OPENS] <= BRANCHES + 2
    assert found == heads


def test_heads_are_right_after_maintenance_and_folds(graph: Graph) -> None:
    graph.optimize()
    graph.ensure_indices(branch="b1")
    graph.branch_create("c", from_branch="b1")
    graph.branch_create("d", from_branch="c")
    for number in range(MANIFEST_FRAGMENTS_MAX + 4):
        graph.mutate(ADD, {"name": f"x{number}"}, branch="b3")
    with omnigraph.open(graph.uri) as fresh:
        listed = {one.name: one.head for one in fresh.branches()}
    assert listed == {one.name: one.head for one in graph.branches(compare=True)}


def test_a_deletion_reads_the_branch_and_main_only(graph: Graph) -> None:
    costs = count_costs(graph, lambda fresh: fresh.branch_delete("b1"))
    assert costs[Cost.MANIFEST_SCANS] <= 2


def test_a_doctor_reads_every_manifest_once(graph: Graph) -> None:
    costs = count_costs(graph, lambda fresh: fresh.doctor())
    assert costs[Cost.MANIFEST_SCANS] <= 1 + BRANCHES


def test_a_cleanup_reads_every_manifest_once_and_a_few_past_ones(graph: Graph) -> None:
    """The past ones are the states that merges need, and those by which the first version that stays is searched."""
    costs = count_costs(graph, lambda fresh: fresh.cleanup(keep=100))
    bases = BRANCHES
    searched = (1 + BRANCHES) * (2 * BRANCHES).bit_length()
    assert costs[Cost.MANIFEST_SCANS] <= 1 + BRANCHES + bases + searched


# ---- long histories


def build(folder: Path, commits: int, branches: int) -> Graph:
    """A graph of so many commits of one row, and of branches that have one more each."""
    graph = omnigraph.init(folder, SCHEMA)
    every = max(commits // branches, 1)
    for number in range(commits):
        graph.mutate(ADD, {"name": f"m{number}"})
        if number % every == every - 1:
            graph.branch_create(f"b{number}")
            graph.mutate(ADD, {"name": f"b{number}"}, branch=f"b{number}")
    return graph


FIND = 'query find() { match { $p: Person { name: "m1" } } return { $p.name } }'
ASKED: dict[str, Callable[[Graph], object]] = {
    "commits": lambda graph: graph.commits(limit=20),
    "point read": lambda graph: graph.query(FIND),
    "branches": lambda graph: graph.branches(),
}
REQUESTS = (Cost.OBJECT_READS, Cost.OBJECT_LISTS, Cost.MANIFEST_PROBES, Cost.MANIFEST_SCANS)


def count_requests(graph: Graph) -> dict[str, float]:
    """What an open and each question ask, of a handle that has seen nothing yet."""
    found: dict[str, float] = {}
    for name, work in ASKED.items():
        with counting() as costs, omnigraph.open(graph.uri, read_only=True) as fresh:
            opened = sum(costs[one] for one in REQUESTS)
            work(fresh)
        found["open"] = opened
        found[name] = sum(costs[one] for one in REQUESTS) - opened
    return found


def compare_histories(folder: Path, small: tuple[int, int], large: tuple[int, int]) -> None:
    with build(folder / "small", *small) as few, build(folder / "large", *large) as many:
        before, after = count_requests(few), count_requests(many)
        # A listing of branches asks for each of them.
        for counts, branches in ((before, small[1]), (after, large[1])):
            counts["branches"] /= 1 + branches
        assert all(after[name] <= 1.5 * before[name] for name in before), (before, after)
        assert many.commits(limit=20) == many.commits()[:20]
        removed = many.cleanup(keep=20, confirm=True).manifest
        assert removed.error is None
        assert removed.versions_removed >= large[0] // 2


def test_questions_ask_as_much_of_a_long_history_as_of_a_short_one(tmp_path: Path) -> None:
    compare_histories(tmp_path, (20, 2), (120, 8))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_questions_ask_as_much_of_ten_thousand_commits_and_a_hundred_branches(
    tmp_path: Path,
) -> None:
    compare_histories(tmp_path, (100, 2), (10_000, 100))
