"""One story through Python, the command line, plain HTTP and the client: equal results, equal kinds of error."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

import omnigraphdb
from omnigraphdb.errors import OmniError, ServerUnreachable
from omnigraphdb.surfaces.cli.main import main
from tests.support.served import ADD, NAMES, PEOPLE, SCHEMA, ServerProcess, serving

UPDATE = "query up($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
LINES = "".join(json.dumps(one) + "\n" for one in PEOPLE)


class Refused(Exception):
    """What a surface refuses: the kind of the error, and its body."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body.get("kind"), body.get("error"))
        self.body = body


class Teller(Protocol):
    """One way to tell the story; every call gives the JSON form of what it does."""

    def load(self, lines: str, mode: str) -> Any: ...
    def query(self, text: str, **target: str) -> Any: ...
    def mutate(self, text: str, params: dict[str, Any], **more: str) -> Any: ...
    def branch(self, name: str) -> Any: ...
    def branches(self) -> Any: ...
    def merge(self, source: str) -> Any: ...
    def commits(self) -> Any: ...
    def diff(self, base: str, head: str) -> Any: ...
    def export(self) -> str: ...
    def schema(self) -> Any: ...


class Handle:
    """By calls in Python, on a graph at hand or on the client's."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def _run(self, call: Any) -> Any:
        try:
            return call()
        except OmniError as error:
            raise Refused(error.to_dict()) from error

    def load(self, lines: str, mode: str) -> Any:
        records = [json.loads(line) for line in lines.splitlines()]
        return self._run(lambda: self.graph.load(records, mode=mode).to_dict())

    def query(self, text: str, **target: str) -> Any:
        return self._run(lambda: self.graph.query(text, **target).to_dict())

    def mutate(self, text: str, params: dict[str, Any], **more: str) -> Any:
        return self._run(lambda: self.graph.mutate(text, params, **more).to_dict())

    def branch(self, name: str) -> Any:
        return self._run(lambda: {"name": self.graph.branch_create(name).name})

    def branches(self) -> Any:
        return {"branches": sorted(one.name for one in self.graph.branches())}

    def merge(self, source: str) -> Any:
        return self._run(lambda: self.graph.merge(source).to_dict())

    def commits(self) -> Any:
        return {"commits": [one.to_dict() for one in self.graph.commits()]}

    def diff(self, base: str, head: str) -> Any:
        return self._run(lambda: self.graph.diff(base, head).to_dict()["stats"])

    def export(self) -> str:
        return b"".join(bytes(memoryview(one)) for one in self.graph.export_lines()).decode()

    def schema(self) -> Any:
        return {"schema_source": self.graph.schema_source}


class Plain:
    """By HTTP alone."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def _take(self, found: httpx.Response) -> Any:
        if found.status_code != 200:
            raise Refused(found.json())
        return found.json()

    def load(self, lines: str, mode: str) -> Any:
        return self._take(self.http.post("/load", json={"data": lines, "mode": mode}))

    def query(self, text: str, **target: str) -> Any:
        return self._take(self.http.post("/query", json={"query": text, **target}))

    def mutate(self, text: str, params: dict[str, Any], **more: str) -> Any:
        condition = more.pop("if_commit", None)
        body = {"query": text, "params": params, **more}
        if condition is None:
            return self._take(self.http.post("/mutate", json=body))
        headers = {"omnigraph-if-graph-commit": condition}
        return self._take(self.http.post("/mutate/if-graph-commit", json=body, headers=headers))

    def branch(self, name: str) -> Any:
        return self._take(self.http.post("/branches", json={"name": name}))

    def branches(self) -> Any:
        return {"branches": self._take(self.http.get("/branches"))["branches"]}

    def merge(self, source: str) -> Any:
        return self._take(self.http.post("/branches/merge", json={"source": source}))

    def commits(self) -> Any:
        return self._take(self.http.get("/commits"))

    def diff(self, base: str, head: str) -> Any:
        return self._take(self.http.get("/diff", params={"from": base, "to": head}))["stats"]

    def export(self) -> str:
        return self.http.post("/export").text

    def schema(self) -> Any:
        return self._take(self.http.get("/schema"))


