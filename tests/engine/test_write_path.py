"""The life of a write as its callers see it: all of it or nothing, in one commit, under its turns."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed, parked
from omnigraphdb.ids import RECOVERY_ACTOR, TableKey
from tests.support.settled import assert_settled, digest
from tests.support.writers import in_threads

SCHEMA = """
node Person { name: String @key  age: I32?  nickName: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""
ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    graph.load(
        [
            *({"type": "Person", "data": {"name": n, "age": i}} for i, n in enumerate("abcd")),
            {"type": "City", "data": {"name": "Ghent"}},
            {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}},
            {"edge": "Knows", "from": "b", "to": "c", "data": {"id": "bc"}},
            {"edge": "LivesIn", "from": "a", "to": "Ghent", "data": {"id": "aG"}},
        ],
        mode="append",
    )
    return graph


def names(graph: Graph, **where: Any) -> list[str]:
    return sorted(graph.table("Person", **where)["name"].to_pylist())


def ages(graph: Graph) -> dict[str, int | None]:
    rows = graph.table("Person").to_pylist()
    return {row["name"]: row["age"] for row in rows}


def heads(graph: Graph) -> dict[str, int]:
    tables = graph._engine.store.tables
    entries = graph.snapshot()._view.snapshot.entries.values()
    return {entry.table_key: tables.head(entry.at.path, entry.at.branch) for entry in entries}


# ---- one commit


def test_a_write_of_several_statements_and_tables_is_one_version_and_one_commit(
    graph: Graph,
) -> None:
    before, commits = graph.snapshot().manifest_version, len(graph.commits())
    done = graph.mutate(
        """query q() {
             insert Person { name: "x" }  insert Person { name: "y" }  insert City { name: "Oslo" }
             insert Knows { from: "x", to: "y" }  insert LivesIn { from: "x", to: "Oslo" } }"""
    )
    assert (done.affected_nodes, done.affected_edges) == (3, 2)
    assert graph.snapshot().manifest_version == before + 1
    assert len(graph.commits()) == commits + 1
    assert graph.commits()[0].tables == ("edge:Knows", "edge:LivesIn", "node:City", "node:Person")
    assert_settled(graph)


def test_a_write_that_matches_nothing_publishes_nothing(graph: Graph) -> None:
    before = graph.snapshot().manifest_version
    for query in (
        'query q() { update Person set { age: 1 } where name = "none" }',
        "query q() { delete Person where age > 100 }",
        "query q($n: String?) { delete Person where name = $n }",
    ):
        done = graph.mutate(query)
        assert (done.affected_nodes, done.affected_edges, done.commit) == (0, 0, None)
    assert graph.snapshot().manifest_version == before


# ---- reading what was written


def test_later_statements_see_earlier_ones_and_nothing_they_replaced(graph: Graph) -> None:
    done = graph.mutate(
        """query q() {
             insert Person { name: "p", age: 10 }
             update Person set { age: 20 } where age = 10
             update Person set { age: 99 } where age = 10 }"""
    )
    assert done.affected_nodes == 2
    assert ages(graph)["p"] == 20
    overlapping = """query q() {
        update Person set { age: 50 } where age < 2
        update Person set { age: 60 } where age >= 50 }"""
    assert graph.mutate(overlapping).affected_nodes == 4
    assert ages(graph) == {"a": 60, "b": 60, "c": 2, "d": 3, "p": 20}


def test_a_property_keeps_its_case_in_chained_updates(graph: Graph) -> None:
    graph.mutate(
        """query q() {
             update Person set { nickName: "Al" } where name = "a"
             update Person set { nickName: "Bo" } where nickName = "Al" }"""
    )
    assert graph.entity("Person", "a")["nickName"] == "Bo"  # type: ignore[index]


