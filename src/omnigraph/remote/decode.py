"""Answers of a server as the values that the same calls give on a graph at hand."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from omnigraph.api.blobs import Blob
from omnigraph.api.branches import Branch
from omnigraph.api.comparisons import Change, ChangeBlock, Conflict, Diff, DiffPage, MergeResult
from omnigraph.api.query_results import Explanation, QueryResult, QueryStream
from omnigraph.api.results import (
    Commit,
    Job,
    JobKind,
    JobState,
    LoadResult,
    MutationResult,
    SchemaApplyResult,
)
from omnigraph.catalog.diff.codes import Code, Tier
from omnigraph.catalog.diff.steps import DropMode, Step, StepKind, TypeKind
from omnigraph.catalog.types import PropertyType, Scalar, stored_type
from omnigraph.engine.history.changes import DiffStats, Endpoints
from omnigraph.engine.history.entity import EntityHistory, HistoryChange, HistoryGap
from omnigraph.engine.jobs import read_progress
from omnigraph.engine.merge.conflicts import ConflictKind
from omnigraph.engine.merge.relate import Outcome
from omnigraph.engine.read.profile import Step as PlanStep
from omnigraph.ids import MAIN, Op, TableKey, edge_key, node_key
from omnigraph.manifest.records import CommitKind
from omnigraph.runtime import datetime_of

Body = Mapping[str, Any]


def read_commit(body: Body) -> Commit:
    """Read one commit."""
    return Commit(
        id=body["graph_commit_id"],
        parent=body["parent_commit_id"],
        merged_parent=body["merged_parent_commit_id"],
        branch=body["manifest_branch"] or MAIN,
        actor=body["actor_id"],
        created_at=datetime_of(body["created_at"]),
        manifest_version=body["manifest_version"],
        kind=CommitKind(body["kind"]),
        tables=tuple(body["tables"]),
        message=body.get("message"),
        group=body.get("group"),
    )


def read_branch(body: Body) -> Branch:
    """Read one branch."""
    return Branch(
        name=body["name"],
        head=body["head"],
        parent=body["parent"],
        created_at=_read_moment(body.get("created_at")),
        head_at=_read_moment(body.get("head_at")),
        head_actor=body.get("head_actor"),
        ahead=body.get("ahead"),
        behind=body.get("behind"),
    )


def _read_moment(us: int | None) -> datetime | None:
    return None if us is None else datetime_of(us)


def _read_commit_of(body: Body) -> Commit | None:
    return None if body["commit"] is None else read_commit(body["commit"])


def read_mutation(body: Body) -> MutationResult:
    """Read what a mutation did."""
    return MutationResult(
        branch=body["branch"],
        query_name=body["query_name"],
        affected_nodes=body["affected_nodes"],
        affected_edges=body["affected_edges"],
        actor=body["actor_id"],
        commit=_read_commit_of(body),
        replayed=body.get("replayed", False),
        columns=body.get("columns", ()),
        rows=body.get("rows", ()),
    )


def read_load(body: Body) -> LoadResult:
    """Read what a load did."""
    return LoadResult(
        uri=body["uri"],
        branch=body["branch"],
        base_branch=body["base_branch"],
        branch_created=body["branch_created"],
        mode=body["mode"],
        tables={one["table_key"]: one["rows_loaded"] for one in body["tables"]},
        actor=body["actor_id"],
        commit=_read_commit_of(body),
        replayed=body.get("replayed", False),
        engine=body["engine"],
        reason=body["reason"],
        pending_indexes=tuple(body["pending_indexes"]),
        notes=tuple(body["notes"]),
        created={one["table_key"]: one["rows_created"] for one in body.get("created", ())},
    )


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


def read_merge(body: Body) -> MergeResult:
    """Read what a merge did, or would do."""
    return MergeResult(
        source=body["source"],
        target=body["target"],
        outcome=Outcome(body["outcome"]),
        tables={
            one["table_key"]: (one["inserts"], one["updates"], one["deletes"])
            for one in body["changes_by_table"]
        },
        commit=_read_commit_of(body),
        replayed=body.get("replayed", False),
        conflicts=tuple(read_conflict(one) for one in body.get("conflicts", ())),
        conflicts_total=body.get("conflicts_total", len(body.get("conflicts", ()))),
        engine=body.get("engine", "local"),
        reason=body.get("reason", ""),
        actor=body["actor_id"],
        dry_run=body.get("dry_run", False),
    )


def read_conflict(body: Body) -> Conflict:
    """Read one conflict."""
    return Conflict(
        table_key=body["table_key"],
        row_id=body["row_id"],
        kind=ConflictKind(body["kind"]),
        message=body["message"],
        base=body["base"],
        source=body["source"],
        target=body["target"],
        properties=tuple(body["properties"]),
    )


def read_job(body: Body) -> Job:
    """Read one job."""
    return Job(
        id=body["job_id"],
        kind=JobKind(body["kind"]),
        branch=body["branch"],
        actor=body["actor_id"],
        state=JobState(body["state"]),
        started_at=datetime_of(body["started_at"]),
        renewed_at=datetime_of(body["renewed_at"]),
        host=body["host"],
        process=body["process"],
        progress=None if body["progress"] is None else read_progress(body["progress"]),
    )


# ---- schemas


def read_steps(body: Body) -> tuple[Step, ...]:
    """Read the steps of a schema change."""
    return tuple(_read_step(one) for one in body["steps"])


def _read_step(body: Body) -> Step:
    values = body.get("added_values")
    return Step(
        kind=StepKind(body["kind"]),
        type_kind=TypeKind(body["type_kind"]),
        type_name=body["type_name"],
        property_name=body.get("property_name"),
        from_=body.get("from"),
        to=body.get("to"),
        mode=DropMode(body["mode"]) if "mode" in body else None,
        added_values=None if values is None else tuple(values),
        constraint=body.get("constraint"),
        entity=body.get("entity"),
        reason=body.get("reason"),
        code=Code(body["code"]) if "code" in body else None,
        tier=Tier(body.get("tier", Tier.SAFE)),
    )


def read_schema_apply(body: Body) -> SchemaApplyResult:
    """Read what applying a schema did."""
    return SchemaApplyResult(
        uri=body["uri"],
        steps=read_steps(body),
        manifest_version=body["manifest_version"],
        actor=body["actor_id"],
        commit=_read_commit_of(body),
        replayed=body.get("replayed", False),
        supported=body["supported"],
        warnings=tuple(body["warnings"]),
        pending_indexes=tuple(body["pending_indexes"]),
        engine=body.get("engine", "local"),
        reason=body.get("reason", ""),
    )


# ---- changes


def read_block(body: Body, commit: Commit) -> ChangeBlock:
    """Read what a commit changed."""
    return ChangeBlock(
        commit=commit,
        changes=tuple(read_change(one) for one in body["changes"]),
        next_page_token=body.get("next_page_token"),
    )


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


def read_diff_page(body: Body) -> DiffPage:
    """Read one page of a diff."""
    stats = body["stats"]
    return DiffPage(
        diff=Diff(
            base=body["from"],
            head=body["to"],
            changes=tuple(read_change(one) for one in body["changes"]),
            engine=body["engine"],
            reason=body["reason"],
        ),
        stats=DiffStats(
            inserts=stats["inserts"],
            updates=stats["updates"],
            deletes=stats["deletes"],
            types_affected=tuple(stats["types_affected"]),
        ),
        next_page_token=body.get("next_page_token"),
    )


def read_history(body: Body) -> EntityHistory:
    """Read the changes of one entity."""
    return EntityHistory(
        table_key=body["table_key"],
        id=body["id"],
        changes=tuple(
            HistoryChange(
                commit=read_commit(one["commit"]),
                change=read_change(one["change"]),
                merges=tuple(one["merges"]),
            )
            for one in body["changes"]
        ),
        gaps=tuple(
            HistoryGap(commit=one["graph_commit_id"], reason=one["reason"]) for one in body["gaps"]
        ),
        more=body["more"],
    )


# ---- blobs


def read_blob(
    headers: Mapping[str, str],
    key: TableKey,
    id: str,
    property: str,
    *,
    branch: str,
    snapshot: str | None,
    fetch: Callable[[int, int], bytes],
) -> Blob:
    """Read what headers tell of a blob; an external one is only a place."""
    place = headers.get("location")
    return Blob(
        table_key=key,
        id=id,
        property=property,
        kind="external" if place is not None else headers["omnigraph-blob-kind"],
        size=None if place is not None else int(headers["content-length"]),
        uri=place,
        etag=headers.get("etag", ""),
        branch=branch,
        snapshot=snapshot,
        commit=headers.get("omnigraph-snapshot-id"),
        fetch=fetch,
    )


# ---- rows


FACTS = b"omnigraph"
"""Where an Arrow answer carries what is no row: the query, the branch or snapshot, the commit."""


def read_rows(content: bytes) -> QueryResult:
    """Read the rows of a query, which come as Arrow, with their types."""
    table = pa.ipc.open_stream(io.BytesIO(content)).read_all()
    facts = json.loads(table.schema.metadata[FACTS])
    return QueryResult(
        query_name=facts["query_name"],
        branch=facts["branch"],
        snapshot=facts["snapshot"],
        commit=facts["graph_commit_id"],
        found=table.replace_schema_metadata(None),
        types=tuple(_type_of(one.type) for one in table.schema),
    )


def read_stream(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> QueryStream:
    """Read the rows of a query while they arrive."""
    facts = json.loads(schema.metadata[FACTS])
    plain = schema.with_metadata(None)
    return QueryStream(
        query_name=facts["query_name"],
        branch=facts["branch"],
        snapshot=facts["snapshot"],
        commit=facts["graph_commit_id"],
        reader=pa.RecordBatchReader.from_batches(
            plain, (batch.replace_schema_metadata(None) for batch in batches)
        ),
        types=tuple(_type_of(one.type) for one in schema),
    )


class BodyFile(io.RawIOBase):
    """The body of an answer as a file that Arrow reads, while it arrives."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Say that it is read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the body reaches."""
        room, filled = memoryview(buffer).cast("B"), 0
        while filled < len(room):
            if not self._rest:
                self._rest = memoryview(next(self._chunks, b""))
            if not self._rest:
                break
            count = min(len(room) - filled, len(self._rest))
            room[filled : filled + count] = self._rest[:count]
            self._rest, filled = self._rest[count:], filled + count
        return filled


def _type_of(arrow: pa.DataType) -> PropertyType:
    if pa.types.is_timestamp(arrow):
        return PropertyType(scalar=Scalar.DATETIME, nullable=True)
    if pa.types.is_list(arrow) and pa.types.is_timestamp(arrow.value_type):
        return PropertyType(scalar=Scalar.DATETIME, nullable=True, is_list=True)
    return stored_type(arrow)
