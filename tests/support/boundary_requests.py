"""Random requests to every route and tool of a server of the graph with secrets.

What a request holds is taken from the names of its fields, so that a new route is called without a change here. Most requests are
plausible: their fields fit each other and the branch that they are about. The others are drawn field by field.
"""

import json
import random
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from omnigraphdb.ids import MAIN
from omnigraphdb.surfaces.http.replies import ARROW, JSON
from omnigraphdb.surfaces.http.routing import BodyKind, Route
from omnigraphdb.surfaces.mcp.tools import Tool
from tests.support.boundary import (
    ACTORS,
    SCHEMA,
    STORED_NAMES,
    TAGS,
    TAKEN,
    SentRequest,
    World,
)

READS: Final = (
    "query q() { match { $p: Person } return { $p.name, $p.mail } }",
    "query q() { match { $p: Person  $p knows $f } return { $p.name, $f.name } }",
)
SCHEMAS: Final = (
    SCHEMA + "\nnode Port { code: String @key }",
    SCHEMA + "\nnode Port { code: String @key }\nnode Quay { code: String @key }",
    SCHEMA.replace("age: I32?", "age: I32? @unique"),
    SCHEMA.replace("mail: String? @unique", "mail: String @unique"),
    SCHEMA.replace("mail: String? @unique", "mail: I32? @unique"),
    SCHEMA.replace("mail: String?", "mail: enum(a, b)?"),
    SCHEMA.replace("note: String?", "note: String? @unique").replace("since: I32?", "since: I32"),
    SCHEMA.replace("name: String @key  mail: String? @unique", "name: String  mail: String @key"),
)
"""Schemas, some of which the rows forbid."""
EXCLUSIVE: Final = (
    ("branch", "snapshot"),
    ("cursor", "start"),
    ("cursor", "page_token"),
    ("query", "query_source"),
    ("name", "query_name"),
)
"""Fields of which a plausible request has one at most."""
FLAGS: Final = frozenset({"dry_run", "undirected", "counts"})
"""Fields of a query string that are true or false."""
BLOB_OPERATIONS: Final = frozenset({"getBlob", "headBlob"})
MADE: Final = "new-"
"""How the name of a branch begins that a request made."""


@dataclass(frozen=True)
class Field:
    """A field of a request."""

    type: str
    """Its type as it is spelled."""
    is_required: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Purpose:
    """The operation that a request is for, and the branch that it is about."""

    operation: str
    writes: bool
    branch: str
    is_plausible: bool
    stored: str | None = None
    """The stored query that it runs."""


