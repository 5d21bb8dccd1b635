"""Branches, history and time travel through the handle: every commit keeps its own truth."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed
from omnigraphdb.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS
from tests.support.settled import assert_settled

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
FRIENDS = "query q() { match { $p: Person  $p knows $f } return { $p.name as a, $f.name as b } order { $p.name, $f.name } }"
LONELY = "query q() { match { $p: Person  not { $p knows $_ } } return { $p.name as a } order { $p.name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, actor="ada") as graph:
        graph.load(
            [
                *({"type": "Person", "data": {"name": n, "age": i}} for i, n in enumerate("abc")),
                {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}},
            ],
            mode="append",
        )
        yield graph
        assert_settled(graph)


def names(graph: Graph, **where: Any) -> list[str]:
    return sorted(graph.table("Person", **where)["name"].to_pylist())


def pairs(graph: Graph, **where: Any) -> list[str]:
    return [row["a"] + row["b"] for row in graph.query(FRIENDS, **where).rows]


# ---- snapshots


def test_a_snapshot_returns_the_same_whatever_is_written_later(graph: Graph) -> None:
    with graph.snapshot() as held:
        before = (held.table("Person").num_rows, held.query(FRIENDS).rows, list(held.export()))
        graph.mutate(ADD, {"n": "d"})
        graph.mutate('query q() { delete Person where name = "a" }')
        graph.load([{"type": "Person", "data": {"name": "z"}}], mode="merge")
        after = (held.table("Person").num_rows, held.query(FRIENDS).rows, list(held.export()))
    assert before == after


def test_a_query_never_sees_one_table_before_and_one_after_a_commit(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = graph._engine.store.tables
    opened = type(tables).open
    written: list[bool] = []

    def overtaken(self: Any, at: Any) -> Any:
        if not written and threading.current_thread() is threading.main_thread():
            written.append(True)
            both = 'query q() { insert Person { name: "n" } insert Knows { from: "n", to: "a" } }'
            worker = threading.Thread(target=lambda: other.mutate(both))
            worker.start()
            worker.join(PARK_SECONDS_MAX)
        return opened(self, at)

    other = omnigraphdb.open(graph.uri)
    graph._engine.cache.clear()
    tables.forget()
    monkeypatch.setattr(type(tables), "open", overtaken)
    assert pairs(graph) == ["ab"]
    assert written
    assert pairs(graph) == ["ab", "na"]


def test_readers_never_see_one_of_a_pair(graph: Graph) -> None:
    pair = "query q($k: String) { insert Person { name: $k } insert Knows { from: $k, to: $k } }"
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            with graph.snapshot() as held:
                nodes, edges = held.table("Person").num_rows, held.table("Knows").num_rows
            if nodes - 3 != edges - 1:
                wrong.append((nodes, edges))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(25):
        graph.mutate(pair, {"k": f"k{number}"})
    stop.set()
    for reader in readers:
        reader.join(PARK_SECONDS_MAX)
    assert wrong == []
    assert graph.table("Person").num_rows == 28


def test_a_reader_that_stays_open_sees_other_writers_at_once(graph: Graph) -> None:
    reader = omnigraphdb.open(graph.uri, read_only=True)
    assert pairs(reader) == ["ab"]
    graph.mutate('query q() { insert Knows { from: "b", to: "c" } }')
    assert pairs(reader) == ["ab", "bc"]
    graph.mutate('query q() { delete Knows where from = "a" }')
    assert pairs(reader) == ["bc"]
    graph.branch_create("side")
    assert pairs(reader, branch="side") == ["bc"]


# ---- lives of a branch


def test_a_name_that_is_deleted_and_made_again_shows_nothing_of_its_former_life(
    graph: Graph,
) -> None:
    reader = omnigraphdb.open(graph.uri, read_only=True)
    for life in range(3):
        graph.branch_create("side")
        graph.mutate(
            "query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } }",
            {"n": f"life{life}"},
            branch="side",
        )
        for handle in (graph, reader):
            assert names(handle, branch="side") == sorted([*"abc", f"life{life}"])
            assert pairs(handle, branch="side") == ["ab", f"life{life}life{life}"]
        graph.branch_delete("side")
        for handle in (graph, reader):
            with pytest.raises(omnigraphdb.NotFound):
                handle.query(FRIENDS, branch="side")


def test_a_deleted_branch_is_gone_even_when_its_files_could_not_be(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"n": "s"}, branch="side")
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete("side")
    for look in (
        lambda: graph.query(FRIENDS, branch="side"),
        lambda: graph.snapshot(branch="side"),
        lambda: graph.commits(branch="side"),
        lambda: graph.mutate(ADD, {"n": "t"}, branch="side"),
    ):
        with pytest.raises(omnigraphdb.NotFound):
            look()
    graph.branch_create("side")
    assert names(graph, branch="side") == ["a", "b", "c"]
    graph.mutate(ADD, {"n": "u"}, branch="side")
    assert names(graph, branch="side") == ["a", "b", "c", "u"]


def test_a_branch_of_a_branch_starts_there_and_leaves_both_parents_alone(graph: Graph) -> None:
    graph.branch_create("one")
    graph.mutate(ADD, {"n": "o"}, branch="one")
    made = graph.branch_create("two", from_branch="one")
    assert (made.parent, made.head) == ("one", graph.commits(branch="one")[0].id)
    graph.mutate(ADD, {"n": "t"}, branch="two")
    assert names(graph, branch="two") == ["a", "b", "c", "o", "t"]
    assert names(graph, branch="one") == ["a", "b", "c", "o"]
    assert names(graph) == ["a", "b", "c"]
    assert [(b.name, b.parent) for b in graph.branches()] == [
        ("main", None),
        ("one", "main"),
        ("two", "one"),
    ]


def test_a_branch_can_start_at_an_earlier_commit(graph: Graph) -> None:
    start = graph.commits()[0]
    graph.mutate(ADD, {"n": "later"})
    made = graph.branch_create("old", at=start)
    assert made.head == start.id
    assert names(graph, branch="old") == ["a", "b", "c"]
    graph.mutate(ADD, {"n": "x"}, branch="old")
    assert graph.commits(branch="old")[0].parent == start.id


def test_a_branch_that_must_be_merged_stays_until_all_of_it_is(graph: Graph) -> None:
    graph.branch_create("side")
    graph.branch_create("between")
    graph.branch_delete("between", merged_into="main")  # it has no commit of its own
    graph.branch_create("between")
    graph.mutate(ADD, {"n": "s"}, branch="side")
    graph.mutate(ADD, {"n": "m"})
    graph.merge("side", into="between")
    with pytest.raises(omnigraphdb.BranchInUse, match="not merged into 'main'"):
        graph.branch_delete("side", merged_into="main")
    graph.merge("between")
    graph.mutate(ADD, {"n": "late"}, branch="side")  # after the merge that brought the rest
    for key in (None, "k"):
        with pytest.raises(omnigraphdb.BranchInUse):
            graph.branch_delete("side", merged_into="main", idempotency_key=key)
    assert names(graph, branch="side") == ["a", "b", "c", "late", "s"]
    graph.merge("side")
    graph.branch_delete("side", merged_into="main")
    assert names(graph) == ["a", "b", "c", "late", "m", "s"]
    with pytest.raises(omnigraphdb.NotFound):
        graph.branch_delete("side", merged_into="main")


def test_making_and_deleting_a_branch_is_no_commit_and_moves_no_table(graph: Graph) -> None:
    before = ([c.id for c in graph.commits()], graph.snapshot().to_dict())
    graph.branch_create("side")
    graph.branch_delete("side")
    assert ([c.id for c in graph.commits()], graph.snapshot().to_dict()) == before


# ---- commits


def test_commits_tell_who_did_what_on_which_branch(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"n": "m"}, actor="bo")
    graph.mutate(ADD, {"n": "s"}, branch="side", actor="cy")
    main, side = graph.commits(), graph.commits(branch="side")
    assert [(c.actor, c.branch, c.kind) for c in main] == [
        ("bo", "main", "mutation"),
        ("ada", "main", "load"),
        (None, "main", "init"),
    ]
    assert [(c.actor, c.branch) for c in side] == [("cy", "side"), ("ada", "main"), (None, "main")]
    assert side[0].parent == main[1].id
    assert main[-1].parent is None
    assert main[1].tables == ("edge:Knows", "node:Person")
    assert graph.commits(actor="bo") == [main[0]]
    assert graph.commits(since=main[1]) == [main[0]]
    assert graph.commits(since=main[0].created_at + timedelta(seconds=1)) == []
    assert graph.commits(limit=1) == [main[0]]
    assert graph.commit(side[0].id) == side[0]
    with pytest.raises(omnigraphdb.NotFound):
        graph.query(FRIENDS, at=side[0].id)


def test_history_lives_in_the_manifest_alone(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"n": "s"}, branch="side")
    graph.mutate(ADD, {"n": "m"})
    merged = graph.merge("side")
    root = Path(graph.uri)
    assert not (root / LEGACY_COMMITS).exists()
    assert not (root / LEGACY_ACTORS).exists()
    head = graph.commits()[0]
    assert head.id == (merged.commit.id if merged.commit else None)
    assert head.merged_parent == graph.commits(branch="side")[0].id


def test_commits_of_handles_that_take_turns_form_one_chain(graph: Graph) -> None:
    handles = [graph, omnigraphdb.open(graph.uri), omnigraphdb.open(graph.uri)]
    for number in range(9):
        handles[number % 3].mutate(ADD, {"n": f"n{number}"})
    found = graph.commits()
    assert len(found) == 11
    assert [c.parent for c in found] == [*(c.id for c in found[1:]), None]


# ---- the past


def test_every_version_answers_with_its_own_truth(graph: Graph) -> None:
    told = [truth(graph)]
    marks = [graph.commits()[0]]
    for query in (
        'query q() { insert Person { name: "d" } insert Knows { from: "d", to: "a" } }',
        'query q() { update Person set { age: 99 } where name = "a" }',
        'query q() { delete Person where name = "b" }',
    ):
        marks.append(graph.mutate(query).commit)  # type: ignore[arg-type]
        told.append(truth(graph))
    assert len({str(one) for one in told}) == 4
    for mark, expected in zip(marks, told, strict=True):
        assert truth(graph, at=mark) == expected
        assert truth(graph, at=mark.id[:12]) == expected
        assert truth(graph, at=mark.manifest_version) == expected
        assert truth(graph, at=mark.created_at) == expected


def truth(graph: Graph, **where: Any) -> Any:
    filtered = (
        "query q() { match { $p: Person  $p.age > 0 } return { $p.name as a } order { $p.name } }"
    )
    two = "query q() { match { $p: Person  $p knows $f  $f knows $g } return { $g.name as a } }"
    return (
        graph.query(FRIENDS, **where).rows,
        graph.query(LONELY, **where).rows,
        graph.query(filtered, **where).rows,
        graph.query(two, **where).rows,
        graph.entity("Person", "a", **where),
        graph.entity("Person", "b", **where),
        list(graph.export(**where)),
    )


def test_the_versions_of_a_branch_are_not_those_of_main(graph: Graph) -> None:
    graph.branch_create("side")
    side = graph.mutate(ADD, {"n": "s"}, branch="side").commit
    graph.mutate(ADD, {"n": "l"})
    main = graph.mutate(ADD, {"n": "m"}).commit
    assert side is not None
    assert main is not None
    # The first write of a branch makes two versions.
    assert side.manifest_version == main.manifest_version
    assert names(graph, branch="side", at=side.manifest_version) == ["a", "b", "c", "s"]
    assert names(graph, at=main.manifest_version) == ["a", "b", "c", "l", "m"]
    assert names(graph, branch="side", at=1) == []


def test_a_handle_with_a_default_branch_reads_and_writes_there(graph: Graph) -> None:
    graph.branch_create("side")
    side = graph.on("side")
    side.mutate(ADD, {"n": "s"})
    assert names(side) == ["a", "b", "c", "s"]
    assert names(graph) == ["a", "b", "c"]
    assert side.commits()[0].branch == "side"


def test_the_first_write_of_a_branch_is_told_as_the_update_it_is(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate('query q() { update Person set { age: 5 } where name = "b" }', branch="side")
    found = graph.diff("main", "side")
    assert [(change.op, change.table_key, change.id) for change in found.changes] == [
        ("update", "node:Person", "b")
    ]


# ---- export


def test_an_export_of_any_branch_makes_an_identical_graph(graph: Graph, tmp_path: Path) -> None:
    graph.branch_create("side")
    graph.mutate('query q() { insert Knows { from: "c", to: "a" } }', branch="side")
    graph.mutate('query q() { delete Person where name = "a" }')
    for branch in ("main", "side"):
        told = list(graph.export(branch=branch))
        copy = omnigraphdb.init(tmp_path / f"copy-{branch}", SCHEMA)
        copy.load(told, mode="overwrite")
        assert list(copy.export()) == told
        backwards = omnigraphdb.init(tmp_path / f"back-{branch}", SCHEMA)
        backwards.load(list(reversed(told)), mode="append")
        assert list(backwards.export()) == told


def test_an_export_shows_one_moment_and_nodes_before_edges(graph: Graph) -> None:
    stream = graph.export()
    first = next(stream)
    graph.mutate('query q() { insert Person { name: "zz" } insert Knows { from: "zz", to: "a" } }')
    rest = list(stream)
    kinds = ["type" in record for record in [first, *rest]]
    assert kinds == sorted(kinds, reverse=True)
    assert len(rest) == 3
    assert [r["type"] for r in graph.export(types=["Person"])] == ["Person"] * 4
    assert len(list(graph.export(types=["Knows", "Person"]))) == 6


# ---- opening


def test_a_graph_that_lost_its_contract_is_read_from_its_text_and_gets_a_new_one(
    graph: Graph,
) -> None:
    root = Path(graph.uri)
    for name in ("_schema.ir.json", "__schema_state.json"):
        (root / name).unlink()
    reader = omnigraphdb.open(root, read_only=True)
    assert pairs(reader) == ["ab"]
    assert not (root / "_schema.ir.json").exists()
    writer = omnigraphdb.open(root)
    writer.mutate(ADD, {"n": "w"})
    assert (root / "_schema.ir.json").exists()
    assert pairs(omnigraphdb.open(root)) == ["ab"]


def test_init_does_not_open_what_a_dead_init_left(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "_schema.pg").write_text(SCHEMA)
    with pytest.raises(omnigraphdb.AlreadyInitialized, match="and no graph"):
        omnigraphdb.init(tmp_path / "g", SCHEMA, exist_ok=True)
    omnigraphdb.init(tmp_path / "g", SCHEMA, exist_ok=True, force=True).close()


def test_init_opens_what_is_there_when_it_is_the_same(graph: Graph) -> None:
    again = omnigraphdb.init(graph.uri, SCHEMA + "// a comment\n", exist_ok=True)
    assert names(again) == ["a", "b", "c"]
    with pytest.raises(omnigraphdb.AlreadyInitialized):
        omnigraphdb.init(graph.uri, SCHEMA.replace("I32", "I64"), exist_ok=True)
    with pytest.raises(omnigraphdb.AlreadyInitialized):
        omnigraphdb.init(graph.uri, SCHEMA)
