"""The reads of a served graph: queries, entities, tables and exports."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraphdb.api.arguments import Reference
from omnigraphdb.api.comparisons import EntityHistory
from omnigraphdb.api.query_results import Explanation, QueryResult, QueryStream
from omnigraphdb.api.results import Commit, SnapshotState
from omnigraphdb.api.verbs.read import SHOW_SNAPSHOT, SnapshotShow
from omnigraphdb.remote import decode, forms
from omnigraphdb.remote.answers import ARROW
from omnigraphdb.remote.arguments import SNAPSHOT
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraphdb.api.blobs import Blob
    from omnigraphdb.api.neighbours import Neighbourhood
    from omnigraphdb.api.types import EdgeDirection, EntityId


@check_arguments
class Reads(Handle):
    """The reads of a served graph: queries, entities, tables and exports."""

    def snapshot(
        self, *, branch: str | None = None, at: Reference | None = None
    ) -> "RemoteSnapshot":
        """Show the table versions that are visible together."""
        return RemoteSnapshot(self, self._call(SHOW_SNAPSHOT, SnapshotShow(branch=branch, at=at)))

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
        body = self._query_body(source, name, params) | self._target(branch, at)
        path = self._server.path("query")
        found = self._server.ask("POST", path, body=body, headers={"accept": ARROW}, writes=False)
        return decode.read_rows(found)

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
        body = self._query_body(source, name, params) | self._target(branch, at)
        batches = self._read_arrow("POST", self._server.path("query"), body=body)
        return decode.read_stream(next(batches), next(batches), batches)

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
        body = self._query_body(source, name, params) | self._target(branch, at)
        path = self._server.path("query", "explain")
        body |= {"profile": profile}
        return self._server.post(path, forms.EXPLANATION, body, writes=False)

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
        return self._server.get(path, forms.HISTORY, **query, limit=limit)

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
        from omnigraphdb.remote.pictures import form_neighbourhood

        target = self._branch_of(branch)
        id = self._id_of(type_name, id)
        query = {"type": type_name, "id": id, "branch": target, "at": at, "limit": limit}
        more = {"edge": edge, "direction": direction}
        form = form_neighbourhood(self.catalog, type_name, target)
        return self._server.get(self._server.path("neighbours"), form, **query, **more)

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
            found,
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
        path = self._server.path("blob")
        answer = self._server.ask("GET", path, params=query, headers=headers, bound=count)
        if answer.status not in (200, 206) or len(answer.whole()) != count:
            raise answer.refuse(
                f"the bytes {offset} to {offset + count - 1} of a blob were asked for"
            )
        return answer.whole()

    def table(
        self, type_name: str, *, branch: str | None = None, at: str | int | Commit | None = None
    ) -> pa.Table:
        """A node or edge table as Arrow."""
        query = {"type": type_name, "branch": self._branch_of(branch)}
        query |= {} if at is None else {"at": str(at)}
        batches = self._read_arrow("GET", self._server.path("table"), params=query)
        answer, schema = next(batches), next(batches)
        if "id" not in schema.names:
            raise answer.refuse(f"its Arrow stream is not a table of '{type_name}', it has no ids")
        return pa.Table.from_batches(batches, schema)

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
            yield from chain.from_iterable(records for _, records in found.lines())

    def _read_arrow(self, method: str, path: str, **more: Any) -> Iterator[Any]:
        """Give the answer, the schema of its Arrow stream, then its batches, while they arrive."""
        with self._server.stream(method, path, headers={"accept": ARROW}, **more) as found:
            yield found
            yield from found.batches()

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
            yield from (b"\n".join(lines) + b"\n" for lines, _ in found.lines())


class RemoteSnapshot:
    """The table versions of one moment, as the server tells them."""

    def __init__(self, graph: Reads, state: SnapshotState) -> None:
        self._graph = graph
        self._state = state

    @property
    def branch(self) -> str:
        """The branch it was taken of."""
        return self._state.branch

    @property
    def commit(self) -> str | None:
        """The graph commit it shows."""
        return self._state.commit

    @property
    def manifest_version(self) -> int:
        """The manifest version it shows."""
        return self._state.manifest_version

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
        return {table.table_key: table.row_count for table in self._state.tables}

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return self._state.to_dict()
