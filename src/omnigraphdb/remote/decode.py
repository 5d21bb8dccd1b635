"""Answers of a server as the values that the same calls give on a graph at hand."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict

import pyarrow as pa

from omnigraphdb.api.blobs import Blob
from omnigraphdb.api.comparisons import Change, Diff, DiffPage
from omnigraphdb.api.query_results import Explanation, QueryResult, QueryStream
from omnigraphdb.api.results import Commit
from omnigraphdb.catalog.types import PropertyType, Scalar, stored_type
from omnigraphdb.engine.history.changes import DiffStats, Endpoints
from omnigraphdb.engine.history.entity import EntityHistory, HistoryChange, HistoryGap
from omnigraphdb.engine.read.profile import Step as PlanStep
from omnigraphdb.ids import Op, TableKey, edge_key, node_key
from omnigraphdb.remote.answers import ANSWER_BYTES, Answer, parse_json
from omnigraphdb.remote.bodies import UnreadableBody
from omnigraphdb.remote.shapes import make_check
from omnigraphdb.values import replace
from omnigraphdb.wire import from_dict

Body = Mapping[str, Any]


def read_explanation(body: Body) -> Explanation:
    """Read how a query runs, or ran."""
    steps = tuple(
        PlanStep(
            operator=one["operator"],
            depth=one["depth"],
            notes=tuple(one["notes"]),
            rows=one.get("rows"),
            milliseconds=one.get("milliseconds"),
        )
        for one in body["operators"]
    )
    return Explanation(query_name=body["query_name"], steps=steps, profiled=body["profiled"])


def read_block(body: Body, *, images: bool = True) -> Body:
    """Read what a commit changed; the commit itself is asked for by its id."""
    return {**body, "changes": _read_changes(body, images=images)}


def read_feed_page(body: Body, *, images: bool = True) -> Body:
    """Read a page of the feed; the last one says where the feed goes on."""
    if "next_page_token" not in body and not {"cursor", "caught_up"} <= body.keys():
        raise UnreadableBody("its body tells no place where the feed goes on")
    return {**body, "blocks": [read_block(one, images=images) for one in body["blocks"]]}


def _read_changes(body: Body, *, images: bool) -> tuple[Change, ...]:
    return tuple(read_change(one, images=images) for one in body["changes"])


def read_change(body: Body, *, images: bool = True) -> Change:
    """Read one changed entity, with its rows or without."""
    is_node = body["kind"] == "node"
    key = node_key(body["type"]["name"]) if is_node else edge_key(body["type"]["name"])
    before, after = (_read_row(body, side) for side in ("before", "after"))
    newest = after or before or {}
    return Change(
        op=Op(body["op"]),
        table_key=key,
        id=body["id"],
        manifest_version=body["manifest_version"],
        table_version=body["table_version"],
        type_id=body["type"]["id"],
        endpoints=None if is_node else Endpoints(newest["src"], newest["dst"]),
        properties=tuple(body["properties"]),
        before=before if images else None,
        after=after if images else None,
    )


def _read_row(body: Body, side: str) -> dict[str, Any] | None:
    image = body.get(side)
    if image is None:
        return None
    ends = image.get("endpoints")
    named = {} if ends is None else {"src": ends["from"], "dst": ends["to"]}
    return {"id": body["id"], **named, **image["properties"]}


def read_diff_page(body: Body, *, images: bool = True) -> DiffPage:
    """Read one page of a diff."""
    return DiffPage(
        diff=Diff(
            base=body["from"],
            head=body["to"],
            changes=_read_changes(body, images=images),
            engine=body["engine"],
            reason=body["reason"],
        ),
        stats=from_dict(DiffStats, body["stats"]),
        next_page_token=body.get("next_page_token"),
    )


def read_history(body: Body) -> EntityHistory:
    """Read the changes of one entity."""
    return EntityHistory(
        table_key=body["table_key"],
        id=body["id"],
        changes=tuple(
            HistoryChange(
                commit=from_dict(Commit, one["commit"]),
                change=read_change(one["change"]),
                merges=tuple(one["merges"]),
            )
            for one in body["changes"]
        ),
        gaps=tuple(from_dict(HistoryGap, gap) for gap in body["gaps"]),
        more=body["more"],
    )


# ---- blobs


def read_blob(
    answer: Answer,
    key: TableKey,
    id: str,
    property: str,
    *,
    branch: str,
    snapshot: str | None,
    fetch: Callable[[int, int], bytes],
) -> Blob:
    """Read what headers tell of a blob; an external one is only a place."""
    if answer.status not in (200, 302):
        raise answer.refuse("a blob is told by the status 200 or 302")
    headers = answer.headers
    place = headers.get("location")
    kind, size = ("external", None) if place is not None else answer.read(_read_size, headers)
    return Blob(
        table_key=key,
        id=id,
        property=property,
        kind=kind,
        size=size,
        uri=place,
        etag=headers.get("etag", ""),
        branch=branch,
        snapshot=snapshot,
        commit=headers.get("omnigraph-snapshot-id"),
        fetch=fetch,
    )


def _read_size(headers: Mapping[str, str]) -> tuple[str, int]:
    return headers["omnigraph-blob-kind"], int(headers["content-length"])


# ---- rows


class _Facts(TypedDict):
    """The facts beside the rows of an Arrow answer: the query, the branch or snapshot, the commit."""

    query_name: str
    branch: str
    snapshot: str | None
    graph_commit_id: str | None


_FACTS = b"omnigraph"
_check_facts = make_check(_Facts)


def _read_facts(schema: pa.Schema) -> tuple[_Facts, tuple[PropertyType, ...]]:
    """Read what the schema of rows tells beside their names."""
    if _FACTS not in (schema.metadata or {}):
        raise UnreadableBody("its Arrow stream does not say of which query it is")
    facts = parse_json(schema.metadata[_FACTS], ANSWER_BYTES)
    misfit = _check_facts(facts)
    if misfit is not None:
        raise UnreadableBody(f"the metadata of its Arrow stream{misfit}")
    return facts, tuple(_type_of(one.type) for one in schema)


def read_rows(answer: Answer) -> QueryResult:
    """Read the rows of a query, which come as Arrow, with their types."""
    batches = answer.batches(in_all=True)
    schema = next(batches)
    facts, types = answer.read(_read_facts, schema)
    return QueryResult(
        query_name=facts["query_name"],
        branch=facts["branch"],
        snapshot=facts["snapshot"],
        commit=facts["graph_commit_id"],
        found=pa.Table.from_batches(batches, schema).replace_schema_metadata(None),
        types=types,
    )


def read_stream(
    answer: Answer, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> QueryStream:
    """Read the rows of a query while they arrive."""
    facts, types = answer.read(_read_facts, schema)
    plain = schema.with_metadata(None)
    return QueryStream(
        query_name=facts["query_name"],
        branch=facts["branch"],
        snapshot=facts["snapshot"],
        commit=facts["graph_commit_id"],
        reader=pa.RecordBatchReader.from_batches(
            plain, (batch.replace_schema_metadata(None) for batch in batches)
        ),
        types=types,
    )


def _type_of(arrow: pa.DataType) -> PropertyType:
    """The type of a column of an answer; whole entities are structs."""
    if pa.types.is_timestamp(arrow):
        return PropertyType(scalar=Scalar.DATETIME, nullable=True)
    if pa.types.is_struct(arrow):
        fields = tuple((one.name, _type_of(one.type)) for one in arrow)
        return PropertyType(scalar=Scalar.STRING, nullable=True, fields=fields)
    if pa.types.is_list(arrow):
        return replace(_type_of(arrow.value_type), is_list=True)
    try:
        return stored_type(arrow)
    except (LookupError, ValueError) as error:
        raise UnreadableBody(
            f"its Arrow stream has a column of type {arrow}, which no value of a graph has"
        ) from error
