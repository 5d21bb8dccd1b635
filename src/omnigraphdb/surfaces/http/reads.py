"""Routes that read: queries and tables."""

import json
from collections.abc import Iterator, Mapping
from io import BytesIO, RawIOBase
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.lookups import answer_from_memory
from omnigraphdb.api.query_results import QueryResult, QueryStream
from omnigraphdb.errors import NotFoundError, ResourceLimit, UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.replies import ARROW, JSON, PARQUET, Reply, Stream, reply_json
from omnigraphdb.surfaces.http.served import RESULT_ROWS_SETTING

_ANY_MEDIA: Final = "*/*"
_JSON_WANTED: Final = frozenset({_ANY_MEDIA, JSON})


def read_point(text: str | None) -> str | int | None:
    """A point in history: a number is a manifest version, any other text a commit."""
    is_version = text is not None and text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if is_version and text is not None else text


# ---- queries


def query(call: Call) -> Reply | Stream:
    """Run a read."""
    body, arguments = call.body, read_target(call.place.graph, call.body)
    graph, text, name, params = (
        call.place.graph,
        body["query"],
        body.get("name"),
        body.get("params"),
    )
    if wants_arrow(call):
        return stream_arrow(graph.stream(text, name, params, **arguments))
    if PARQUET in call.headers.get("accept", "").lower():
        return stream_parquet(graph.stream(text, name, params, **arguments))
    return reply_rows(call, graph.query(text, name, params, **arguments))


def look_up_query(call: Call) -> Reply | None:
    """Answer a read of main that is a lookup in memory; None for any other, and for what only a thread may refuse."""
    body, headers = call.body, call.headers
    is_plain = body.get("branch") is None and body.get("snapshot") is None
    if not is_plain or headers.get("accept", _ANY_MEDIA) not in _JSON_WANTED:
        return None
    found = answer_from_memory(
        call.place.graph, body["query"], body.get("name"), body.get("params")
    )
    if found is None:
        return None
    call.note_read(MAIN)
    return reply_rows(call, found)


def explain(call: Call) -> Reply:
    """Show how a read runs, or with `profile` how it ran."""
    body = call.body
    plan = call.place.graph.explain(
        body["query"],
        body.get("name"),
        body.get("params"),
        profile=bool(body.get("profile")),
        **read_target(call.place.graph, body),
    )
    return reply_json(plan.to_dict())


def read(call: Call) -> Reply:
    """Run a read in the words of earlier servers."""
    body, graph = call.body, call.place.graph
    result = graph.query(
        body["query_source"],
        body.get("query_name"),
        body.get("params"),
        **read_target(graph, body),
    )
    return reply_rows(call, result, without=("graph_commit_id",))


def read_target(graph: Graph, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a read names: a branch, or a snapshot of whichever branch made it; one beside the other is refused."""
    branch, snapshot = asked.get("branch"), asked.get("snapshot")
    if branch is not None and snapshot is not None:
        raise UserInputError("a read has a branch or a snapshot, not both; nothing was read")
    point = read_point(snapshot)
    return {"branch": branch if point is None else find_author(graph, point), "at": point}


def find_author(graph: Graph, point: str | int) -> str | None:
    """The live branch that made a commit; None for a commit of main and for what is no commit."""
    try:
        branch = None if isinstance(point, int) else graph.commit(point).branch
    except (NotFoundError, UserInputError):
        return None
    if branch in (None, MAIN):
        return None
    return branch if any(one.name == branch for one in graph.branches()) else None


def reply_rows(call: Call, result: QueryResult, without: tuple[str, ...] = ()) -> Reply:
    """Answer with the rows of a query; more than an answer may hold are refused."""
    most = call.served.limits.result_rows
    if len(result) > most:
        hint = "add `limit` to the query, or export the types"
        raise ResourceLimit("result_rows", most, len(result), hint, setting=RESULT_ROWS_SETTING)
    body = result.to_dict()
    for name in without:
        del body[name]
    return reply_json(body)


def wants_arrow(call: Call) -> bool:
    """Whether the caller accepts Arrow."""
    return ARROW in call.headers.get("accept", "").lower()


def stream_arrow(found: QueryStream) -> Stream:
    """Answer with an Arrow IPC stream, which says in its metadata what was read."""
    facts = {
        "query_name": found.query_name,
        "branch": found.branch,
        "snapshot": found.snapshot,
        "graph_commit_id": found.commit,
    }
    headers = {} if found.commit is None else {"omnigraph-snapshot-id": found.commit}
    schema = found.reader.schema.with_metadata({"omnigraph": json.dumps(facts)})
    return Stream(chunks=_spell_batches(found.reader, schema), media=ARROW, headers=headers)


def _spell_batches(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[bytes]:
    sink = BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        yield _take(sink)
        for batch in reader:
            writer.write_batch(batch)
            yield _take(sink)
    yield _take(sink)


def stream_parquet(found: QueryStream) -> Stream:
    """Answer with a Parquet file, written while it is sent."""
    headers = {} if found.commit is None else {"omnigraph-snapshot-id": found.commit}
    return Stream(chunks=_spell_row_groups(found.reader), media=PARQUET, headers=headers)


def _spell_row_groups(reader: pa.RecordBatchReader) -> Iterator[bytes]:
    from pyarrow import parquet

    sink = _Appended()
    with parquet.ParquetWriter(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Appended(RawIOBase):
    """A file that is only appended to: what was taken is gone, the position goes on, since Parquet notes positions."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        """Whether it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._parts.append(bytes(data))
        self._position += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        """How many bytes were written, taken or not."""
        return self._position

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self._parts = b"".join(self._parts), []
        return taken


def _take(sink: BytesIO) -> bytes:
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return written


def table(call: Call) -> Stream:
    """Send the rows of a node or edge type as an Arrow IPC stream."""
    at, columns = read_point(call.text("at")), call.texts("column")
    seen = call.place.graph.snapshot(branch=call.text("branch"), at=at)
    found = seen.scan(call.needed("type"), columns)
    headers = {} if seen.commit is None else {"omnigraph-snapshot-id": seen.commit}
    return Stream(chunks=_spell_batches(found, found.schema), media=ARROW, headers=headers)
