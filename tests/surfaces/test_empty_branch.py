"""A branch without a name is refused everywhere: it never means main."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving
from tests.support.settled import fingerprint

Place = tuple[ServerProcess, Path]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("empty-branch")
    (folder / "queries").mkdir()
    (folder / "queries" / "people.gq").write_text(f"{NAMES}\n{ADD}")
    make_graph(folder / "g")
    words = (str(folder / "g"), "--unauthenticated", "--queries", str(folder / "queries"))
    with serving(*words, log=folder / "log") as server:
        yield server, folder


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/query", {"query": NAMES}),
    ("/query/explain", {"query": NAMES}),
    ("/read", {"query_source": NAMES}),
    ("/mutate", {"query": ADD, "params": {"n": "x"}}),
    ("/change", {"query": ADD, "params": {"n": "x"}}),
    ("/load", {"data": '{"type": "Person", "data": {"name": "x"}}'}),
    ("/ingest", {"data": '{"type": "Person", "data": {"name": "x"}}'}),
    ("/export", {}),
    ("/changes/baseline", {}),
    ("/queries/names", {}),
    ("/queries/add", {"params": {"n": "x"}}),
]
PATHS = (
    "/snapshot",
    "/commits",
    "/changes",
    "/table?type=Person",
    "/entity?type=Person&id=Ada",
    "/entity/history?type=Person&id=Ada",
    "/neighbours?type=Person&id=Ada",
    "/paths?type=Person&from=Ada&to=Bo",
    "/index_status",
)


@pytest.mark.parametrize("blank", ["", " "])
def test_a_server_refuses_a_branch_without_a_name(place: Place, blank: str) -> None:
    server, folder = place
    with omnigraphdb.open(folder / "g", read_only=True) as graph, server.client() as http:
        before = fingerprint(graph)
        answers = {path: http.post(path, json=body | {"branch": blank}) for path, body in BODIES}
        for path in PATHS:
            sign = "&" if "?" in path else "?"
            answers[path] = http.get(f"{path}{sign}branch={blank}")
        answers["/load from"] = http.post(
            "/load", json={"data": "", "branch": "new", "from": blank}
        )
        answers["/branches"] = http.post("/branches", json={"name": blank})
        answers["/branches from"] = http.post("/branches", json={"name": "n", "from": blank})
        merge = {"source": "main", "target": blank}
        answers["/branches/merge"] = http.post("/branches/merge", json=merge)
        answers["preview"] = http.post("/branches/merge/preview", json=merge)
        assert fingerprint(graph) == before
    told = {path: (one.status_code, one.text[:200]) for path, one in answers.items()}
    assert {path: said for path, said in told.items() if said[0] != 400} == {}


@pytest.mark.parametrize(
    "words",
    [
        ("query", "-e", NAMES, "--branch"),
        ("mutate", "-e", 'query q() { insert Person { name: "x" } }', "--branch"),
        ("branch", "create"),
    ],
)
def test_the_command_line_refuses_a_branch_without_a_name(
    place: Place, words: tuple[str, ...]
) -> None:
    server, folder = place
    for target in (("--store", str(folder / "g")), ("--server", server.url)):
        command = [sys.executable, "-m", "omnigraphdb", *words, "", *target]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (1, 2), (command, done.stdout, done.stderr)
        assert "branch" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
