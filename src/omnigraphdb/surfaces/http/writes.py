"""Routes that write, by hand: loads, whose rows are a stream, and stored queries."""

from collections.abc import Iterator
from io import BytesIO
from typing import Final

from omnigraphdb.api.stored_queries import StoredQueries, StoredQuery
from omnigraphdb.api.verbs.argument import read_body
from omnigraphdb.api.verbs.write import LOAD, Load
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.ids import LoadMode
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
from omnigraphdb.surfaces.http.verb_routes import (
    answer_verb,
    list_asks,
    make_routes,
    read_query,
)
from omnigraphdb.values import replace

# ---- loads


def load(call: Call) -> Reply:
    """Load JSON lines that stand in a JSON body."""
    lines = BytesIO(_encode(call.body["data"]))
    return _load(call, read_body(Load, {**call.body, "data": lines}, {}))


def load_lines(call: Call) -> Reply:
    """Load JSON lines that are the body."""
    sent = read_query(LOAD, call)
    _check_mode(sent.get("mode"))
    return _load(call, read_body(Load, {**sent, "data": BytesIO(call.body)}, {}))


def ask_load_lines(call: Call) -> Iterator[Ask]:
    """List the rights of a load whose branches stand in the query string."""
    asked = Load(source="", branch=call.text("branch"), from_branch=call.text("from"))
    yield from list_asks(LOAD, call, asked)


def _check_mode(text: str | None) -> None:
    if text is not None and text not in tuple(LoadMode):
        raise UserInputError(
            f"mode '{text}' is not one of {', '.join(LoadMode)}; no changes were made"
        )


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserInputError("'data' is no UTF-8 text; nothing was done") from error


def _load(call: Call, asked: Load) -> Reply:
    try:
        return answer_verb(LOAD, call, asked)
    except NotFound as error:
        if error.what != "branch" or asked.from_branch is not None:
            raise
        raise NotFound("branch", error.name, hint="pass `from` to create it") from error


LOAD_ROUTE: Final = replace(next(make_routes(LOAD)), handler=load, loads=True)


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
