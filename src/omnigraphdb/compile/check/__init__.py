"""The type checker: from a query tree and a schema to a checked query, or to its findings."""

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.compile.check.query import (
    check,
    check_error,
    check_file,
    check_findings,
    find_repeated_names,
)
from omnigraphdb.compile.checked import CheckedMutation, CheckedRead
from omnigraphdb.errors import NotFound, QueryError
from omnigraphdb.language.query import tree
from omnigraphdb.language.query.parse import parse_findings, parse_queries
from omnigraphdb.language.source import Source

__all__ = [
    "check",
    "check_error",
    "check_file",
    "check_findings",
    "check_mutation",
    "check_read",
    "choose",
    "find_repeated_names",
    "is_mutation",
]


def check_read(source: Source, catalog: Catalog, name: str | None = None) -> CheckedRead:
    """Compile the named query of a text, or its only one; it must be a read."""
    file = parse_queries(source)
    query = choose(file, catalog, source, name)
    if query.is_mutation:
        raise QueryError(
            f"query '{query.name.text}' is a mutation, not a read; nothing was run: run it with mutate",
            hint="run it with mutate",
        )
    checked = check(query, catalog, source)
    assert isinstance(checked, CheckedRead)
    return checked


def check_mutation(source: Source, catalog: Catalog, name: str | None = None) -> CheckedMutation:
    """Compile the named query of a text, or its only one; it must be a mutation."""
    file = parse_queries(source)
    query = choose(file, catalog, source, name)
    if not query.is_mutation:
        raise QueryError(
            f"query '{query.name.text}' is a read, not a mutation; nothing was run: run it with query",
            hint="run it with query",
        )
    checked = check(query, catalog, source)
    assert isinstance(checked, CheckedMutation)
    return checked


def is_mutation(source: Source, name: str | None = None) -> bool:
    """Whether the named query of a text, or its only one, writes; a text that cannot be read does not."""
    file, _ = parse_findings(source)
    queries = () if file is None else file.queries
    matches = [query for query in queries if name is None or query.name.text == name]
    return len(matches) == 1 and matches[0].is_mutation


def choose(
    file: tree.QueryFile, catalog: Catalog, source: Source, name: str | None = None
) -> tree.Query:
    """Pick a query by name; without one there must be exactly one."""
    twice = find_repeated_names(file)
    if twice:
        raise check_error(twice, catalog, source)
    names = [query.name.text for query in file.queries]
    if name is None and len(names) == 1:
        return file.queries[0]
    if name is None:
        if not names:
            raise QueryError(f"'{source.name}' holds no query; nothing was run")
        raise QueryError(
            f"'{source.name}' holds {len(names)} queries ({', '.join(names)}); nothing was run",
            hint=f"name one of them: name='{names[0]}'",
        )
    for query in file.queries:
        if query.name.text == name:
            return query
    raise NotFound("query", name, known=names, hint=f"'{source.name}' declares: {', '.join(names)}")