def test_texts_are_data_and_never_part_of_a_filter(graph: Graph) -> None:
    nasty = "x' or '1'='1"
    assert (
        graph.mutate(
            "query q($t: String) { delete Person where nickName = $t }", {"t": nasty}
        ).commit
        is None
    )
    graph.mutate("query q($t: String) { insert Person { name: $t, nickName: $t } }", {"t": nasty})
    found = graph.mutate(
        "query q($t: String) { update Person set { age: 7 } where nickName = $t }", {"t": nasty}
    )
    assert found.affected_nodes == 1
    assert ages(graph)[nasty] == 7


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("age = 1", {"b"}),
        ("age != 1", {"a", "c", "d"}),
        ("age < 1.5", {"a", "b"}),
        ("age >= 2", {"c", "d"}),
        ("age > 3000000000", set()),
        ("age < 3000000000", {"a", "b", "c", "d"}),
        ("age = 2.5", set()),
        ('name > "b"', {"c", "d", "e"}),
        ('nickName != "x"', {"d"}),
    ],
)
def test_predicates_of_updates_and_deletes_select_the_same_rows(
    graph: Graph, where: str, expected: set[str]
) -> None:
    graph.mutate('query q() { insert Person { name: "e" } }')
    graph.mutate('query q() { update Person set { nickName: "y" } where name = "d" }')
    updated = graph.mutate(f"query q() {{ update Person set {{ age: 1000 }} where {where} }}")
    assert updated.affected_nodes == len(expected)
    assert {name for name, age in ages(graph).items() if age == 1000} == expected
    commit = updated.commit.parent if updated.commit else None
    graph.branch_create("before", at=commit)
    deleted = graph.mutate(f"query q() {{ delete Person where {where} }}", branch="before")
    assert deleted.affected_nodes == len(expected)
    assert set(names(graph, branch="before")) == set("abcde") - expected
    assert_settled(graph)


def test_an_edge_and_its_new_node_come_in_one_query_in_any_order(graph: Graph) -> None:
    graph.mutate('query q() { insert Knows { from: "a", to: "n" } insert Person { name: "n" } }')
    assert "n" in names(graph)
    before = heads(graph)
    with pytest.raises(omnigraphdb.ReferentialError):
        graph.mutate(
            'query q() { insert Person { name: "m" } insert Knows { from: "m", to: "nobody" } }'
        )
    assert heads(graph) == before
    assert "m" not in names(graph)


# ---- deletes


def test_a_delete_takes_edges_along_and_counts_everything_once(graph: Graph) -> None:
    done = graph.mutate(
        """query q() {
             delete Person where name = "a"
             delete Person where age < 2
             delete Knows where from = "a"
             delete Knows where to = "c" }"""
    )
    assert (done.affected_nodes, done.affected_edges) == (2, 3)
    assert names(graph) == ["c", "d"]
    assert graph.table("Knows").num_rows == graph.table("LivesIn").num_rows == 0
    assert_settled(graph)


def test_a_missing_value_in_one_predicate_hides_no_row_from_the_next(graph: Graph) -> None:
    graph.mutate('query q() { insert Person { name: "e" } }')
    done = graph.mutate('query q() { delete Person where age > 1 delete Person where name = "e" }')
    assert done.affected_nodes == 3
    assert names(graph) == ["a", "b"]


def test_a_delete_that_was_overtaken_is_refused_and_removes_nothing(graph: Graph) -> None:
    refused: list[BaseException] = []

    def delete() -> None:
        try:
            graph.mutate("query q() { delete Person where age >= 0 }")
        except omnigraphdb.OmniError as error:
            refused.append(error)

    with parked(Failpoint.PREPARED) as park:
        deleter = threading.Thread(target=delete)
        deleter.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        graph.mutate('query q() { update Person set { age: 9 } where name = "c" }')
        park.release()
        deleter.join(PARK_SECONDS_MAX)
    (conflict,) = refused
    assert isinstance(conflict, omnigraphdb.ManifestConflict)
    assert conflict.actual == conflict.expected + 1
    reopened = omnigraphdb.open(graph.uri)
    assert ages(reopened) == {"a": 0, "b": 1, "c": 9, "d": 3}
    assert_settled(reopened)


# ---- failing before, and after, the point of no return


@pytest.mark.parametrize(
    "query",
    [
        'query q() { insert Person { name: "x" } insert Knows { from: "x", to: "nobody" } }',
        'query q() { insert City { name: "Oslo" } insert LivesIn { from: "a", to: "Oslo" } }',
        "query q($n: I64) { update Person set { age: 3 } where age = 1 update Person set { age: $n } where age = 2 }",
    ],
    ids=["endpoint", "cardinality", "value"],
)
def test_a_failing_statement_leaves_no_trace_and_the_next_write_works(
    graph: Graph, query: str
) -> None:
    before, rows = digest(Path(graph.uri)), ages(graph)
    with pytest.raises(omnigraphdb.UserInputError):
        graph.mutate(query, {"n": 2**40} if "$n" in query else None)
    assert digest(Path(graph.uri)) == before
    assert ages(graph) == rows
    graph.mutate(ADD, {"name": "after"})
    assert_settled(graph)


