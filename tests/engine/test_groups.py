"""Writers that wait at the same time share one publish, and each keeps a commit of its own."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit, MutationResult
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine import joint_commit
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed, parked
from omnigraphdb.ids import MAIN, TableKey, Version
from omnigraphdb.limits import GROUP_MEMBERS_MAX
from tests.support.joined import write_together
from tests.support.once import once
from tests.support.settled import assert_settled

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
"""
QUIET = {"maintenance": "off"}
ADD = "query add($name: String, $mail: String?) { insert Person { name: $name, mail: $mail } }"
SET = "query put($name: String, $age: I32) { update Person set { age: $age } where name = $name }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA, config=QUIET)
    people = [{"type": "Person", "data": {"name": n, "age": 0}} for n in "ab"]
    graph.load([*people, {"type": "City", "data": {"name": "Ghent"}}], mode="append")
    return graph


def add(graph: Graph, name: str, mail: str | None = None, **more: Any) -> Any:
    return lambda: graph.mutate(ADD, {"name": name, "mail": mail}, **more)


def names(graph: Graph, at: str | None = None) -> list[str]:
    return sorted(graph.table("Person", at=at)["name"].to_pylist())


def commits_of(told: list[object]) -> list[omnigraphdb.Commit]:
    results = [one for one in told if isinstance(one, MutationResult)]
    return [one.commit for one in results if one.commit is not None]


def prefix(commit_id: str, commits: list[Commit]) -> str:
    """The shortest start that names the commit: two ids of one millisecond may differ in the last letter."""
    starts = (commit_id[:length] for length in range(4, len(commit_id) + 1))
    return next(start for start in starts if sum(c.id.startswith(start) for c in commits) == 1)


def test_each_member_has_a_commit_and_its_own_past(graph: Graph) -> None:
    version = graph.snapshot().manifest_version
    told = write_together(graph, [add(graph, f"n{n}", actor=f"w{n}") for n in range(3)])
    made = commits_of(told)
    assert graph.snapshot().manifest_version == version + 1
    assert len({commit.group for commit in made}) == 1
    assert made[0].group is not None
    shown = list(reversed(graph.commits()))
    assert [commit.id for commit in shown[-3:]] == [commit.id for commit in made]
    assert [commit.actor for commit in made] == ["w0", "w1", "w2"]
    assert all(newer.parent == older.id for older, newer in pairwise(shown))
    assert all(newer.created_at > older.created_at for older, newer in pairwise(shown[-3:]))
    for count, commit in enumerate(made, 1):
        assert names(graph, commit.id) == ["a", "b", *(f"n{n}" for n in range(count))]
        assert names(graph, prefix(commit.id, shown)) == names(graph, commit.id)
        (change,) = graph.commit_changes(commit.id).changes
        assert change.id == f"n{count - 1}"
    assert [c.id for c in graph.diff(made[0].id, made[2].id).changes] == ["n1", "n2"]
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        assert names(reader, made[1].id) == ["a", "b", "n0", "n1"]
    assert_settled(graph)


def test_a_lone_writer_is_no_group(graph: Graph) -> None:
    assert graph.mutate(ADD, {"name": "x", "mail": None}).commit.group is None  # type: ignore[union-attr]


def test_a_writer_that_prepares_an_insert_is_let_into_the_group_of_one_that_is_ready(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint_commit, "GROUP_WAIT_SECONDS_MAX", PARK_SECONDS_MAX)
    with ThreadPoolExecutor(2) as pool, parked(Failpoint.PREPARED) as preparing:
        late = pool.submit(add(graph, "late"))
        assert preparing.reached.wait(PARK_SECONDS_MAX)
        ready = pool.submit(add(graph, "ready"))
        assert not wait([ready], 0.05).done
        preparing.release()
        made = commits_of([ready.result(), late.result()])
    assert made[0].group == made[1].group is not None
    assert made[1].parent == made[0].id
    assert_settled(graph)


def test_a_writer_that_takes_long_to_prepare_is_not_waited_for(graph: Graph) -> None:
    with ThreadPoolExecutor(1) as pool, parked(Failpoint.PREPARED) as preparing:
        late = pool.submit(add(graph, "late"))
        assert preparing.reached.wait(PARK_SECONDS_MAX)
        (ready,) = commits_of([add(graph, "ready")()])
        assert ready.group is None
        preparing.release()
        (made,) = commits_of([late.result()])
    assert made.parent == ready.id
    assert_settled(graph)


