"""Looking at a graph: what it holds, whether it needs attention, its branches, one Blob of it."""

import base64
from pathlib import Path

import pytest

import omnigraphdb
from tests.support.commands import Run, runner

SCHEMA = "node File { name: String @key  body: Blob?  note: String? @index }\n"
BODY = b"hello, world"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("looking") / "g"
    values = {"a": f"base64:{base64.b64encode(BODY).decode()}", "c": None}
    with omnigraphdb.init(place, SCHEMA) as graph:
        rows = [{"type": "File", "data": {"name": k, "body": v}} for k, v in values.items()]
        graph.load(rows, mode="append")
        graph.branch_create("review")
        graph.mutate('query q() { insert File { name: "d" } }', branch="review")
    return str(place)


@pytest.fixture
def run(
    uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    monkeypatch.setenv("OMNIGRAPH_STORE", uri)
    return runner(monkeypatch, capsys)


def test_a_graph_is_described(run: Run, uri: str) -> None:
    shown = run("describe").out
    assert f"{uri} on main: 2 rows" in shown
    assert "File" in shown
    assert "review" in shown
    assert run("describe", "--json").json["rows"] == 2
    assert run("describe", "--branch", "review", "--json").json["rows"] == 3


def test_a_status_says_what_to_do(run: Run) -> None:
    body = run("status", "--json").json
    assert (body["rows"], body["branches"], body["pending"]) == (2, 2, 0)
    told = run("status").out
    for one in body["attention"]:
        assert f"→ {one['remedy']}" in told
    assert ("nothing to do" in told) == (body["attention"] == [])


def test_branches_are_listed_with_how_far_they_went(run: Run) -> None:
    main, review = run("branch", "list").out.splitlines()
    assert main.split()[0] == "main"
    assert review.startswith("review")
    assert review.endswith("1 ahead, 0 behind main")
    shown = run("branch", "show", "review").out
    assert "apart:" in shown
    assert "1 commit ahead, 0 behind" in shown
    assert run("branch", "show", "review", "--json").json["tables"] == ["node:File"]
    wrong = run("branch", "show", "reveiw")
    assert (wrong.code, "did you mean 'review'?" in wrong.err) == (1, True)


def test_the_bytes_of_a_blob_go_to_a_file_or_a_pipe(run: Run, tmp_path: Path) -> None:
    cell = ("node", "File", "a", "body")
    done = run("blob", "get", *cell, "--out", "a.bin")
    assert (done.code, (tmp_path / "a.bin").read_bytes()) == (0, BODY)
    assert run("blob", "get", *cell).out == BODY.decode()
    part = run("blob", "get", *cell, "--offset", "7", "--length", "99", "--out", "part")
    assert (part.code, (tmp_path / "part").read_bytes()) == (0, b"world")


def test_a_blob_is_described_without_its_bytes(run: Run) -> None:
    body = run("blob", "stat", "node", "File", "a", "body", "--json").json
    assert (body["kind"], body["size"]) == ("managed", len(BODY))
    assert body["selector"] == {"entity": "node", "type": "File", "id": "a", "property": "body"}
    assert body["target"]["branch"] == "main"


@pytest.mark.parametrize(
    ("cell", "more", "code", "said"),
    [
        (("node", "File", "a", "body"), ("--offset", "12"), 1, "has 12 bytes"),
        (("node", "File", "c", "body"), (), 1, "its value is null"),
        (("node", "File", "zz", "body"), (), 1, "File 'zz' not found"),
        (("node", "File", "a", "boddy"), (), 1, "did you mean 'body'?"),
        (("node", "File", "a", "note"), (), 1, "is no Blob"),
        (("node", "Fil", "a", "body"), (), 1, "'File'"),
        (("nod", "File", "a", "body"), (), 2, "did you mean 'node'?"),
    ],
)
def test_a_blob_that_is_not_there_is_told(
    run: Run, cell: tuple[str, ...], more: tuple[str, ...], code: int, said: str
) -> None:
    done = run("blob", "get", *cell, *more)
    assert (done.code, said in done.err) == (code, True), done.err