def test_a_mix_of_writes_and_deletes_is_refused_even_when_nothing_could_be_written(
    graph: Graph,
) -> None:
    before = (heads(graph), graph.snapshot().manifest_version)
    mixed = 'query swap() { insert Person { name: "x" } delete Person where name = "a" }'
    with armed(Failpoint.SIDECAR_LIST), pytest.raises(omnigraphdb.QueryError) as caught:
        graph.mutate(mixed)
    assert caught.value.code == "T29"
    assert "swap" in str(caught.value)
    assert (heads(graph), graph.snapshot().manifest_version) == before


def test_an_interrupted_write_is_healed_before_the_next_one_looks(graph: Graph) -> None:
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        graph.mutate(ADD, {"name": "late"}, actor="ada")
    assert "late" not in names(graph)
    done = graph.mutate('query q() { update Person set { age: 77 } where name = "late" }')
    assert done.affected_nodes == 1
    healed, own = graph.commits()[1], graph.commits()[0]
    assert own.parent == healed.id
    assert (healed.actor, healed.kind) == (RECOVERY_ACTOR, "recovery")
    assert ages(graph)["late"] == 77
    assert_settled(graph)


PHASES = [
    Failpoint.STAGED,
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
    Failpoint.SIDECAR_DELETE,
]


@pytest.mark.parametrize("phase", PHASES)
def test_the_turn_of_a_table_is_held_from_before_the_sidecar_until_it_is_gone(
    graph: Graph, phase: Failpoint
) -> None:
    table_locks = graph._engine.committer.locks
    own, other = (lock_key(TableKey(f"node:{name}"), None) for name in ("Person", "City"))
    with parked(phase) as park:
        writer = threading.Thread(target=lambda: graph.mutate(ADD, {"name": "slow"}))
        writer.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        with table_locks.try_acquire([own]) as held:
            assert held is None
        with table_locks.try_acquire([other]) as held:
            assert held is not None
        if phase in PHASES[:4]:
            # Up to the publish a writer of another table passes by.
            graph.mutate('query q() { insert City { name: "Oslo" } }')
        park.release()
        writer.join(PARK_SECONDS_MAX)
    with table_locks.try_acquire([own]) as held:
        assert held is not None
    assert "slow" in names(graph)
    assert_settled(graph)


class Cancelled(BaseException):
    """What a caller's own cancellation looks like from inside."""


def cancel() -> None:
    raise Cancelled


@pytest.mark.parametrize("phase", [Failpoint.PREPARED, *PHASES])
def test_a_write_that_is_cancelled_anywhere_is_whole_or_absent(
    graph: Graph, phase: Failpoint
) -> None:
    query = 'query q() { insert Person { name: "x" } insert Knows { from: "x", to: "a" } }'
    with armed(phase, cancel), pytest.raises(Cancelled):
        graph.mutate(query)
    seen = ("x" in names(graph), graph.table("Knows").num_rows == 3)
    assert seen in ((True, True), (False, False))
    (refused,) = in_threads([lambda: graph.mutate(ADD, {"name": "next"})])
    if refused is not None:
        assert isinstance(refused, omnigraphdb.RecoveryRequired)
        assert refused.operation_id
        assert "read-write" in str(refused)
    graph.refresh(roll_back=True)
    graph.mutate(ADD, {"name": "after"})
    assert_settled(graph)
    assert ("x" in names(graph)) == (graph.table("Knows").num_rows == 3)


def test_the_deprecated_argument_of_refresh_works_and_warns(graph: Graph) -> None:
    with pytest.warns(omnigraphdb.OmniWarning, match="use roll_back="):
        graph.refresh(settle=True)
    assert_settled(graph)


# ---- preconditions


def test_a_write_can_insist_on_the_head_it_was_decided_on(graph: Graph) -> None:
    head = graph.commits()[0]
    assert graph.mutate(ADD, {"name": "first"}, if_commit=head).commit is not None
    with pytest.raises(omnigraphdb.PreconditionFailed) as caught:
        graph.mutate(ADD, {"name": "second"}, if_commit=head.id)
    assert caught.value.expected == head.id
    assert caught.value.actual == graph.commits()[0].id
    assert "second" not in names(graph)
    assert_settled(graph)


@pytest.mark.parametrize("stale", [False, True])
def test_a_write_that_nothing_comes_of_expects_its_head_too(graph: Graph, stale: bool) -> None:
    head = graph.commits()[0]
    if stale:
        graph.mutate(ADD, {"name": "rival"})
    record = {"type": "Person", "data": {"name": "new"}}
    graph.branch_create("same")
    for write in (
        lambda: graph.mutate(ADD, {"name": "new"}, if_commit=head, dry_run=True),
        lambda: graph.load([record], mode="append", if_commit=head, dry_run=True),
        lambda: graph.mutate('query q() { delete Person where name = "nobody" }', if_commit=head),
        lambda: graph.merge("same", if_commit=head),
    ):
        with pytest.raises(omnigraphdb.PreconditionFailed) if stale else nullcontext():
            write()


