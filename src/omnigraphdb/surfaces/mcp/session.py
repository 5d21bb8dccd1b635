"""One agent at work: which tools it has, on which branch it writes, and what each call answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any, Final

from omnigraphdb.api.verbs.argument import read_body
from omnigraphdb.api.verbs.branch import (
    CREATE_BRANCH,
    LIST_BRANCHES,
    PREVIEW_MERGE,
    BranchCreate,
    BranchesList,
    BranchMerge,
)
from omnigraphdb.api.verbs.verb import Verb
from omnigraphdb.cancellation import Cancellation
from omnigraphdb.errors import (
    BranchExists,
    NotFound,
    NotFoundError,
    OmniError,
    PolicyDenied,
    ReadCancelled,
    UserInputError,
)
from omnigraphdb.ids import MAIN
from omnigraphdb.logs import get_logger
from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.surfaces.mcp.advice import describe_failure, list_examples
from omnigraphdb.surfaces.mcp.backend import Backend, Request, Right
from omnigraphdb.surfaces.mcp.paging import page_rows, read_cursor, require_bytes
from omnigraphdb.surfaces.mcp.tools import (
    BUILT_IN,
    OF_SESSION,
    PROPOSE,
    ROWS,
    STORED_LIST,
    Paging,
    QueryTools,
    Tool,
    check_arguments,
    make_run_tool,
    make_stored_tool,
    narrow_call,
)
from omnigraphdb.values import dataclass

_log = get_logger(__name__)
_PAGE: Final = 50
"""Entries of a page that the caller did not bound."""
_MESSAGE_CHARS: Final = 400
_PART_CHARS: Final = 80
_PLAIN: Final = frozenset(f"{ascii_letters}{digits}_-".encode())
RESOURCES: Final[Mapping[str, str]] = {
    "omnigraph://schema": "The schema: node and edge types, their properties, keys and constraints.",
    "omnigraph://branches": "The branches.",
    "omnigraph://examples": "Calls of tools that fit the schema.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call answers."""

    body: dict[str, Any]
    is_error: bool = False


