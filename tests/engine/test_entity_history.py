"""The history of one entity equals what every commit changed of it, and costs by its changes, not by the history."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.history.changes import Change
from omnigraphdb.errors import MergeConflicts, NotFound, UserInputError
from omnigraphdb.storage.counters import Cost, counting

SCHEMA = "node P { name: String @key  n: I32?  note: String? }\nedge K: P -> P { w: I32? }"
NAMES = ("a", "b", "c", "d")


def put(graph: Graph, name: str, n: int, branch: str = "main") -> None:
    graph.load([{"type": "P", "data": {"name": name, "n": n}}], mode="merge", branch=branch)


def remove(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate("query m($n: String) { delete P where name = $n }", {"n": name}, branch=branch)


def replay(
    graph: Graph, id: str, branch: str = "main", type_name: str = "P"
) -> list[tuple[str, Change]]:
    """Ask every commit of a branch what it changed; the newest first."""
    found = []
    for commit in graph.commits(branch=branch):
        if commit.parent is None:
            continue
        for change in graph.commit_changes(commit, types=[type_name], images=True).changes:
            if change.id == id:
                found.append((commit.id, change))
    return found


def shown(
    graph: Graph, id: str, branch: str = "main", type_name: str = "P"
) -> list[tuple[str, Change]]:
    """The changes of the branch itself, without those of merged branches."""
    history = graph.history(type_name, id, branch=branch)
    assert not history.gaps
    assert not history.more
    return [(one.commit.id, one.change) for one in history if not one.merges]


def facts(changes: list[tuple[str, Change]]) -> list[object]:
    return [
        (commit, one.op, one.properties, one.before, one.after, one.endpoints)
        for commit, one in changes
    ]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as made:
        yield made


def test_a_history_equals_a_replay_of_every_commit(graph: Graph) -> None:
    """Inserts, updates, rows written anew unchanged, deletes, second lives, branches, merges, compaction."""
    chance = random.Random(7)
    graph.branch_create("side")
    for number in range(36):
        name, branch = chance.choice(NAMES), chance.choice(("main", "main", "side"))
        match chance.randrange(9):
            case 0:
                remove(graph, name, branch)
            case 1:
                put(graph, name, 0, branch)
            case 2 if number % 2:
                graph.optimize()
            case 3:
                rows = [{"type": "P", "data": {"name": one, "n": 1}} for one in NAMES[:2]]
                graph.load(rows, mode="overwrite", branch=branch)
            case _:
                put(graph, name, number, branch)
    for name in NAMES:
        for branch in ("main", "side"):
            assert facts(shown(graph, name, branch)) == facts(replay(graph, name, branch))


def test_a_merge_leads_into_the_branch_that_it_brought(graph: Graph) -> None:
    put(graph, "a", 1)
    graph.branch_create("side")
    put(graph, "a", 2, "side")
    put(graph, "a", 3, "side")
    put(graph, "b", 1)
    merged = graph.merge("side").commit
    assert merged is not None
    put(graph, "a", 4)
    history = graph.history("P", "a")
    assert [(one.change.after or {})["n"] for one in history] == [4, 3, 3, 2, 1]
    through = [one.merges for one in history]
    id = graph.commits()[1].id
    assert through == [(), (), (id,), (id,), ()]
    assert [one.commit.branch for one in history] == ["main", "main", "side", "side", "main"]
    assert facts(shown(graph, "a")) == facts(replay(graph, "a"))
    graph.branch_delete("side")
    gone = graph.history("P", "a")
    assert [(one.change.after or {})["n"] for one in gone] == [4, 3, 1]
    assert [one.reason for one in gone.gaps] == ["the branch that was merged is gone"]


def test_a_merge_lists_what_it_brought_and_nothing_that_was_there(graph: Graph) -> None:
    put(graph, "d", 1)
    graph.branch_create("v")
    put(graph, "c", 1)
    inserted = graph.commits()[0].id
    graph.branch_create("y")
    remove(graph, "c", "y")
    deleted = graph.commits(branch="y")[0].id
    first = graph.merge("main", into="v").commit
    put(graph, "a", 1, "v")
    second = graph.merge("y", into="v").commit
    assert first is not None
    assert second is not None
    assert [(one.commit.id, one.merges) for one in graph.history("P", "c", branch="v")] == [
        (second.id, ()),
        (deleted, (second.id,)),
        (first.id, ()),
        (inserted, (first.id,)),
    ]


# ---- random histories, against a walk over the graph of commits


BRANCHES = ("main", "v", "y", "z")


def make_history(graph: Graph, chance: random.Random, steps: int) -> None:
    """Random inserts, updates, deletes, branches and merges in all directions; a merge with conflicts is not made."""
    put(graph, "d", 0)
    for number in range(steps):
        there = [one.name for one in graph.branches()]
        branch = chance.choice(there)
        match chance.randrange(8):
            case 0 if len(there) < len(BRANCHES):
                graph.branch_create(BRANCHES[len(there)], from_branch=branch)
            case 1 | 2 | 3 if len(there) > 1:
                other = chance.choice([one for one in there if one != branch])
                with suppress(MergeConflicts):
                    graph.merge(other, into=branch)
            case 4:
                remove(graph, chance.choice(NAMES), branch)
            case _:
                put(graph, chance.choice(NAMES), number, branch)


def list_expected(graph: Graph, id: str, branch: str) -> list[tuple[str, tuple[str, ...]]]:
    """Walk from the head to first parents, and into what each merge brought that its first parent had not."""
    commits = {one.id: one for name in graph.branches() for one in graph.commits(branch=name.name)}
    changed = {
        one.id
        for one in commits.values()
        if one.parent is not None
        and any(change.id == id for change in graph.commit_changes(one, types=["P"]).changes)
    }

    def list_ancestors(start: str | None) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            one = waiting.pop()
            if one is not None and one not in found:
                found.add(one)
                waiting += [commits[one].parent, commits[one].merged_parent]
        return found

    def walk(
        head: str | None, known: set[str], merges: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        while head is not None and head not in known:
            one = commits[head]
            if head in changed:
                yield head, merges
                there = known | list_ancestors(one.parent)
                if one.merged_parent is not None:
                    yield from walk(one.merged_parent, there, (*merges, head))
            head = one.parent

    return list(walk(graph.commits(branch=branch)[0].id, set(), ()))


def check_random_history(place: Path, seed: int, steps: int) -> None:
    with omnigraphdb.init(place / f"g{seed}", SCHEMA, config={"maintenance": "off"}) as graph:
        make_history(graph, random.Random(seed), steps)
        for branch in graph.branches():
            for name in NAMES:
                history = graph.history("P", name, branch=branch.name)
                found = [(one.commit.id, one.merges) for one in history]
                assert not history.gaps
                assert found == list_expected(graph, name, branch.name), (seed, branch.name, name)
                assert len({one for one, _ in found}) == len(found), "a commit is listed once"


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_equal_a_walk_over_the_commits(tmp_path: Path, seed: int) -> None:
    check_random_history(tmp_path, seed, 22)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_random_histories_equal_a_walk_over_the_commits(tmp_path: Path) -> None:
    for seed in range(100, 400):
        check_random_history(tmp_path, seed, 40)


def test_a_branch_that_is_adopted_shows_its_changes(graph: Graph) -> None:
    put(graph, "a", 1)
    graph.branch_create("side")
    put(graph, "a", 2, "side")
    put(graph, "b", 2, "side")
    assert graph.merge("side").outcome == "fast_forward"
    put(graph, "c", 1)
    for name in NAMES:
        assert facts(shown(graph, name)) == facts(replay(graph, name))


def test_renamed_types_and_properties_keep_their_history(graph: Graph) -> None:
    put(graph, "a", 1)
    put(graph, "b", 1)
    graph.load([{"edge": "K", "from": "a", "to": "b", "data": {"w": 1}}], mode="append")
    text = SCHEMA.replace("node P {", 'node Q @rename_from("P") {').replace("P -> P", "Q -> Q")
    graph.schema_apply(text.replace("n: I32?", 'count: I32? @rename_from("n")  more: I32?'))
    graph.mutate('query m() { update Q set { count: 2 } where name = "a" }')
    history = graph.history("Q", "a")
    assert [str(one.change.op) for one in history] == ["update", "insert"]
    assert history.changes[0].change.properties == ("count",)
    edge = graph.history("K", graph.table("K")["id"][0].as_py())
    assert edge.changes[0].change.endpoints is not None


def test_what_cleanup_removed_is_told(graph: Graph) -> None:
    for n in range(5):
        put(graph, "a", n)
    graph.cleanup(keep=2, confirm=True)
    history = graph.history("P", "a")
    assert [(one.change.after or {})["n"] for one in history] == [4]
    assert [one.commit for one in history.gaps] == [graph.commits()[1].id]
    assert "cleanup" in history.gaps[0].reason


def test_bounds_and_names(graph: Graph) -> None:
    for n in range(4):
        put(graph, "a", n)
    first = graph.history("P", "a", limit=3)
    assert (len(first), first.more) == (3, True)
    middle = graph.commits()[1]
    assert len(graph.history("P", "a", at=middle)) == 3
    assert graph.history("P", "nobody").changes == ()
    assert graph.history("P", "a").to_dict()["changes"][0]["commit"]["graph_commit_id"]
    with pytest.raises(NotFound):
        graph.history("Nothing", "a")
    with pytest.raises(UserInputError):
        graph.history("P", "a", limit=0)


def test_few_versions_are_opened_whatever_the_history_holds(graph: Graph) -> None:
    """A handle that has opened nothing opens the versions around each change of the entity, and no other."""

    def count() -> int:
        with omnigraphdb.open(graph.uri, read_only=True) as fresh, counting() as costs:
            assert len(fresh.history("P", "a")) == 2
            return costs[Cost.TABLE_OPENS]

    put(graph, "a", 1)
    put(graph, "a", 2)
    few = count()
    for n in range(20):
        graph.mutate("query m($n: String) { insert P { name: $n } }", {"n": f"x{n}"})
    assert count() <= few + 1
