"""A graph with a secret in every place of every branch, and a server of it that is called in this process.

Each branch has secrets of its own: in its name, messages and tags, in ids, addresses, blobs and edges of its rows, and in a row
that was deleted again. The name of a stored query is a secret too.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.agents import LocalBackend
from omnigraphdb.surfaces.http.app import ROUTES_DESCRIBED, Application
from omnigraphdb.surfaces.http.gate import Gate
from omnigraphdb.surfaces.http.replies import JSON
from omnigraphdb.surfaces.http.routing import BodyKind, Route
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.tokens import read_tokens
from omnigraphdb.surfaces.mcp.session import RESOURCES, Session
from omnigraphdb.surfaces.mcp.tools import Tool

SCHEMA = """
node Person { name: String @key  mail: String? @unique  photo: Blob?  age: I32? }
edge Knows: Person -> Person { since: I32?  note: String? }
"""
SECRET_QUERY = "hush_wqzzzzxv"
STORED = f"""
query everyone() {{ match {{ $p: Person }} return {{ $p.name, $p.mail }} }}
query grow($n: String) {{ insert Person {{ name: $n }} returning {{ name }} }}
query {SECRET_QUERY}() {{ match {{ $p: Person }} return {{ $p.age }} }}
"""
STORED_NAMES = ("everyone", "grow", SECRET_QUERY)
ACTORS = ("ann", "bob", "cyd")
TAGS = tuple(f"plain-{number}" for number in range(8))
"""Tags without a secret, which requests make and delete."""
TAKEN = "taken@example.org"
"""An address that one row of each branch has: another row with it is refused."""


@dataclass(frozen=True)
class Secrets:
    """The secrets of one branch."""

    named: str
    """In the name of the branch, the messages of its commits, and its tag."""
    past: str
    """In a row that is deleted: only the history of the branch has it."""
    stored: str
    """In the ids of its rows, and in the ends of its edges."""
    mail: str
    """In the address of a row."""
    photo: str
    """In the bytes of a blob."""
    note: str
    """In a property of an edge."""

    @property
    def in_rows(self) -> set[str]:
        """Those that its rows have."""
        return {self.stored, self.mail, self.photo, self.note}

    @property
    def every(self) -> set[str]:
        """All of them."""
        return {self.named, self.past, *self.in_rows}


def _make_secret(number: int) -> str:
    digits = "".join("bcdfghjkmn"[int(one)] for one in f"{number:04}")
    return f"wq{digits}xv"


@dataclass
class World:
    """What there is to be read, and which secrets each branch may show."""

    graph: Graph
    folder: Path
    secrets: dict[str, Secrets] = field(default_factory=dict)
    """Of each branch that was made with secrets, by its name."""
    stored: dict[str, set[str]] = field(default_factory=dict)
    """The secrets in the rows of a branch that somebody with the right to read them put there."""
    heads: dict[str, str | None] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    """Ids of rows, secret ones too: who names one is told nothing else."""
    edges: dict[str, str] = field(default_factory=dict)
    """The id of an edge of each branch."""
    states: list[str] = field(default_factory=list)
    """Commits and tags that requests may name."""
    tokens: list[str] = field(default_factory=list)
    """Tokens of pages, and cursors."""

    def list_branches(self) -> list[str]:
        return [one.name for one in self.graph.branches()]


def make_world(folder: Path, *, has_branches: bool = True) -> World:
    """Make the graph: a branch with secrets, a branch made from it, one beside it, and one that was merged into main."""
    (folder / "queries").mkdir()
    (folder / "queries" / "stored.gq").write_text(STORED)
    world = World(omnigraphdb.init(folder / "g", SCHEMA), folder)
    _fill(world, "main", None, 0)
    for name in TAGS:
        world.graph.tag(name)
    if has_branches:
        _add_branches(world)
    world.heads = _read_heads(world.graph)
    return world


def _add_branches(world: World) -> None:
    for number, (kind, source) in enumerate(
        (("vault", "main"), ("side", "main"), ("given", "main"), ("open", "vault")), 1
    ):
        base = next((one for one in world.secrets if one.startswith(source)), "main")
        name = f"{kind}-{_make_secret(number * 10)}"
        world.graph.branch_create(name, from_branch=base)
        _fill(world, name, base, number * 10)
    given = next(one for one in world.secrets if one.startswith("given"))
    world.graph.merge(given, into="main")
    world.stored["main"] |= world.stored[given]


def _fill(world: World, name: str, base: str | None, number: int) -> None:
    secrets = Secrets(*(_make_secret(number + one) for one in range(6)))
    graph, message = world.graph, f"why {secrets.named}"
    photo = "base64:" + base64.b64encode(f"photo {secrets.photo}".encode()).decode()
    row, mail = f"row {secrets.stored}", f"{secrets.mail}@example.org"
    rows = [
        {"type": "Person", "data": {"name": row, "mail": mail, "photo": photo, "age": 1}},
        {"type": "Person", "data": {"name": f"gone {secrets.past}"}},
        {"edge": "Knows", "from": row, "to": row, "data": {"note": f"note {secrets.note}"}},
    ]
    if base is None:
        rows.append({"type": "Person", "data": {"name": f"mail {secrets.stored}", "mail": TAKEN}})
    graph.load(rows, mode="append", branch=name, message=message)
    text = "query q($n: String) { delete Person where name = $n }"
    graph.mutate(text, {"n": f"gone {secrets.past}"}, branch=name, message=message)
    graph.tag(f"tag-{secrets.named}", branch=name)
    world.secrets[name] = secrets
    world.ids += [row, f"gone {secrets.past}"]
    edges = graph.table("Knows", branch=name)
    world.edges[name] = dict(zip(edges["src"].to_pylist(), edges["id"].to_pylist(), strict=True))[
        row
    ]
    world.stored[name] = secrets.in_rows | (set() if base is None else world.stored[base])
    world.states += [one.id for one in graph.commits(branch=name)] + [f"tag-{secrets.named}"]


def _read_heads(graph: Graph) -> dict[str, str | None]:
    return {one.name: one.head for one in graph.branches()}


# ---- what may be seen


def list_hidden(world: World, readable: set[str], exported: set[str]) -> set[str]:
    """List the secrets of branches that an actor may not see, who may read or export these branches."""
    visible = {secret for name in readable | exported for secret in world.stored.get(name, ())}
    for name in readable & set(world.secrets):
        visible |= {world.secrets[name].named, world.secrets[name].past}
    return list_secrets(world) - visible


def list_secrets(world: World) -> set[str]:
    """List every secret of every branch."""
    return {secret for one in world.secrets.values() for secret in one.every}


def find_leaks(answer: bytes, request: str, hidden: set[str]) -> set[str]:
    """Find the secrets of an answer that the request itself did not spell."""
    asked = request.lower()
    text = answer.decode("utf-8", "replace").lower()
    return {one for one in hidden if one not in asked and (one in text or _is_packed(one, answer))}


def _is_packed(secret: str, answer: bytes) -> bool:
    """Whether an answer has a secret in base64, at any of the three places in a group of bytes where it may begin."""
    for place in range(3):
        packed = base64.b64encode(b" " * place + secret.encode())
        # Letters that hold bits of what stands before or after it are left out.
        first, last = (0, 2, 3)[place], {0: 0, 1: 3, 2: 2}[(place + len(secret)) % 3]
        if packed[first : len(packed) - last] in answer:
            return True
    return False


def note_writes(world: World, readable: set[str], request: str) -> set[str]:
    """Check what a call wrote: its own words, and rows of branches that the actor may read.

    Gives the secrets that got into a branch without the right.
    """
    heads = _read_heads(world.graph)
    asked, every = request.lower(), list_secrets(world)
    allowed = {secret for name in readable for secret in world.stored.get(name, ())}
    allowed |= {one for one in every if one in asked}
    stolen: set[str] = set()
    for name, head in heads.items():
        if world.heads.get(name, "") == head:
            continue
        world.stored.setdefault(name, set()).update(allowed)
        texts = _read_texts(world.graph, name)
        stolen |= {one for one in every if one in texts} - world.stored[name]
    for name in set(world.heads) - set(heads):
        world.stored.pop(name, None)
    world.heads = heads
    return stolen


def _read_texts(graph: Graph, branch: str) -> str:
    """Read the ids, addresses, edges and blobs of a branch."""
    people, edges = graph.table("Person", branch=branch), graph.table("Knows", branch=branch)
    texts = [str(people.select(["name", "mail"]).to_pylist())]
    texts.append(str(edges.select(["id", "src", "dst", "note"]).to_pylist()))
    has_photo = people["photo"].is_valid().to_pylist()
    for name, is_there in zip(people["name"].to_pylist(), has_photo, strict=True):
        if is_there:
            texts.append(str(graph.blob("Person", name, "photo", branch=branch).read()))
    return "\n".join(texts)


# ---- calls


@dataclass(frozen=True)
class SentRequest:
    """A request to a route."""

    path: str
    query: Mapping[str, Any]
    body: Any
    headers: Mapping[str, str]


class Door:
    """A server in this process, under one policy."""

    def __init__(self, world: World, guarded: Graph) -> None:
        self.world = world
        stored = guarded.stored_queries(world.folder / "queries")
        self.place = ServedGraph(id="default", graph=guarded, queries=stored)
        tokens = json.dumps({one: f"t-{one}" for one in ACTORS})
        self.served = Served(
            graphs={"default": self.place},
            default="default",
            gate=Gate(has_tokens=True),
            tokens=read_tokens({"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens}),
            admission=Admission(16, 1 << 30),
        )
        self.app = Application(self.served)

    def ask(self, actor: str, route: Route, sent: SentRequest) -> tuple[str, bytes, int]:
        """Ask a route; give the request as a text, every byte of the answer, and the status."""
        headers = {**sent.headers, "authorization": f"Bearer t-{actor}"}
        is_lines = route.body_kind is BodyKind.LINES
        if is_lines:
            headers["content-type"] = "application/x-ndjson"

        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.request(
                    route.method,
                    sent.path,
                    params=sent.query,
                    content=sent.body if is_lines else None,
                    json=None if is_lines else sent.body,
                    headers=headers,
                )

        answer = anyio.run(run)
        asked = json.dumps([route.method, sent.path, sent.query, sent.body, headers])
        if answer.content and answer.headers.get("content-type", "").startswith(JSON):
            self._keep_words(answer.json())
        return asked, repr(answer.headers.raw).encode() + answer.content, answer.status_code

    def _keep_words(self, body: Any) -> None:
        """Keep tokens of pages, so that later requests use them, by other actors too."""
        if isinstance(body, dict):
            tokens = ("next_page_token", "cursor", "next_cursor")
            self.world.tokens += [body[one] for one in tokens if isinstance(body.get(one), str)]
            if isinstance(body.get("graph_commit_id"), str):
                self.world.states.append(body["graph_commit_id"])

    def call(
        self, session: Session, tool: Tool, arguments: Mapping[str, Any]
    ) -> tuple[str, bytes, bool]:
        """Call a tool; give the arguments as a text, the answer, and whether it failed."""
        outcome = session.call(tool, arguments)
        text = json.dumps(outcome.body, ensure_ascii=False)
        return json.dumps([tool.name, arguments]), text.encode(), outcome.is_error

    def open_session(self, actor: str, *, own_branch: bool) -> Session:
        """The session of an agent."""
        return Session(LocalBackend(self.served, self.place, actor), "s1", own_branch=own_branch)

    def read_resources(self, session: Session) -> bytes:
        """Read every resource that the tools have; one that is refused says why."""
        texts = []
        for uri in RESOURCES:
            try:
                texts.append(str(session.read_resource(uri)))
            except omnigraphdb.OmniError as error:
                texts.append(str(error))
        return "\n".join(texts).encode()


@contextmanager
def open_door(world: World, guarded: Graph) -> Iterator[Door]:
    """A server for the time of one policy."""
    door = Door(world, guarded)
    try:
        yield door
    finally:
        door.app.close()


ROUTES = ROUTES_DESCRIBED
