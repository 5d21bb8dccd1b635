"""Fuzzed requests to every route, flat and of a graph: a documented answer, and no file changes unless a write was done."""

import json
import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.errors import OmniError
from omnigraphdb.surfaces.http.app import MCP, ROUTES_DESCRIBED
from omnigraphdb.surfaces.http.calls import split_path
from omnigraphdb.surfaces.http.routing import Match, Router
from tests.support.fuzzed_requests import Fuzzer, World, draw_known_write
from tests.support.raw_http import RawAnswer, RawRequest, send
from tests.support.refused_bodies import MAINTAINING
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving
from tests.support.settled import assert_settled, digest

TOKEN = "a-secret-of-thirty-two-characters"
POLICY = """
version: 1
groups: { all: [ada] }
rules:
  - id: all
    allow:
      actors: { group: all }
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge, invoke_query, policy_change]
"""
ROUTES = (*(one for one in ROUTES_DESCRIBED if one.operation not in MAINTAINING), MCP)
REQUESTS, SOAK_REQUESTS = 112, 2500
SHOWN_MAX = 300
KNOWN_EVERY = 40
"""One request of so many is a write that is done."""
ALWAYS = frozenset({200, 400, 401, 403, 404, 405, 413, 415})
"""Statuses of refusals that do not depend on the route: of its spelling, its sender, its headers and its body."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A server, what it serves, and the folder that holds its graphs."""

    server: ServerProcess
    world: World
    folder: Path

    @property
    def router(self) -> Router:
        return Router(ROUTES, flat=self.world.flat, graphs=self.world.graphs)


def make_served(folder: Path, *names: str) -> list[str]:
    """Make graphs with two branches, one of which is ahead, and stored queries; give the commits of one."""
    (folder / "queries").mkdir(parents=True)
    (folder / "queries" / "people.gq").write_text(f"{NAMES}\n{ADD}")
    for name in names:
        with omnigraphdb.open(make_graph(folder / name)) as graph:
            graph.branch_create("side")
            graph.mutate(ADD, {"n": "Sid"}, branch="side")
            found = [one.id for one in graph.commits(branch="side")]
    return found


KINDS = ("several", "flat", "read-only")


