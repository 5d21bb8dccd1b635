"""Writing over HTTP: durable when answered, refused without a trace, admitted by count, finished when nobody waits."""

import gzip
import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraphdb
from omnigraphdb.failpoints import Failpoint, parked
from omnigraphdb.runtime import SYSTEM
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving, start_server

LINES = {"content-type": "application/x-ndjson"}
UPDATE = "query up($n: String, $a: I32) { update Person set { age: $a } where name = $n }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("writes")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """One graph, served to everyone, with stored queries."""
    stored = folder / "queries"
    stored.mkdir()
    (stored / "people.gq").write_text(
        f'{NAMES}\nquery add($n: String) @description("Add one.") {{ insert Person {{ name: $n }} }}'
    )
    place = make_graph(folder / "g")
    words = (
        str(place),
        "--unauthenticated",
        "--queries",
        str(stored),
        "--max-load-bytes",
        "100000",
    )
    with serving(*words, log=folder / "log") as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def add(http: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return http.post("/mutate", json={"query": ADD, "params": {"n": name}, **more})


def names(http: httpx.Client, **target: str) -> list[str]:
    rows = http.post("/query", json={"query": NAMES, **target}).json()["rows"]
    return [row["p.name"] for row in rows]


@contextmanager
def locked(place: Path, branch: str = "main") -> Iterator[None]:
    """Another process's writer holds the locks of people; it goes on when the block ends."""
    with omnigraphdb.open(place) as graph, parked(Failpoint.ARMED) as park:
        name = f"holder {SYSTEM.new_id()}"
        writer = threading.Thread(
            target=graph.mutate, args=(ADD, {"n": name}), kwargs={"branch": branch}
        )
        writer.start()
        assert park.reached.wait(60)
        try:
            yield
        finally:
            park.release()
            writer.join(60)


# ---- what writes answer


def test_a_write_answers_with_its_commit(http: httpx.Client) -> None:
    done = add(http, "Cy").json()
    assert (done["affected_nodes"], done["actor_id"]) == (1, None)
    commit = done["commit"]
    assert http.get(f"/commits/{commit['graph_commit_id']}").json() == commit
    assert http.get("/commits", params={"limit": 1}).json()["commits"] == [commit]
    nothing = http.post("/mutate", json={"query": UPDATE, "params": {"n": "Nobody", "a": 1}}).json()
    assert nothing["commit"] is None


def test_a_conditional_write_needs_its_header(http: httpx.Client) -> None:
    head = http.get("/commits", params={"limit": 1}).json()["commits"][0]["graph_commit_id"]
    body = {"query": ADD, "params": {"n": "Di"}}
    name, path = "omnigraph-if-graph-commit", "/mutate/if-graph-commit"
    plain = http.post("/mutate", json=body, headers={name: head})
    assert plain.status_code == 400
    assert path in plain.json()["hint"]
    for wrong in ("*", f'"{head}"', f"W/{head}", f"{head},{head}", ""):
        assert http.post(path, json=body, headers={name: wrong}).status_code == 400
    twice = httpx.Headers([(name, head), (name, head)])
    assert http.post(path, json=body, headers=twice).status_code == 400
    assert http.post(path, json=body).status_code == 400
    done = http.post(path, json=body, headers={name: head})
    assert done.status_code == 200
    lost = http.post(path, json=body, headers={name: head})
    assert lost.status_code == 412
    assert lost.json()["precondition_failure"]["expected"] == head
    assert lost.json()["outcome"]["action"] == "refresh"


def test_loads_take_lines_in_a_document_or_as_they_are(http: httpx.Client) -> None:
    lines = "".join(
        json.dumps({"type": "Person", "data": {"name": n}}) + "\n" for n in ("Eva", "Flo")
    )
    done = http.post("/load", json={"data": lines}).json()
    assert (done["mode"], done["total_rows"], done["branch_created"]) == ("merge", 2, False)
    assert done["base_branch"] is None
    raw = {"content-type": "application/x-ndjson"}
    again = http.post("/load/ndjson", content=lines, headers=raw, params={"mode": "append"})
    assert again.status_code == 409
    assert again.json()["key_conflict"]["table_key"] == "node:Person"
    packed = http.post(
        "/load/ndjson",
        content=gzip.compress(lines.encode()),
        headers=raw | {"content-encoding": "gzip"},
    )
    assert packed.status_code == 200
    missing = http.post("/load", json={"data": lines, "branch": "new"})
    assert missing.status_code == 404
    assert "`from`" in missing.text
    made = http.post("/load", json={"data": lines, "branch": "new", "from": "main"}).json()
    assert made["branch_created"] is True
    assert http.delete("/branches/new").status_code == 200


