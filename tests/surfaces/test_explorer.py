"""The explorer's routes and files: answers equal the graph, bounds are said, and the page asks nobody else."""

import gzip
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyarrow import parquet

import omnigraphdb
from omnigraphdb.surfaces.ui import files
from omnigraphdb.surfaces.ui.files import ROOT, list_files
from tests.support.explorer_build import digest_sources
from tests.support.served import serving

SCHEMA = """
node Port { code: String @key  name: String  lat: F64? @index }
node Vessel { imo: String @key  name: String  dwt: I64?  kind: enum(bulk, tanker)? }
edge CallsAt: Vessel -> Port { berth: String? }
edge Feeds: Port -> Port { weight: I32? }
"""
HUB = 120
FIRST_ROUTE_BYTES = 90_000
ALL_BYTES = 450_000
OPERATIONS = ("inserts", "updates", "deletes")


def _records() -> list[dict[str, Any]]:
    ports = [
        {"type": "Port", "data": {"code": code, "name": code.upper()}}
        for code in ("rtm", "ham", "ant")
    ]
    vessels = [
        {"type": "Vessel", "data": {"imo": f"{n:04}", "name": f"Ship {n}", "dwt": 2**53 + n}}
        for n in range(HUB)
    ]
    calls = [{"edge": "CallsAt", "from": f"{n:04}", "to": "rtm", "data": {}} for n in range(HUB)]
    feeds = [
        {"edge": "Feeds", "from": "rtm", "to": "ham", "data": {"weight": 1}},
        {"edge": "Feeds", "from": "rtm", "to": "rtm", "data": {"weight": 2}},
    ]
    return [*ports, *vessels, *calls, *feeds]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[omnigraphdb.Graph]:
    place = tmp_path_factory.mktemp("explorer") / "ports.omni"
    with omnigraphdb.init(place, SCHEMA) as graph:
        graph.load(_records(), mode="append")
        graph.branch_create("review")
        graph.mutate(
            'query q() { update Port set { name: "Rotterdam" } where code = "rtm" }',
            branch="review",
            actor="ana",
        )
        for text in (
            'query q() { insert Port { code: "osl", name: "Oslo" } }',
            'query q() { delete Vessel where imo = "0007" }',
        ):
            graph.mutate(text, branch="review", actor="ana")
        graph.mutate('query q() { insert Port { code: "got", name: "Gothenburg" } }', actor="cy")
        yield graph


