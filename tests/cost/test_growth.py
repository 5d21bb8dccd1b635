"""What a commit adds to the manifest does not grow with the history, and branches cost what is looked at."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import MAIN
from omnigraphdb.limits import MANIFEST_FRAGMENTS_MAX
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.counters import Cost, Costs, counting
from omnigraphdb.storage.store import open_store
from tests.support.manifests import new_manifest, publish_often

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
SPAN = 64
"""Commits between two measurements: some folds are among them."""


def count_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def count_bytes_read() -> int:
    """Bytes that this process has read so far, from the page cache too."""
    facts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(facts["rchar"])


def measure_opening(folder: Path) -> int:
    """Bytes that a handle reads which has seen nothing yet: the head, what is visible, a page of the log."""
    before = count_bytes_read()
    manifest = Manifest(rows=open_store(folder).manifest, runtime=SYSTEM)
    state = manifest.current(MAIN)
    assert state.head is not None
    assert len(state.newest(20).commits) >= 20
    return count_bytes_read() - before


@dataclass(frozen=True)
class Growth:
    """The bytes that a commit adds, and those that an opening reads, on the average of a span of commits."""

    added: float
    read: float


def measure_span(manifest: Manifest, folder: Path) -> Growth:
    before, read = count_bytes(folder), []
    for _ in range(SPAN // 16):
        publish_often(manifest, 16)
        read.append(measure_opening(folder))
    return Growth((count_bytes(folder) - before) / SPAN, sum(read) / len(read))


def measure(folder: Path, histories: list[int]) -> list[Growth]:
    """What commits and openings cost after so many commits."""
    manifest = new_manifest(open_store(folder).manifest)
    found: list[Growth] = []
    made = 0
    for history in histories:
        publish_often(manifest, history - made)
        found.append(measure_span(manifest, folder))
        made = history + SPAN
    return found


def require_flat(first: Growth, later: Sequence[Growth]) -> None:
    assert max(one.added for one in later) <= 1.5 * first.added
    assert max(one.read for one in later) <= 1.5 * first.read


def test_bytes_of_commits_and_openings_are_flat(tmp_path: Path) -> None:
    first, later = measure(tmp_path / "g", [96, 448])
    require_flat(first, [later])


@pytest.mark.soak
def test_bytes_of_commits_and_openings_are_flat_up_to_ten_thousand(tmp_path: Path) -> None:
    first, *later = measure(tmp_path / "g", [100, 1_000, 3_000, 10_000])
    require_flat(first, later)


# ---- many branches

BRANCHES = 8


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """A graph with some branches, half of them written, and a history."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"}) as made:
        for number in range(BRANCHES):
            made.mutate(ADD, {"name": f"m{number}"})
            made.branch_create(f"b{number}")
            if number % 2:
                made.mutate(ADD, {"name": f"b{number}"}, branch=f"b{number}")
        yield made


def count_costs(graph: Graph, work: Callable[[Graph], object]) -> Costs:
    """What work costs a handle that has seen nothing yet."""
    with omnigraphdb.open(graph.uri, config={"maintenance": "off"}) as fresh, counting() as costs:
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
    with omnigraphdb.open(graph.uri) as fresh:
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
    graph = omnigraphdb.init(folder, SCHEMA)
    every = max(commits // branches, 1)
    for number in range(commits):
        graph.mutate(ADD, {"name": f"m{number}"})
        if number % every == every - 1:
            graph.branch_create(f"b{number}")
            graph.mutate(ADD, {"name": f"b{number}"}, branch=f"b{number}")
    return graph


OPENINGS = 8
FIND = 'query find() { match { $p: Person { name: "m1" } } return { $p.name } }'
ASKED: dict[str, Callable[[Graph], object]] = {
    "commits": lambda graph: graph.commits(limit=20),
    "point read": lambda graph: graph.query(FIND),
    "branches": lambda graph: graph.branches(),
}
REQUESTS = (
    Cost.OBJECT_READS,
    Cost.OBJECT_LISTS,
    Cost.MANIFEST_PROBES,
    Cost.MANIFEST_SCANS,
    Cost.MANIFEST_HISTORY_SCANS,
)


def count_requests(graph: Graph) -> dict[str, float]:
    """What an open and each question ask, of a handle that has seen nothing yet."""
    found: dict[str, float] = {}
    for name, work in ASKED.items():
        with counting() as costs, omnigraphdb.open(graph.uri, read_only=True) as fresh:
            opened = sum(costs[one] for one in REQUESTS)
            work(fresh)
        found["open"] = opened
        found[name] = sum(costs[one] for one in REQUESTS) - opened
    return found


def compare_processor_time(few: Graph, many: Graph) -> None:
    """An opening with a question takes as long, by the time of the processor, in turns; the best of some is compared."""
    best: dict[tuple[str, str], float] = {}
    for _ in range(OPENINGS):
        for name, work in ASKED.items():
            for graph in () if name == "branches" else (few, many):
                began = time.process_time()
                with omnigraphdb.open(graph.uri, read_only=True) as fresh:
                    work(fresh)
                took = time.process_time() - began
                best[name, graph.uri] = min(took, best.get((name, graph.uri), took))
    for name in {name for name, _ in best}:
        assert best[name, many.uri] <= 1.5 * best[name, few.uri], best


def compare_histories(folder: Path, small: tuple[int, int], large: tuple[int, int]) -> None:
    with build(folder / "small", *small) as few, build(folder / "large", *large) as many:
        before, after = count_requests(few), count_requests(many)
        # A listing of branches asks for each of them.
        for counts, branches in ((before, small[1]), (after, large[1])):
            counts["branches"] /= 1 + branches
        assert all(after[name] <= 1.5 * before[name] for name in before), (before, after)
        assert many._engine.manifest.load(MAIN).image.history is not None
        compare_processor_time(few, many)
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