class Commands:
    """By the command line."""

    def __init__(self, *address: str) -> None:
        self.address = address

    def _run(self, *words: str, text: str = "") -> str:
        """Run a command in this process: a process of its own would take seconds to start."""
        out, typed = io.TextIOWrapper(io.BytesIO(), "utf-8"), sys.argv
        given = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
        sys.argv, sys.stdin = ["omnigraphdb", *words, *self.address], given
        try:
            with (
                redirect_stdout(out),
                redirect_stderr(io.StringIO()),
                pytest.raises(SystemExit) as end,
            ):
                main()
        finally:
            sys.argv, sys.stdin = typed, sys.__stdin__
        out.flush()
        told = out.buffer.getvalue().decode()
        if end.value.code:
            raise Refused(json.loads(told))
        return str(told)

    def _json(self, *words: str, text: str = "", asked: bool = False) -> Any:
        """Run a command whose result is JSON; `asked` ones ask before they destroy data."""
        consent = ("--yes",) if asked else ()
        return json.loads(self._run(*words, *consent, "--json", text=text))

    def load(self, lines: str, mode: str) -> Any:
        return self._json("load", "--data", "-", "--mode", mode, text=lines, asked=True)

    def query(self, text: str, **target: str) -> Any:
        flags = [word for name, value in target.items() for word in (f"--{name}", value)]
        return self._json("query", "-e", text, *flags)

    def mutate(self, text: str, params: dict[str, Any], **more: str) -> Any:
        names = {"if_commit": "--if-commit", "branch": "--branch"}
        flags = [word for name, value in more.items() for word in (names[name], value)]
        return self._json("mutate", "-e", text, "--params", json.dumps(params), *flags)

    def branch(self, name: str) -> Any:
        return self._json("branch", "create", name)

    def branches(self) -> Any:
        found = self._json("branch", "list")["branches"]
        return {"branches": sorted(one if isinstance(one, str) else one["name"] for one in found)}

    def merge(self, source: str) -> Any:
        return self._json("branch", "merge", source)

    def commits(self) -> Any:
        return self._json("commit", "list")

    def diff(self, base: str, head: str) -> Any:
        return self._json("diff", base, head)["stats"]

    def export(self) -> str:
        return self._run("export")

    def schema(self) -> Any:
        return self._json("schema", "show")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    with serving(str(tmp_path / "g"), "--unauthenticated", log=tmp_path / "log") as found:
        yield found


@pytest.fixture(params=["python", "commands", "served commands", "http", "client", "nested client"])
def teller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Teller]:
    """A way to tell the story, on an empty graph."""
    match request.param:
        case "python":
            with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
                yield Handle(graph)
        case "commands":
            omnigraphdb.init(tmp_path / "g", SCHEMA).close()
            yield Commands("--store", str(tmp_path / "g"))
        case "served commands":
            serving_one: ServerProcess = request.getfixturevalue("server")
            yield Commands("--server", serving_one.url)
        case "http":
            found: ServerProcess = request.getfixturevalue("server")
            with found.client() as http:
                yield Plain(http)
        case name:
            served: ServerProcess = request.getfixturevalue("server")
            graph_id = "default" if name == "nested client" else None
            with omnigraphdb.connect(served.url, graph=graph_id) as remote:
                yield Handle(remote)


def refusal(call: Any, *arguments: Any, **named: Any) -> dict[str, Any]:
    with pytest.raises(Refused) as caught:
        call(*arguments, **named)
    return caught.value.body


def names(found: Any) -> list[str]:
    return [row["p.name"] for row in found["rows"]]


def test_the_story(teller: Teller) -> None:
    loaded = teller.load(LINES, "append")
    assert (loaded["total_rows"], loaded["branch_created"]) == (3, False)
    assert loaded["tables"] == [
        {"table_key": "edge:Knows", "rows_loaded": 1},
        {"table_key": "node:Person", "rows_loaded": 2},
    ] or {one["table_key"]: one["rows_loaded"] for one in loaded["tables"]} == {
        "edge:Knows": 1,
        "node:Person": 2,
    }
    found = teller.query(NAMES)
    assert names(found) == ["Ada", "Bo"]
    assert found["graph_commit_id"] == loaded["commit"]["graph_commit_id"]
    assert found["target"] == {"branch": "main"}
    days = 'query d() { match { $p: Person { name: "Bo" } } return { $p.born as born, $p.age as age } }'
    assert teller.query(days)["rows"] == [{"born": "2001-02-03", "age": 20}]

    teller.branch("review/a")
    assert teller.branches() == {"branches": ["main", "review/a"]}
    assert refusal(teller.branch, "review/a")["kind"] == "branch_exists"
    added = teller.mutate(ADD, {"n": "Cy"}, branch="review/a")
    assert (added["affected_nodes"], added["branch"]) == (1, "review/a")
    assert names(teller.query(NAMES, branch="review/a")) == ["Ada", "Bo", "Cy"]
    assert teller.diff("main", "review/a")["inserts"] == 1

    teller.mutate(UPDATE, {"n": "Ada", "a": 40}, branch="review/a")
    teller.mutate(UPDATE, {"n": "Ada", "a": 41})
    conflict = refusal(teller.merge, "review/a")
    assert conflict["kind"] == "merge_conflicts"
    assert [one["row_id"] for one in conflict["merge_conflicts"]] == ["Ada"]
    teller.mutate(UPDATE, {"n": "Ada", "a": 40})
    merged = teller.merge("review/a")
    assert merged["outcome"] == "merged"
    assert names(teller.query(NAMES)) == ["Ada", "Bo", "Cy"]

    listed = teller.commits()["commits"]
    assert [one["kind"] for one in listed[:2]] == ["branch_merge", "mutation"]
    assert listed[0] == merged["commit"]
    stale = listed[1]["graph_commit_id"]
    lost = refusal(teller.mutate, ADD, {"n": "Di"}, if_commit=stale)
    assert lost["kind"] == "precondition_failed"
    assert lost["precondition_failure"]["expected"] == stale

    text = teller.export()
    assert len(text.splitlines()) == 4
    teller.load(text, "overwrite")
    assert sorted(teller.export().splitlines()) == sorted(text.splitlines())
    assert teller.schema()["schema_source"] == SCHEMA


