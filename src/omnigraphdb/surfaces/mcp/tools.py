"""The tools: what each is for, what it takes, what answers it, and what it may do to the graph.

The tool of a verb follows from the declaration of the verb; the others are written here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from omnigraphdb.api.rights import CallKind, list_actions
from omnigraphdb.api.verbs.argument import Argument
from omnigraphdb.api.verbs.branch import BRANCH_VERBS
from omnigraphdb.api.verbs.tag import TAG_VERBS
from omnigraphdb.api.verbs.verb import Verb
from omnigraphdb.api.wire.hints import describe_hint
from omnigraphdb.errors import UserInputError, did_you_mean, shorten, suggestion
from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.surfaces.mcp.backend import Request, Right, spell_query
from omnigraphdb.values import dataclass

Schema = Mapping[str, Any]


class Paging(StrEnum):
    """How a long answer is cut."""

    NONE = "none"
    ROWS = "rows"
    """Rows of a query: the first ones, and a cursor."""
    PAGES = "pages"
    """The operation has pages of its own, with `limit` and `page_token`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool."""

    name: str
    description: str
    operation: str
    needs: tuple[Right, ...] = ()
    """What its actor must have the right to; nothing: everyone sees it."""
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    in_path: Mapping[str, str] = field(default_factory=dict)
    """Arguments that are names in the path of the route."""
    in_query: bool = False
    """Whether the other arguments go into the query string, not into a body."""
    destructive: bool = False
    idempotent: bool = False
    paging: Paging = Paging.NONE
    verb: Verb[Any, Any] | None = None
    """The verb that it calls; None: the operation is no verb yet."""
    stored: str | None = None
    """The stored query that it runs."""
    params: frozenset[str] = frozenset()
    """Its arguments that are parameters of the stored query."""

    def name_own(self, name: str) -> str:
        """The name of an argument of every tool, beside a parameter of the stored query with the same name."""
        return f"{name}_" if name in self.params else name

    @property
    def runs_any_query(self) -> bool:
        """Whether a call of it names the stored query."""
        return self.name == STORED_RUN

    @property
    def writes(self) -> bool:
        """Whether it changes the graph."""
        return any(one.writes for one in self.needs)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {name: dict(one) for name, one in self.properties.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }

    def make_request(self, given: Mapping[str, Any], message: str | None) -> Request:
        """The operation that a call asks for."""
        path = {self.in_path[name]: str(given[name]) for name in self.in_path if name in given}
        rest = {name: value for name, value in given.items() if name not in self.in_path}
        if self.stored is not None:
            body = {name.removesuffix("_"): rest[name] for name in rest if name not in self.params}
            body["params"] = {name: rest[name] for name in rest if name in self.params}
            body["expect_mutation"] = self.writes
            path = {"name": self.stored}
            return Request(operation=self.operation, path=path, body=body, message=message)
        if self.in_query:
            query = spell_query(rest)
            return Request(operation=self.operation, path=path, query=query, message=message)
        return Request(operation=self.operation, path=path, body=rest or None, message=message)


# ---- arguments


def check_arguments(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check arguments against the schema of a tool; those that are null count as left out."""
    problems = list(_list_problems(tool, given))
    if problems:
        shown = ", ".join(
            f"{name}{'' if name in tool.required else '?'}: {_word_type(schema)}"
            for name, schema in tool.properties.items()
        )
        raise UserInputError(
            f"{tool.name}: {'; '.join(problems)}; nothing was done",
            hint=f"{tool.name} takes {shown or 'no arguments'}",
        )
    return {name: value for name, value in given.items() if value is not None}


def _list_problems(tool: Tool, given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        schema = tool.properties.get(name)
        if schema is None:
            near = suggestion(did_you_mean(name, tool.properties))
            yield f"there is no argument '{shorten(name)}'{near}"
        elif value is not None and not _fits(value, schema):
            wanted = _word_type(schema)
            yield f"argument '{name}' is {_word_value(value)}, and {wanted} is wanted"
    for name in tool.required:
        if given.get(name) is None:
            yield f"argument '{name}' is missing"


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def _fits(value: Any, schema: Schema) -> bool:
    named = schema.get("type", [])
    types = [named] if isinstance(named, str) else named
    if types and not any(
        isinstance(value, _TYPES[one]) and (one == "boolean" or not isinstance(value, bool))
        for one in types
    ):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, list) and "items" in schema:
        return all(_fits(one, schema["items"]) for one in value)
    least, most = schema.get("minimum"), schema.get("maximum")
    is_number = isinstance(value, int | float)
    return not is_number or ((least is None or value >= least) and (most is None or value <= most))


