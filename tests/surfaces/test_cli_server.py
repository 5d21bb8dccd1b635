"""Commands on a served graph print what they print on the graph at hand, however the server is named."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import omnigraphdb
from tests.support.commands import Run, runner
from tests.support.served import ADD, NAMES, PEOPLE, SCHEMA, ServerProcess, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("commands")
    (folder / "queries").mkdir()
    (folder / "queries" / "people.gq").write_text(f"{NAMES}\n{ADD}")
    with omnigraphdb.init(folder / "g", SCHEMA) as graph:
        graph.load(PEOPLE, mode="append")
        graph.branch_create("review")
        graph.mutate(ADD, {"n": "Cy"}, branch="review")
        graph.mutate('query up() { update Person set { age: 37 } where name = "Ada" }')
    words = (str(folder / "g"), "--unauthenticated", "--queries", str(folder / "queries"))
    with serving(*words, log=folder / "log") as found:
        yield found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    # Set, not deleted: a command writes its --profile there, and only what was set is put back.
    for name in ("OMNIGRAPH_STORE", "OMNIGRAPH_PROFILE"):
        monkeypatch.setenv(name, "")
    return runner(monkeypatch, capsys)


READS = [
    ("snapshot", "--json"),
    ("query", "-e", NAMES),
    ("query", "-e", NAMES, "--branch", "review", "--json"),
    ("query", "-e", NAMES, "--format", "csv"),
    ("query", "-e", NAMES, "--explain"),
    ("query", "-e", NAMES, "--explain", "--branch", "review", "--json"),
    ("branch", "list"),
    ("commit", "list"),
    ("commit", "list", "--json"),
    ("diff", "main", "review"),
    ("diff", "main", "review", "--json"),
    ("export",),
    ("schema", "show"),
    ("jobs", "--json"),
    ("blob", "get", "node", "Person", "Ada", "photo"),
    ("blob", "get", "node", "Person", "Ada", "photo", "--offset", "2", "--length", "4"),
    ("blob", "stat", "node", "Person", "Ada", "photo", "--json"),
    ("blob", "stat", "node", "Person", "Ada", "photo"),
    ("changes", "poll", "--start", "beginning"),
    ("changes", "poll", "--start", "beginning", "--json"),
    ("changes", "poll", "--start", "beginning", "--type", "Knows", "--json"),
    ("changes", "poll"),
]
REFUSED = [
    ("query", "-e", "query q() { match { $p: Nope } return { $p.name } }"),
    ("query", "-e", NAMES, "--branch", "none"),
    ("commit", "show", "01ZZZZZZZZZZ"),
    ("branch", "delete", "none"),
    ("branch", "merge", "none"),
    ("diff", "main", "none"),
    ("changes", "poll", "--cursor", "og1.nonsense"),
]


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_a_read_prints_the_same(server: ServerProcess, run: Run, words: tuple[str, ...]) -> None:
    here = run(*words, "--store", str(server.log.parent / "g"))
    there = run(*words, "--server", server.url)
    assert (here.code, there.code) == (0, 0), there.err
    assert hide_own(there.out) == hide_own(here.out)


def hide_own(text: str) -> str:
    """Hide what is of one side: a cursor of a server is bound to the filters of its call."""
    return re.sub(r"og1\.\w+", "CURSOR", text)


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_refusal_has_the_same_code(
    server: ServerProcess, run: Run, words: tuple[str, ...]
) -> None:
    here = run(*words, "--store", str(server.log.parent / "g"))
    there = run(*words, "--server", server.url)
    assert here.code == there.code != 0
    assert here.err.splitlines()[-1:] == there.err.splitlines()[-1:] or "hint" in there.err


def test_a_baseline_is_the_same_file(server: ServerProcess, run: Run, tmp_path: Path) -> None:
    here = run(
        "changes", "baseline", "--out", "here.jsonl", "--store", str(server.log.parent / "g")
    )
    there = run("changes", "baseline", "--out", "there.jsonl", "--server", server.url)
    assert there.out == here.out
    assert Path("there.jsonl").read_bytes() == Path("here.jsonl").read_bytes()


def test_a_stored_query_is_run_by_its_name(server: ServerProcess, run: Run) -> None:
    folder, place = str(server.log.parent / "queries"), str(server.log.parent / "g")
    here = run("query", "names", "--queries", folder, "--store", place)
    assert here.code == 0, here.err
    assert "Ada" in here.out
    assert run("query", "names", "--server", server.url).out == here.out
    assert run("query", "names", "--queries", folder, "--server", server.url).out == here.out
    unknown = run("query", "nmaes", "--queries", folder, "--store", place)
    assert unknown.code == 1
    assert "names" in unknown.err
    denied = run("query", "add", "--server", server.url)
    assert (denied.code, "mutation" in denied.err) == (1, True)
    wrong = run("query", "--queries", folder, "--store", place)
    assert (wrong.code, "name of a query" in wrong.err) == (2, True)


def test_a_profile_may_name_a_server(
    server: ServerProcess, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "omnigraph.yaml").write_text(
        f"servers: {{near: {{url: '{server.url}'}}}}\n"
        "profiles: {team: {server: near, default_graph: default}}\n"
    )
    wanted = run("query", "-e", NAMES, "--server", server.url).out
    assert run("query", "-e", NAMES, "--server", "near").out == wanted
    assert run("query", "-e", NAMES, "--profile", "team").out == wanted
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "")
    refused = run("optimize", "--profile", "team")
    assert refused.code == 2
    assert "profile 'team' names a served graph" in refused.err
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "")
    (tmp_path / "omnigraph.yaml").write_text(
        f"servers: {{near: {{url: '{server.url}'}}}}\ndefaults: {{server: near}}\n"
    )
    assert run("query", "-e", NAMES).out == wanted


def test_graphs_are_listed_where_a_policy_allows_it(server: ServerProcess, run: Run) -> None:
    denied = run("graphs", "list", "--server", server.url)
    assert denied.code == 1
    assert "list its graphs" in denied.err or "graph_list" in denied.err
    assert run("graphs", "list").code == 2


def test_a_blob_in_parts_comes_from_one_commit(server: ServerProcess) -> None:
    with omnigraphdb.connect(server.url) as graph:
        blob = graph.blob("Person", "Ada", "photo")
        assert (blob.size, blob.read(), blob.read(6, 5)) == (11, b"hello world", b"world")
        with pytest.raises(omnigraphdb.errors.BlobRange):
            blob.read(11)
        with pytest.raises(omnigraphdb.errors.NotFoundError):
            graph.blob("Person", "Bo", "photo")
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_an_alias_runs_a_query_of_a_server(server: ServerProcess, run: Run, tmp_path: Path) -> None:
    (tmp_path / "people.gq").write_text(
        "query aged($than: I32) { match { $p: Person  $p.age > $than } return { $p.name } }"
    )
    (tmp_path / "omnigraph.yaml").write_text(
        f"servers: {{ here: {{ url: '{server.url}' }} }}\n"
        "aliases:\n"
        "  all: { server: here, graph: default, query: names, format: csv }\n"
        "  aged: { server: here, file: people.gq, args: [than] }\n"
        "  adding: { server: here, query: add }\n"
    )
    assert run("alias", "all").out == "p.name\nAda\nBo\n"
    assert run("alias", "all", "--json").json["query_name"] == "names"
    assert run("alias", "aged", "30", "--json").json["rows"] == [{"p.name": "Ada"}]
    refused = run("alias", "adding", "--params", '{"n": "Di"}')
    assert (refused.code, "mutate" in refused.err) == (1, True), refused.err


def test_a_stored_query_of_a_server_has_no_plan_to_show(server: ServerProcess, run: Run) -> None:
    refused = run("query", "names", "--server", server.url, "--explain")
    assert (refused.code, "--explain needs the text" in refused.err) == (2, True)


def test_the_text_of_a_query_is_not_the_name_of_a_stored_one(
    server: ServerProcess, run: Run
) -> None:
    found = run("query", "--server", server.url, NAMES)
    assert (found.code, "with -e" in found.err) == (2, True)


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "localhost:8080", "//host", "ftp://host"])
def test_an_address_without_its_scheme_is_no_name_of_a_server(run: Run, address: str) -> None:
    found = run("branch", "list", "--server", address)
    assert found.code != 0
    assert "begins with http://" in found.err
