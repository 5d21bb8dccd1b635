"""Longer stories: what survives cleanup, exports of every branch, many workers at once, and death at any point."""

import json
import random
import threading
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConflictError, NotFoundError, OmniError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint
from tests.support.child import KILLED, run_child
from tests.support.long_stories import STORIES, content, make_graph, one_step
from tests.support.settled import assert_settled

POINTS = (
    Failpoint.PREPARED,
    Failpoint.STAGED,
    Failpoint.ARMED,
    Failpoint.FORK_CREATED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.MERGE_PLANNED,
    Failpoint.MERGE_EFFECTS_DONE,
    Failpoint.SIDECAR_CONFIRM,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
    Failpoint.SIDECAR_DELETE,
    Failpoint.BRANCH_CREATED,
)


# ---- SC-6


DOCS = "node Doc { name: String @key  body: Blob?  like: Vector(8)? @index  n: I64? }\nedge Cites: Doc -> Doc"


def doc(name: str, n: int) -> dict[str, Any]:
    return {
        "type": "Doc",
        "data": {
            "name": name,
            "n": n,
            "body": "base64:" + "QUJD" * (n + 1),
            "like": [float(n), 1.0, 0.0, 0.0, 0.5, 0.0, 0.0, float(-n)],
        },
    }


def test_merged_rows_blobs_and_vectors_outlive_source_history_and_old_files(tmp_path: Path) -> None:
    graph = omnigraphdb.init(tmp_path / "g", DOCS)
    graph.load([doc(f"d{n}", n) for n in range(20)], mode="append")
    graph.branch_create("work")
    graph.load([doc(f"w{n}", n) for n in range(30)], mode="append", branch="work")
    graph.load([doc(f"d{n}", n + 100) for n in range(5)], mode="merge", branch="work")
    cites = [
        {"edge": "Cites", "from": f"w{n}", "to": "d0", "data": {"id": f"c{n}"}} for n in range(9)
    ]
    graph.load(cites, mode="append", branch="work")
    graph.mutate('query d() { delete Doc where name = "d19" }', branch="work")
    expected = list(graph.export(branch="work"))
    graph.load([doc("main only", 7)], mode="append")
    assert graph.merge("work").outcome == "merged"
    graph.branch_delete("work")
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True)
        graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    with omnigraphdb.open(graph.uri) as fresh:
        rows = [r for r in fresh.export() if r["data"].get("name") != "main only"]
        assert rows == expected
        nearest = fresh.query(
            "query q($v: Vector(8)) { match { $d: Doc } return { $d.name } order { nearest($d.like, $v) } limit 1 }",
            {"v": doc("x", 104)["data"]["like"]},
        )
        assert [row["d.name"] for row in nearest.rows] == ["d4"]
        assert_settled(fresh)


# ---- SC-18


def test_the_export_of_every_branch_makes_the_same_branch_again(tmp_path: Path) -> None:
    graph = make_graph(str(tmp_path / "g"))
    for step in STORIES["three"]:
        step(graph)
    graph.branch_create("last", from_branch="two")
    graph.load([{"edge": "Knows", "from": "Bo", "to": "Ada"}], mode="append", branch="last")
    for number, branch in enumerate(graph.branches()):
        text = exported(graph, branch.name)
        file = tmp_path / f"{number}.jsonl"
        file.write_text(text, encoding="utf-8")
        again = omnigraphdb.init(tmp_path / f"again{number}", graph.schema_source)
        again.load(file, mode="overwrite")
        assert exported(again, "main") == text
        assert_settled(again)


def exported(graph: Graph, branch: str) -> str:
    return "".join(json.dumps(record) + "\n" for record in graph.export(branch=branch))


# ---- SC-16


def worked(uri: str, seed: int, rounds: int) -> list[str]:
    """One worker: branches, loads and merges of its own name, and now and then on main; gives what surprised it."""
    rng, graph, surprises = random.Random(seed), omnigraphdb.open(uri), []
    for number in range(rounds):
        name = f"w{seed}.{number % 2}"
        try:
            _turn(graph, rng, name, number)
        except (ConflictError, NotFoundError):
            continue
        except OmniError as error:
            surprises.append(f"{type(error).__name__}: {error}")
    graph.close()
    return surprises


def _turn(graph: Graph, rng: random.Random, name: str, number: int) -> None:
    record = {"type": "Person", "data": {"name": f"{name} {number}", "age": number}}
    match rng.randrange(5):
        case 0:
            graph.branch_create(name)
        case 1:
            graph.merge(name)
        case 2:
            graph.branch_delete(name)
        case 3:
            graph.load([record], mode="merge", branch=name)
        case _:
            graph.load([record], mode="merge")


def workers(uri: str, seeds: range, rounds: int) -> None:
    found: dict[int, list[str]] = {}
    threads = [
        threading.Thread(target=lambda s=seed: found.update({s: worked(uri, s, rounds)}))
        for seed in seeds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PARK_SECONDS_MAX)
    assert not any(thread.is_alive() for thread in threads), "a worker hangs"
    assert {seed: told for seed, told in found.items() if told} == {}
    assert len(found) == len(seeds)


def assert_linear(graph: Graph) -> None:
    """Every branch is one chain of first parents."""
    for branch in graph.branches():
        commits = graph.commits(branch=branch.name)
        own = [commit for commit in commits if commit.branch == branch.name]
        assert len({commit.parent for commit in own}) == len(own)


@pytest.mark.parametrize("first", [1, 20])
def test_workers_who_branch_write_merge_and_delete_at_once_leave_a_whole_graph(
    tmp_path: Path, first: int
) -> None:
    uri = str(tmp_path / "g")
    make_graph(uri).close()
    workers(uri, range(first, first + 3), 12)
    with omnigraphdb.open(uri) as graph:
        assert_linear(graph)
        assert_settled(graph)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_many_workers_for_long(tmp_path: Path, first: int) -> None:
    uri = str(tmp_path / "g")
    make_graph(uri).close()
    workers(uri, range(first, first + 4), 60)
    with omnigraphdb.open(uri) as graph:
        assert_linear(graph)
        assert_settled(graph)


# ---- SC-20


@cache
def truth(story: str) -> tuple[dict[str, Any], ...]:
    """What every branch shows before the first step and after each."""
    with TemporaryDirectory() as folder:
        graph = make_graph(f"{folder}/g")
        found = [content(graph)]
        for step in STORIES[story]:
            step(graph)
            found.append(content(graph))
        graph.close()
    return tuple(found)


def killed(uri: str, story: str, number: int, point: Failpoint) -> bool:
    """Run one step in a process that dies at a failpoint, if it comes by."""
    code = run_child(one_step, uri, story, str(number), failpoints=f"{point.value}=exit")
    assert code in (0, KILLED)
    return code == KILLED


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("story", STORIES)
def test_a_story_killed_here_and_there_and_gone_on_with_ends_as_if_nothing_had_been(
    tmp_path: Path, story: str, seed: int
) -> None:
    rng, uri, deaths = random.Random(f"{story}{seed}"), str(tmp_path / "g"), 0
    make_graph(uri).close()
    for number, step in enumerate(STORIES[story]):
        before, after = truth(story)[number : number + 2]
        dies = rng.random() < 0.5 and killed(uri, story, number, rng.choice(POINTS))
        with omnigraphdb.open(uri) as graph:
            shown = content(graph)
            assert shown in ((before, after) if dies else (after, before))
            if shown == before and shown != after:
                step(graph)
                assert content(graph) == after
            assert_settled(graph)
        deaths += dies
    assert deaths > 0 or seed