@pytest.fixture(scope="module", params=KINDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Several graphs behind tokens, one of them with a policy; one graph that all may write to; and one to read."""
    made = tmp_path_factory.mktemp("fuzzed")
    folder, log, kind = made / "data", made / "log", request.param
    queries = ("--queries", str(folder / "queries"))
    if kind == "several":
        commits = make_served(folder, "a", "b")
        with omnigraphdb.open(folder / "a") as graph:
            (made / "policy.yaml").write_text(POLICY)
            graph.set_policy(made / "policy.yaml")
        tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ada": TOKEN})}
        words = (f"ruled={folder / 'a'}", f"plain={folder / 'b'}", *queries)
        world = World(graphs=("ruled", "plain"), flat=False, commits=commits, token=TOKEN)
    else:
        commits, tokens = make_served(folder, "a"), {}
        more = ("--read-only",) if kind == "read-only" else ()
        words = (str(folder / "a"), "--unauthenticated", *queries, *more)
        world = World(graphs=("default",), flat=True, commits=commits)
    with serving(*words, log=log, environment=tokens) as server:
        yield Place(server=server, world=world, folder=folder)


@dataclass(kw_only=True)
class Judge:
    """Looks at every answer, and at every file after it."""

    place: Place
    files: dict[str, str]
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=8))
    statuses: Counter[int] = field(default_factory=Counter)

    def judge(self, request: RawRequest, answer: RawAnswer) -> None:
        self.recent.append(f"{request} -> {answer}")
        self.statuses[answer.status] += 1
        self._judge_status(request, answer)
        self._judge_text(request, answer)
        self._judge_files(request, answer)

    def _judge_status(self, request: RawRequest, answer: RawAnswer) -> None:
        if answer.status == 504:
            assert request.has(b"x-timeout-ms"), self.tell()
            return
        match = self._find_match(request)
        documented = ALWAYS if match is None else ALWAYS | {*match.route.statuses}
        assert answer.status in documented | {204, 308}, self.tell()

    def _find_match(self, request: RawRequest) -> Match | None:
        try:
            path = split_path(request.target.partition(b"?")[0])
            return self.place.router.find(request.method, path)
        except OmniError:
            return None

    def _judge_text(self, request: RawRequest, answer: RawAnswer) -> None:
        shown = answer.body.decode("utf-8", "replace") + json.dumps(answer.headers)
        for inside in ("Traceback", 'File \\"', 'File "', TOKEN):
            assert inside not in shown, self.tell()
        assert "set-cookie" not in answer.headers, self.tell()
        assert answer.headers["x-request-id"], self.tell()
        if answer.status >= 400:
            assert str(self.place.folder) not in shown, self.tell()
            if request.method != "HEAD":
                self._judge_refusal(answer)

    def _judge_refusal(self, answer: RawAnswer) -> None:
        assert answer.is_json, self.tell()
        body = answer.json()
        assert body["error"], self.tell()
        assert body["kind"], self.tell()
        assert body["request_id"] == answer.headers["x-request-id"], self.tell()

    def _judge_files(self, request: RawRequest, answer: RawAnswer) -> None:
        """Files stay as they are, byte by byte, unless the answer tells of a write."""
        found = digest(self.place.folder)
        if found == self.files:
            return
        before, self.files = self.files, found
        changed = {name for name, _ in before.items() ^ found.items()}
        # A write with a key that has nothing to write records its key.
        has_key = answer.status == 200 and request.has(b"idempotency-key")
        assert has_key or tells_write(answer), (sorted(changed), self.tell())

    def tell(self) -> str:
        """The request that was just answered, and shorter those before it."""
        *before, last = self.recent
        return "\n".join((*(one[:SHOWN_MAX] for one in before), last))


def tells_write(answer: RawAnswer) -> bool:
    """Whether an answer says that something was written."""
    if answer.status != 200 or not answer.is_json:
        return False
    body = answer.json()
    made_branch = {"uri", "name", "actor_id"} <= body.keys()
    made_tag = {"name", "graph_commit_id", "manifest_branch"} <= body.keys()
    return made_branch or made_tag or bool(body.get("commit")) or bool(body.get("branch_deleted"))


def send_fuzzed(place: Place, seed: str, count: int) -> Counter[int]:
    """Send requests one after the other; now and then one that writes."""
    drawn = random.Random(seed)
    fuzzer = Fuzzer(drawn=drawn, world=place.world, routes=ROUTES)
    judge = Judge(place=place, files=digest(place.folder))
    for number, request in enumerate(fuzzer.draw_all(count)):
        judge.judge(request, send(place.server.url, request))
        if number % KNOWN_EVERY == 0:
            write = make_known_write(place, drawn, f"Known {seed} {number}")
            judge.judge(write, send(place.server.url, write))
    log = place.server.log.read_text()
    assert "Traceback" not in log, judge.tell()
    assert TOKEN not in log
    return judge.statuses


def make_known_write(place: Place, drawn: random.Random, name: str) -> RawRequest:
    path, body = draw_known_write(drawn, name)
    graph = place.world.graphs[0]
    headers = [(b"content-type", b"application/json")]
    if place.world.token is not None:
        headers.append((b"authorization", f"Bearer {place.world.token}".encode()))
    return RawRequest(
        method="POST",
        target=f"/graphs/{graph}{path}".encode(),
        headers=tuple(headers),
        body=json.dumps(body).encode(),
    )


def test_fuzzed_requests_are_answered_and_change_nothing(place: Place) -> None:
    found = send_fuzzed(place, "few", REQUESTS)
    assert found[200] > REQUESTS // 10
    assert found[400] > REQUESTS // 10
    for one in sorted(place.folder.glob("[ab]")):
        with omnigraphdb.open(one, read_only=True) as graph:
            assert_settled(graph)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
def test_many_fuzzed_requests_are_answered_and_change_nothing(place: Place, seed: int) -> None:
    print(send_fuzzed(place, str(seed), SOAK_REQUESTS))