def test_a_member_that_fails_leaves_and_only_its_caller_hears_of_it(graph: Graph) -> None:
    head = graph.commits()[0].id
    told = write_together(
        graph,
        [
            add(graph, "c", "m"),
            add(graph, "d", "m"),
            add(graph, "e", if_commit=head),
            add(graph, "f"),
            lambda: graph.mutate('query q() { insert LivesIn { from: "a", to: "Ghent" } }'),
            lambda: graph.mutate('query q() { insert LivesIn { from: "a", to: "Ghent" } }'),
        ],
    )
    kinds = [type(one).__name__ for one in told]
    result = "MutationResult"
    refused = ["ConstraintError", "PreconditionFailed"]
    assert kinds == [result, *refused, result, result, "ConstraintError"]
    assert len({commit.group for commit in commits_of(told)}) == 1
    assert names(graph) == ["a", "b", "c", "f"]
    assert_settled(graph)


def test_inserts_of_one_key_in_one_group_leave_one_row(tmp_path: Path) -> None:
    """Rows that were prepared before the group are kept where their ids are new, and prepared again where they are not."""
    schema = "node Plain { name: String @key  n: I32? }"
    graph = omnigraphdb.init(tmp_path / "plain", schema, config=QUIET)
    text = "query put($name: String, $n: I32) { insert Plain { name: $name, n: $n } }"

    def put(name: str, n: int) -> Any:
        return lambda: graph.mutate(text, {"name": name, "n": n})

    written = [("x", 1), ("y", 2), ("x", 3), ("z", 4), ("y", 5), ("x", 6)]
    made = commits_of(write_together(graph, [put(*one) for one in written]))
    assert len(made) == len(written)
    assert len({commit.group for commit in made}) == 1
    expected: dict[str, int] = {}
    for commit, (name, n) in zip(made, written, strict=True):
        expected[name] = n
        rows = graph.table("Plain", at=commit.id).to_pylist()
        assert sorted((row["name"], row["n"]) for row in rows) == sorted(expected.items())
    assert_settled(graph)


def test_updates_of_different_rows_share_a_group_and_of_one_row_have_one_winner(
    graph: Graph,
) -> None:
    def put(name: str, age: int) -> Any:
        return lambda: graph.mutate(SET, {"name": name, "age": age})

    told = write_together(graph, [put("a", 1), put("b", 2), put("a", 3)])
    assert isinstance(told[2], omnigraphdb.ManifestConflict)
    made = commits_of(told)
    assert made[0].group == made[1].group is not None
    ages = {row["name"]: row["age"] for row in graph.table("Person").to_pylist()}
    assert ages == {"a": 1, "b": 2}


def test_a_write_that_needs_more_than_one_commit_is_published_alone(graph: Graph) -> None:
    graph.branch_create("side")
    side = graph.on("side")
    told = write_together(graph, [add(side, "x"), add(side, "y"), add(side, "z")], "side")
    made = commits_of(told)
    # The first one forks the table.
    assert made[0].group is None
    assert names(side) == ["a", "b", "x", "y", "z"]
    assert_settled(graph)


def test_writers_of_other_branches_and_handles_are_no_members(graph: Graph) -> None:
    other = omnigraphdb.open(graph.uri, config=QUIET)
    told = write_together(graph, [add(graph, "x"), add(other, "y")])
    assert [commit.group for commit in commits_of(told)] == [None, None]
    assert names(graph) == ["a", "b", "x", "y"]


