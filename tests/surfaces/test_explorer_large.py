"""Routes of the explorer on graphs that are large in one way each: bounded answers that say what they leave out, at a flat price."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraphdb
from tests.support import large_graphs
from tests.support.served import ServerProcess, serving

pytestmark = pytest.mark.xdist_group(
    "explorer_large"
)  # Its tests share graphs that take long to make.

TICKS = 100
"""Parts of a second in which the system counts processor time."""


@dataclass(frozen=True)
class Sizes:
    """How large each graph is."""

    hub: int
    ports: int
    difference: int
    commits: int
    branches: int
    types: int


SMALL = Sizes(hub=3_000, ports=20_000, difference=3_000, commits=24, branches=8, types=24)
LARGE = Sizes(
    hub=100_000, ports=1_000_000, difference=99_999, commits=5_000, branches=200, types=200
)


@dataclass(frozen=True)
class Large:
    """A server of one graph for each way to be large."""

    sizes: Sizes
    folder: Path
    server: ServerProcess
    http: httpx.Client

    def get(self, graph: str, path: str, **params: Any) -> Any:
        found = self.http.get(f"/graphs/{graph}{path}", params=params)
        assert found.status_code == 200, found.text
        return found.json()

    def spend(self, call: Callable[[], object], times: int = 1) -> float:
        """Seconds of processor time that the server takes for a call, once it is warm."""
        call()
        before = self._used()
        for _ in range(times):
            call()
        return (self._used() - before) / times

    def _used(self) -> float:
        facts = Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(facts[11]) + int(facts[12])) / TICKS


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SMALL, id="small"),
        pytest.param(LARGE, id="large", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def large(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Large]:
    folder, sizes = tmp_path_factory.mktemp("large"), request.param
    for name in Sizes.__dataclass_fields__:
        make = getattr(large_graphs, f"make_{name}")
        make(folder / name, getattr(sizes, name)).close()
    words = [f"{name}={folder / name}" for name in Sizes.__dataclass_fields__]
    with (
        serving(*words, "--unauthenticated", log=folder / "log") as server,
        server.client(timeout=600) as http,
    ):
        yield Large(sizes, folder, server, http)


def test_a_hub_shows_some_of_its_edges_and_says_how_many_there_are(large: Large) -> None:
    asked = {"type": "Port", "id": large_graphs.HUB}
    found = large.get("hub", "/neighbours", **asked)
    assert found["groups"] == [
        {"edge": "Ships", "direction": "out", "type": "Port", "shown": 50, "total": large.sizes.hub}
    ]
    assert (len(found["nodes"]), len(found["edges"])) == (51, 50)
    most = large.get("hub", "/neighbours", **asked, limit=1_000_000)
    assert len(most["edges"]) == 1_000
    with omnigraphdb.open(large.folder / "hub", read_only=True) as graph:
        here = measure_here(lambda: graph.neighbours("Port", large_graphs.HUB), times=10)
    bare = large.spend(lambda: large.http.get("/healthz"), times=50)
    there = large.spend(lambda: large.get("hub", "/neighbours", **asked), times=10)
    assert there <= 2 * here + bare + 1 / TICKS


def measure_here(call: Callable[[], object], times: int) -> float:
    """Seconds of processor time that a call takes in this process, once it is warm."""
    call()
    before = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - before) / times


def test_rows_of_a_large_type_come_batch_by_batch(large: Large) -> None:
    types = {one["name"]: one["rows"] for one in large.get("ports", "/schema/graph")["types"]}
    assert types == {"Port": large.sizes.ports, "Ships": 0}
    with omnigraphdb.connect(large.server.url, graph="ports") as graph:
        text = "query all() { match { $p: Port } return { $p.code, $p.size } }"
        batches = [batch.num_rows for batch in graph.stream(text)]
        assert sum(batches) == large.sizes.ports
        assert len(batches) > 1 or large.sizes is SMALL
        few = graph.query(f"{text[:-1]} limit 10 }}")
        assert len(few) == 10
        assert graph.table("Port").num_rows == large.sizes.ports


def test_a_large_difference_is_counted_and_some_of_it_is_shown(large: Large) -> None:
    third = large.sizes.difference // 3
    drawn = large.get("difference", "/diff/graph", base="main", head="review", limit_nodes=500)
    assert drawn["counts"] == {"Port": {"inserted": third, "updated": third, "deleted": third}}
    assert (drawn["shown"], drawn["total"]) == (
        {"nodes": 500, "edges": 0, "unchanged_edges": 0},
        {"nodes": 3 * third, "edges": 0, "unchanged_edges": 0},
    )
    asked = {"from": "main", "to": "review", "limit": 10}
    first = large.get("difference", "/diff", **asked)
    stats = {"inserts": third, "updates": third, "deletes": third, "types_affected": ["Port"]}
    assert (len(first["changes"]), first["stats"]) == (10, stats)
    more = large.get("difference", "/diff", **asked, page_token=first["next_page_token"])
    assert (len(more["changes"]), more["stats"]) == (10, stats)
    assert more["changes"][0]["id"] > first["changes"][-1]["id"]
    spent = large.spend(lambda: large.get("difference", "/diff", **asked), times=3)
    assert spent <= 0.5 if large.sizes is LARGE else spent <= 0.1
    with omnigraphdb.open(large.folder / "difference", read_only=True) as graph:
        whole = measure_here(lambda: graph.diff("main", "review", spark=False), times=1)
    # Describing every change takes much longer than counting them and describing ten.
    assert spent < whole


def test_a_page_of_a_long_log_costs_the_same_wherever_it_begins(large: Large) -> None:
    size = max(10, large.sizes.commits // 10)
    pages = [large.get("commits", "/log/graph", limit=size)]
    while pages[-1]["next"] is not None:
        pages.append(large.get("commits", "/log/graph", limit=size, before=pages[-1]["next"]))
    ids = [one["graph_commit_id"] for page in pages for one in page["commits"]]
    assert (len(ids), len(set(ids))) == (large.sizes.commits, large.sizes.commits)
    assert {(page["total"], page["lanes"]) for page in pages} == {(large.sizes.commits, 1)}
    asked = {"limit": 10}
    first = large.spend(lambda: large.get("commits", "/log/graph", **asked), times=5)
    late = ids[-12]
    last = large.spend(lambda: large.get("commits", "/log/graph", **asked, before=late), times=5)
    assert last <= 1.5 * first + 2 / TICKS
    if large.sizes is LARGE:
        assert first <= 0.3


def test_branches_tell_who_moved_them_and_how_far_they_went(large: Large) -> None:
    found = large.get("branches", "/branches")["details"]
    assert len(found) == large.sizes.branches + 1
    assert {(one["ahead"], one["head_actor"]) for one in found[1:]} == {(1, "ada")}
    assert (found[1]["behind"], found[-1]["behind"]) == (3, 1)
    assert found[0]["head_actor"] == "bo"
    log = large.get("branches", "/log/graph", limit=1_000)
    assert log["total"] == len(log["commits"]) == large.sizes.branches + 4
    named = [name for one in log["commits"] for name in one["branches"]]
    assert sorted(named) == sorted(one["name"] for one in found)
    for path in ("/branches", "/log/graph"):
        spent = large.spend(lambda path=path: large.get("branches", path), times=3)  # type: ignore[misc]
        assert spent <= 0.01 * large.sizes.branches


def test_many_types_are_listed_with_their_ends(large: Large) -> None:
    found = large.get("types", "/schema/graph")["types"]
    assert len(found) == large.sizes.types
    edges = [one for one in found if one["kind"] == "edge"]
    assert all({one["from"], one["to"]} <= {node["name"] for node in found} for one in edges)
    assert len(large.get("types", "/snapshot")["tables"]) == large.sizes.types
    spent = large.spend(lambda: large.get("types", "/schema/graph"), times=3)
    assert spent <= 0.01 * large.sizes.types
