"""Reading over HTTP: every route gives what the Python call gives, and refuses in one form."""

import io
import json
import os
import socket
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.layout import job_path
from tests.support.commands import runner
from tests.support.served import ADD, NAMES, PEOPLE, ServerProcess, make_graph, serving

BLOB = {"entity": "node", "type": "Person", "id": "Ada", "property": "photo"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One graph, served to everyone."""
    folder = tmp_path_factory.mktemp("reads")
    place = make_graph(folder / "g")
    with omnigraphdb.open(place) as graph:
        graph.branch_create("etl/run-1")
        graph.mutate(ADD, {"n": "Cy"}, branch="etl/run-1")
        graph.mutate('query up() { update Person set { age: 37 } where name = "Ada" }')
    with serving(str(place), "--unauthenticated", log=folder / "log") as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def graph(server: ServerProcess) -> Iterator[omnigraphdb.Graph]:
    with omnigraphdb.open(server.log.parent / "g", read_only=True) as found:
        yield found


def test_reads_give_what_the_calls_give(http: httpx.Client, graph: omnigraphdb.Graph) -> None:
    assert http.get("/snapshot").json() == graph.snapshot().to_dict()
    assert http.get("/schema").json() == {"schema_source": graph.schema_source}
    assert http.get("/branches").json()["branches"] == ["etl/run-1", "main"]
    assert http.post("/query", json={"query": NAMES}).json() == graph.query(NAMES).to_dict()
    listed = http.get("/commits").json()
    assert listed["commits"] == [one.to_dict() for one in graph.commits()]
    assert listed["next_page_token"] is None


def test_jobs_are_listed_alike_everywhere(
    server: ServerProcess,
    http: httpx.Client,
    graph: omnigraphdb.Graph,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert http.get("/jobs").json() == {"jobs": []}
    here = {"process": os.getpid(), "host": socket.gethostname(), "branch": "main"}
    told = {"phase": "read", "done": 1, "total": None, "unit": "rows", "rows": 1, "bytes": None}
    times = {"started_us": SYSTEM.now_us(), "renewed_us": SYSTEM.now_us()}
    job = {"job_id": "01J", "kind": "load", "actor_id": "ada", "progress": told} | here | times
    graph._engine.store.objects.put(job_path("01J"), json.dumps(job))
    shown = [one.to_dict() for one in graph.jobs()]
    assert shown[0]["progress"] == told
    assert http.get("/jobs").json() == {"jobs": shown}
    with omnigraphdb.connect(server.url) as remote:
        assert [one.to_dict() for one in remote.jobs()] == shown
    run = runner(monkeypatch, capsys)
    for address in (("--store", graph.uri), ("--server", server.url)):
        assert run("jobs", *address, "--json").json == {"jobs": shown}
        printed = run("jobs", *address).out
        assert "running 01J load by ada on main" in printed
        assert "read, 1 rows\n1 running, 0 dead" in printed
    graph._engine.store.objects.delete(job_path("01J"))


def test_nested_and_flat_routes_answer_alike(http: httpx.Client) -> None:
    for path in ("/snapshot", "/branches", "/commits", "/schema", "/queries"):
        assert http.get(path).json() == http.get(f"/graphs/default{path}").json()


def test_a_query_reads_a_branch_or_a_snapshot(http: httpx.Client, graph: omnigraphdb.Graph) -> None:
    first = graph.commits()[-2].id
    old = http.post("/query", json={"query": NAMES, "snapshot": first}).json()
    assert old["target"] == {"snapshot": first}
    there = http.post("/query", json={"query": NAMES, "branch": "etl/run-1"}).json()
    assert [row["p.name"] for row in there["rows"]] == ["Ada", "Bo", "Cy"]
    both = http.post("/query", json={"query": NAMES, "branch": "main", "snapshot": first})
    assert both.status_code == 400


def test_a_query_gives_arrow_to_who_accepts_it(http: httpx.Client) -> None:
    kind = "application/vnd.apache.arrow.stream"
    found = http.post("/query", json={"query": NAMES}, headers={"accept": kind})
    assert found.headers["content-type"] == kind
    table = pa.ipc.open_stream(io.BytesIO(found.content)).read_all()
    assert table.to_pylist() == [{"p.name": "Ada"}, {"p.name": "Bo"}]


def test_commits_come_in_pages_only_when_a_limit_is_given(http: httpx.Client) -> None:
    everything = http.get("/commits").json()["commits"]
    assert len(everything) == 3
    first = http.get("/commits", params={"limit": 2}).json()
    second = http.get(
        "/commits", params={"limit": 2, "page_token": first["next_page_token"]}
    ).json()
    assert first["commits"] + second["commits"] == everything
    assert second["next_page_token"] is None


@pytest.mark.parametrize(
    "name", ["nope", "%2E%2E%2Fx", "01M7EQ3P4VK0", "a b", "'", "%00", "%2F", "x" * 300]
)
def test_a_commit_that_cannot_be_found_is_404(http: httpx.Client, name: str) -> None:
    for path in (f"/commits/{name}", f"/commits/{name}/changes"):
        found = http.send(httpx.Request("GET", f"{http.base_url}{path}"))
        assert found.status_code == 404, found.text


def test_a_name_with_a_slash_is_one_segment(http: httpx.Client) -> None:
    found = http.delete("/branches/etl%2Fnone")
    assert found.status_code == 404
    assert "etl/none" in found.json()["error"]
    assert http.delete("/branches/etl/none").json()["missing"]["what"] == "route"


def test_an_entity_and_its_history_are_those_of_the_calls(
    server: ServerProcess, http: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    named = {"type": "Person", "id": "Ada"}
    assert http.get("/entity", params=named).json() == {
        "type_name": "Person",
        "entity": graph.entity("Person", "Ada"),
    }
    assert http.get("/entity", params=named | {"id": "Nobody"}).status_code == 404
    assert http.get("/entity", params={"type": "Person"}).status_code == 400
    with omnigraphdb.connect(server.url) as remote:
        assert remote.history("Person", "Ada") == graph.history("Person", "Ada")
        assert remote.entity("Person", "Ada") == graph.entity("Person", "Ada")
        assert remote.entity("Person", "Nobody") is None
    assert http.get("/entity/history", params=named | {"limit": 100_000}).status_code == 413
    assert http.get("/entity/history", params=named | {"type": "Nothing"}).status_code == 404


# ---- the feed


def test_a_commit_tells_what_it_changed(http: httpx.Client, graph: omnigraphdb.Graph) -> None:
    update, load, genesis = graph.commits()
    found = http.get(f"/commits/{update.id}/changes").json()
    assert found["cause"]["graph_commit_id"] == update.id
    change = found["changes"][0]
    assert (change["kind"], change["op"], change["id"]) == ("node", "update", "Ada")
    assert change["type"]["name"] == "Person"
    ages = [change[side]["properties"]["age"] for side in ("before", "after")]
    assert ages == [36, 37]
    inserted = http.get(f"/commits/{load.id}/changes").json()["changes"]
    assert [one["kind"] for one in inserted] == ["node", "node", "edge"]
    assert all("before" not in one for one in inserted)
    assert inserted[2]["after"]["endpoints"] == {"from": "Ada", "to": "Bo"}
    refused = http.get(f"/commits/{genesis.id}/changes")
    assert refused.status_code == 409
    assert refused.json()["change_diff_refusal"]["reason"] == "parentless_commit"


def test_pages_of_the_feed_may_end_inside_a_commit(http: httpx.Client) -> None:
    whole = http.get("/changes", params={"start": "beginning"}).json()
    assert whole["caught_up"] is True
    assert "next_page_token" not in whole
    expected = [change for block in whole["blocks"] for change in block["changes"]]
    found, query = [], {"start": "beginning", "limit": "1"}
    for _ in range(20):
        page = http.get("/changes", params=query).json()
        found += [change for block in page["blocks"] for change in block["changes"]]
        if "next_page_token" not in page:
            break
        assert "cursor" not in page
        assert "caught_up" not in page
        query = {"page_token": page["next_page_token"], "limit": "1"}
    assert found == expected
    assert page["cursor"] == whole["cursor"]
    assert http.get("/changes", params={"cursor": page["cursor"]}).json()["blocks"] == []


def test_the_feed_starts_now_unless_it_is_told(
    http: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    assert http.get("/changes").json()["blocks"] == []
    load = graph.commits()[1].id
    after = http.get("/changes", params={"start": f"after:{load}"}).json()
    assert [block["cause"]["graph_commit_id"] for block in after["blocks"]] == [
        graph.commits()[0].id
    ]


def test_a_cursor_is_bound_to_branch_and_filters(http: httpx.Client) -> None:
    cursor = http.get("/changes", params={"start": "beginning", "kind": "node"}).json()["cursor"]
    for query in (
        {"cursor": cursor, "branch": "etl/run-1", "kind": "node"},
        {"cursor": cursor, "kind": "edge"},
        {"cursor": "og1.nothing"},
        {"page_token": cursor},
    ):
        refused = http.get("/changes", params=query)
        assert refused.status_code == 400, query
        assert refused.json()["error"].startswith("change cursor rejected:")
    assert http.get("/changes", params={"limit": 9000}).status_code == 413
    assert http.get("/changes", params={"cursor": cursor, "start": "now"}).status_code == 400


def test_a_diff_comes_in_pages(http: httpx.Client, graph: omnigraphdb.Graph) -> None:
    ends = {"from": "main", "to": "etl/run-1"}
    whole = http.get("/diff", params=ends).json()
    assert whole["stats"] == graph.diff("main", "etl/run-1").stats.to_dict()
    first = http.get("/diff", params=ends | {"limit": "1"}).json()
    token = first["next_page_token"]
    second = http.get("/diff", params=ends | {"limit": "1", "page_token": token}).json()
    assert first["changes"] + second["changes"] == whole["changes"]
    assert "next_page_token" not in second


# ---- exports and blobs


def test_an_export_is_the_load_format(http: httpx.Client, graph: omnigraphdb.Graph) -> None:
    found = http.post("/export")
    assert found.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert [json.loads(line) for line in found.text.splitlines()] == list(graph.export())
    only = http.post("/export", json={"type_names": ["Knows"]})
    assert len(only.text.splitlines()) == 1
    assert http.post("/export", json={"type_names": ["Persn"]}).status_code == 404


def test_a_baseline_ends_with_the_cursor(http: httpx.Client) -> None:
    lines = [json.loads(line) for line in http.post("/changes/baseline").text.splitlines()]
    assert [set(line) & {"type", "edge"} for line in lines[:-1]] == [{"type"}, {"type"}, {"edge"}]
    cursor = lines[-1]["baseline"]["resume_cursor"]
    assert http.get("/changes", params={"cursor": cursor}).json()["caught_up"] is True


def test_a_blob_is_delivered_whole_in_part_and_by_tag(http: httpx.Client) -> None:
    whole = http.get("/blob", params=BLOB)
    assert whole.content == b"hello world"
    tag = whole.headers["etag"]
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["omnigraph-snapshot-id"]
    head = http.head("/blob", params=BLOB)
    assert (head.headers["content-length"], head.content) == ("11", b"")

    def ask(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return http.get("/blob", params=BLOB, headers=named)

    part = ask(range="bytes=6-")
    assert (part.status_code, part.content) == (206, b"world")
    assert part.headers["content-range"] == "bytes 6-10/11"
    assert ask(range="bytes=-3").content == b"rld"
    assert ask(range="bytes=0-99").content == b"hello world"
    for ignored in ("bytes=1-2,4-5", "lines=1-2", "bytes=-", "bytes=5-1"):
        assert (ask(range=ignored).status_code, ask(range=ignored).content) == (200, b"hello world")
    beyond = ask(range="bytes=11-")
    assert beyond.status_code == 416
    assert beyond.headers["content-range"] == "bytes */11"
    assert beyond.json()["blob_range"]["length"] == 11
    assert ask(if_none_match=f"W/{tag}").status_code == 304
    assert ask(if_match='"other"').status_code == 412
    assert ask(if_match=f'"other", {tag}').status_code == 200
    assert ask(range="bytes=0-1", if_range='"other"').status_code == 200
    assert ask(range="bytes=0-1", if_range=tag).status_code == 206


@pytest.mark.parametrize(
    "change", [{"id": "Nobody"}, {"id": "Bo"}, {"property": "phto"}, {"type": "Persn"}]
)
def test_a_blob_that_is_not_there_is_404(http: httpx.Client, change: dict[str, str]) -> None:
    assert http.get("/blob", params=BLOB | change).status_code == 404


def test_a_preview_tells_what_a_merge_would_do(http: httpx.Client) -> None:
    found = http.post("/branches/merge/preview", json={"source": "etl/run-1"}).json()
    assert found["outcome"] == "merged"
    assert found["conflicts"] == []
    counted = {"table_key": "node:Person", "inserts": 1, "updates": 0, "deletes": 0}
    assert found["changes_by_table"] == [counted]


def test_a_plan_of_a_schema_changes_nothing(http: httpx.Client, graph: omnigraphdb.Graph) -> None:
    text = graph.schema_source.replace("age: I32?", "age: I32?  nick: String?")
    found = http.post("/schema/plan", json={"schema_source": text}).json()
    assert found["supported"] is True
    assert [step["kind"] for step in found["steps"]] == ["add_property"]
    assert http.get("/schema").json()["schema_source"] == graph.schema_source


def test_every_record_of_the_load_is_in_the_export(http: httpx.Client) -> None:
    lines = http.post("/export").text.splitlines()
    assert len(lines) == len(PEOPLE)