def test_a_load_creates_the_nodes_that_edges_name_when_asked(
    http: httpx.Client, server: ServerProcess
) -> None:
    line = json.dumps({"edge": "Knows", "from": "Zoe", "to": "Zed", "data": {}}) + "\n"
    assert http.post("/load", json={"data": line}).status_code == 400
    asked = {"data": line, "mode": "append", "branch": "made", "from": "main"}
    done = http.post("/load", json=asked | {"create_missing": ["Person"]}).json()
    assert done["created"] == [{"table_key": "node:Person", "rows_created": 2}]
    assert http.post("/load", json=asked | {"create_missing": "Person"}).status_code == 400
    more = [{"edge": "Knows", "from": "Zoe", "to": "Zack", "data": {}}]
    with omnigraphdb.connect(server.url) as graph:
        told = graph.load(more, mode="append", branch="made", create_missing="Person")
        assert told.created == {"node:Person": 1}
    assert http.delete("/branches/made").status_code == 200


def test_a_merge_only_adds_to_the_types_that_say_so(http: httpx.Client) -> None:
    line = json.dumps({"type": "Person", "data": {"name": "Ulf"}}) + "\n"
    raw = {"content-type": "application/x-ndjson"}
    only = {"append_only": ["Person"]}
    asked = {"data": line, "branch": "added", "from": "main"}
    assert http.post("/load", json=asked | only).json()["total_rows"] == 1
    assert http.post("/load", json=asked | only).status_code == 409
    params = {"branch": "added", "append_only": "Person"}
    again = http.post("/load/ndjson", content=line, headers=raw, params=params)
    assert again.status_code == 409
    assert http.post("/load", json=asked).status_code == 200
    assert http.delete("/branches/added").status_code == 200


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"type": "Person"}', {"content-type": "text/csv"}, 415),
        (b"x" * 100_001, LINES, 413),
        (gzip.compress(b" " * 5_000_000), LINES | {"content-encoding": "gzip"}, 413),
        (b"no gzip", LINES | {"content-encoding": "gzip"}, 400),
        (gzip.compress(b"{}")[:-5], LINES | {"content-encoding": "gzip"}, 400),
        (b"{}", LINES | {"content-encoding": "br"}, 415),
        (b"not json\n", LINES, 400),
        (b'{"type": "Persn", "data": {}}\n', LINES, 400),
        (b'{"type": "Person", "data": {"nme": 1}}\n', LINES, 400),
        (b"\xff\xfe\n", LINES, 400),
    ],
    ids=[
        "media",
        "long",
        "bomb",
        "no gzip",
        "cut gzip",
        "brotli",
        "no json",
        "type",
        "property",
        "bytes",
    ],
)
def test_a_bad_load_is_refused_and_leaves_nothing(
    http: httpx.Client, content: bytes, headers: dict[str, str], status: int
) -> None:
    before = http.get("/snapshot").json()
    found = http.post("/load/ndjson", content=content, headers=headers)
    assert found.status_code == status, found.text
    assert found.json()["outcome"]["effects"] == "none"
    assert http.get("/snapshot").json() == before


def test_a_date_may_be_a_number_of_days(http: httpx.Client) -> None:
    line = json.dumps({"type": "Person", "data": {"name": "Dated", "born": 11356}})
    assert http.post("/load", json={"data": line}).status_code == 200
    born = 'query q() { match { $p: Person { name: "Dated" } } return { $p.born as born } }'
    assert http.post("/query", json={"query": born}).json()["rows"] == [{"born": "2001-02-03"}]


