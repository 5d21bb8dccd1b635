"""Routes that write: mutations, loads, branches, merges, schemas."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from omnigraphdb.api.stored_queries import StoredQueries, StoredQuery
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.ids import MAIN, LoadMode
from omnigraphdb.policy import PolicyAction, ResourceScope
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.gate import Ask, unknown_query
from omnigraphdb.surfaces.http.reads import (
    read_target,
    reply_rows,
    stream_arrow,
    wants_arrow,
)
from omnigraphdb.surfaces.http.replies import Reply, Stream, reply_json, reply_write


def mutate(call: Call) -> Reply:
    """Run a mutation in one commit; on the conditional route only if the head is the commit of the header."""
    body = call.body
    done = call.place.graph.mutate(
        _pick(body, "query", "query_source", required=True),
        _pick(body, "name", "query_name"),
        body.get("params"),
        branch=body.get("branch"),
        actor=call.actor,
        if_commit=call.if_commit,
        dry_run=bool(body.get("dry_run")),
        message=call.message,
        idempotency_key=call.key,
    )
    return reply_write(done.to_dict())


def _pick(body: dict[str, Any], name: str, former: str, *, required: bool = False) -> Any:
    """A field under its name or its former name."""
    given = [body[one] for one in (name, former) if body.get(one) is not None]
    if len(given) > 1:
        raise UserInputError(f"'{name}' and '{former}' are the same field; nothing was done")
    if required and not given:
        raise UserInputError(f"field '{name}' is missing; nothing was done")
    return given[0] if given else None


def _name_branch(body: Mapping[str, Any], field: str) -> str:
    """The branch that a field names, main without it; an empty name is refused where it is used."""
    return MAIN if body.get(field) is None else str(body[field])


# ---- loads


def load(call: Call) -> Reply:
    """Load JSON lines that stand in a JSON body."""
    return _load(call, _encode(call.body["data"]), call.body)


def ingest(call: Call) -> Reply:
    """Load JSON lines; a missing branch is made from main."""
    return _load(
        call, _encode(call.body["data"]), {**call.body, "from": _name_branch(call.body, "from")}
    )


def load_lines(call: Call) -> Reply:
    """Load JSON lines that are the body."""
    asked = {name: call.text(name) for name in ("branch", "from", "mode")}
    more = {"create_missing": call.texts("create_missing"), "dry_run": call.flag("dry_run")}
    return _load(call, call.body, asked | more)


def _read_mode(text: str | None) -> LoadMode:
    """The mode that a request names; merge when it names none."""
    if text is not None and text not in tuple(LoadMode):
        raise UserInputError(
            f"mode '{text}' is not one of {', '.join(LoadMode)}; no changes were made"
        )
    return LoadMode.MERGE if text is None else LoadMode(text)


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserInputError("'data' is no UTF-8 text; nothing was done") from error


def _load(call: Call, data: bytes, asked: Mapping[str, Any]) -> Reply:
    base = asked.get("from")
    try:
        done = call.place.graph.load(
            BytesIO(data),
            mode=_read_mode(asked.get("mode")),
            branch=asked.get("branch"),
            from_branch=base,
            actor=call.actor,
            create_missing=asked.get("create_missing") or (),
            dry_run=bool(asked.get("dry_run")),
            spark=False,
            message=call.message,
            idempotency_key=call.key,
        )
    except NotFound as error:
        if error.what != "branch" or base is not None:
            raise
        raise NotFound("branch", error.name, hint="pass `from` to create it") from error
    return reply_write(call.name_graph(done.to_dict()))


# ---- stored queries


def list_queries(call: Call) -> Reply:
    """List the stored queries that the actor may run."""
    stored = call.place.queries or ()
    return reply_json({"queries": [one.to_dict() for one in stored if _may_run(call, one)]})


def _may_run(call: Call, stored: StoredQuery) -> bool:
    """Whether the actor may run a stored query, and on some branch do what it does."""
    gate, guard = call.served.gate, call.place.graph.guard
    invoke = Ask(PolicyAction.INVOKE_QUERY, ResourceScope.query(stored.name))
    effect = PolicyAction.CHANGE if stored.mutation else PolicyAction.READ
    return gate.allows(invoke, call.actor, guard) and gate.may_somewhere(
        effect, call.actor, guard, writes=stored.mutation
    )


def invoke_query(call: Call) -> Reply | Stream:
    """Run a stored query by its name."""
    stored, name, body = call.place.queries, call.path["name"], call.body
    if stored is None or name not in stored.by_name:
        raise unknown_query()
    found = stored[name]
    _require_kind(found.name, found.mutation, body.get("expect_mutation"))
    if not found.mutation:
        if call.if_commit is not None:
            raise UserInputError(f"stored query '{name}' is a read, it has no condition")
        return _run_stored_read(call, stored, found)
    if body.get("snapshot") is not None:
        raise UserInputError(f"stored query '{name}' is a mutation, it writes to no snapshot")
    done = stored.mutate(
        name,
        body.get("params"),
        branch=body.get("branch"),
        actor=call.actor,
        if_commit=call.if_commit,
        message=call.message,
        idempotency_key=call.key,
    )
    return reply_write(done.to_dict())


def _run_stored_read(call: Call, stored: StoredQueries, found: StoredQuery) -> Reply | Stream:
    body = call.body
    arguments = read_target(call.place.graph, body)
    if wants_arrow(call):
        graph = call.place.graph
        return stream_arrow(graph.stream(found.text, found.name, body.get("params"), **arguments))
    return reply_rows(call, stored.query(found.name, body.get("params"), **arguments))


def _require_kind(name: str, mutation: bool, expected: bool | None) -> None:
    if expected is None or expected == mutation:
        return
    kind, verb = ("mutation", "mutate") if mutation else ("read", "query")
    raise UserInputError(
        f"stored query '{name}' is a {kind}; nothing was run",
        hint=f"run it with `omnigraphdb {verb}`",
    )