def test_a_group_has_a_bound(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraphdb.engine.joint_commit.GROUP_MEMBERS_MAX", 3)
    assert GROUP_MEMBERS_MAX == 64
    told = write_together(graph, [add(graph, f"n{n}") for n in range(5)])
    groups = [commit.group for commit in commits_of(told)]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == [3, 2]


def test_a_branch_does_not_begin_amid_a_group(graph: Graph) -> None:
    first, last = commits_of(write_together(graph, [add(graph, "x"), add(graph, "y")]))
    with pytest.raises(omnigraphdb.UserInputError, match="in one swap"):
        graph.branch_create("side", at=first.id)
    graph.branch_create("side", at=last.id)
    assert names(graph.on("side")) == ["a", "b", "x", "y"]


@pytest.mark.parametrize("switch", ["on", "off"])
def test_the_sidecar_of_a_group_names_its_members_and_is_refused_by_number(
    graph: Graph, switch: str
) -> None:
    writer = omnigraphdb.open(graph.uri, config={**QUIET, "unofficial_lance": switch})
    seen: list[dict[str, Any]] = []

    def look() -> None:
        (path,) = (Path(graph.uri) / "__recovery").glob("*.json")
        seen.append(json.loads(path.read_text()))

    with armed(Failpoint.GROUP_ARMED, look), armed(Failpoint.GROUP_CONFIRMED, look):
        write_together(writer, [add(writer, "x", actor="ada"), add(writer, "y", actor="bo")])
    named, confirmed = seen
    assert (named["schema_version"], named["writer_kind"]) == (4, str(WriterKind.GROUP))
    assert [member["actor_id"] for member in named["members"]] == ["ada", "bo"]
    if switch == "off":
        assert [member["tables"] for member in named["members"]] == [[], []]
    else:
        # Drafts have their versions before the sidecar is armed.
        assert named == confirmed
    versions = [member["tables"][0]["post_commit_pin"] for member in confirmed["members"]]
    assert versions == [confirmed["tables"][0]["expected_version"] + n for n in (1, 2)]
    assert confirmed["tables"][0]["confirmed_version"] == versions[-1]


def stray_append(graph: Graph) -> Callable[[], None]:
    """An append of a stranger, who takes no locks, as another program would not."""
    engine = omnigraphdb.open(graph.uri, config=QUIET)._engine

    def append() -> None:
        at = engine.manifest.current("main").snapshot.entries["node:Person"].at  # type: ignore[index,arg-type]
        tables = engine.store.tables
        head = at.__class__(path=at.path, branch=at.branch, version=tables.head(at.path, at.branch))
        rows = tables.open(head).read().slice(0, 1)
        rows = rows.set_column(0, rows.schema.field("id"), [["stray"]])
        tables.commit_staged(tables.stage_append(head, rows), operation_id="stray", lock=None)  # type: ignore[arg-type]

    return once(append)


def test_a_stranger_who_moves_a_table_under_a_group_sends_its_members_on_alone(
    graph: Graph,
) -> None:
    official = omnigraphdb.open(graph.uri, config={**QUIET, "unofficial_lance": "off"})
    with armed(Failpoint.GROUP_MEMBER_LANDED, stray_append(graph)):
        told = write_together(official, [add(official, name) for name in "xyz"])
    assert [commit.group for commit in commits_of(told)] == [None] * 3
    assert names(graph) == ["a", "b", "x", "y", "z"]
    (row,) = graph.recoveries()
    assert (row.writer_kind, str(row.recovery_kind)) == ("Group", "RolledBack")
    assert_settled(graph)


def test_a_reader_of_a_version_that_somebody_else_made_does_not_hear_of_the_group(
    graph: Graph,
) -> None:
    """The group has a draft of that version, which cannot land any more; its members hear of it, and nobody else."""
    entry = graph._engine.manifest.current(MAIN).snapshot.entries[TableKey("node:Person")]
    taken = replace(entry.at, version=Version(entry.version + 1))
    stray, counts = stray_append(graph), []

    def read_stray() -> None:
        stray()
        counts.append(graph._engine.store.tables.open(taken).count())

    with armed(Failpoint.GROUP_MEMBER_LANDED, once(read_stray)):
        told = write_together(graph, [add(graph, name) for name in "xyz"])
    assert counts == [entry.row_count + 1]
    assert all(isinstance(one, omnigraphdb.DriftError) for one in told)
    assert names(graph) == ["a", "b"]
    assert graph.pending_recoveries() == []


def test_a_stranger_who_moves_a_table_before_any_draft_landed_is_left_to_repair(
    graph: Graph,
) -> None:
    """As for a writer alone: nothing of the group is there, so that nothing is rolled back."""
    with armed(Failpoint.GROUP_MEMBER_LANDED, stray_append(graph)):
        told = write_together(graph, [add(graph, name) for name in "xyz"])
    assert all(isinstance(one, omnigraphdb.DriftError) for one in told)
    assert names(graph) == ["a", "b"]
    assert graph.pending_recoveries() == []