def _word_type(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    named = schema.get("type", "any")
    text = named if isinstance(named, str) else " or ".join(named)
    if "items" in schema:
        text += f" of {_word_type(schema['items'])}"
    if "minimum" in schema and "maximum" in schema:
        text += f" from {schema['minimum']} to {schema['maximum']}"
    return text


def _word_value(value: Any) -> str:
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    kind = kinds.get(type(value), "an array" if isinstance(value, list) else "an object")
    return f"{kind} ({shorten(str(value))})"


# ---- the built-in tools

_TEXT: Final = {"type": "string"}
ROWS_MAX: Final = 1000
ROWS: Final = 100
"""Rows of an answer, unless the caller asks for another number."""
LIMIT: Final = {
    "type": "integer",
    "minimum": 1,
    "maximum": ROWS_MAX,
    "description": f"Rows of an answer; {ROWS} unless given. A longer result has a cursor.",
}
CURSOR: Final = {
    "type": "string",
    "description": "`next_cursor` of the answer before, with otherwise the same arguments.",
}
BRANCH: Final = {"type": "string", "description": "The branch; main unless given."}
_PARAMS: Final = {
    "type": "object",
    "description": "Values of the query's parameters, by name without $.",
}
_NAME: Final = {"type": "string", "description": "Which query, if the text holds several."}
_MESSAGE: Final = {"type": "string", "description": "Why: the message of the commit."}
_PAGE_TOKEN: Final = {"type": "string", "description": "`next_page_token` of the answer before."}
_PAGE_LIMIT: Final = LIMIT | {"description": "Entries of a page."}
_FILTERS: Final[Mapping[str, Schema]] = {
    "kind": {"type": "array", "items": {"enum": ["node", "edge"]}},
    "type": {"type": "array", "items": _TEXT, "description": "Only these types."},
    "op": {"type": "array", "items": {"enum": ["insert", "update", "delete"]}},
    "limit": _PAGE_LIMIT,
    "page_token": _PAGE_TOKEN,
}


def _needs(verb: CallKind, *, writes: bool = True) -> tuple[Right, ...]:
    return tuple(Right(action=PolicyAction(one), writes=writes) for one in list_actions(verb))


_READ: Final = _needs(CallKind.READ, writes=False)


def make_verb_tool(verb: Verb[Any, Any]) -> Tool:
    """The tool of a verb: its arguments are those that a request sends."""
    declared, sent = verb.tool, verb.list_sent()
    assert declared is not None, f"{verb.endpoint.operation} has no tool"
    extra: dict[str, Schema] = {"message": _MESSAGE} if declared.has_message else {}
    extra |= {} if declared.pages is None else {"limit": LIMIT, "cursor": CURSOR}
    return Tool(
        name=declared.name,
        description=declared.description,
        operation=verb.endpoint.operation,
        needs=_needs(verb.kind, writes=verb.writes),
        properties={argument.wire: _describe_argument(argument) for argument in sent} | extra,
        required=tuple(argument.wire for argument in sent if argument.is_required),
        destructive=declared.destructive,
        idempotent=declared.idempotent,
        verb=verb,
    )


def _describe_argument(argument: Argument) -> Schema:
    default = {} if argument.default is None else {"default": argument.default}
    return {**describe_hint(argument.type), "description": argument.help, **default}


_OF_VERBS: Final = tuple(
    make_verb_tool(verb) for verb in (*BRANCH_VERBS, *TAG_VERBS) if verb.tool is not None
)
BUILT_IN: Final[Sequence[Tool]] = (
    Tool(
        name="health",
        operation="health",
        description="Tell that the server lives, and its version.",
    ),
    Tool(
        name="snapshot",
        operation="snapshot",
        description="List the tables of a branch with their row counts and versions.",
        needs=_READ,
        properties={"branch": BRANCH, "at": _TEXT | {"description": "A commit of the branch."}},
        in_query=True,
    ),
    Tool(
        name="query",
        operation="query",
        description="Run a read: `query name($p: String) { match { $a: Type  $a.key = $p } return { $a.prop } limit 10 }`. "
        "Read the schema first (schema_get). Rows come in bounded pages.",
        needs=_READ,
        properties={
            "query": _TEXT | {"description": "The text of the query."},
            "name": _NAME,
            "params": _PARAMS,
            "branch": BRANCH,
            "snapshot": _TEXT | {"description": "A commit to read instead of a branch."},
            "limit": LIMIT,
            "cursor": CURSOR,
        },
        required=("query",),
        paging=Paging.ROWS,
    ),
    Tool(
        name="schema_get",
        operation="getSchema",
        description="Show the schema: node and edge types, their properties, keys and constraints.",
        needs=_READ,
    ),
    *(tool for tool in _OF_VERBS if not tool.writes),
    Tool(
        name="graphs_list",
        operation="listGraphs",
        description="List the graphs of the server.",
        needs=_needs(CallKind.LIST_GRAPHS, writes=False),
    ),
    Tool(
        name="commits_list",
        operation="listCommits",
        description="List commits of a branch, newest first: who, when, what kind, which message.",
        needs=_READ,
        properties={
            "branch": BRANCH,
            "limit": _PAGE_LIMIT,
            "page_token": _PAGE_TOKEN,
            "actor": _TEXT | {"description": "Only commits of this actor."},
            "since": _TEXT | {"description": "Only commits after this commit or moment."},
            "until": _TEXT | {"description": "Only commits up to this moment."},
        },
        in_query=True,
        paging=Paging.PAGES,
    ),
    Tool(
        name="commits_get",
        operation="getCommit",
        description="Show one commit.",
        needs=_READ,
        properties={"commit": _TEXT | {"description": "Its id, a unique prefix, or a tag."}},
        required=("commit",),
        in_path={"commit": "commit"},
        in_query=True,
    ),
    Tool(
        name="commits_changes",
        operation="listCommitChanges",
        description="Show what a commit inserted, updated and deleted, with the values before and after.",
        needs=_READ,
        properties={"commit": _TEXT, **_FILTERS},
        required=("commit",),
        in_path={"commit": "commit"},
        in_query=True,
        paging=Paging.PAGES,
    ),
    Tool(
        name="changes_poll",
        operation="pollChanges",
        description="Read the change feed of a branch, oldest commit first; the answer's `cursor` goes on from there.",
        needs=_READ,
        properties={
            "branch": BRANCH,
            "cursor": _TEXT | {"description": "`cursor` of an earlier poll."},
            "start": _TEXT | {"description": "`now`, `beginning` or `after:COMMIT`."},
            **_FILTERS,
        },
        in_query=True,
        paging=Paging.PAGES,
    ),
    Tool(
        name="mutate",
        operation="mutate",
        description="Insert, update or delete in one commit, or not at all: "
        "`query name($n: String) { insert Type { key: $n } }`, `update Type set { prop: 1 } where key = $n`, "
        "`delete Type where key = $n`.",
        needs=_needs(CallKind.MUTATE),
        properties={
            "query": _TEXT | {"description": "The text of the mutation."},
            "name": _NAME,
            "params": _PARAMS,
            "branch": BRANCH,
            "message": _MESSAGE,
        },
        required=("query",),
        destructive=True,
    ),
    Tool(
        name="load",
        operation="load",
        description='Load many entities in one commit. `data` holds one JSON object per line: {"type": "Person", "data": '
        '{"name": "Ada"}} or {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {}}.',
        needs=_needs(CallKind.LOAD),
        properties={
            "data": _TEXT | {"description": "JSON lines."},
            "branch": BRANCH,
            "from": _TEXT | {"description": "Create a missing branch from this one."},
            "mode": {
                "enum": ["append", "merge", "overwrite"],
                "description": "append: new ids only; merge (default): insert or update; overwrite: replace whole types.",
            },
            "message": _MESSAGE,
        },
        required=("data",),
        destructive=True,
    ),
    *(tool for tool in _OF_VERBS if tool.writes),
)
PROPOSE: Final = Tool(
    name="propose",
    operation="diff",
    description="Show what your branch would change on main, and whether it merges; a person reviews and merges it.",
    needs=_READ,
    properties={"limit": LIMIT},
)
"""The end of a session that writes to a branch of its own."""
OF_SESSION: Final = frozenset(
    {"branches_create", "branches_delete", "branches_merge", "tags_create", "tags_delete"}
)
"""Tools that a session with a branch of its own does not have: its work is proposed, not merged."""


# ---- stored queries

_KINDS: Final[Mapping[str, Schema]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": ["integer", "string"]},
    "float": {"type": ["number", "string"]},
    "date": {"type": "string", "description": "A date, as in 2026-01-31."},
    "datetime": {"type": "string", "description": "A moment, as in 2026-01-31T10:00:00Z."},
    "blob": {"type": "string", "description": "base64:… or an address."},
}


def make_stored_tool(entry: Mapping[str, Any]) -> Tool:
    """The tool of a stored query: its parameters are its arguments."""
    params = {one["name"]: one for one in entry["params"]}
    extra: dict[str, Schema] = {"branch": BRANCH}
    extra |= {"message": _MESSAGE} if entry["mutation"] else {"limit": LIMIT, "cursor": CURSOR}
    name = str(entry["tool_name"])
    is_taken = name in {STORED_RUN, *(one.name for one in (*BUILT_IN, PROPOSE, STORED_LIST))}
    described = [entry.get("description") or f"Run the stored query {entry['name']}."]
    described += [entry["instruction"]] if entry.get("instruction") else []
    inner = CallKind.MUTATE if entry["mutation"] else CallKind.READ
    return Tool(
        name=f"stored_{name}" if is_taken else name,
        operation="invokeQuery",
        description=" ".join(described),
        needs=(
            Right(action=PolicyAction.INVOKE_QUERY, query=str(entry["name"])),
            *_needs(inner, writes=bool(entry["mutation"])),
        ),
        properties={one: _describe_param(param) for one, param in params.items()}
        | {(f"{one}_" if one in params else one): schema for one, schema in extra.items()},
        required=tuple(one for one, param in params.items() if not param["nullable"]),
        destructive=bool(entry["mutation"]),
        paging=Paging.NONE if entry["mutation"] else Paging.ROWS,
        stored=str(entry["name"]),
        params=frozenset(params),
    )


class QueryTools(StrEnum):
    """How stored queries are offered."""

    EACH = "each"
    """One tool per query, with its parameters as arguments."""
    PAIR = "pair"
    """Two tools for all of them, since many tools fill the memory of a model before it asks anything."""


STORED_LIST: Final = Tool(
    name="stored_query_list",
    operation="listQueries",
    description="List the stored queries that you may run: what each is for, and its parameters.",
    needs=(Right(action=PolicyAction.INVOKE_QUERY),),
    properties={"limit": LIMIT, "cursor": CURSOR},
)
STORED_RUN: Final = "stored_query_run"


def make_run_tool(entries: Sequence[Mapping[str, Any]]) -> Tool:
    """The tool that runs one of these stored queries; it can destroy if one of them writes."""
    writes = any(entry["mutation"] for entry in entries)
    why: Mapping[str, Schema] = {"message": _MESSAGE} if writes else {}
    return Tool(
        name=STORED_RUN,
        operation="invokeQuery",
        description="Run a stored query by its name; stored_query_list shows the names and parameters.",
        needs=(Right(action=PolicyAction.INVOKE_QUERY, writes=writes),),
        properties={
            "name": _TEXT | {"description": "The name of the stored query."},
            "params": _PARAMS,
            "branch": BRANCH,
            "limit": LIMIT,
            "cursor": CURSOR,
            **why,
        },
        required=("name",),
        destructive=writes,
    )


def narrow_call(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the tool of one stored query, from those of the tool that runs any."""
    params = dict(given.get("params") or {})
    rest = {name: given[name] for name in given if name not in ("name", "params")}
    return params | {tool.name_own(one): rest[one] for one in rest}


def _describe_record(fields: Sequence[Mapping[str, Any]]) -> Schema:
    return {
        "type": "object",
        "properties": {one["name"]: _describe_param(one) for one in fields},
        "required": [one["name"] for one in fields if not one["nullable"]],
        "additionalProperties": False,
    }


def _describe_param(param: Mapping[str, Any]) -> Schema:
    if param["kind"] == "vector":
        size = param.get("vector_dim")
        bounds = {} if size is None else {"minItems": size, "maxItems": size}
        return {"type": "array", "items": {"type": "number"}} | bounds
    if param.get("fields"):
        return {"type": "array", "items": _describe_record(param["fields"])}
    if param["kind"] == "list":
        return {"type": "array", "items": dict(_KINDS[param.get("item_kind", "string")])}
    return _KINDS[param["kind"]]