@dataclass(frozen=True)
class Draws:
    """Draws what requests hold."""

    chance: random.Random
    world: World

    # ---- values

    def draw_branch(self) -> str:
        name = self.chance.choice(self.world.list_branches())
        return name[:-1] if self.chance.random() < 0.05 else name

    def draw_state(self) -> str:
        is_branch = self.chance.random() < 0.5
        return self.draw_branch() if is_branch else self.chance.choice(self.world.states)

    def draw_commit(self, purpose: Purpose) -> str:
        head = self.world.heads.get(purpose.branch)
        if head is not None and (purpose.is_plausible or self.chance.random() < 0.5):
            return head
        return self.chance.choice(self.world.states)

    def draw_id(self, purpose: Purpose, type_name: str = "Person") -> str:
        secrets = self.world.secrets.get(purpose.branch)
        if secrets is None or not purpose.is_plausible:
            return self.chance.choice(("Zoe", "Yan", "row", *self.world.ids))
        return (
            f"row {secrets.stored}" if type_name == "Person" else self.world.edges[purpose.branch]
        )

    def draw_query(self, purpose: Purpose) -> str:
        number = self.chance.randint(1, 999)
        writes = (
            *(f'query q() {{ insert Person {{ name: "Zoe{number}" }} }}',) * 3,
            f'query q() {{ insert Person {{ name: "Yan", mail: "{TAKEN}" }} }}',
            "query q() { update Person set { age: 2 } where age = 1 returning { name } }",
            "query q() { update Person set { age: 1 } where age = 2 }",
            'query q() { insert Knows { from: "Zoe", to: "nobody" } }',
            f'query q() {{ delete Person where name = "Zoe{number}" }}',
            f'query q() {{ update Person set {{ mail: "{TAKEN}" }} where age = 1 }}',
        )
        if not purpose.is_plausible:
            return self.chance.choice((*READS, *writes, "query q() {"))
        return self.chance.choice(writes if purpose.writes else READS)

    def draw_lines(self) -> str:
        number = self.chance.randint(1, 999)
        good = f'{{"type": "Person", "data": {{"name": "Cal{number}"}}}}\n'
        return self.chance.choice(
            (
                good,
                good,
                good,
                json.dumps({"type": "Person", "data": {"name": "Dov", "mail": TAKEN}}),
                '{"edge": "Knows", "from": "Cal", "to": "Nobody"}\n',
                good * 2,
                "no json",
            )
        )

    def draw_name(self, purpose: Purpose) -> str:
        """Draw the name of a query, or of a branch or a tag that is made or deleted."""
        match purpose.operation:
            case "createTag" | "deleteTag":
                return self.chance.choice(TAGS)
            case "getBranch":
                return purpose.branch
            case "createBranch":
                return f"{MADE}{self.chance.randint(1, 99_999)}"
            case "deleteBranch":
                made = [name for name in self.world.list_branches() if name.startswith(MADE)]
                return self.chance.choice(made) if made and purpose.is_plausible else purpose.branch
        return "q"

    def draw_field(self, name: str, kind: Field, purpose: Purpose, values: dict[str, Any]) -> Any:
        """Draw a value of a field, after `values` of others."""
        chance = self.chance
        if kind.choices:
            choice = chance.choice(kind.choices)
            return [choice] if _is_list(kind) else choice
        if name == "expect_mutation" and purpose.is_plausible:
            return purpose.writes
        if "bool" in kind.type or name in FLAGS:
            return chance.random() < 0.5
        if "int" in kind.type:
            return chance.randint(1, 9)
        if name == "params" or "dict" in kind.type or "object" in kind.type:
            has_name = purpose.stored == "grow" or not purpose.is_plausible
            return {"n": f"Ida{chance.randint(1, 999)}"} if has_name else {}
        if _is_list(kind):
            return [chance.choice(("Person", "Knows"))]
        draws = self._list_draws(purpose, values.get("type", "Person"))
        return draws.get(name, self.draw_state)()

    def _list_draws(self, purpose: Purpose, type_name: str) -> dict[str, Callable[[], str]]:
        """List by the name of a field how its text is drawn."""
        chance, world = self.chance, self.world
        is_path = purpose.operation == "listPaths"
        return {
            "branch": lambda: purpose.branch,
            "source": lambda: purpose.branch,
            "target": self.draw_branch,
            "merged_into": self.draw_branch,
            "from": lambda: self.draw_id(purpose) if is_path else self._draw_source(purpose),
            "to": lambda: self.draw_id(purpose) if is_path else self.draw_state(),
            "at": lambda: self.draw_commit(purpose),
            "snapshot": lambda: self.draw_commit(purpose),
            "before": lambda: self.draw_commit(purpose),
            "since": lambda: chance.choice(("2020-01-01T00:00:00Z", self.draw_commit(purpose))),
            "until": lambda: "2099-01-01T00:00:00Z",
            "actor": lambda: chance.choice(ACTORS),
            "query": lambda: self.draw_query(purpose),
            "query_source": lambda: self.draw_query(purpose),
            "query_name": lambda: "q",
            "text": lambda: self.draw_query(purpose),
            "data": self.draw_lines,
            "schema_source": lambda: chance.choice(SCHEMAS),
            "entity": lambda: chance.choice(("node", "node", "node", "edge")),
            "kind": lambda: chance.choice(("node", "edge")),
            "type": lambda: chance.choice(
                ("Person", "Person", "Person", "Knows", *(() if purpose.is_plausible else ("No",)))
            ),
            "to_type": lambda: "Person",
            "edge": lambda: "Knows",
            "by": lambda: "since",
            "direction": lambda: chance.choice(("out", "in", "both")),
            "column": lambda: "id",
            "property": lambda: (
                "photo"
                if purpose.operation in BLOB_OPERATIONS and purpose.is_plausible
                else chance.choice(("photo", "name", "age"))
            ),
            "start": lambda: chance.choice(
                ("now", "beginning", "beginning", f"after:{chance.choice(world.states)}")
            ),
            "cursor": lambda: chance.choice(world.tokens or ["none"]),
            "page_token": lambda: chance.choice(world.tokens or ["none"]),
            "id": lambda: self.draw_id(purpose, type_name),
            "n": lambda: f"Ida{chance.randint(1, 999)}",
            "mode": lambda: chance.choice(("append", "merge", "merge", "overwrite")),
            "name": lambda: self.draw_name(purpose),
            "commit": lambda: chance.choice(world.states),
            "message": lambda: "because",
            "op": lambda: chance.choice(("insert", "update", "delete")),
            "operation": lambda: chance.choice(("insert", "update", "delete")),
        }

    def _draw_source(self, purpose: Purpose) -> str:
        """Draw the branch that a fork begins at, or a side of a comparison."""
        return self.draw_branch() if purpose.writes else self.draw_state()

    # ---- requests

    def make_purpose(self, operation: str, *, writes: bool, stored: str | None = None) -> Purpose:
        """Draw the branch of a request, and whether it is plausible."""
        is_plausible = self.chance.random() < 0.75
        return Purpose(operation, writes, self.draw_branch(), is_plausible, stored)

    def draw_fields(self, fields: Mapping[str, Field], purpose: Purpose) -> dict[str, Any]:
        """Draw values of the required fields and of some others."""
        names = {name for name, kind in fields.items() if kind.is_required}
        names |= {name for name in fields if self.chance.random() < 0.2}
        if purpose.is_plausible:
            names = self._choose_names(fields, names, purpose)
        values: dict[str, Any] = {}
        for name, kind in fields.items():
            if name in names:
                values[name] = self.draw_field(name, kind, purpose, values)
        return values

    def _choose_names(
        self, fields: Mapping[str, Field], names: Set[str], purpose: Purpose
    ) -> set[str]:
        """Leave out what excludes other fields, and name the branch."""
        chosen = set(names)
        if "query" in fields:
            chosen.add("query")
        if "branch" in fields and (purpose.writes or "snapshot" not in chosen):
            chosen.add("branch")
        if purpose.stored == "grow" and "params" in fields:
            chosen.add("params")
        if self.chance.random() < 0.7:
            chosen -= {"page_token", "cursor"}
        for first, second in EXCLUSIVE:
            if {first, second} <= chosen:
                chosen.discard(second)
        return chosen

    def draw_route(self, route: Route) -> SentRequest:
        """Draw a request to a route."""
        stored = self.chance.choice((*STORED_NAMES, "nothing"))
        if route.conditional:
            stored = "grow"
        has_stored = "{name}" in route.segments
        purpose = self.make_purpose(
            route.operation,
            writes=stored == "grow" if has_stored else route.writes,
            stored=stored if has_stored else None,
        )
        path = route.path
        for segment in route.segments:
            match segment:
                case "{name}":
                    path = path.replace(segment, stored)
                case "{branch}" | "{tag}":
                    path = path.replace(segment, self.draw_name(purpose))
                case "{commit}":
                    path = path.replace(segment, self.chance.choice(self.world.states))
        params = {one.name: Field(one.kind.__name__, one.required) for one in route.params}
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in self.draw_fields(params, purpose).items()
        }
        body = self._draw_body(route, purpose)
        headers = {"accept": self.chance.choice((JSON, JSON, ARROW))}
        if route.conditional:
            headers["omnigraph-if-graph-commit"] = self._draw_condition(body, purpose)
        if route.writes and self.chance.random() < 0.2:
            headers["idempotency-key"] = f"key-{self.chance.randint(1, 6)}"
        return SentRequest(path, query, body, headers)

    def _draw_condition(self, body: dict[str, Any], purpose: Purpose) -> str:
        """Draw the head that a request expects of the branch that it changes."""
        changed = MAIN if "schema_source" in body else body.get("branch", MAIN)
        head = self.world.heads.get(body.get("target", MAIN) if "source" in body else changed)
        if head is not None and purpose.is_plausible:
            return head
        return self.chance.choice([one for one in self.world.heads.values() if one is not None])

    def _draw_body(self, route: Route, purpose: Purpose) -> Any:
        match route.body_kind:
            case BodyKind.NONE:
                return None
            case BodyKind.LINES:
                return self.draw_lines()
        hints = get_type_hints(route.body)
        required = route.body.__required_keys__
        fields = {name: Field(str(hints[name]), name in required) for name in hints}
        return self.draw_fields(fields, purpose)

    def draw_arguments(self, tool: Tool) -> dict[str, Any]:
        """Draw the arguments of a tool."""
        purpose = self.make_purpose(tool.operation, writes=tool.writes, stored=tool.stored)
        fields = {
            name: Field(
                str(schema.get("type", "string")),
                name in tool.required,
                tuple(schema.get("enum") or schema.get("items", {}).get("enum", ())),
            )
            for name, schema in tool.properties.items()
        }
        return self.draw_fields(fields, purpose)


def _is_list(kind: Field) -> bool:
    return "list" in kind.type or "array" in kind.type
