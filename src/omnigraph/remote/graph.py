"""The handle of a served graph: `Graph`'s methods, where a server has a route for them."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import pyarrow as pa

from omnigraph.api.arguments import one_or_names
from omnigraph.api.branches import Branch, Branches
from omnigraph.api.comparisons import (
    Baseline,
    ChangeBlock,
    ChangePage,
    Diff,
    EntityHistory,
    FeedPage,
    MergeResult,
)
from omnigraph.api.query_results import Explanation, QueryResult
from omnigraph.api.results import Commit, Job, LoadResult, MutationResult, SchemaApplyResult
from omnigraph.api.texts import read_source, schema_of, source_of
from omnigraph.catalog.diff.steps import SchemaPlan
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.engine.history.feed import write_lines
from omnigraph.engine.results import Commits
from omnigraph.errors import NotFound, UserInputError
from omnigraph.ids import MAIN
from omnigraph.limits import CHANGES_PAGE, CHANGES_PAGE_MAX
from omnigraph.remote import decode
from omnigraph.remote.transport import KEY, Transport

if TYPE_CHECKING:
    from omnigraph.api.blobs import Blob
    from omnigraph.api.types import Kinds, Mode, Ops

ARROW = "application/vnd.apache.arrow.stream"
CONDITION = "Omnigraph-If-Graph-Commit"
SNAPSHOT = "omnigraph-snapshot-id"
LINES = {"content-type": "application/x-ndjson"}

Lines = str | Path | bytes | IO[bytes] | IO[str] | Iterable[Mapping[str, Any]]
"""What a server loads: a file by its path, bytes or a stream of JSON lines, or records."""


def connect(url: str, *, token: str | None = None, graph: str | None = None) -> "RemoteGraph":
    """Reach a graph that a server serves; `graph` is its id, needed where the server has several.

    The token decides who writes. Nothing is asked before the first call.
    """
    return RemoteGraph(Transport(url, token, graph))


class RemoteGraph:
    """A served graph; safe to share between threads. Calls raise the errors that a graph at hand raises."""

    def __init__(self, transport: Transport, *, branch: str = MAIN) -> None:
        self._server = transport
        self._branch = branch

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._server.url + self._server.prefix

    @property
    def schema_source(self) -> str:
        """The schema text."""
        return str(self._server.get(self._server.path("schema"))["schema_source"])

    @property
    def catalog(self) -> Catalog:
        """The types of the schema."""
        return compile_schema(schema_of(self.schema_source))

    def on(self, branch: str) -> "RemoteGraph":
        """The same graph with another default branch; closing either closes both."""
        return RemoteGraph(self._server, branch=branch)

    # ---- reading

    def snapshot(
        self, *, branch: str | None = None, at: str | int | None = None
    ) -> "RemoteSnapshot":
        """Show the table versions that are visible together."""
        body = self._server.get(self._server.path("snapshot"), branch=branch or self._branch, at=at)
        return RemoteSnapshot(self, body)

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
    ) -> QueryResult:
        """Run a read; the rows come as Arrow, so that their types arrive."""
        body = self._call(source, name, params) | self._target(branch, at)
        found = self._server.ask(
            "POST", self._server.path("query"), body=body, headers={"accept": ARROW}
        )
        return decode.read_rows(found.content)

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
        profile: bool = False,
    ) -> Explanation:
        """Show how the server runs a read: filters, indexes, memory; with `profile` run it and show rows and time."""
        body = self._call(source, name, params) | self._target(branch, at)
        path = self._server.path("query", "explain")
        return decode.read_explanation(self._server.post(path, body | {"profile": profile}))

    def _call(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        if isinstance(name, Mapping):
            if params is not None:
                raise UserInputError("parameters were given twice; no changes were made")
            name, params = None, name
        text = source_of(source).text
        return {"query": text, "name": name, "params": _spell_params(params)}

    def _target(self, branch: str | None, at: str | int | Commit | None) -> dict[str, Any]:
        return {"branch": branch or self._branch} if at is None else {"snapshot": str(at)}

    def export(
        self,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every entity in the load format: nodes before edges, by id."""
        body = self._target(branch, at) | {"type_names": None if types is None else list(types)}
        with self._server.stream("POST", self._server.path("export"), json=body) as found:
            yield from (json.loads(line) for line in found.iter_lines())

    def export_lines(
        self,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[bytes]:
        """The records of `export` as UTF-8 JSON lines, many at a time."""
        body = self._target(branch, at) | {"type_names": None if types is None else list(types)}
        with self._server.stream("POST", self._server.path("export"), json=body) as found:
            yield from found.iter_bytes()

    def blob(
        self,
        type_name: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
    ) -> "Blob":
        """One Blob value of one entity: its size, and its bytes when they are read."""
        key = self.catalog.table(type_name).table_key
        query = {"entity": key.partition(":")[0], "type": type_name, "id": id, "property": property}
        path = self._server.path("blob")
        found = self._server.ask("HEAD", path, params=query | self._target(branch, at))
        return decode.read_blob(
            found.headers,
            key,
            id,
            property,
            branch=branch or self._branch,
            snapshot=None if at is None else str(at),
            # Every range is read of the commit that was looked at.
            fetch=partial(self._fetch, query | {"snapshot": found.headers.get(SNAPSHOT)}),
        )

    def _fetch(self, query: Mapping[str, Any], offset: int, count: int) -> bytes:
        headers = {"range": f"bytes={offset}-{offset + count - 1}"}
        return self._server.ask(
            "GET", self._server.path("blob"), params=query, headers=headers
        ).content

    # ---- writing

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        if_commit: str | Commit | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> MutationResult:
        """Run a mutation: one commit for all of its statements, or nothing."""
        _refuse_local(local)
        body = self._call(source, name, params) | {"branch": branch or self._branch}
        return decode.read_mutation(self._write(("mutate",), body, if_commit, idempotency_key))

    def _write(
        self,
        path: tuple[str, ...],
        body: dict[str, Any],
        if_commit: str | Commit | None,
        key: str | None,
    ) -> Any:
        if if_commit is None:
            return self._server.post(self._server.path(*path), body, headers=_key(key))
        conditional = self._server.path(*path, "if-graph-commit")
        headers = {CONDITION: str(if_commit), **_key(key)}
        return self._server.post(conditional, body, headers=headers)

    def load(
        self,
        source: Lines,
        *,
        mode: "Mode",
        branch: str | None = None,
        from_branch: str | None = None,
        idempotency_key: str | None = None,
        create_missing: str | Sequence[str] = (),
        **local: object,
    ) -> LoadResult:
        """Load records in one commit: a file of JSON lines, a stream of them, or dicts."""
        _refuse_local(local)
        body = self._server.post(
            self._server.path("load", "ndjson"),
            content=_read_lines(source),
            headers=LINES | _key(idempotency_key),
            params={
                "mode": str(mode),
                "branch": branch or self._branch,
                "from": from_branch,
                "create_missing": list(one_or_names("create_missing", create_missing)),
            },
        )
        return decode.read_load(body)

    # ---- schema

    def schema_plan(self, schema: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """Plan a schema change; changes nothing."""
        body = {"schema_source": schema_of(schema).text, "allow_data_loss": allow_data_loss}
        found = self._server.post(self._server.path("schema", "plan"), body)
        return SchemaPlan(decode.read_steps(found), tuple(found.get("warnings", ())))

    def schema_apply(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        idempotency_key: str | None = None,
        **local: object,
    ) -> SchemaApplyResult:
        """Change the schema in one commit."""
        _refuse_local(local)
        body = {"schema_source": schema_of(schema).text, "allow_data_loss": allow_data_loss}
        path = self._server.path("schema", "apply")
        done = self._server.post(path, body, headers=_key(idempotency_key))
        return decode.read_schema_apply(done)

    # ---- branches and history

    def branches(self, *, compare: bool = False) -> Branches:  # noqa: ARG002 - a server compares always
        """Main, then the others by name, each with its head."""
        found = self._server.get(self._server.path("branches"))["details"]
        return Branches(decode.read_branch(one) for one in found)

    def branch(self, name: str) -> Branch:
        """One branch, with counts of commits ahead of and behind its parent."""
        listed = {one.name: one for one in self.branches()}
        if name not in listed:
            raise NotFound("branch", name, known=listed)
        return listed[name]

    def branch_create(
        self,
        name: str,
        *,
        from_branch: str = MAIN,
        idempotency_key: str | None = None,
        **local: object,
    ) -> Branch:
        """Create a branch at the head of another one."""
        _refuse_local(local)
        body = {"name": name, "from": from_branch}
        path = self._server.path("branches")
        made = self._server.post(path, body, headers=_key(idempotency_key))
        return Branch(name=made["name"], head=None, parent=made["from"])

    def branch_delete(self, name: str, *, idempotency_key: str | None = None) -> None:
        """Delete a branch that no other branch depends on."""
        self._server.delete(self._server.path("branches", name), headers=_key(idempotency_key))

    def commits(
        self,
        *,
        branch: str | None = None,
        limit: int | None = None,
        actor: str | None = None,
        since: str | datetime | Commit | None = None,
        **local: object,
    ) -> Commits:
        """Commits visible on a branch, newest first."""
        _refuse_local(local)
        start = since.isoformat() if isinstance(since, datetime) else since
        body = self._server.get(
            self._server.path("commits"),
            branch=branch or self._branch,
            limit=limit,
            actor=actor,
            since=None if start is None else str(start),
        )
        return Commits(decode.read_commit(one) for one in body["commits"])

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id or unique prefix."""
        return decode.read_commit(self._server.get(self._server.path("commits", str(id))))

    def merge(
        self,
        source: str | Branch,
        *,
        into: str = MAIN,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        **local: object,
    ) -> MergeResult:
        """Apply the changes of one branch to another, in one commit; on conflicts all of them are raised together."""
        _refuse_local(local)
        last = ("preview",) if dry_run else ()
        path = self._server.path("branches", "merge", *last)
        body = {"source": str(source), "target": into}
        return decode.read_merge(self._server.post(path, body, headers=_key(idempotency_key)))

    def diff(
        self,
        base: str | Commit,
        head: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        **local: object,
    ) -> Diff:
        """Entities that differ between two branches or commits, by table key, then id."""
        _refuse_local(local)
        query = {"from": str(base), "to": str(head)} | _filters(types, kinds, ops)
        pages = list(self._pages(self._server.path("diff"), query))
        changes = [
            decode.read_change(one, images=images) for page in pages for one in page["changes"]
        ]
        changes.sort(key=lambda change: (change.table_key, change.id))
        return Diff(base=pages[0]["from"], head=pages[0]["to"], changes=tuple(changes))

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[Any]:
        """Read page after page."""
        page = self._server.get(path, **query)
        yield page
        while "next_page_token" in page:
            kept = {name: text for name, text in query.items() if name not in _FIRST_PAGE}
            page = self._server.get(path, **kept, page_token=page["next_page_token"])
            yield page

    def commit_changes(
        self,
        id: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = True,
        limit: int | None = None,
        page_token: str | None = None,
        **local: object,
    ) -> ChangeBlock:
        """What one commit changed against its first parent; with `limit` one page, and `next_page_token` names the next."""
        _refuse_local(local)
        path = self._server.path("commits", str(id), "changes")
        query = _filters(types, kinds, ops) | {"limit": limit, "page_token": page_token}
        pages = self._pages(path, query)
        shown = list(pages if limit is None else islice(pages, 1))
        changes = chain.from_iterable(page["changes"] for page in shown)
        return ChangeBlock(
            commit=self.commit(shown[0]["cause"]["graph_commit_id"]),
            changes=tuple(decode.read_change(one, images=images) for one in changes),
            next_page_token=shown[-1].get("next_page_token"),
        )

    def entity(
        self,
        type_name: str,
        id: str,
        *,
        branch: str | None = None,
        at: str | int | None = None,
    ) -> dict[str, Any] | None:
        """One entity by its id or the value of its key, or None."""
        query = {"type": type_name, "id": id, "branch": branch or self._branch, "at": at}
        try:
            found: dict[str, Any] = self._server.get(self._server.path("entity"), **query)["entity"]
        except NotFound as error:
            if error.details.get("missing", {}).get("what") != "entity":
                raise
            return None
        return found

    def history(
        self,
        type_name: str,
        id: str,
        *,
        branch: str | None = None,
        at: str | int | None = None,
        limit: int = 100,
    ) -> EntityHistory:
        """The commits that changed one entity, the newest first."""
        query = {"type": type_name, "id": id, "branch": branch or self._branch, "at": at}
        path = self._server.path("entity", "history")
        return decode.read_history(self._server.get(path, **query, limit=limit))

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first."""
        found = self._server.get(self._server.path("jobs"))["jobs"]
        return [decode.read_job(one) for one in found]

    def recoveries(self) -> list[Any]:
        """Nothing: a server tells of a recovery with the commit that it made."""
        return []

    def change_page(
        self,
        *,
        branch: str | None = None,
        cursor: str | None = None,
        start: str | None = None,
        page_token: str | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
    ) -> FeedPage:
        """Read one page of the change feed; it may end inside a commit."""
        body = self._server.get(
            self._server.path("changes"),
            branch=branch or self._branch,
            cursor=cursor,
            start=start,
            page_token=page_token,
            limit=limit,
            **_filters(types, kinds, ops),
        )
        blocks = (
            decode.read_block(one, self.commit(one["cause"]["graph_commit_id"]))
            for one in body["blocks"]
        )
        return FeedPage(
            blocks=tuple(blocks),
            next_page_token=body.get("next_page_token"),
            cursor=body.get("cursor"),
            caught_up=body.get("caught_up"),
        )

    def changes(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
    ) -> ChangePage:
        """Read the change feed: whole commits, oldest first, after a cursor or commit; `limit` counts changes."""
        room = CHANGES_PAGE if limit is None else limit
        query: dict[str, Any] = {"branch": branch or self._branch}
        query |= (
            {"limit": min(room, CHANGES_PAGE_MAX)} | _start(since) | _filters(types, kinds, ops)
        )
        last: dict[str, Any] = {}
        blocks: list[ChangeBlock] = []
        parts = self._list_parts(query, last)
        for commit, parts_of in groupby(parts, lambda one: one["cause"]["graph_commit_id"]):
            if room <= 0:
                # The commit before this one is whole: its id says where to go on.
                return ChangePage(
                    blocks=tuple(blocks), cursor=str(blocks[-1].commit.id), caught_up=False
                )
            blocks.append(self._join_block(commit, parts_of, images=images))
            room -= len(blocks[-1].changes)
        return ChangePage(
            blocks=tuple(blocks), cursor=last["cursor"], caught_up=bool(last["caught_up"])
        )

    def _list_parts(self, query: dict[str, Any], last: dict[str, Any]) -> Iterator[Any]:
        """List the blocks of the feed, page by page, and put the facts of the last page into `last`."""
        for page in self._pages(self._server.path("changes"), query):
            yield from page["blocks"]
            last.update(page)

    def _join_block(self, commit: str, parts: Iterable[Any], *, images: bool) -> ChangeBlock:
        """Put the parts of a commit together that came in several pages."""
        found = chain.from_iterable(part["changes"] for part in parts)
        changes = [decode.read_change(one, images=images) for one in found]
        changes.sort(key=lambda change: (change.table_key, change.id))
        return ChangeBlock(commit=self.commit(commit), changes=tuple(changes))

    def baseline(
        self,
        out: str | Path,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Baseline:
        """Write every entity to a file in the load format, and give the cursor of the first change after it."""
        body = {"branch": branch or self._branch, "type_names": None if types is None else [*types]}
        path, last = self._server.path("changes", "baseline"), [b""]
        with self._server.stream("POST", path, json=body) as found:
            records = write_lines(Path(out), _hold_back(found.iter_lines(), last))
        end = json.loads(last[0])["baseline"]
        commit = self.commit(end["snapshot_commit_id"])
        return Baseline(commit=commit, cursor=end["resume_cursor"], records=records)

    # ---- stored queries

    def stored_queries(self) -> list[dict[str, Any]]:
        """The stored queries of the server: their names, and the parameters that they take."""
        return list(self._server.get(self._server.path("queries"))["queries"])

    def run_stored(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
        if_commit: str | Commit | None = None,
        expect_mutation: bool | None = None,
        idempotency_key: str | None = None,
    ) -> QueryResult | MutationResult:
        """Run a stored query by its name."""
        body = {"params": _spell_params(params), "expect_mutation": expect_mutation}
        target = self._target(branch, at)
        if if_commit is not None:
            done = self._write(("queries", name), body | target, if_commit, idempotency_key)
            return decode.read_mutation(done)
        found = self._server.ask(
            "POST",
            self._server.path("queries", name),
            body=body | target,
            headers={"accept": ARROW, **_key(idempotency_key)},
        )
        if found.headers.get("content-type") == ARROW:
            return decode.read_rows(found.content)
        return decode.read_mutation(found.json())

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.uri} on {self._branch}>"


class RemoteSnapshot:
    """The table versions of one moment, as the server tells them."""

    def __init__(self, graph: RemoteGraph, body: Mapping[str, Any]) -> None:
        self._graph = graph
        self._body = body

    @property
    def branch(self) -> str:
        """The branch it was taken of."""
        return str(self._body["branch"])

    @property
    def commit(self) -> str | None:
        """The graph commit it shows."""
        found = self._body["graph_commit_id"]
        return None if found is None else str(found)

    @property
    def manifest_version(self) -> int:
        """The manifest version it shows."""
        return int(self._body["manifest_version"])

    def export_lines(self, types: Sequence[str] | None = None) -> Iterator[bytes]:
        """Every entity as UTF-8 JSON lines, many at a time."""
        return self._graph.export_lines(at=self.commit, types=types)

    def close(self) -> None:
        """Let go of it; nothing is held."""

    def tables(self) -> dict[str, int]:
        """Row counts by table key."""
        return {one["table_key"]: one["row_count"] for one in self._body["tables"]}

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return dict(self._body)


# ---- arguments


_FIRST_PAGE = frozenset({"start", "cursor", "page_token"})
"""Where reading begins: later pages begin where their token says."""

_ALIKE = frozenset({"progress", "spark"})
"""Arguments that change nothing about the result: a server leaves them out."""


def _refuse_local(given: Mapping[str, object]) -> None:
    """Refuse arguments that only a graph at hand knows, unless they say what happens anyway."""
    for name, value in given.items():
        if name not in _ALIKE and value not in (None, False, "row"):
            raise UserInputError(
                f"{name}=… needs the storage of the graph, a server does not take it; nothing was sent",
                hint="leave it out, or open the graph itself where it is stored: omnigraph.open(…)",
            )


def _start(since: str | Commit | None) -> dict[str, str]:
    """Where the feed begins: after a commit, at a cursor, or with the first commit."""
    if since is None:
        return {"start": "beginning"}
    text = str(since)
    return {"start": f"after:{text}"} if text.isalnum() else {"cursor": text}


def _hold_back(lines: Iterable[str], last: list[bytes]) -> Iterator[pa.Buffer]:
    """Give every line but the last one, which tells where the feed goes on."""
    for line in lines:
        if last[0]:
            yield pa.py_buffer(last[0] + b"\n")
        last[0] = line.encode()


def _key(given: str | None) -> dict[str, str]:
    return {} if given is None else {KEY: given}


def _filters(
    types: Sequence[str] | None, kinds: Sequence[str] | None, ops: Sequence[str] | None
) -> dict[str, Any]:
    given = {"type": types, "kind": kinds, "op": ops}
    return {name: list(values) for name, values in given.items() if values is not None}


def _spell_params(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if params is None:
        return None
    return {name: _spell_value(value) for name, value in params.items()}


def _spell_value(value: Any) -> Any:
    """A parameter as JSON: days and moments are texts."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return [_spell_value(one) for one in value] if isinstance(value, list | tuple) else value


def _read_lines(source: Lines) -> bytes:
    """The body of a load: the bytes of a file or stream, or dicts as lines."""
    if isinstance(source, str):
        source = Path(source)
    if isinstance(source, Path):
        return read_source(source).text.encode()
    if isinstance(source, bytes):
        return source
    if isinstance(source, io.IOBase) or hasattr(source, "read"):
        found = source.read()
        return found.encode() if isinstance(found, str) else bytes(found)
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise UserInputError(
            f"a server loads JSON lines or dicts, not {type(source).__name__}; nothing was sent",
            hint="load frames where the graph is stored",
        )
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in source)