def test_branches_are_made_merged_and_deleted(http: httpx.Client) -> None:
    made = http.post("/branches", json={"name": "etl/run-7"}).json()
    assert (made["from"], made["name"], made["actor_id"]) == ("main", "etl/run-7", None)
    assert http.post("/branches", json={"name": "etl/run-7"}).status_code == 409
    add(http, "Gus", branch="etl/run-7")
    merged = http.post("/branches/merge", json={"source": "etl/run-7"}).json()
    assert merged["outcome"] == "fast_forward"
    assert "Gus" in names(http)
    assert http.delete("/branches/etl%2Frun-7").json()["name"] == "etl/run-7"
    assert http.delete("/branches/main").status_code == 400


def test_a_merge_tells_its_conflicts_and_may_delete_its_branch(http: httpx.Client) -> None:
    http.post("/branches", json={"name": "fix"})
    for branch, age in (("fix", 40), ("main", 41)):
        body = {"query": UPDATE, "params": {"n": "Ada", "a": age}, "branch": branch}
        assert http.post("/mutate", json=body).status_code == 200
    found = http.post("/branches/merge", json={"source": "fix"})
    assert found.status_code == 409
    conflict = found.json()["merge_conflicts"][0]
    assert (conflict["row_id"], conflict["kind"]) == ("Ada", "divergent_update")
    assert found.json()["outcome"] == {"execution": "finished", "effects": "none", "action": "fix"}
    http.post("/mutate", json={"query": UPDATE, "params": {"n": "Ada", "a": 40}})
    done = http.post("/branches/merge", json={"source": "fix", "delete_branch": True}).json()
    assert done["branch_deleted"] is True
    assert http.get("/branches").json()["branches"] == ["main"]


