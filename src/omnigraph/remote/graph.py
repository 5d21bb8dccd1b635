"""The handle of a served graph: `Graph`'s methods, where a server has a route for them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from omnigraph.api.arguments import id_of, one_or_names
from omnigraph.api.branches import Branch, Branches
from omnigraph.api.comparisons import (
    Baseline,
    BaselineStream,
    Change,
    ChangeBlock,
    ChangePage,
    ChangeStream,
    Diff,
    DiffPage,
    EntityHistory,
    FeedPage,
    MergeResult,
)
from omnigraph.api.query_results import Explanation, QueryResult, QueryStream
from omnigraph.api.results import (
    Commit,
    Job,
    LoadResult,
    MutationResult,
    RecoveryAudit,
    RecoverySidecar,
    SchemaApplyResult,
)
from omnigraph.api.texts import schema_of, source_of
from omnigraph.catalog.diff.steps import SchemaPlan
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.engine.history.feed import write_lines
from omnigraph.engine.results import Commits
from omnigraph.errors import NotFound, UserInputError
from omnigraph.ids import MAIN
from omnigraph.limits import CHANGES_PAGE, CHANGES_PAGE_MAX
from omnigraph.manifest.names import branch_name
from omnigraph.remote import decode
from omnigraph.remote.arguments import (
    FIRST_PAGE,
    Lines,
    explain_absence,
    read_lines,
    refuse_local,
    spell_filters,
    spell_headers,
    spell_params,
    spell_start,
)
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.transport import Transport

if TYPE_CHECKING:
    from omnigraph.api.blobs import Blob
    from omnigraph.api.drawings import DiffDrawing
    from omnigraph.api.log_drawings import LogDrawing
    from omnigraph.api.neighbours import Neighbourhood
    from omnigraph.api.paths import EntityPath
    from omnigraph.api.reports import Examination, IndexReport
    from omnigraph.api.types import EdgeDirection, EntityId, Kinds, Mode, Ops

ARROW = "application/vnd.apache.arrow.stream"
CONDITION = "Omnigraph-If-Graph-Commit"
SNAPSHOT = "omnigraph-snapshot-id"
RESUME = "omnigraph-resume-cursor"
LINES = {"content-type": "application/x-ndjson"}


def connect(url: str, *, token: str | None = None, graph: str | None = None) -> "RemoteGraph":
    """Reach a graph that a server serves; `graph` is its id, needed where the server has several.

    The token decides who writes. Nothing is asked before the first call.
    """
    return RemoteGraph(Transport(url, token, graph))


@check_arguments
class RemoteGraph:
    """A served graph; safe to share between threads. Calls raise the errors that a graph at hand raises."""

    def __init__(self, transport: Transport, *, branch: str = MAIN) -> None:
        self._server = transport
        self._branch = branch

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._server.shown + self._server.prefix

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
        return RemoteGraph(self._server, branch=self._branch_of(branch))

    def _branch_of(self, branch: str | None) -> str:
        """The branch that a call is about: the one it names, else that of the handle."""
        return self._branch if branch is None else branch_name(branch, "a call of a server")

    def _id_of(self, type_name: str, id: "EntityId") -> str:
        """The id of an entity; what is no text is the value of a key, which the schema spells."""
        return id if isinstance(id, str) else id_of(self.catalog.table(type_name), id)

    # ---- reading

    def snapshot(
        self, *, branch: str | None = None, at: str | int | None = None
    ) -> "RemoteSnapshot":
        """Show the table versions that are visible together."""
        body = self._server.get(
            self._server.path("snapshot"), branch=self._branch_of(branch), at=at
        )
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

    def stream(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
    ) -> QueryStream:
        """Run a read whose rows come while they are consumed: Arrow batches, once."""
        body = self._call(source, name, params) | self._target(branch, at)
        batches = self._read_arrow("POST", self._server.path("query"), body=body)
        return decode.read_stream(next(batches), batches)

    def table(
        self, type_name: str, *, branch: str | None = None, at: str | int | Commit | None = None
    ) -> pa.Table:
        """A node or edge table as Arrow."""
        query = {"type": type_name, "branch": self._branch_of(branch)}
        query |= {} if at is None else {"at": str(at)}
        batches = self._read_arrow("GET", self._server.path("table"), params=query)
        schema = next(batches)
        return pa.Table.from_batches(batches, schema)

    def _read_arrow(self, method: str, path: str, **more: Any) -> Iterator[Any]:
        """Give the schema of an Arrow stream, then its batches, while they arrive."""
        with self._server.stream(method, path, headers={"accept": ARROW}, **more) as found:
            reader = pa.ipc.open_stream(decode.BodyFile(found.iter_bytes()))
            yield reader.schema
            yield from reader

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
        return {"query": text, "name": name, "params": spell_params(params)}

    def _target(self, branch: str | None, at: str | int | Commit | None) -> dict[str, Any]:
        return {"branch": self._branch_of(branch)} if at is None else {"snapshot": str(at)}

    def export(
        self,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every entity in the load format: nodes before edges, by id."""
        body = self._target(branch, at) | {"type_names": None if types is None else list(types)}
        with self._server.stream("POST", self._server.path("export"), body=body) as found:
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
        with self._server.stream("POST", self._server.path("export"), body=body) as found:
            yield from found.iter_bytes()

    def blob(
        self,
        type_name: str,
        id: "EntityId",
        property: str,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
    ) -> "Blob":
        """One Blob value of one entity: its size, and its bytes when they are read."""
        key = self.catalog.table(type_name).table_key
        id = self._id_of(type_name, id)
        query = {"entity": key.partition(":")[0], "type": type_name, "id": id, "property": property}
        path = self._server.path("blob")
        found = self._server.ask("HEAD", path, params=query | self._target(branch, at))
        return decode.read_blob(
            found.headers,
            key,
            id,
            property,
            branch=self._branch_of(branch),
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
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> MutationResult:
        """Run a mutation: one commit for all of its statements, or nothing; `dry_run` only counts and checks."""
        refuse_local(local)
        body = self._call(source, name, params) | {"branch": self._branch_of(branch)}
        headers = spell_headers(idempotency_key, message)
        done = self._write(("mutate",), body | {"dry_run": dry_run}, if_commit, headers)
        return decode.read_mutation(done)

    def _write(
        self,
        path: tuple[str, ...],
        body: dict[str, Any],
        if_commit: str | Commit | None,
        headers: dict[str, str],
    ) -> Any:
        if if_commit is None:
            return self._server.post(self._server.path(*path), body, headers=headers)
        conditional = self._server.path(*path, "if-graph-commit")
        return self._server.post(conditional, body, headers={CONDITION: str(if_commit), **headers})

    def load(
        self,
        source: Lines,
        *,
        mode: "Mode",
        branch: str | None = None,
        from_branch: str | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
        create_missing: str | Sequence[str] = (),
        **local: object,
    ) -> LoadResult:
        """Load records in one commit: a file of JSON lines, a stream of them, or dicts; `dry_run` only reads and checks."""
        refuse_local(local)
        body = self._server.post(
            self._server.path("load", "ndjson"),
            content=read_lines(source),
            headers=LINES | spell_headers(idempotency_key, message),
            params={
                "mode": str(mode),
                "dry_run": "true" if dry_run else None,
                "branch": self._branch_of(branch),
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
        message: str | None = None,
        if_commit: str | Commit | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> SchemaApplyResult:
        """Change the schema in one commit."""
        refuse_local(local)
        body = {"schema_source": schema_of(schema).text, "allow_data_loss": allow_data_loss}
        done = self._write(
            ("schema", "apply"), body, if_commit, spell_headers(idempotency_key, message)
        )
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
        refuse_local(local)
        body = {"name": name, "from": from_branch}
        path = self._server.path("branches")
        made = self._server.post(path, body, headers=spell_headers(idempotency_key))
        return Branch(name=made["name"], head=None, parent=made["from"])

    def branch_delete(
        self, name: str, *, merged_into: str | None = None, idempotency_key: str | None = None
    ) -> None:
        """Delete a branch that no other branch depends on; with `merged_into`, only if that one has all its commits."""
        self._server.delete(
            self._server.path("branches", name),
            headers=spell_headers(idempotency_key),
            merged_into=merged_into,
        )

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
        refuse_local(local)
        start = since.isoformat() if isinstance(since, datetime) else since
        body = self._server.get(
            self._server.path("commits"),
            branch=self._branch_of(branch),
            limit=limit,
            actor=actor,
            since=None if start is None else str(start),
        )
        return Commits(decode.read_commit(one) for one in body["commits"])

    def log_drawing(
        self,
        branches: Sequence[str] | None = None,
        *,
        limit: int = 100,
        before: str | Commit | None = None,
        counts: bool = False,
    ) -> "LogDrawing":
        """The commits of branches and of what was merged into them, newest first, each with the lane of a drawing."""
        from omnigraph.remote.pictures import read_log

        last = None if before is None else str(before)
        path = self._server.path("log", "graph")
        asked = {"branch": branches, "limit": limit, "before": last}
        return read_log(self._server.get(path, **asked, counts="true" if counts else None))

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id or unique prefix."""
        return decode.read_commit(self._server.get(self._server.path("commits", str(id))))

    def merge(
        self,
        source: str | Branch,
        *,
        into: str = MAIN,
        dry_run: bool = False,
        message: str | None = None,
        if_commit: str | Commit | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> MergeResult:
        """Apply the changes of one branch to another, in one commit; on conflicts all of them are raised together."""
        refuse_local(local)
        body = {"source": str(source), "target": into}
        if dry_run:
            path = self._server.path("branches", "merge", "preview")
            return decode.read_merge(self._server.post(path, body))
        done = self._write(
            ("branches", "merge"), body, if_commit, spell_headers(idempotency_key, message)
        )
        return decode.read_merge(done)

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
        refuse_local(local)
        query = {"from": str(base), "to": str(head)} | spell_filters(types, kinds, ops)
        pages = list(self._pages(self._server.path("diff"), query))
        changes = [
            decode.read_change(one, images=images) for page in pages for one in page["changes"]
        ]
        changes.sort(key=lambda change: (change.table_key, change.id))
        return Diff(
            base=pages[0]["from"],
            head=pages[0]["to"],
            changes=tuple(changes),
            engine=pages[0]["engine"],
            reason=pages[0]["reason"],
        )

    def diff_stream(
        self,
        base: str | Commit,
        head: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
    ) -> Iterator[Change]:
        """The changes of a `diff` one after the other, however many there are: nodes before edges, as a server pages them."""
        query = {"from": str(base), "to": str(head)} | spell_filters(types, kinds, ops)
        pages = self._pages(self._server.path("diff"), query | {"limit": CHANGES_PAGE_MAX})
        first = next(pages)
        found = chain.from_iterable(page["changes"] for page in chain((first,), pages))
        return (decode.read_change(one, images=images) for one in found)

    def diff_page(
        self,
        base: str,
        head: str,
        *,
        limit: int | None = None,
        page_token: str | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
    ) -> DiffPage:
        """One page of a `diff`, with the rows before and after, nodes before edges."""
        query = {"from": base, "to": head, "limit": limit, "page_token": page_token}
        authored = {"property": properties, "actor": actors}
        path = self._server.path("diff")
        return decode.read_diff_page(
            self._server.get(path, **query, **authored, **spell_filters(types, kinds, ops))
        )

    def diff_drawing(
        self,
        base: str | Commit,
        head: str | Commit,
        *,
        types: Sequence[str] | None = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
        nodes_max: int = 2_000,
        edges_max: int = 10_000,
    ) -> "DiffDrawing":
        """A `diff` to be drawn: its counts, and the first changed nodes and edges with the nodes these hang on."""
        from omnigraph.remote.pictures import read_drawing

        query = {"base": str(base), "head": str(head), "type": types, "operation": ops}
        query |= {"property": properties, "actor": actors}
        most = {"limit_nodes": nodes_max, "limit_edges": edges_max}
        return read_drawing(self._server.get(self._server.path("diff", "graph"), **query, **most))

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[Any]:
        """Read page after page."""
        page = self._server.get(path, **query)
        yield page
        while "next_page_token" in page:
            kept = {name: text for name, text in query.items() if name not in FIRST_PAGE}
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
        refuse_local(local)
        path = self._server.path("commits", str(id), "changes")
        query = spell_filters(types, kinds, ops) | {"limit": limit, "page_token": page_token}
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
        id: "EntityId",
        *,
        branch: str | None = None,
        at: str | int | None = None,
    ) -> dict[str, Any] | None:
        """One entity by its id or the value of its key, or None."""
        id = self._id_of(type_name, id)
        query = {"type": type_name, "id": id, "branch": self._branch_of(branch), "at": at}
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
        id: "EntityId",
        *,
        branch: str | None = None,
        at: str | int | None = None,
        limit: int = 100,
    ) -> EntityHistory:
        """The commits that changed one entity, the newest first."""
        id = self._id_of(type_name, id)
        query = {"type": type_name, "id": id, "branch": self._branch_of(branch), "at": at}
        path = self._server.path("entity", "history")
        return decode.read_history(self._server.get(path, **query, limit=limit))

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first."""
        found = self._server.get(self._server.path("jobs"))["jobs"]
        return [decode.read_job(one) for one in found]

    def neighbours(
        self,
        type_name: str,
        id: "EntityId",
        *,
        edge: str | None = None,
        direction: "EdgeDirection" = "both",
        limit: int = 50,
        branch: str | None = None,
        at: str | int | None = None,
    ) -> "Neighbourhood":
        """The edges of a node and the nodes they lead to, at most `limit` of each edge type and direction."""
        from omnigraph.remote.pictures import read_neighbourhood

        target = self._branch_of(branch)
        id = self._id_of(type_name, id)
        query = {"type": type_name, "id": id, "branch": target, "at": at, "limit": limit}
        more = {"edge": edge, "direction": direction}
        found = self._server.get(self._server.path("neighbours"), **query, **more)
        return read_neighbourhood(found, self.catalog, type_name, target)

    def path(
        self,
        from_type: str,
        from_id: "EntityId",
        to_type: str,
        to_id: "EntityId",
        *,
        edges: Sequence[str] | None = None,
        by: str | None = None,
        undirected: bool = False,
        hops_max: int = 8,
        branch: str | None = None,
        at: str | int | None = None,
    ) -> "EntityPath | None":
        """The shortest path between two nodes, or the cheapest by a property of the edges; None if there is none."""
        from omnigraph.api.paths import read_path

        from_id, to_id = self._id_of(from_type, from_id), self._id_of(to_type, to_id)
        ends = {"type": from_type, "from": from_id, "to_type": to_type, "to": to_id}
        more = {"edge": edges, "by": by, "undirected": undirected or None, "hops": hops_max}
        target = {"branch": self._branch_of(branch), "at": at}
        found = self._server.get(self._server.path("paths"), **ends, **more, **target)["paths"]
        return read_path(found[0]) if found else None

    def index_status(self, *, branch: str | None = None) -> "IndexReport":
        """Show the state of every index: `ready`, `partial`, `pending` or `damaged`."""
        from omnigraph.remote.reports import read_indexes

        path = self._server.path("index_status")
        return read_indexes(self._server.get(path, branch=self._branch_of(branch)))

    def doctor(self, **local: object) -> "Examination":
        """Check every invariant that must hold between writes; branches that may not be read are left out."""
        from omnigraph.remote.reports import read_examination

        refuse_local(local)
        return read_examination(self._server.get(self._server.path("doctor")))

    def recoveries(self) -> list[RecoveryAudit]:
        """Operations that recovery completed, rolled back or discarded, oldest first."""
        from omnigraph.remote.reports import read_recovery

        found = self._server.get(self._server.path("recoveries"))["settled"]
        return [read_recovery(one) for one in found]

    def pending_recoveries(self) -> list[RecoverySidecar]:
        """Pending operations, oldest first, including those of live writers."""
        from omnigraph.remote.reports import read_pending

        found = self._server.get(self._server.path("recoveries"))["pending"]
        return [read_pending(one) for one in found]

    def change_page(
        self,
        *,
        branch: str | None = None,
        cursor: str | None = None,
        start: str = "now",
        page_token: str | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
    ) -> FeedPage:
        """Read one page of the change feed; it may end inside a commit."""
        # A page continues at its token; a cursor replaces the start.
        places = {"page_token": page_token, "cursor": cursor, "start": start}
        place = next(name for name, text in places.items() if text is not None)
        body = self._server.get(
            self._server.path("changes"),
            branch=self._branch_of(branch),
            limit=limit,
            **{place: places[place]},
            **spell_filters(types, kinds, ops),
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
            engine=body["engine"],
            reason=body["reason"],
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
        query: dict[str, Any] = {"branch": self._branch_of(branch)}
        query |= (
            {"limit": min(room, CHANGES_PAGE_MAX)}
            | spell_start(since)
            | spell_filters(types, kinds, ops)
        )
        last: dict[str, Any] = {}
        blocks: list[ChangeBlock] = []
        parts = self._list_parts(query, last)
        for commit, parts_of in groupby(parts, lambda one: one["cause"]["graph_commit_id"]):
            if room <= 0:
                # The commit before this one is whole: its id says where to go on.
                return ChangePage(
                    blocks=tuple(blocks),
                    cursor=str(blocks[-1].commit.id),
                    caught_up=False,
                    engine=last["engine"],
                    reason=last["reason"],
                )
            blocks.append(self._join_block(commit, parts_of, images=images))
            room -= len(blocks[-1].changes)
        return ChangePage(
            blocks=tuple(blocks),
            cursor=last["cursor"],
            caught_up=bool(last["caught_up"]),
            engine=last["engine"],
            reason=last["reason"],
        )

    def changes_stream(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        **local: object,
    ) -> Iterator[ChangeStream]:
        """The change feed up to now, commit by commit; read the changes of a commit before you ask for the next one."""
        refuse_local(local)
        query = {"branch": self._branch_of(branch), "limit": CHANGES_PAGE_MAX}
        query |= spell_start(since) | spell_filters(types, kinds, ops)
        last: dict[str, Any] = {}
        parts = self._list_parts(query, last)
        for commit, parts_of in groupby(parts, lambda one: one["cause"]["graph_commit_id"]):
            found = chain.from_iterable(part["changes"] for part in parts_of)
            yield ChangeStream(
                commit=self.commit(commit),
                # The id of a whole commit says where to go on.
                cursor=commit,
                changes=(decode.read_change(one, images=images) for one in found),
                engine=last["engine"],
                reason=last["reason"],
            )

    def _list_parts(self, query: dict[str, Any], last: dict[str, Any]) -> Iterator[Any]:
        """List the blocks of the feed, page by page, and put the facts of the present page into `last`."""
        for page in self._pages(self._server.path("changes"), query):
            last.update(page)
            yield from page["blocks"]

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
        last = [b""]
        lines = self._read_baseline(branch, types, last)
        next(lines)
        records = write_lines(Path(out), lines)
        end = json.loads(last[0])["baseline"]
        commit = self.commit(end["snapshot_commit_id"])
        return Baseline(commit=commit, cursor=end["resume_cursor"], records=records)

    def baseline_stream(
        self, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> BaselineStream:
        """Every entity in the load format as lines, and the cursor of the first change after it."""
        lines = self._read_baseline(branch, types, [b""])
        headers = next(lines)
        return BaselineStream(commit=headers[SNAPSHOT], cursor=headers[RESUME], lines=lines)

    def _read_baseline(
        self, branch: str | None, types: Sequence[str] | None, last: list[bytes]
    ) -> Iterator[Any]:
        """Give the headers of a baseline, then its lines while they arrive; the record at its end goes into `last`."""
        body = {
            "branch": self._branch_of(branch),
            "type_names": None if types is None else [*types],
        }
        path = self._server.path("changes", "baseline")
        with self._server.stream("POST", path, body=body) as found:
            yield found.headers
            yield from _hold_back(found.iter_lines(), last)

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
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueryResult | MutationResult:
        """Run a stored query by its name."""
        body = {"params": spell_params(params), "expect_mutation": expect_mutation}
        target = self._target(branch, at)
        if if_commit is not None:
            headers = spell_headers(idempotency_key, message)
            done = self._write(("queries", name), body | target, if_commit, headers)
            return decode.read_mutation(done)
        found = self._server.ask(
            "POST",
            self._server.path("queries", name),
            body=body | target,
            headers={"accept": ARROW, **spell_headers(idempotency_key, message)},
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from omnigraph.api.graph import Graph

            known = not name.startswith("_") and hasattr(Graph, name)
            raise AttributeError(explain_absence(name) if known else f"RemoteGraph has no '{name}'")

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

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> QueryResult:
        """Run a read on it."""
        return self._graph.query(source, name, params, branch=self.branch, at=self.commit)

    def table(self, type_name: str) -> pa.Table:
        """A node or edge table as Arrow."""
        return self._graph.table(type_name, branch=self.branch, at=self.commit)

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


def _hold_back(lines: Iterable[str], last: list[bytes]) -> Iterator[pa.Buffer]:
    """Give every line but the last one, which tells where the feed goes on."""
    for line in lines:
        if last[0]:
            yield pa.py_buffer(last[0] + b"\n")
        last[0] = line.encode()
