"""The requests of the HTTP part: every route at least once with a right request, and the refusals of each group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from omnigraphdb.surfaces.http.replies import ARROW, PARQUET
from tests.golden.world import ADD, AGE, COUNT, DROP, FRIENDS, GROWN, NAMES, NOWHERE, SCHEMA

LINE: Final = '{"type": "Person", "data": {"name": "%s"}}\n'
LINES: Final = {"content-type": "application/x-ndjson"}
PHOTO: Final = {"entity": "node", "type": "Person", "id": "Ada", "property": "photo"}


@dataclass
class Asked:
    """One request: to the route of an operation, or to a path of its own."""

    operation: str
    note: str = ""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    names: Mapping[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    head: str | None = None
    """The commit that a conditional write expects."""
    token: str | None = "t-ada"
    method: str | None = None
    path: str = ""

    @property
    def name(self) -> str:
        """The name of its entry."""
        return self.operation + (f", {self.note}" if self.note else "")


class Answers(Protocol):
    """The last answer of each operation."""

    answers: dict[str, Any]


def list_requests(calls: Answers) -> Iterator[Asked]:
    """List the requests in the order in which they are sent; later ones read what earlier ones were answered."""
    yield from ask_server()
    yield from ask_reads()
    yield from ask_history(calls)
    yield from ask_feed(calls)
    yield from ask_differences(calls)
    yield from ask_entities()
    yield from ask_explorer()
    yield from refuse_requests()
    yield from ask_writes(calls)
    yield from ask_loads()
    yield from ask_stored(calls)
    yield from ask_branches(calls)
    yield from ask_schema(calls)
    yield from ask_maintenance()


def ask_server() -> Iterator[Asked]:
    """Ask what a server tells of itself."""
    yield Asked("health", token=None)
    yield Asked("ready", token=None)
    yield Asked("openapi", token=None)
    yield Asked("metrics")
    yield Asked("metrics", "no token", token=None)
    yield Asked("listGraphs")
    yield Asked("listGraphs", "no token", token=None)
    for path in ("/ui", "/ui/", "/ui/api/start"):
        yield Asked("page", path, path=path)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "health", "arguments": {}}
    accept = {"accept": "application/json, text/event-stream"}
    yield Asked("mcp", body=body | {"params": params}, headers=accept)
    yield Asked("mcp", "no token", body=body | {"params": params}, headers=accept, token=None)


def ask_reads() -> Iterator[Asked]:
    """Read tables, queries and their plans."""
    yield Asked("snapshot", query={"branch": "side"})
    yield Asked("snapshot", "at a version", query={"at": "2"})
    yield Asked("snapshot", "no branch", query={"branch": "nowhere"})
    yield Asked("query", body={"query": NAMES})
    yield Asked("query", "parameters", body={"query": FRIENDS, "params": {"who": "Ada"}})
    yield Asked("query", "named", body={"query": f"{NAMES}\n{COUNT}", "name": "many"})
    yield Asked("query", "branch", body={"query": NAMES, "branch": "side"})
    yield Asked("query", "snapshot", body={"query": COUNT, "snapshot": "2"})
    yield Asked("query", "arrow", body={"query": NAMES}, headers={"accept": ARROW})
    yield Asked("query", "parquet", body={"query": NAMES}, headers={"accept": PARQUET})
    yield Asked("query", "broken", body={"query": "query q() {"})
    yield Asked("query", "no type", body={"query": "query q() { match { $p: Per } return { $p } }"})
    yield Asked("query", "no parameter", body={"query": FRIENDS})
    yield Asked("query", "a mutation", body={"query": ADD, "params": {"n": "X"}})
    yield Asked("read", body={"query_source": NAMES})
    yield Asked("read", "no text", body={})
    yield Asked("explainQuery", body={"query": FRIENDS, "params": {"who": "Ada"}})
    yield Asked("explainQuery", "profile", body={"query": COUNT, "profile": True})
    yield Asked("readTable", query={"type": "Person", "column": ["name", "age"]})
    yield Asked("readTable", "no type", query={"type": "Persn"})
    yield Asked("getSchema")
    yield Asked("listBranches")
    yield Asked("getBranch", names={"branch": "side"})
    yield Asked("getBranch", "nothing", names={"branch": "nowhere"})
    yield Asked("listJobs")
    yield Asked("describeGraph", query={"branch": "side"})
    yield Asked("describeGraph", "at a version", query={"at": "2"})
    yield Asked("describeGraph", "no branch", query={"branch": "nowhere"})
    yield Asked("listQueries")
    yield Asked("exportGraph", body={"type_names": ["Knows", "City"]})
    yield Asked("exportGraph", "branch", body={"branch": "side", "type_names": ["Person"]})
    yield Asked("exportGraph", "no type", body={"type_names": ["Nothing"]})


def ask_history(calls: Answers) -> Iterator[Asked]:
    """List commits."""
    yield Asked("listCommits", "branch", query={"branch": "side"})
    yield Asked("listCommits", "actor", query={"branch": "side", "actor": "bo"})
    yield Asked("listCommits", "moments", query={"since": "2020-01-01", "until": "2021-01-01"})
    yield Asked("listCommits", "page", query={"branch": "side", "limit": 2})
    token = calls.answers["listCommits"]["next_page_token"]
    yield Asked(
        "listCommits", "next page", query={"branch": "side", "limit": 2, "page_token": token}
    )
    yield Asked("listCommits", "no token", query={"limit": 2, "page_token": "nonsense"})
    yield Asked("listCommits", "no limit", query={"limit": 0})
    yield Asked("listCommits", "no moment", query={"until": "soon"})
    yield Asked("listCommits")
    head = _find_head(calls)
    yield Asked("getCommit", names={"commit": head})
    yield Asked("getCommit", "nothing", names={"commit": NOWHERE})
    yield Asked("drawLog", query={"counts": "true"})
    yield Asked("drawLog", "page", query={"branch": ["side"], "limit": 2})
    yield Asked("drawLog", "no flag", query={"counts": "yes"})


def _find_head(calls: Answers) -> str:
    commits = calls.answers["listCommits"]["commits"]
    return str(commits[0]["graph_commit_id"])


def ask_feed(calls: Answers) -> Iterator[Asked]:
    """Read what commits changed."""
    head = {"commit": _find_head(calls)}
    yield Asked("listCommitChanges", names=head)
    filters = {"kind": "edge", "type": ["Knows"], "op": "insert"}
    yield Asked("listCommitChanges", "filters", names=head, query=filters)
    yield Asked("listCommitChanges", "page", names=head, query={"limit": 3})
    token = calls.answers["listCommitChanges"]["next_page_token"]
    query = {"limit": 3, "page_token": token}
    yield Asked("listCommitChanges", "next page", names=head, query=query)
    yield Asked("listCommitChanges", "no kind", names=head, query={"kind": "nodes"})
    yield Asked("listCommitChanges", "nothing", names={"commit": NOWHERE})
    start = {"branch": "side", "start": "beginning", "limit": 3}
    yield Asked("pollChanges", "start", query=start)
    token = calls.answers["pollChanges"]["next_page_token"]
    yield Asked(
        "pollChanges", "next page", query={"branch": "side", "limit": 3, "page_token": token}
    )
    yield Asked("pollChanges", "no start", query={"start": "later"})
    yield Asked("pollChanges", "no cursor", query={"cursor": "nonsense"})
    yield Asked("pollChanges")
    yield Asked("pollChanges", "cursor", query={"cursor": calls.answers["pollChanges"]["cursor"]})
    yield Asked("streamBaseline", body={"type_names": ["City"]})


def ask_differences(calls: Answers) -> Iterator[Asked]:
    """Compare branches."""
    ends = {"from": "main", "to": "side"}
    yield Asked("diff", query=ends)
    yield Asked(
        "diff", "filters", query=ends | {"type": "Person", "op": "update", "property": "age"}
    )
    yield Asked("diff", "actor", query=ends | {"actor": "bo"})
    yield Asked("diff", "page", query=ends | {"limit": 2})
    token = calls.answers["diff"]["next_page_token"]
    yield Asked("diff", "next page", query=ends | {"limit": 2, "page_token": token})
    yield Asked("diff", "no state", query={"from": "main", "to": "nowhere"})
    yield Asked("diff", "no end", query={"from": "main"})
    drawn = {"base": "main", "head": "side"}
    yield Asked("drawDiff", query=drawn)
    yield Asked("drawDiff", "small", query=drawn | {"limit_nodes": 1, "operation": "update"})
    yield Asked("drawDiff", "no state", query={"base": "main", "head": "nowhere"})


def ask_entities() -> Iterator[Asked]:
    """Read single entities and blobs."""
    ada = {"type": "Person", "id": "Ada"}
    yield Asked("getEntity", query=ada)
    yield Asked("getEntity", "nobody", query=ada | {"id": "Nobody"})
    yield Asked("getEntityHistory", query={"type": "Person", "id": "Bo", "branch": "side"})
    yield Asked("getEntityHistory", "nobody", query=ada | {"id": "Nobody"})
    yield Asked("listNeighbours", query={"type": "Person", "id": "Bo", "direction": "in"})
    yield Asked("listNeighbours", "no edge", query=ada | {"edge": "Likes"})
    ends = {"type": "Person", "from": "Ada", "to": "Cy"}
    yield Asked("listPaths", query=ends | {"best": 2})
    yield Asked("listPaths", "by cost", query=ends | {"by": "weight", "undirected": "true"})
    yield Asked("listPaths", "no property", query=ends | {"by": "costs"})
    yield Asked("getBlob", query=PHOTO)
    yield Asked("getBlob", "range", query=PHOTO, headers={"range": "bytes=2-5"})
    yield Asked("getBlob", "no range", query=PHOTO, headers={"range": "bytes=99-"})
    yield Asked("getBlob", "other etag", query=PHOTO, headers={"if-match": '"x"'})
    yield Asked("getBlob", "null", query=PHOTO | {"id": "Bo"})
    yield Asked("headBlob", query=PHOTO)
    yield Asked("headBlob", "nobody", query=PHOTO | {"id": "Nobody"})


def ask_explorer() -> Iterator[Asked]:
    """Ask what the explorer asks."""
    yield Asked("lintText", body={"text": "query q() { match { $p: Per } return { $p.name } }"})
    yield Asked("lintText", "nothing to say", body={"text": COUNT})
    yield Asked("completeText", body={"text": "query q() { match { $p: ", "offset": 24})
    yield Asked("completeText", "no offset", body={"text": "query", "offset": 99})
    yield Asked("drawSchema")
    yield Asked("indexStatus")
    yield Asked("doctor")
    yield Asked("previewCleanup", query={"keep": 2})
    yield Asked("previewCleanup", "no count", query={"keep": "few"})
    yield Asked("listRecoveries")


def refuse_requests() -> Iterator[Asked]:
    """Send what no handler sees."""
    yield Asked("query", "no token", body={"query": COUNT}, token=None)
    yield Asked("query", "wrong token", body={"query": COUNT}, token="x")
    yield Asked("query", "no JSON", body='{"query": ', headers={"content-type": "application/json"})
    yield Asked("query", "no object", body="[]", headers={"content-type": "application/json"})
    yield Asked("query", "no text", body={"query": 5})
    yield Asked("query", "unknown field", body={"query": COUNT, "brnch": "x"})
    yield Asked("query", "other media", body="query", headers={"content-type": "text/plain"})
    yield Asked("query", "too long", body={"query": "x" * 30_000})
    yield Asked("query", "no timeout", body={"query": COUNT}, headers={"x-timeout-ms": "soon"})
    yield Asked("snapshot", "unknown parameter", query={"brnch": "main"})
    yield Asked("snapshot", "twice", query={"branch": ["main", "side"]})
    yield Asked("routing", "no route", path="/nothing")
    yield Asked("routing", "no method", path="/query", method="PUT")
    yield Asked("routing", "named graph", path="/graphs/default/schema")
    yield Asked("routing", "no graph", path="/graphs/other/schema")
    yield Asked("mutate", "may not", body={"query": ADD, "params": {"n": "X"}}, token="t-bo")
    yield Asked("load", "may not", body={"data": LINE % "X"}, token="t-bo")
    yield Asked("createBranch", "may not", body={"name": "x"}, token="t-bo")
    yield Asked("deleteBranch", "may not", names={"branch": "side"}, token="t-bo")
    yield Asked("mergeBranches", "may not", body={"source": "side"}, token="t-bo")
    yield Asked("applySchema", "may not", body={"schema_source": GROWN}, token="t-bo")
    yield Asked("exportGraph", "may not", body={}, token="t-bo")
    for operation in ("ensureIndices", "optimize", "cleanup", "repair"):
        yield Asked(operation, "may not", body={}, token="t-bo")
    yield Asked("invokeQuery", "may not", names={"name": "names"}, token="t-bo")


def ask_writes(calls: Answers) -> Iterator[Asked]:
    """Run mutations."""
    add = {"query": ADD, "params": {"n": "Eve"}}
    first = _find_head(calls)
    yield Asked("mutate", "dry run", body=add | {"dry_run": True})
    yield Asked("mutate", "message", body=add, headers={"Omnigraph-Message": "one%20more"})
    yield Asked("mutate", body=add | {"params": {"n": "Fay", "a": 3}, "branch": "side"})
    gil = add | {"params": {"n": "Gil"}}
    for again in ("", ", again"):
        yield Asked("mutate", f"key{again}", body=gil, headers={"idempotency-key": "k"})
    yield Asked("mutate", "key of another", body=add, headers={"idempotency-key": "k"})
    yield Asked("getOperation", names={"key": "k"})
    yield Asked("getOperation", "nothing", names={"key": "nothing"})
    yield Asked("getOperation", "another actor", names={"key": "k"}, token="t-bo")
    yield Asked("mutate", "nothing", body={"query": DROP, "params": {"n": "Nobody"}})
    yield Asked("mutate", "out of range", body={"query": AGE, "params": {"n": "Ada", "a": 999}})
    yield Asked("mutate", "a read", body={"query": NAMES})
    yield Asked("mutate", "condition", body=add, headers={"Omnigraph-If-Graph-Commit": first})
    yield Asked("change", body={"query_source": ADD, "params": {"n": "Hal"}})
    yield Asked("change", "nothing", body={})
    yield Asked("mutateIfGraphCommit", "no head", body=add)
    yield Asked("mutateIfGraphCommit", "other head", body=add, head=first)
    yield Asked("listCommits", "after mutations", query={"limit": 1})
    yield Asked("mutateIfGraphCommit", body=add, head=_find_head(calls))


def ask_loads() -> Iterator[Asked]:
    """Load lines."""
    yield Asked("load", body={"data": LINE % "Ida", "mode": "merge"})
    yield Asked("load", "dry run", body={"data": LINE % "Jo", "dry_run": True})
    yield Asked("load", "branch", body={"data": LINE % "Jo", "branch": "new", "from": "main"})
    yield Asked("load", "there already", body={"data": LINE % "Ida", "mode": "append"})
    yield Asked("load", "bad lines", body={"data": '{"type": "Persn"}\n{"edge": "Knows"}\n'})
    yield Asked("load", "no mode", body={"data": LINE % "Ida", "mode": "replace"})
    yield Asked("load", "too long", body={"data": LINE % ("x" * 100_000)})
    yield Asked("loadNdjson", body=LINE % "Kai", headers=LINES, query={"mode": "append"})
    edge = '{"edge": "Knows", "from": "Ada", "to": "Leo", "data": {"id": "k7"}}\n'
    missing = {"create_missing": "Person"}
    yield Asked("loadNdjson", "create_missing", body=edge, headers=LINES, query=missing)
    yield Asked("loadNdjson", "no lines", body="Kai", headers=LINES)
    yield Asked("loadNdjson", "no flag", body=LINE % "K", headers=LINES, query={"dry_run": "yes"})
    yield Asked("ingest", body={"data": LINE % "Lea"})


def ask_stored(calls: Answers) -> Iterator[Asked]:
    """Invoke stored queries."""
    yield Asked("invokeQuery", names={"name": "friends"}, body={"params": {"who": "Ada"}})
    yield Asked("invokeQuery", "no body", names={"name": "names"})
    yield Asked("invokeQuery", "arrow", names={"name": "names"}, headers={"accept": ARROW})
    add = {"params": {"n": "Max"}, "expect_mutation": True}
    yield Asked("invokeQuery", "mutation", names={"name": "add"}, body=add)
    yield Asked(
        "invokeQuery", "no mutation", names={"name": "names"}, body={"expect_mutation": True}
    )
    yield Asked("invokeQuery", "nothing", names={"name": "nothing"})
    yield Asked("listCommits", "after stored queries", query={"limit": 1})
    head = _find_head(calls)
    name = {"name": "add"}
    yield Asked("invokeQueryIfGraphCommit", names=name, body={"params": {"n": "Ned"}}, head=head)
    yield Asked("invokeQueryIfGraphCommit", "other head", names=name, body=add, head=head)


def ask_branches(calls: Answers) -> Iterator[Asked]:
    """Make, merge and delete branches."""
    yield Asked("createBranch", body={"name": "draft", "from": "main"})
    yield Asked("createBranch", "a slash", body={"name": "team/draft"})
    yield Asked("createBranch", "there already", body={"name": "draft"})
    yield Asked("createBranch", "no name", body={"name": ""})
    yield Asked("previewMerge", body={"source": "side"})
    yield Asked("previewMerge", "no branch", body={"source": "nowhere"})
    yield Asked("mergeBranches", body={"source": "side", "target": "main"})
    yield Asked("mergeBranches", "again", body={"source": "side"})
    yield Asked("mergeBranches", "no branch", body={"source": "nowhere"})
    for branch, age in (("draft", 40), ("main", 41)):
        body = {"query": AGE, "params": {"n": "Ada", "a": age}, "branch": branch}
        yield Asked("mutate", f"both sides, {branch}", body=body)
    yield Asked("previewMerge", "conflicts", body={"source": "draft"})
    yield Asked("mergeBranches", "conflicts", body={"source": "draft"})
    body = {"query": ADD, "params": {"n": "Oda"}, "branch": "team/draft"}
    yield Asked("mutate", "another branch", body=body)
    conditional = {"source": "team/draft", "delete_branch": True}
    yield Asked("mergeBranchesIfGraphCommit", "other head", body=conditional, head=NOWHERE)
    yield Asked("listCommits", "before a merge", query={"limit": 1})
    yield Asked("mergeBranchesIfGraphCommit", body=conditional, head=_find_head(calls))
    yield Asked(
        "deleteBranch", "not merged", names={"branch": "draft"}, query={"merged_into": "main"}
    )
    yield Asked("createTag", body={"name": "first", "branch": "side"})
    yield Asked("createTag", "no name", body={"name": ""})
    yield Asked("listTags")
    yield Asked("deleteTag", names={"tag": "first"})
    yield Asked("deleteTag", "nothing", names={"tag": "nowhere"})
    for branch in ("draft", "side", "new"):
        yield Asked("deleteBranch", branch, names={"branch": branch})
    yield Asked("deleteBranch", "main", names={"branch": "main"})
    yield Asked("deleteBranch", "nothing", names={"branch": "nowhere"})


def ask_schema(calls: Answers) -> Iterator[Asked]:
    """Change the schema."""
    yield Asked("planSchema", body={"schema_source": GROWN})
    yield Asked("planSchema", "broken", body={"schema_source": "node"})
    other = SCHEMA.replace("age: I32?", "age: I64?")
    yield Asked("planSchema", "refused", body={"schema_source": other})
    yield Asked("applySchema", body={"schema_source": GROWN})
    yield Asked("applySchema", "refused", body={"schema_source": other})
    back = {"schema_source": SCHEMA}
    yield Asked("applySchemaIfGraphCommit", "other head", body=back, head=NOWHERE)
    yield Asked("listCommits", "before a schema", query={"limit": 1})
    yield Asked("applySchemaIfGraphCommit", body=back, head=_find_head(calls))


def ask_maintenance() -> Iterator[Asked]:
    """Build indexes, compact, clean and repair."""
    yield Asked("ensureIndices", body={"branch": "main"})
    yield Asked("ensureIndices", "no branch", body={"branch": "nowhere"})
    yield Asked("optimize", "no body")
    yield Asked("optimize", "unknown field", body={"branch": "main"})
    yield Asked("cleanup", body={"keep": 2, "older_than_seconds": 0})
    yield Asked("cleanup", "nothing said", body={})
    yield Asked("cleanup", "no age", body={"older_than_seconds": -1})
    yield Asked("cleanup", "confirmed", body={"keep": 1, "confirm": True})
    yield Asked("repair", body={"confirm": True})
