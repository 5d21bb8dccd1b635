"""What a write and a read ask of the store, by counting; none of it grows with the history of the graph."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.limits import MANIFEST_FRAGMENTS_MAX
from omnigraphdb.storage.counters import counting

SCHEMA = """
node Person { name: String @key  mail: String?  age: I32?  @unique(mail) }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
"""
KEYED = "query q($k: String) { insert Person { name: $k } }"
KEYLESS = "query q($k: String) { insert Note { text: $k } }"
EDGE = 'query q($k: String) { insert Knows { from: "ada", to: "bo" } }'
BOTH = 'query q($k: String) { insert Person { name: $k } insert Knows { from: $k, to: "ada" } }'
UPDATE = 'query q($k: String) { update Person set { mail: $k } where name = "ada" }'
FRIENDS = "query q() { match { $p: Person  $p knows $f } return { $p.name, $f.name as friend } }"

ONE_ROW = {
    "manifest_probes": 4,
    "manifest_swaps": 1,
    "object_deletes": 1,
    "object_lists": 2,
    "object_writes": 1,
    "stage_append": 1,
    "stage_append_rows": 1,
    "table_commits": 1,
    "table_probes": 1,
}
"""Heal and contract are looked up (2 lists), the manifest is looked at four times (for a policy, before preparing,
with the locks taken, and under the lock of publishers), the sidecar comes and goes, one table is staged and committed, the manifest is swapped."""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"})
    graph.mutate('query q() { insert Person { name: "ada" } insert Person { name: "bo" } }')
    graph.mutate('query q() { insert Knows { from: "ada", to: "bo" } }')
    return graph


def cost(work: Callable[[], Any]) -> dict[str, int]:
    with counting() as costs:
        work()
    return {name: n for name, n in costs.as_dict().items() if name != "object_reads"}


def write(graph: Graph, query: str, number: int = 0) -> dict[str, int]:
    return cost(lambda: graph.mutate(query, {"k": f"k{number}"}))


@pytest.mark.parametrize("query", [KEYED, KEYLESS], ids=["keyed", "keyless"])
def test_a_warm_insert_opens_and_scans_nothing(graph: Graph, query: str) -> None:
    write(graph, query, 1)
    assert write(graph, query, 2) == ONE_ROW


def test_a_warm_edge_insert_finds_its_endpoints_without_a_lookup(graph: Graph) -> None:
    write(graph, EDGE, 1)
    assert write(graph, EDGE, 2) == ONE_ROW


def test_a_node_with_its_edge_stages_each_table_once_and_swaps_once(graph: Graph) -> None:
    write(graph, BOTH, 1)
    assert write(graph, BOTH, 2) == ONE_ROW | {
        "stage_append": 2,
        "stage_append_rows": 2,
        "table_commits": 2,
        "table_probes": 2,
    }


def test_statements_of_one_table_are_one_stage_call(graph: Graph) -> None:
    five = "query q() { " + " ".join(f'insert Person {{ name: "n{i}" }}' for i in range(5)) + " }"
    assert cost(lambda: graph.mutate(five)) == ONE_ROW | {"stage_append_rows": 5}


def test_an_upsert_of_an_id_that_is_there_is_one_merge(graph: Graph) -> None:
    found = cost(lambda: graph.mutate('query q() { insert Person { name: "ada", age: 3 } }'))
    assert (found["stage_merge"], found["stage_merge_rows"]) == (1, 1)
    assert "stage_append" not in found
    assert found["manifest_swaps"] == 1


def test_a_write_that_matches_nothing_stages_and_commits_nothing(graph: Graph) -> None:
    found = cost(
        lambda: graph.mutate('query q() { update Person set { age: 1 } where name = "x" }')
    )
    assert not {"stage_merge", "table_commits", "manifest_swaps", "object_writes"} & found.keys()


def test_a_mutation_that_mixes_writes_and_deletes_asks_for_a_policy_only(graph: Graph) -> None:
    mixed = 'query q() { insert Note { text: "x" } delete Note where text = "x" }'

    def refused() -> None:
        with pytest.raises(omnigraphdb.QueryError):
            graph.mutate(mixed)

    assert cost(refused) == {"manifest_probes": 1}


def depths(graph: Graph, query: str, upto: int, every: int) -> list[dict[str, int]]:
    """What most of the writes cost, for one stretch of commits after the other."""
    found = []
    for start in range(0, upto, every):
        costs = [tuple(write(graph, query, start + n).items()) for n in range(every)]
        found.append(dict(Counter(costs).most_common(1)[0][0]))
    return found


def test_a_write_costs_at_commit_300_what_it_cost_at_commit_5(graph: Graph) -> None:
    found = depths(graph, KEYED, upto=300, every=50)
    assert found == [ONE_ROW] * 6


def test_the_manifest_is_folded_once_in_some_hundred_commits(graph: Graph) -> None:
    """A fragment holds the rows of several commits, so that there are seldom too many."""
    total: Counter[str] = Counter()
    for number in range(9 * MANIFEST_FRAGMENTS_MAX):
        total += Counter(write(graph, KEYLESS, number))
    assert total["manifest_folds"] == 1
    # A fold leaves the known state behind, so that the next look loads it; nothing else ever does.
    assert total["manifest_scans"] <= total["manifest_folds"]


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_write_costs_at_commit_10000_what_it_cost_at_commit_5(tmp_path: Path) -> None:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    assert depths(graph, KEYED, upto=10_000, every=500) == [ONE_ROW] * 20
    assert graph.table("Person").num_rows == 10_000
    assert graph.doctor() == []


# ---- reads


def test_a_warm_read_opens_nothing_and_looks_once(graph: Graph) -> None:
    graph.query(FRIENDS)
    assert cost(lambda: graph.query(FRIENDS)) == {"manifest_probes": 1, "object_lists": 1}


def test_a_read_of_another_branch_is_as_cheap_once_it_is_warm(graph: Graph) -> None:
    graph.branch_create("side")
    graph.query(FRIENDS, branch="side")
    found = cost(lambda: graph.query(FRIENDS, branch="side"))
    assert found == {"manifest_probes": 1, "object_lists": 1}


def test_a_reader_that_was_overtaken_loads_the_manifest_once(graph: Graph, tmp_path: Path) -> None:
    reader = omnigraphdb.open(tmp_path / "g", read_only=True)
    reader.query(FRIENDS)
    graph.mutate(EDGE, {"k": ""})
    found = cost(lambda: reader.query(FRIENDS))
    assert found["manifest_scans"] == 1
    assert found["manifest_probes"] <= 2
    assert cost(lambda: reader.query(FRIENDS)) == {"manifest_probes": 1, "object_lists": 1}


def test_a_query_looks_at_the_manifest_once_however_many_tables_it_reads(graph: Graph) -> None:
    wide = "query q() { match { $p: Person  $n: Note  $p knows $f } return { count($f) as n } }"
    assert cost(lambda: graph.query(wide))["manifest_probes"] == 1


# ---- loads and constraints


def people(n: int, tag: str) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"name": f"{tag}{i}", "mail": f"{tag}{i}@"}} for i in range(n)
    ]


def test_uniqueness_is_probed_as_often_for_64_rows_as_for_4(graph: Graph) -> None:
    engine = graph._engine

    def probed(n: int, tag: str) -> dict[str, int]:
        from omnigraphdb.engine.write.load import load

        found = cost(lambda: load(engine, people(n, tag), mode="append"))
        return {name: found.get(name, 0) for name in ("table_opens", "table_scans", "stage_append")}

    probed(2, "warm")
    assert probed(4, "a") == probed(64, "b")


def test_a_load_of_several_tables_stages_each_once(graph: Graph) -> None:
    from omnigraphdb.engine.write.load import load

    records = [*people(3, "x"), *({"type": "Note", "data": {"text": "t"}} for _ in range(4))]
    found = cost(lambda: load(graph._engine, records, mode="append"))
    assert (found["stage_append"], found["table_commits"], found["manifest_swaps"]) == (2, 2, 1)
    assert found["stage_append_rows"] == 7


class Crowd:
    """Holds back whoever stages until there are more of them than there may be, or none comes any more."""

    def __init__(self, stage: Callable[..., Any], bound: int) -> None:
        self._stage, self._bound = stage, bound
        self._changed = threading.Condition()
        self.inside = self.most = 0
        self._waited = False

    def __call__(self, *args: Any) -> Any:
        with self._changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self._changed.notify_all()
            if not self._waited:
                self._changed.wait_for(lambda: self._waited or self.most > self._bound, timeout=1)
                self._waited = True
                self._changed.notify_all()
        try:
            return self._stage(*args)
        finally:
            with self._changed:
                self.inside -= 1


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_as_many_tables_are_staged_at_once_as_load_concurrency_says(
    tmp_path: Path, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "\n".join(f"node T{i} {{ k: String @key }}" for i in range(6))
    graph = omnigraphdb.init(tmp_path / "g", schema, config={"load_concurrency": concurrency})
    records = [{"type": f"T{i % 6}", "data": {"k": str(i)}} for i in range(60)]
    tables = graph._engine.store.tables
    crowd = Crowd(tables.stage_append, concurrency)
    monkeypatch.setattr(type(tables), "stage_append", lambda self, *args: crowd(*args))
    assert graph.load(records, mode="append").total_rows == 60
    assert crowd.most == min(concurrency, 6)
    assert [record["data"]["k"] for record in graph.export()] == [
        str(k) for t in range(6) for k in sorted(map(str, range(t, 60, 6)))
    ]
    assert graph.doctor() == []