def test_merges_and_schema_changes_can_insist_on_a_head_too(graph: Graph) -> None:
    before = graph.commits()[0]
    graph.branch_create("review")
    graph.mutate(ADD, {"name": "beside"}, branch="review")
    graph.mutate(ADD, {"name": "meanwhile"})
    with pytest.raises(omnigraphdb.PreconditionFailed):
        graph.merge("review", if_commit=before)
    assert "beside" not in names(graph)
    seen = graph.commits()[0]
    graph.merge("review", if_commit=seen, idempotency_key="merge")
    # A repeated call is answered by its key, though the head has moved since.
    assert graph.merge("review", if_commit=seen, idempotency_key="merge").replayed
    assert "beside" in names(graph)
    graph.branch_delete("review")
    wider = graph.schema_source + "\nnode Wider { name: String @key }"
    with pytest.raises(omnigraphdb.PreconditionFailed):
        graph.schema_apply(wider, if_commit=before)
    assert "node:Wider" not in graph.snapshot().tables()
    graph.schema_apply(wider, if_commit=graph.commits()[0])
    assert "node:Wider" in graph.snapshot().tables()
    assert_settled(graph)


def test_of_many_writers_that_insist_on_one_head_one_wins(graph: Graph) -> None:
    head = graph.commits()[0]
    works: list[Callable[[], None]] = [
        lambda n=n: graph.mutate(ADD, {"name": f"n{n}"}, if_commit=head)  # type: ignore[misc]
        for n in range(6)
    ]
    raised = in_threads(works)
    assert sum(one is None for one in raised) == 1
    assert {type(one) for one in raised if one is not None} == {omnigraphdb.PreconditionFailed}
    assert_settled(graph)


def test_a_refresh_never_stands_in_the_way_of_a_schema_change(graph: Graph) -> None:
    stop = threading.Event()

    def refresh() -> None:
        while not stop.is_set():
            graph.refresh()

    def change() -> None:
        try:
            for number in range(3):
                added = "".join(f"  extra{n}: I32?" for n in range(number + 1))
                graph.schema_apply(SCHEMA.replace("nickName: String?", "nickName: String?" + added))
                graph.branch_create("side")
                graph.mutate(ADD, {"name": f"s{number}"}, branch="side")
                graph.branch_delete("side")
        finally:
            stop.set()

    assert in_threads([refresh, change]) == [None, None]
    assert graph.catalog.nodes["Person"].properties.keys() >= {"extra0", "extra1", "extra2"}
    assert_settled(graph)


# ---- branches


def test_a_cascade_on_a_fresh_branch_forks_nodes_and_edges(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate('query q() { delete Person where name = "b" }', branch="side")
    placed = {
        t["table_key"]: t["table_branch"] for t in graph.snapshot(branch="side").to_dict()["tables"]
    }
    assert placed == {
        "node:Person": "side",
        "edge:Knows": "side",
        "node:City": None,
        "edge:LivesIn": None,
    }
    assert names(graph) == ["a", "b", "c", "d"]
    assert names(graph, branch="side") == ["a", "c", "d"]
    assert graph.table("Knows", branch="side").num_rows == 0
    assert_settled(graph)


def test_an_edge_only_write_leaves_the_nodes_with_their_parent(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate('query q() { insert Knows { from: "c", to: "d" } }', branch="side")
    placed = {
        t["table_key"]: t["table_branch"] for t in graph.snapshot(branch="side").to_dict()["tables"]
    }
    assert [key for key, branch in placed.items() if branch == "side"] == ["edge:Knows"]
    query = "query q() { match { $p: Person  $p knows $f } return { $p.name, $f.name as f } }"
    assert len(graph.query(query, branch="side")) == 3
    assert len(graph.query(query)) == 2


def test_one_handle_writes_and_reads_several_branches_in_turn(graph: Graph) -> None:
    graph.branch_create("one")
    graph.branch_create("two", from_branch="one")
    for number in range(3):
        for branch in ("main", "one", "two"):
            graph.mutate(ADD, {"name": f"{branch}{number}"}, branch=branch)
    for branch in ("main", "one", "two"):
        assert names(graph, branch=branch) == sorted([*"abcd", *(f"{branch}{n}" for n in range(3))])
    assert repr(graph).endswith("on main>")
    assert_settled(graph)
