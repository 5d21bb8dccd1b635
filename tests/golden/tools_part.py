"""The tools of agents: their list, the resources, and calls of each tool, over HTTP and over stdin and stdout."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from omnigraphdb.surfaces.mcp.tools import BUILT_IN, PROPOSE
from tests.golden.forms import Entries
from tests.golden.server import serve_graph
from tests.golden.world import ADD, AGE, FRIENDS, NAMES, NOWHERE

Send = Callable[[str, Mapping[str, Any]], Any]
"""Sends a request of the protocol; gives its result, or its error."""
_BEGIN = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "golden", "version": "1"},
}


def record(folder: Path) -> Entries:
    """Record the answers; every tool has an entry."""
    entries: Entries = {}
    with serve_graph(folder) as server:
        for actor in ("ada", "bo"):
            with server.client(f"t-{actor}") as http:
                send = _make_sender(http)
                entries |= {f"{actor}: {name}": one for name, one in _list_offers(send)}
                if actor == "ada":
                    entries |= dict(_call_tools(send))
                else:
                    call = {"name": "mutate", "arguments": {"query": ADD, "params": {"n": "X"}}}
                    entries["bo: mutate"] = send("tools/call", call)
    with _start_session(folder / "g", "--branch-per-session", "--session", "s1") as send:
        entries |= dict(_call_in_session(send))
    with _start_session(folder / "g", "--query-tools", "pair", "--queries", "queries") as send:
        entries |= dict(_call_pair(send))
    with _start_session(folder / "g") as send:
        entries |= dict(_call_with_points(send))
    missing = {one.name for one in (*BUILT_IN, PROPOSE)} - {n.partition(",")[0] for n in entries}
    assert not missing, f"tools without an entry: {missing}"
    return entries


def _list_offers(send: Send) -> Iterator[tuple[str, Any]]:
    yield "initialize", send("initialize", _BEGIN)
    listed = send("tools/list", {})
    # By name: a new tool is an addition.
    yield "tools/list", {one["name"]: one for one in listed["tools"]}
    yield "resources/list", {one["uri"]: one for one in send("resources/list", {})["resources"]}


def _call_tools(send: Send) -> Iterator[tuple[str, Any]]:
    call = _make_call(send)
    for uri in send("resources/list", {})["resources"]:
        yield f"resources/read, {uri['uri']}", send("resources/read", {"uri": uri["uri"]})
    yield "resources/read, nothing", send("resources/read", {"uri": "nothing://here"})
    yield "health", call("health")
    yield "snapshot", call("snapshot", branch="side")
    yield "query", call("query", query=NAMES)
    yield "query, parameters", call("query", query=FRIENDS, params={"who": "Ada"}, branch="side")
    page = call("query", query=NAMES, limit=2)
    yield "query, page", page
    cursor = page["structuredContent"]["page"]["next_cursor"]
    yield "query, next page", call("query", query=NAMES, limit=2, cursor=cursor)
    yield (
        "query, broken",
        call("query", query="query q() { match { $p: Person } return { $p.nme } }"),
    )
    yield "query, no text", call("query")
    yield "query, unknown argument", call("query", query=NAMES, brnch="main")
    yield "query, wrong kind", call("query", query=5)
    yield "query, too many", call("query", query=NAMES, limit=5000)
    yield "schema_get", call("schema_get")
    yield "branches_list", call("branches_list")
    yield "branches_list, page", call("branches_list", limit=1)
    yield "graphs_list", call("graphs_list")
    commits = call("commits_list", branch="side", limit=3)
    yield "commits_list", commits
    head = commits["structuredContent"]["commits"][1]["graph_commit_id"]
    yield "commits_get", call("commits_get", commit=head)
    yield "commits_get, nothing", call("commits_get", commit=NOWHERE)
    yield "commits_changes", call("commits_changes", commit=head)
    yield "changes_poll", call("changes_poll", branch="side", start="beginning", limit=2)
    yield "changes_poll, no start", call("changes_poll", start="later")
    yield "mutate", call("mutate", query=ADD, params={"n": "Eve"}, message="because")
    yield "mutate, out of range", call("mutate", query=AGE, params={"n": "Ada", "a": 999})
    yield "load", call("load", data='{"type": "Person", "data": {"name": "Flo"}}', mode="append")
    yield (
        "load, again",
        call("load", data='{"type": "Person", "data": {"name": "Flo"}}', mode="append"),
    )
    yield "load, no mode", call("load", data="", mode="replace")
    yield "branches_create", call("branches_create", **{"name": "draft", "from": "main"})
    yield "branches_create, again", call("branches_create", name="draft")
    yield "branches_merge", call("branches_merge", source="side", delete_branch=True)
    yield "branches_merge, no branch", call("branches_merge", source="nowhere")
    yield "branches_delete", call("branches_delete", name="draft")
    yield "branches_delete, nothing", call("branches_delete", name="nowhere")
    yield "stored query", call("names", limit=1)
    yield "stored query, parameters", call("friends", who="Ada")
    yield "stored query, no parameter", call("friends")
    yield "stored query, mutation", call("add", n="Gil", message="stored")
    yield "unknown tool", call("nothing")


def _call_in_session(send: Send) -> Iterator[tuple[str, Any]]:
    call = _make_call(send)
    yield "session: initialize", send("initialize", _BEGIN)
    listed = send("tools/list", {})
    yield "session: tools/list", {one["name"]: one for one in listed["tools"]}
    yield "propose, nothing", call("propose")
    yield "session: mutate", call("mutate", query=ADD, params={"n": "Hal"})
    yield "session: mutate, main", call("mutate", query=ADD, params={"n": "Hal"}, branch="main")
    yield "propose", call("propose", limit=5)


def _call_pair(send: Send) -> Iterator[tuple[str, Any]]:
    call = _make_call(send)
    send("initialize", _BEGIN)
    pair = ("stored_query_list", "stored_query_run")
    listed = {one["name"]: one for one in send("tools/list", {})["tools"]}
    yield "pair: tools/list", {name: listed[name] for name in pair}
    yield "stored_query_list", call("stored_query_list")
    yield "stored_query_run", call("stored_query_run", name="friends", params={"who": "Ada"})
    yield "stored_query_run, nothing", call("stored_query_run", name="nothing")


def _call_with_points(send: Send) -> Iterator[tuple[str, Any]]:
    """Call the tools that name commits, and those of branches with all that they take."""
    call = _make_call(send)
    send("initialize", _BEGIN)
    listed = call("commits_list", limit=2)["structuredContent"]["commits"]
    latest, before = (commit["graph_commit_id"] for commit in listed)
    yield "tags_create", call("tags_create", name="before", at=before)
    yield "tags_create, again", call("tags_create", name="before", at=latest)
    yield "tags_create, no point", call("tags_create", name="after", at=NOWHERE)
    yield "tags_list", call("tags_list")
    yield "tags_list, page", call("tags_list", limit=1)
    yield "tags_delete", call("tags_delete", name="before")
    yield "tags_delete, nothing", call("tags_delete", name="before")
    yield "branches_create, at", call("branches_create", name="past", at=before)
    yield (
        "branches_merge, granularity",
        call("branches_merge", source="past", granularity="property", allow_older_base=True),
    )
    yield "branches_delete, merged", call("branches_delete", name="past", merged_into="main")


# ---- the protocol


def _make_call(send: Send) -> Callable[..., Any]:
    def call(name: str, /, **arguments: Any) -> Any:
        return send("tools/call", {"name": name, "arguments": arguments})

    return call


def _make_sender(http: httpx.Client) -> Send:
    accept = {"accept": "application/json, text/event-stream"}

    def send(method: str, params: Mapping[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return _read_answer(http.post("/mcp", json=body, headers=accept).json())

    return send


@contextmanager
def _start_session(place: Path, *words: str) -> Iterator[Send]:
    """Give the graph to an agent over stdin and stdout."""
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraphdb", "mcp", str(place), "--as", "ada", *words],
        cwd=place.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def send(method: str, params: Mapping[str, Any]) -> Any:
        stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        stdin.write("\n")
        if method == "initialize":
            stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            stdin.write("\n")
        stdin.flush()
        for line in stdout:
            answer = json.loads(line)
            if "id" in answer:
                return _read_answer(answer)
        raise AssertionError(f"the session ended at {method}")

    try:
        yield send
    finally:
        stdin.close()
        process.wait(60)
        stdout.close()


def _read_answer(answer: Mapping[str, Any]) -> Any:
    """The result or the error; a text that repeats the structured answer is recorded as that."""
    if "error" in answer:
        return {"error": answer["error"]}
    result = dict(answer["result"])
    structured = result.get("structuredContent")
    texts = [one.get("text", "") for one in result.get("content", ())]
    if structured is not None and texts and _repeats(texts[0], structured):
        result["content"] = ["the structured content as JSON", *result["content"][1:]]
    if "serverInfo" in result:
        result["serverInfo"] = {"name": result["serverInfo"]["name"]}
    return result


def _repeats(text: str, structured: Any) -> bool:
    try:
        return bool(json.loads(text) == structured)
    except ValueError:
        return False
