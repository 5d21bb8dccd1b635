"""Stored queries: a folder of query files, checked against the schema, each run by its name."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from omnigraphdb.api.arguments import Reference
from omnigraphdb.api.query_results import QueryResult
from omnigraphdb.api.results import Commit, MutationResult
from omnigraphdb.api.texts import read_source
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.compile.check import check
from omnigraphdb.compile.descriptor import ValueDescriptor, describe_returned, describe_value
from omnigraphdb.errors import NotFound, QueryError, UserInputError
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.query.tree import Query
from omnigraphdb.language.source import Source
from omnigraphdb.values import dataclass


class RunsQueries(Protocol):
    """What stored queries run on: a graph."""

    @property
    def catalog(self) -> Catalog:
        """The types of its schema."""
        ...

    def query(self, source: str, name: str, params: Any, *, branch: Any, at: Any) -> QueryResult:
        """Run a read."""
        ...

    def mutate(
        self,
        source: str,
        name: str,
        params: Any,
        *,
        branch: Any,
        actor: Any,
        if_commit: Any,
        message: Any,
        idempotency_key: Any,
    ) -> MutationResult:
        """Run a mutation."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """One query of a folder: what it is called, whether it writes, and the parameters it takes."""

    name: str
    mutation: bool
    params: tuple[ValueDescriptor, ...]
    description: str | None = None
    instruction: str | None = None
    exposed: bool = True
    """Whether it is a tool of the Model Context Protocol; it can be called by name in any case."""
    named: str | None = None
    """The name of its tool, where `@mcp` gives one."""
    returns: tuple[ValueDescriptor, ...] = ()
    """The columns of what a mutation returns."""
    path: Path = field(repr=False)
    text: str = field(repr=False)

    @property
    def tool_name(self) -> str:
        """Its name for callers whose names are words of letters, digits and underscores."""
        return self.named or re.sub(r"\W", "_", self.name, flags=re.ASCII)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "name": self.name,
            "tool_name": self.tool_name,
            "exposed": self.exposed,
            "description": self.description,
            "instruction": self.instruction,
            "mutation": self.mutation,
            "params": [one.to_dict() for one in self.params],
            **({"returns": [one.to_dict() for one in self.returns]} if self.returns else {}),
        }


@dataclass(frozen=True, slots=True)
class StoredQueries:
    """The queries of a folder, by name, and the graph they run on."""

    graph: RunsQueries
    by_name: Mapping[str, StoredQuery]

    def __iter__(self) -> Iterator[StoredQuery]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def __getitem__(self, name: str) -> StoredQuery:
        if name not in self.by_name:
            raise NotFound("stored query", name, known=self.by_name)
        return self.by_name[name]

    def query(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> QueryResult:
        """Run a stored read."""
        found = self[name]
        return self.graph.query(found.text, name, params, branch=branch, at=at)

    def mutate(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
        if_commit: str | Commit | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a stored mutation."""
        text = self[name].text
        return self.graph.mutate(
            text,
            name,
            params,
            branch=branch,
            actor=actor,
            if_commit=if_commit,
            message=message,
            idempotency_key=idempotency_key,
        )


def read_stored_queries(directory: Path, graph: RunsQueries) -> StoredQueries:
    """Read one `.gq` file, or all of a folder; a query that does not check, and a name that comes twice, are refused."""
    if not directory.exists() or not (directory.is_dir() or directory.suffix == ".gq"):
        raise UserInputError(
            f"'{directory}' is no query file and no folder of them; nothing was read"
        )
    found: dict[str, StoredQuery] = {}
    tools: dict[str, StoredQuery] = {}
    paths = sorted(directory.rglob("*.gq")) if directory.is_dir() else [directory]
    for path in paths:
        for query in _read_file(path, graph.catalog):
            _refuse_second(query, found.get(query.name), "name")
            found[query.name] = query
            if query.exposed:
                _refuse_second(query, tools.get(query.tool_name), "tool name")
                tools[query.tool_name] = query
    return StoredQueries(graph, dict(sorted(found.items())))


def _refuse_second(query: StoredQuery, other: StoredQuery | None, what: str) -> None:
    if other is not None:
        raise QueryError(
            f"stored queries '{other.name}' in '{other.path}' and '{query.name}' in '{query.path}' have the same "
            f"{what}; none was read",
            hint="rename one of them",
        )


def _read_file(path: Path, catalog: Catalog) -> list[StoredQuery]:
    source = read_source(path)
    file = parse_queries(source)
    return [_describe(query, source, catalog, path) for query in file.queries]


def _describe(query: Query, source: Source, catalog: Catalog, path: Path) -> StoredQuery:
    checked = check(query, catalog, source)
    options = {option.name.text: option.value for option in query.mcp or ()}
    return StoredQuery(
        name=query.name.text,
        mutation=query.is_mutation,
        params=tuple(describe_value(name, one.type) for name, one in checked.params.items()),
        description=query.description,
        instruction=query.instruction,
        exposed=bool(options.get("expose", True)),
        named=None if "tool_name" not in options else str(options["tool_name"]),
        returns=describe_returned(checked),
        path=path,
        text=source.text,
    )