@pytest.fixture(scope="module")
def client(
    graph: omnigraphdb.Graph, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    log = tmp_path_factory.mktemp("explorer") / "serve.log"
    with (
        serving(graph.uri, "--unauthenticated", "--read-only", log=log) as server,
        server.client() as client,
    ):
        yield client


def ask(client: httpx.Client, path: str, **params: Any) -> Any:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


# ---- routes


def test_neighbours_are_those_that_a_query_finds_and_the_rest_is_counted(
    client: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    found = ask(client, "/neighbours", type="Port", id="rtm")
    groups = {
        (one["edge"], one["direction"]): (one["shown"], one["total"]) for one in found["groups"]
    }
    assert groups == {
        ("CallsAt", "in"): (50, HUB),
        ("Feeds", "out"): (2, 2),
        ("Feeds", "in"): (1, 1),
    }
    calls = graph.query(
        'query q() { match { $v: Vessel $p: Port { code: "rtm" } $v callsAt $p } return { $v } }'
    )
    wanted = {row["v"] for row in calls.rows}
    drawn = {one["from"]["id"] for one in found["edges"] if one["type"] == "CallsAt"}
    assert len(drawn) == 50
    assert drawn < wanted
    assert {one["id"] for one in found["nodes"]} >= drawn | {"rtm", "ham"}
    more = ask(
        client, "/neighbours", type="Port", id="rtm", edge="CallsAt", direction="in", limit=500
    )
    assert {one["from"]["id"] for one in more["edges"]} == wanted
    labels = {one["id"]: one["label"] for one in more["nodes"]}
    assert labels["0003"] == "Ship 3"


def test_a_neighbourhood_has_the_node_itself_with_its_properties(client: httpx.Client) -> None:
    found = ask(client, "/neighbours", type="Vessel", id="0003")
    itself = next(one for one in found["nodes"] if one["id"] == "0003")
    assert itself["properties"] == {
        "imo": "0003",
        "name": "Ship 3",
        "dwt": 2**53 + 3,
        "kind": None,
    }
    [edge] = found["edges"]
    assert (edge["from"]["label"], edge["to"]["label"]) == ("Ship 3", "RTM")
    there = ask(client, "/neighbours", type="Port", id="rtm", branch="review", limit=1)["nodes"]
    assert there[0]["label"] == "Rotterdam"


def test_paths_between_two_nodes_are_bounded(client: httpx.Client) -> None:
    found = ask(
        client, "/paths", type="Port", **{"from": "rtm", "to": "ham"}, by="weight", best=500
    )
    [path] = found["paths"]
    assert (path["nodes"], path["hops"], path["cost"]) == (["rtm", "ham"], 1, 1)
    [edge] = path["edges"]
    assert (edge["type"], edge["from"], edge["properties"]) == ("Feeds", "rtm", {"weight": 1})
    back = {"type": "Port", "from": "ham", "to": "rtm"}
    assert ask(client, "/paths", **back)["paths"] == []
    assert ask(client, "/paths", **back, undirected="true")["paths"][0]["hops"] == 1


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("/neighbours", {"type": "Port", "id": "none"}, 404),
        ("/neighbours", {"type": "Prt", "id": "rtm"}, 404),
        ("/neighbours", {"type": "CallsAt", "id": "x"}, 404),
        ("/neighbours", {"type": "Port", "id": "rtm", "edge": "Calls"}, 404),
        ("/neighbours", {"type": "Port", "id": "rtm", "direction": "up"}, 400),
        ("/neighbours", {"type": "Port"}, 400),
        ("/paths", {"type": "Port", "from": "rtm", "to": "none"}, 404),
        ("/paths", {"type": "Prt", "from": "rtm", "to": "ham"}, 404),
        ("/paths", {"type": "Port", "from": "rtm", "to": "0001", "to_type": "Vessel"}, 400),
        ("/paths", {"type": "Port", "from": "rtm", "to": "ham", "edge": "CallsAt"}, 400),
        ("/paths", {"type": "Port", "from": "rtm", "to": "ham", "by": "wait"}, 404),
        ("/paths", {"type": "Port", "from": "rtm", "to": "ham", "hops": "65"}, 413),
        ("/paths", {"type": "Port", "from": "rtm"}, 400),
        ("/diff/graph", {"base": "main", "head": "nowhere"}, 404),
        ("/log/graph", {"before": "nothing"}, 404),
        ("/schema/graph", {"branch": "nowhere"}, 404),
    ],
)
def test_a_wrong_question_is_refused_in_words(
    client: httpx.Client, path: str, params: dict[str, str], status: int
) -> None:
    answer = client.get(path, params=params)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]
    assert "Traceback" not in answer.text