class Session:
    """The tools of one agent; with `own_branch` it writes to a branch that is made for it, and to no other."""

    def __init__(
        self,
        backend: Backend,
        id: str,
        *,
        read_only: bool = False,
        own_branch: bool = False,
        query_tools: QueryTools = QueryTools.EACH,
        limit: Cancellation | None = None,
    ) -> None:
        self._backend = backend
        self.id = id
        self._read_only = read_only
        self._query_tools = query_tools
        self.limit = limit or Cancellation()
        """Stops the reads of the session."""
        self.branch = _name_branch(backend.actor, id) if own_branch else None
        """The branch of its own."""
        self._is_made = False

    # ---- tools

    def list_tools(self) -> list[Tool]:
        """The tools that the actor may use on some branch."""
        return [one for one in self._list_all() if self._may(one)]

    def find_tool(self, name: str) -> Tool | None:
        """Find a tool; one that the actor may not use is not there."""
        found = next((one for one in self._list_all() if one.name == name), None)
        return found if found is not None and self._may(found) else None

    def _list_all(self) -> Iterator[Tool]:
        for tool in BUILT_IN:
            if self.branch is None or tool.name not in OF_SESSION:
                yield tool
        if self.branch is not None:
            yield PROPOSE
        match self._query_tools:
            case QueryTools.EACH:
                yield from (make_stored_tool(one) for one in self._list_exposed())
            case QueryTools.PAIR:
                entries = self._list_allowed()
                if entries:
                    yield STORED_LIST
                    yield make_run_tool(entries)

    def _list_exposed(self) -> Iterator[Mapping[str, Any]]:
        return (entry for entry in self._backend.list_queries() if entry["exposed"])

    def _list_allowed(self) -> list[Mapping[str, Any]]:
        """The stored queries that the actor may run; others do not exist for it."""
        return [one for one in self._list_exposed() if self._may(make_stored_tool(one))]

    def _may(self, tool: Tool) -> bool:
        if self._read_only and tool.writes:
            return False
        return tool.name == PROPOSE.name or self._backend.may(tool.name, tool.needs)

    # ---- calls

    def writes(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Whether a call changes the graph: the tool that runs any stored query writes if that query does."""
        if not tool.writes or not tool.runs_any_query:
            return tool.writes
        named = arguments.get("name")
        return any(one["mutation"] for one in self._list_exposed() if one["name"] == named)

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Outcome:
        """Answer a call; what fails is told so that the next call can be right."""
        given = dict(arguments)
        try:
            given = check_arguments(tool, arguments)
            if tool.runs_any_query:
                tool, given = self._choose_query(given)
            return Outcome(body=self._answer(tool, given))
        except OmniError as error:
            if isinstance(error, ReadCancelled):
                _log.info("mcp.cancelled", tool=tool.name, session=self.id)
            return Outcome(body=self._describe_failure(error, tool, given), is_error=True)

    def _choose_query(self, given: Mapping[str, Any]) -> tuple[Tool, dict[str, Any]]:
        """The tool of the stored query that a call names, and its arguments."""
        entries = {one["name"]: one for one in self._list_allowed()}
        entry = entries.get(given["name"])
        if entry is None:
            raise NotFound(
                "stored query",
                str(given["name"]),
                known=sorted(entries),
                hint="stored_query_list shows the names and parameters of those that you may run",
            )
        tool = make_stored_tool(entry)
        return tool, check_arguments(tool, narrow_call(tool, given))

    def _answer(self, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
        message = self._word_message(tool, given.pop("message", None))
        if tool.name == PROPOSE.name:
            return self._propose(given)
        given = self._choose_branch(tool, given)
        if tool.verb is not None:
            return self._run_verb(tool, tool.verb, given, message)
        match tool.paging:
            case Paging.ROWS:
                return self._page_query(tool, given)
            case Paging.PAGES:
                return self._page(tool, given)
            case Paging.NONE if tool.name == STORED_LIST.name:
                place = read_cursor(tool.name, {}, given.get("cursor"))
                answer = {"queries": [_describe_query(one) for one in self._list_allowed()]}
                return page_rows(answer, "queries", place, given.get("limit"), None)
            case Paging.NONE:
                answer = self._backend.run(tool.make_request(given, message))
                require_bytes(answer, "ask for less")
                return answer

    def _word_message(self, tool: Tool, given: str | None) -> str | None:
        """The message of the commit: it names the session, then says why."""
        if not tool.writes:
            return None
        return f"agent session {self.id}: {given or tool.name}"[:_MESSAGE_CHARS]

    def _describe_failure(
        self, error: OmniError, tool: Tool, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            schema = self._read_schema()
        except OmniError:
            schema = None
        body = describe_failure(error, tool.name, given, schema)
        if isinstance(error, PolicyDenied) and tool.writes and "hint" not in body:
            body["hint"] = self._advise_denied(given)
        return body

    def _advise_denied(self, given: Mapping[str, Any]) -> str:
        create = (Right(action=PolicyAction.BRANCH_CREATE, writes=True),)
        if self.branch is None and self._backend.may("branches_create", create):
            name = _name_branch(self._backend.actor, self.id)
            return (
                f"you may not write to '{given.get('branch') or MAIN}': call branches_create with name '{name}', then "
                f"repeat the call with branch '{name}'"
            )
        return "ask a person who may, or work on another branch"

    # ---- the branch of a session

    def _choose_branch(self, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
        """Put the branch of the session where the call names none; refuse to write elsewhere."""
        key = tool.name_own("branch")
        if self.branch is None or key not in tool.properties:
            return given
        named = given.get(key)
        if tool.writes:
            if named not in (None, self.branch):
                raise UserInputError(
                    f"this session writes to its own branch, '{self.branch}', not to '{named}'; nothing was done",
                    hint="leave branch out; call propose when you are done, and a person merges it",
                )
            self._make_branch()
        elif named is not None or "snapshot" in given or not self._is_made:
            return given
        return {**given, key: self.branch}

    def _make_branch(self) -> None:
        """Create the branch of the session before its first write."""
        if self._is_made or self.branch is None:
            return
        # Calls of one session may come at the same time, and a session may go on in another process.
        with suppress(BranchExists):
            self._backend.run_verb(CREATE_BRANCH, BranchCreate(name=self.branch))
        self._is_made = True

    def _propose(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the branch of the session changes, and whether it merges."""
        if self.branch is None or not self._is_made:
            raise NotFoundError(
                "nothing was written in this session yet, so that there is nothing to propose",
                hint="write with mutate or load first",
            )
        limit = [str(given.get("limit") or _PAGE)]
        ends: dict[str, list[str]] = {"from": [MAIN], "to": [self.branch], "limit": limit}
        merge = BranchMerge(source=self.branch, dry_run=True)
        answer = {
            "branch": self.branch,
            "diff": self._backend.run(Request(operation="diff", query=ends)),
            "merge": self._backend.run_verb(PREVIEW_MERGE, merge),
            "next": f"A person looks at it and merges it: omnigraphdb branch merge {self.branch}",
        }
        require_bytes(answer, "propose with a smaller limit")
        return answer

    # ---- verbs

    def _run_verb(
        self, tool: Tool, verb: Verb[Any, Any], given: dict[str, Any], message: str | None
    ) -> dict[str, Any]:
        """Run a verb; the list of its answer that may be long comes in pages."""
        declared = verb.tool
        assert declared is not None, f"{tool.name} is no tool of its verb"
        limit, cursor = given.pop("limit", None), given.pop("cursor", None)
        place = read_cursor(tool.name, given, cursor)
        asked = read_body(verb.arguments, given, verb.endpoint.fixed)
        answer = self._backend.run_verb(verb, asked, message)
        if declared.pages is None:
            require_bytes(answer, "ask for less")
            return answer
        page = page_rows(answer, declared.pages, place, limit, None)
        if declared.facts is None:
            return page
        names = set(page[declared.pages])
        facts = [entry for entry in answer[declared.facts] if entry["name"] in names]
        return {**page, declared.facts: facts}

    # ---- pages

    def _page_query(self, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
        key, rows, cursor = map(tool.name_own, ("branch", "limit", "cursor"))
        asked = {name: value for name, value in given.items() if name not in (rows, cursor)}
        place = read_cursor(tool.name, asked, given.get(cursor))
        is_main = asked.get(key) in (None, MAIN) and "snapshot" not in asked
        if place.commit is not None and is_main:
            # The other pages of a result show the state of the first.
            asked.pop(key, None)
            asked["snapshot"] = place.commit
        answer = self._backend.run(tool.make_request(asked, None))
        commit = answer.get("graph_commit_id")
        if place.commit is not None and commit != place.commit:
            raise UserInputError(
                "the branch has changed since the first page; nothing was read",
                hint="begin anew: repeat the call without cursor",
            )
        return page_rows(answer, "rows", place, given.get(rows), commit)

    def _page(self, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
        """A page of an operation that has pages: a smaller one where it would be too large."""
        limit = int(given.get("limit") or _PAGE)
        while True:
            answer = self._backend.run(tool.make_request({**given, "limit": limit}, None))
            try:
                require_bytes(answer, "one entry alone is too large: filter by kind, type or op")
            except OmniError:
                if limit == 1:
                    raise
                limit = max(1, limit // 4)
            else:
                return answer

    # ---- resources

    def read_resource(self, uri: str) -> str | None:
        """The text of a resource; None for one that is not there, or that the actor may not read."""
        if uri not in RESOURCES or not self._backend.may("schema_get", BUILT_IN[1].needs):
            return None
        match uri.removeprefix("omnigraph://"):
            case "schema":
                return self._read_schema()
            case "branches":
                listed = self._backend.run_verb(LIST_BRANCHES, BranchesList(compare=True))
                return "\n".join(listed["branches"][:ROWS])
            case _:
                return _spell_examples(list(list_examples(self._read_schema())))

    def _read_schema(self) -> str:
        return str(self._backend.run(Request(operation="getSchema"))["schema_source"])


def _describe_query(entry: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("name", "description", "instruction", "mutation", "params")
    return {name: entry[name] for name in shown if entry.get(name) is not None}


def _spell_examples(examples: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in examples)


def _name_branch(actor: str | None, id: str) -> str:
    """Name the branch of a session, `agent/ACTOR/SESSION`: two sessions never share one."""
    return f"agent/{_spell_part(actor or 'agent')}/{_spell_part(id)}"


def _spell_part(text: str) -> str:
    """Spell a text in characters that a branch may have: each other byte as `.` and its digits, much of that as a digest."""
    raw = text.encode("utf-8", "surrogatepass")
    spelled = "".join(chr(byte) if byte in _PLAIN else f".{byte:02x}" for byte in raw)
    if text and (spelled == text or len(spelled) <= _PART_CHARS):
        return spelled
    # No byte has these letters for digits, so that no other text is spelled so.
    return f".digest-{sha256(raw).hexdigest()[:32]}"