WRONG: dict[str, tuple[Any, str, str]] = {
    "text": (lambda t: t.query("query q( {"), "query_error", "diagnostic"),
    "type": (
        lambda t: t.query("query q() { match { $p: Persn } return { $p.name } }"),
        "query_error",
        "diagnostic",
    ),
    "door": (lambda t: t.query(ADD), "query_error", ""),
    "parameter": (lambda t: t.mutate(ADD, {"n": 7}), "param_error", "param"),
    "missing": (lambda t: t.mutate(ADD, {}), "param_error", "param"),
    "branch": (lambda t: t.query(NAMES, branch="none"), "not_found", "missing"),
    "record": (
        lambda t: t.load('{"type": "Persn", "data": {}}\n', "merge"),
        "data_error",
        "data_errors",
    ),
    "value": (
        lambda t: t.load('{"type": "Person", "data": {"name": "X", "age": "old"}}\n', "merge"),
        "data_error",
        "data_errors",
    ),
    "end": (
        lambda t: t.load('{"edge": "Knows", "from": "X", "to": "Y"}\n', "merge"),
        "referential_error",
        "data_errors",
    ),
    "source": (lambda t: t.merge("none"), "not_found", "missing"),
    "main": (lambda t: t.branch("main"), "user_input", ""),
}


def test_what_is_wrong_is_told_alike(teller: Teller) -> None:
    before = teller.commits()
    for name, (call, kind, field) in WRONG.items():
        body = refusal(call, teller)
        assert body["kind"] == kind, name
        assert not field or body[field], name
    assert teller.commits() == before