def test_a_branch_goes_only_when_all_of_it_is_merged(http: httpx.Client) -> None:
    http.post("/branches", json={"name": "fix"})
    body = {"query": UPDATE, "params": {"n": "Ada", "a": 40}, "branch": "fix"}
    assert http.post("/mutate", json=body).status_code == 200
    refused = http.delete("/branches/fix", params={"merged_into": "main"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "not merged into 'main'" in refused.json()["error"]
    assert http.post("/branches/merge", json={"source": "fix"}).status_code == 200
    assert http.delete("/branches/fix", params={"merged_into": "main"}).status_code == 200


def test_a_schema_is_applied(http: httpx.Client) -> None:
    text = http.get("/schema").json()["schema_source"]
    wider = text.replace("age: I32?", "age: I32?  nick: String?")
    done = http.post("/schema/apply", json={"schema_source": wider}).json()
    assert (done["applied"], done["step_count"]) == (True, 1)
    same = http.post("/schema/apply", json={"schema_source": wider}).json()
    assert (same["applied"], same["commit"]) == (False, None)
    refused = http.post("/schema/apply", json={"schema_source": "node {"})
    assert refused.status_code == 400
    assert refused.json()["diagnostic"]["position"]["line"] == 1


def test_stored_queries_run_by_name(http: httpx.Client) -> None:
    listed = {one["name"]: one for one in http.get("/queries").json()["queries"]}
    assert listed["names"] == {
        "name": "names",
        "tool_name": "names",
        "exposed": True,
        "description": None,
        "instruction": None,
        "mutation": False,
        "params": [],
    }
    assert listed["add"]["params"] == [{"name": "n", "kind": "string", "nullable": False}]
    assert listed["add"]["description"] == "Add one."
    typed = {"content-type": "application/json"}
    for body, headers in ((b"", {}), (b"null", typed), (b"{}", typed)):
        done = http.post("/queries/names", content=body, headers=headers)
        assert done.json()["query_name"] == "names"
    done = http.post("/queries/add", json={"params": {"n": "Stored"}}).json()
    assert done["commit"]["kind"] == "mutation"
    wrong = http.post("/queries/add", json={"params": {"n": "X"}, "expect_mutation": False})
    assert wrong.status_code == 400
    assert "omnigraphdb mutate" in wrong.json()["hint"]
    old = http.post("/queries/add", json={"params": {"n": "X"}, "snapshot": "1"})
    assert old.status_code == 400
    assert http.post("/queries/add", json={"params": {}}).json()["param"]["name"] == "n"
    assert http.post("/queries/..%2Fadd").status_code == 404
    head = {"omnigraph-if-graph-commit": done["commit"]["graph_commit_id"]}
    path = "/queries/add/if-graph-commit"
    assert http.post(path, json={"params": {"n": "Cond"}}, headers=head).status_code == 200
    assert http.post(path, json={"params": {"n": "Cond2"}}, headers=head).status_code == 412


def test_deprecated_routes_work_and_name_their_successors(http: httpx.Client) -> None:
    read = http.post("/read", json={"query_source": NAMES, "query_name": "names"})
    assert "graph_commit_id" not in read.json()
    change = http.post("/change", json={"query_source": ADD, "params": {"n": "Old 1"}})
    newer = http.post("/change", json={"query": ADD, "params": {"n": "Old 2"}})
    line = json.dumps({"type": "Person", "data": {"name": "Old 3"}})
    ingest = http.post("/ingest", json={"data": line, "branch": "ingested"})
    assert ingest.json()["branch_created"] is True
    assert ingest.json()["base_branch"] == "main"
    for found, successor in (
        (read, "query"),
        (change, "mutate"),
        (newer, "mutate"),
        (ingest, "load"),
    ):
        assert found.status_code == 200
        assert found.headers["deprecation"] == "true"
        assert found.headers["link"] == f'<{successor}>; rel="successor-version"'
    assert (
        http.post("/mutate", json={"query_source": ADD, "params": {"n": "Old 4"}}).status_code
        == 200
    )
    assert http.post("/mutate", json={"query_source": ADD, "query": ADD}).status_code == 400
    assert {"Old 1", "Old 2", "Old 4"} <= set(names(http))
    http.delete("/branches/ingested")


# ---- many at once


def test_every_insert_of_many_threads_is_there_or_was_refused(http: httpx.Client) -> None:
    before = len(names(http))

    def insert(number: int) -> int:
        return add(http, f"thread {number}").status_code

    with ThreadPoolExecutor(32) as pool:
        statuses = list(pool.map(insert, range(64)))
    assert set(statuses) <= {200, 409, 429}
    assert len(names(http)) == before + statuses.count(200)


def test_of_two_updates_of_one_row_one_is_refused(folder: Path, http: httpx.Client) -> None:
    def update(age: int) -> httpx.Response:
        return http.post("/mutate", json={"query": UPDATE, "params": {"n": "Bo", "a": age}})

    with ThreadPoolExecutor(2) as pool:
        with locked(folder / "g"):
            waiting = [pool.submit(update, age) for age in (51, 52)]
            wait_for_writers(http, 2)
        found = sorted((one.result() for one in waiting), key=lambda one: one.status_code)
    assert [one.status_code for one in found] == [200, 409]
    body = found[1].json()
    assert body["code"] == "conflict"
    moved = body["manifest_conflict"]
    assert moved["table_key"] == "node:Person"
    assert moved["actual"] > moved["expected"]


def wait_for_writers(http: httpx.Client, count: int) -> None:
    """Wait until the server has so many writes under way."""
    for _ in range(400):
        text = http.get("/metrics").text
        if f'omnigraph_writes_inflight{{actor=""}} {count}.0' in text:
            return
        SYSTEM.wait(0.05)
    raise AssertionError("the writes did not begin")


def test_the_seventeenth_write_of_an_actor_is_refused(folder: Path, http: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        with locked(folder / "g"):
            waiting = [pool.submit(add, http, f"slow {n}") for n in range(16)]
            wait_for_writers(http, 16)
            refused = add(http, "one too many")
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["code"] == "too_many_requests"
            assert refused.json()["outcome"]["action"] == "retry"
            assert "Ada" in names(http)
        assert {one.result().status_code for one in waiting} == {200}
    assert add(http, "one more").status_code == 200


def test_a_write_ends_when_its_client_has_left(
    folder: Path, server: ServerProcess, http: httpx.Client
) -> None:
    with locked(folder / "g"):
        body = {"query": ADD, "params": {"n": "left alone"}}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/mutate", json=body, timeout=httpx.Timeout(30, read=0.5))
    wait_for_writers_to_end(http)
    assert "left alone" in names(http)


def wait_for_writers_to_end(http: httpx.Client) -> None:
    for _ in range(400):
        if "omnigraph_writes_inflight{" not in http.get("/metrics").text:
            return
        SYSTEM.wait(0.05)
    raise AssertionError("the writes did not end")


# ---- interruptions


@pytest.mark.parametrize("at", [Failpoint.ARMED, Failpoint.TABLES_COMMITTED])
def test_a_server_killed_inside_a_write_leaves_it_whole_or_absent(
    tmp_path: Path, at: Failpoint
) -> None:
    place = make_graph(tmp_path / "g")
    words = (str(place), "--unauthenticated")
    deadly = {"OMNIGRAPH_FAILPOINTS": f"{at}=exit"}
    with serving(*words, log=tmp_path / "log", environment=deadly) as server:
        with server.client() as http, pytest.raises(httpx.TransportError):
            add(http, "Cut")
        assert server.process.wait(30) == -signal.SIGKILL
    with serving(*words, log=tmp_path / "log2") as server, server.client() as http:
        assert ("Cut" in names(http)) == (at is Failpoint.TABLES_COMMITTED)
        assert add(http, "Next").status_code == 200
    with omnigraphdb.open(place) as graph:
        assert not graph.doctor()


def test_a_server_heals_itself_after_a_failed_publish(tmp_path: Path) -> None:
    place = make_graph(tmp_path / "g")
    failing = {"OMNIGRAPH_FAILPOINTS": f"{Failpoint.TABLES_COMMITTED}=1*error"}
    words = (str(place), "--unauthenticated")
    with serving(*words, log=tmp_path / "log", environment=failing) as server:
        with server.client() as http:
            failed = add(http, "Half")
            assert failed.status_code in (500, 503)
            assert "Traceback" not in failed.text
            assert str(tmp_path) not in failed.text
            assert failed.json()["outcome"]["effects"] == "unknown"
            assert add(http, "Next").status_code == 200
            assert {"Half", "Next"} <= set(names(http))
        assert server.stop() == 0


def wait_for_drain(http: httpx.Client) -> None:
    """Wait until the server has taken a signal."""
    deadline = SYSTEM.monotonic() + 20
    while http.get("/healthz").status_code != 503:
        assert SYSTEM.monotonic() < deadline
        time.sleep(0.05)


def test_a_signal_lets_writes_end(tmp_path: Path) -> None:
    place = make_graph(tmp_path / "g")
    server = start_server(str(place), "--unauthenticated", log=tmp_path / "log")
    with server.client() as http, ThreadPoolExecutor(1) as pool:
        with locked(place):
            waiting = pool.submit(add, http, "Late")
            wait_for_writers(http, 1)
            server.process.send_signal(signal.SIGTERM)
            wait_for_drain(http)
            for turned_away in (http.get("/snapshot"), add(http, "Later"), http.get("/readyz")):
                assert turned_away.status_code == 503
                assert turned_away.json()["kind"] == "not_ready"
        assert waiting.result().status_code == 200
        assert server.process.wait(30) == 0
    with omnigraphdb.open(place) as graph:
        people = {row["p.name"] for row in graph.query(NAMES).rows}
    assert "Late" in people
    assert "Later" not in people
    assert server.process.stdout is not None
    server.process.stdout.close()


def test_a_write_that_outlasts_the_timeout_is_left_to_recovery(tmp_path: Path) -> None:
    place = make_graph(tmp_path / "g")
    words = (str(place), "--unauthenticated", "--shutdown-timeout", "1")
    server = start_server(*words, log=tmp_path / "log")
    with server.client() as http, ThreadPoolExecutor(1) as pool:
        with locked(place):
            waiting = pool.submit(add, http, "Late")
            wait_for_writers(http, 1)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 1
        assert waiting.exception() is not None or waiting.result().status_code >= 500
    assert "server.abandoned" in server.log.read_text()
    assert server.process.stdout is not None
    server.process.stdout.close()