def test_a_drawn_comparison_counts_what_the_diff_counts(
    client: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    found = ask(client, "/diff/graph", base="main", head="review")
    changes = graph.diff("main", "review").changes
    wanted = Counter((one.type_name, str(one.op)) for one in changes)
    words = {"insert": "inserted", "update": "updated", "delete": "deleted"}
    for type_name, counts in found["counts"].items():
        for op, word in words.items():
            assert counts[word] == wanted[type_name, op], (type_name, op)
    assert {type_name for type_name, _ in wanted} == set(found["counts"])
    marks = {(one["type"], one["id"]): one["change"] for one in [*found["nodes"], *found["edges"]]}
    assert marks["Port", "rtm"] == "changed"
    assert marks["Port", "osl"] == "added"
    assert marks["Port", "got"] == "removed"
    assert marks["Vessel", "0007"] == "removed"
    [call] = [one for one in found["edges"] if one["type"] == "CallsAt"]
    assert (call["change"], call["from"]["label"], call["to"]["label"]) == (
        "removed",
        "Ship 7",
        "Rotterdam",
    )
    rtm = next(one for one in found["nodes"] if one["id"] == "rtm")
    assert (rtm["before"], rtm["properties"]["name"]) == ({"name": "RTM"}, "Rotterdam")


def test_a_large_comparison_is_cut_and_says_so(client: httpx.Client) -> None:
    first = ask(client, "/log/graph", branch="main")["commits"][-1]["graph_commit_id"]
    found = ask(client, "/diff/graph", base=first, head="main", limit_nodes=5, limit_edges=7)
    assert found["shown"] == {"nodes": 5, "edges": 7, "unchanged_edges": 0}
    assert found["total"] == {"nodes": HUB + 4, "edges": HUB + 2, "unchanged_edges": 0}
    assert found["counts"]["Vessel"]["inserted"] == HUB
    known = {(one["type"], one["id"]) for one in found["nodes"]}
    for edge in found["edges"]:
        assert {(edge[end]["type"], edge[end]["id"]) for end in ("from", "to")} <= known
    only = ask(client, "/diff/graph", base=first, head="main", type="Port", operation="insert")
    assert set(only["counts"]) == {"Port"}


def test_unchanged_edges_join_what_a_comparison_draws(client: httpx.Client) -> None:
    both = {"base": "main", "head": "review"}
    found = ask(client, "/diff/graph", **both)
    [link] = [one for one in found["edges"] if one["change"] == "same"]
    assert (link["type"], link["from"]["label"], link["to"]["label"]) == (
        "Feeds",
        "Rotterdam",
        "Rotterdam",
    )
    assert found["shown"]["unchanged_edges"] == found["total"]["unchanged_edges"] == 1
    cut = ask(client, "/diff/graph", **both, limit_edges=1)
    assert (cut["shown"]["unchanged_edges"], cut["total"]["unchanged_edges"]) == (0, 1)
    # An edge that is new is no unchanged one where a filter leaves it out.
    first = ask(client, "/log/graph", branch="main")["commits"][-1]["graph_commit_id"]
    ports = ask(client, "/diff/graph", base=first, head="main", type="Port")
    assert (ports["edges"], ports["total"]["unchanged_edges"]) == ([], 0)


def test_a_comparison_is_filtered_by_property_and_by_actor(client: httpx.Client) -> None:
    both = {"base": "main", "head": "review"}
    found = ask(client, "/diff/graph", **both)
    assert found["actors"] == ["ana", "cy"]
    by_ana = ask(client, "/diff/graph", **both, actor="ana")
    assert by_ana["counts"]["Port"] == {"inserted": 1, "updated": 1, "deleted": 0}
    assert "CallsAt" in by_ana["counts"]
    by_cy = ask(client, "/diff/graph", **both, actor="cy")
    assert by_cy["counts"] == {"Port": {"inserted": 0, "updated": 0, "deleted": 1}}
    assert ask(client, "/diff/graph", **both, actor="nobody")["counts"] == {}
    named = ask(client, "/diff/graph", **both, property="name")
    assert named["counts"] == {"Port": {"inserted": 0, "updated": 1, "deleted": 0}}
    assert ask(client, "/diff/graph", **both, property=["lat", "berth"])["counts"] == {}
    listed: dict[str, Any] = {"from": "main", "to": "review", "actor": "ana", "limit": 2}
    first = ask(client, "/diff", **listed)
    rest = ask(client, "/diff", **listed, page_token=first["next_page_token"])
    assert len(first["changes"] + rest["changes"]) == sum(first["stats"][one] for one in OPERATIONS)
    refused = client.get(
        "/diff", params={**listed, "actor": "cy", "page_token": first["next_page_token"]}
    )
    assert (refused.status_code, "actors" in refused.json()["error"]) == (400, True)


def test_a_merge_belongs_to_its_actor_only_where_it_decided(tmp_path: Path) -> None:
    schema = "node Port { code: String @key  name: String?  size: I64? }"
    with omnigraphdb.init(tmp_path / "ports.omni", schema) as graph:
        first = graph.load([{"type": "Port", "data": {"code": "rtm"}}], mode="append").commit
        assert first is not None
        graph.branch_create("work")
        change = 'query q() {{ update Port set {{ {} }} where code = "rtm" }}'
        graph.mutate(change.format('name: "Rotterdam"'), branch="work", actor="ana")
        graph.mutate('query q() { insert Port { code: "ham" } }', actor="cy")
        graph.merge("work", actor="bo")
        ids = {
            actor: [one["id"] for one in graph.diff_drawing(first, "main", actors=[actor]).nodes]
            for actor in ("ana", "bo", "cy")
        }
        assert ids == {"ana": ["rtm"], "bo": [], "cy": ["ham"]}


def test_a_page_of_the_log_counts_what_its_commits_changed(
    client: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    assert "counts" not in ask(client, "/log/graph")["commits"][0]
    for one in ask(client, "/log/graph", counts="true")["commits"]:
        if one["parent_commit_id"] is None:
            assert one["counts"] is None
            continue
        stats = graph.diff(one["parent_commit_id"], one["graph_commit_id"]).stats
        counted = {"inserted": stats.inserts, "updated": stats.updates, "deleted": stats.deletes}
        assert one["counts"] == counted


def test_a_preview_of_cleanup_is_what_cleanup_would_remove(
    client: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    previewed = ask(client, "/cleanup/preview", keep=1)["tables"]
    found = graph.cleanup(keep=1).tables
    assert [(one["table_key"], one["versions_removed"]) for one in previewed] == [
        (one.table_key, one.versions_removed) for one in found
    ]
    assert sum(one["versions_removed"] for one in previewed) > 0
    assert ask(client, "/cleanup/preview", keep=1000)["tables"][0]["versions_removed"] == 0
    assert client.get("/cleanup/preview", params={"keep": 0}).status_code == 400


def test_a_drawn_log_has_every_commit_once_and_names_the_heads(
    client: httpx.Client, graph: omnigraphdb.Graph
) -> None:
    found = ask(client, "/log/graph")
    ids = [one["graph_commit_id"] for one in found["commits"]]
    wanted = {one.id for name in ("main", "review") for one in graph.commits(branch=name)}
    assert sorted(ids) == sorted(wanted)
    assert found["lanes"] == 2
    heads = {name: one["graph_commit_id"] for one in found["commits"] for name in one["branches"]}
    assert heads == {one.name: one.head for one in graph.branches()}
    lane = {one["graph_commit_id"]: one["lane"] for one in found["commits"]}
    assert {lane[one.id] for one in graph.commits()} == {0}
    for one in found["commits"]:
        assert [lane[parent["id"]] for parent in one["parents"]] == [
            parent["lane"] for parent in one["parents"]
        ]
    pages = ask(client, "/log/graph", limit=2)
    rest = ask(client, "/log/graph", limit=100, before=pages["next"])
    assert [one["graph_commit_id"] for one in [*pages["commits"], *rest["commits"]]] == ids


def test_types_have_their_rows_and_indexes(client: httpx.Client) -> None:
    types = {one["name"]: one for one in ask(client, "/schema/graph")["types"]}
    assert types["Vessel"]["rows"] == HUB
    assert (types["Feeds"]["from"], types["Feeds"]["to"]) == ("Port", "Port")
    properties = {one["name"]: one for one in types["Port"]["properties"]}
    assert list(properties) == ["code", "name", "lat"]
    assert properties["code"]["key"]
    assert properties["lat"]["indexed"]
    assert properties["lat"]["optional"]


def test_texts_are_checked_and_completed_by_the_engine(client: httpx.Client) -> None:
    text = "query q($k: String) { match { $p: Port $p.nmae = $k } return { $p } }"
    [found] = client.post("/lint", json={"text": text}).json()["diagnostics"]
    assert (found["code"], found["line"], text[found["column"] - 1 : found["end_column"] - 1]) == (
        "T6",
        1,
        "$p.nmae",
    )
    good = client.post("/lint", json={"text": text.replace("nmae", "name")}).json()
    assert good["diagnostics"] == []
    assert good["queries"] == [
        {
            "name": "q",
            "writes": False,
            "parameters": [{"name": "k", "kind": "string", "nullable": False}],
        }
    ]
    stored = "query q($a: String, $b: [String], $c: String) { match { $v: Vessel { kind: $a } $v.kind in $b $v.name = $c } return { $v } }"
    [query] = client.post("/lint", json={"text": stored}).json()["queries"]
    assert [one.get("choices") for one in query["parameters"]] == [["bulk", "tanker"]] * 2 + [None]
    cut = "query q() { match { $p: Po"
    offered = client.post("/complete", json={"text": cut, "offset": len(cut)}).json()
    assert offered["from"] == len(cut) - 2
    assert [one["label"] for one in offered["items"]] == ["Port"]
    assert client.post("/complete", json={"text": cut, "offset": 999}).status_code == 400


def test_health_is_what_the_graph_says(client: httpx.Client, graph: omnigraphdb.Graph) -> None:
    assert ask(client, "/doctor") == graph.doctor().to_dict()
    assert ask(client, "/recoveries") == {"pending": [], "settled": []}
    assert ask(client, "/index_status")["indexes"]


# ---- the page


def test_the_page_is_sent_with_a_policy_that_lets_it_ask_its_own_server_alone(
    client: httpx.Client,
) -> None:
    for path in ("/ui/", "/ui/g/default/@main/log", "/ui/g/a%2Fb/@x/diff/main..review"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-cache"
    assert client.get("/ui").headers["location"] == "/ui/"
    asset = next(name for name in sorted(list_files()) if name.endswith(".js"))
    kept = client.get(f"/ui/{asset}")
    assert "immutable" in kept.headers["cache-control"]
    assert kept.content == (ROOT / asset).read_bytes()
    assert client.get("/ui/start.json").json() == {"graphs": ["default"], "read_only": True}


@pytest.mark.parametrize(
    "path", ["/ui/assets/../files.py", "/ui/assets/%2e%2e/%2e%2e/files.py", "/ui/assets/none.js"]
)
def test_nothing_else_of_the_disk_is_sent(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert "PageFile" not in answer.text
    assert answer.status_code == 404 or answer.headers["content-type"].startswith("text/html")
    assert client.post("/ui/").status_code == 405


def test_files_that_an_upgrade_replaced_are_missing_and_the_new_ones_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROOT", tmp_path)
    files.forget_files()
    (tmp_path / "assets").mkdir()
    for name in ("index.html", "assets/old.js"):
        (tmp_path / name).write_text("old")
    assert read_file("index.html") == read_file("assets/old.js") == b"old"
    files._read.cache_clear()
    (tmp_path / "assets/old.js").rename(tmp_path / "assets/new.js")
    (tmp_path / "index.html").write_text("new")
    assert read_file("assets/old.js") is None
    assert read_file("index.html") == b"new"
    assert read_file("assets/new.js") == b"old"
    (tmp_path / "index.html").unlink()
    files._read.cache_clear()
    assert read_file("g/default/@main/log") is None
    files.forget_files()


def read_file(name: str) -> bytes | None:
    found = files.find_file(tuple(name.split("/")), packed=False)
    return found.body if found else None


def test_the_built_page_was_made_from_these_sources() -> None:
    assert (ROOT / "sources.txt").read_text().strip() == digest_sources(), "run `make ui`"


def _packed(names: Iterator[str] | list[str]) -> int:
    return sum(len(gzip.compress((ROOT / name).read_bytes())) for name in names)


def test_the_page_is_small() -> None:
    page = (ROOT / "index.html").read_text()
    first = [
        name for name in list_files() if name in page or "/Start-" in name or "/NewBranch-" in name
    ]
    assert _packed([*first, "index.html"]) <= FIRST_ROUTE_BYTES
    assert _packed(list(list_files())) <= ALL_BYTES


def test_the_page_names_no_other_host() -> None:
    known = ("http://www.w3.org/", "https://svelte.dev/e/")
    for name in list_files():
        text = (ROOT / name).read_text(encoding="utf-8")
        for start in ("https://", "http://"):
            for piece in text.split(start)[1:]:
                assert f"{start}{piece}".startswith(known), (name, piece[:60])


def test_licences_are_listed_and_free() -> None:
    listed = (Path(__file__).parents[2] / "ui" / "LICENCES.md").read_text().splitlines()[2:]
    free = {"MIT", "Apache-2.0", "ISC", "0BSD", "BSD-3-Clause"}
    assert {line.rpartition(": ")[2] for line in listed} <= free


def test_a_result_is_downloaded_as_parquet(client: httpx.Client, graph: omnigraphdb.Graph) -> None:
    text = (
        "query q() { match { $v: Vessel } return { $v.imo as imo, $v.dwt as dwt } order { imo } }"
    )
    sent = client.post(
        "/query", json={"query": text}, headers={"accept": "application/vnd.apache.parquet"}
    )
    assert sent.headers["content-type"] == "application/vnd.apache.parquet"
    assert parquet.read_table(BytesIO(sent.content)).to_pylist() == graph.query(text).rows