def test_a_client_says_why_it_gets_no_answer(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    graph = omnigraphdb.connect(f"http://127.0.0.1:{port}")
    with graph, pytest.raises(ServerUnreachable, match="nothing was sent"):
        graph.query(NAMES)
    with pytest.raises(omnigraphdb.UserInputError):
        omnigraphdb.connect(str(tmp_path))


def test_the_client_reads_the_feed_in_the_same_whole_commits(
    server: ServerProcess, tmp_path: Path
) -> None:
    with omnigraphdb.connect(server.url) as remote:
        remote.load(PEOPLE, mode="append")
        for name in ("Cy", "Di", "Ed"):
            remote.mutate(ADD, {"n": name})
        with omnigraphdb.open(tmp_path / "g", read_only=True) as graph:
            for limit in (None, 1, 2, 3, 4, 99):
                here, there = graph.changes(limit=limit), remote.changes(limit=limit)
                assert (there.blocks, there.caught_up) == (here.blocks, here.caught_up), limit
                onward = remote.changes(since=there.cursor, limit=1)
                assert onward.blocks == graph.changes(since=here.cursor, limit=1).blocks, limit


def test_the_client_brings_values_with_their_types(server: ServerProcess, tmp_path: Path) -> None:
    ask = "query q() { match { $p: Person } return { $p.name as n, $p.age as a, $p.born as b } order { n } }"
    with omnigraphdb.connect(server.url) as remote:
        remote.load(PEOPLE, mode="append")
        remote.branch_create("b")
        done = remote.on("b").mutate(ADD, {"n": "Cy"})
        assert done.commit is not None
        with omnigraphdb.open(tmp_path / "g", read_only=True) as graph:
            assert remote.query(ask).to_arrow() == graph.query(ask).to_arrow()
            assert remote.query(ask).rows == graph.query(ask).rows
            assert remote.commit(done.commit.id) == graph.commit(done.commit.id)
            assert remote.diff("main", "b", images=True) == graph.diff("main", "b", images=True)
            assert remote.snapshot().to_dict() == graph.snapshot().to_dict()
            load = graph.commits()[0]
            whole = graph.commit_changes(load, images=True, nodes_first=True)
            assert remote.commit_changes(load) == whole
            assert list(remote.export()) == list(graph.export())
            first = remote.commit_changes(load, limit=1)
            assert first == graph.commit_changes(load, images=True, nodes_first=True, limit=1)
            then: dict[str, Any] = {"images": True, "page_token": first.next_page_token}
            rest = remote.commit_changes(load, **then)
            assert rest == graph.commit_changes(load, nodes_first=True, **then)
            assert remote.explain(ask).to_dict() == graph.explain(ask).to_dict()
            assert remote.explain(ask, profile=True).steps[0].rows == 2
            with pytest.raises(omnigraphdb.UserInputError, match="comes from a server"):
                remote.explain(ask).operators  # noqa: B018 - reading it is what is refused
            page = remote.change_page(start="beginning", limit=2)
            assert page == graph.change_page(start="beginning", limit=2)
            wider = SCHEMA.replace("age: I32?", "age: I32?  nick: String?")
            assert remote.schema_plan(wider) == graph.schema_plan(wider)
            assert remote.merge("b", dry_run=True) == graph.merge("b", dry_run=True)
            assert remote.catalog.tables.keys() == graph.catalog.tables.keys()
        remote.branch_delete("b")
        applied = remote.schema_apply(wider)
        assert applied.applied
        assert [one.kind for one in applied.steps] == ["add_property"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("optimize", "--server", "http://h:1"), "needs its storage"),
        (("schema", "plan", "--server", "http://h:1"), "needs its storage"),
        (("query", "-e", NAMES, "--graph", "g"), "--server"),
        (("query", "-e", NAMES, "--store", "g", "--server", "http://h:1"), "named twice"),
        (("mutate", "-e", ADD, "--as", "ada", "--server", "http://h:1"), "token"),
        (("query", "-e", NAMES, "--server", "nowhere"), "unknown server"),
    ],
)
def test_a_server_is_refused_where_it_means_nothing(words: tuple[str, ...], reason: str) -> None:
    assert reason in refusal(Commands()._json, *words)["error"]


def test_branches_and_counts_of_a_served_graph_are_shown_as_those_at_hand(
    server: ServerProcess, tmp_path: Path
) -> None:
    served, here = Commands("--server", server.url), Commands("--store", str(tmp_path / "g"))
    served.load(LINES, "append")
    served.branch("side")
    for words in (
        ("branch", "show", "side"),
        ("commit", "list", "--stat"),
        ("commit", "show", served.commits()["commits"][0]["graph_commit_id"]),
    ):
        shown = served._json(*words)
        assert shown == here._json(*words)
    assert shown["counts"]["Person"]["inserts"] > 0
    assert "did you mean 'side'?" in refusal(served._json, "branch", "show", "sidde")["error"]
    assert served._json("commit", "list", "--all") == here._json("commit", "list", "--all")


def test_a_token_goes_to_its_own_server_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraphdb.errors import ConfigError
    from omnigraphdb.surfaces.cli.credentials import find_token, find_url

    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    environment = {"OMNIGRAPH_HOME": str(tmp_path)}
    (tmp_path / "config.yaml").write_text("servers: {prod-eu: {url: 'http://h:8080'}}\n")
    commands = Commands()
    assert commands._json("login", "prod-eu", text="s3cret\n") == {
        "server": "prod-eu",
        "logged_in": True,
    }
    kept = tmp_path / "credentials"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert find_url("prod-eu", environment) == "http://h:8080"
    assert find_token("http://h:8080/graphs/x", environment) == "s3cret"
    assert find_token("http://h:8080-evil", environment) is None
    both = environment | {"OMNIGRAPH_BEARER_TOKEN": "any", "OMNIGRAPH_TOKEN_PROD_EU": "mine"}
    assert find_token("http://h:8080", both) == "mine"
    assert find_token("http://other", both) == "any"
    kept.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read") as caught:
        find_token("http://h:8080", environment)
    assert caught.value.hint == f"chmod 600 {kept}"
    kept.chmod(0o600)
    commands._json("logout", "prod-eu")
    commands._json("logout", "prod-eu")
    assert find_token("http://h:8080", environment) is None
