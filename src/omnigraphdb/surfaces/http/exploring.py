"""Routes of the explorer: what a page that shows a graph asks for, each answer bounded."""

from typing import Any, Final, TypeVar

from omnigraphdb.api.drawings import EDGES_DRAWN, NODES_DRAWN
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.api.verbs.call import Call as VerbCall
from omnigraphdb.api.verbs.maintenance import EXAMINE, LIST_RECOVERIES, Examine, RecoveriesList
from omnigraphdb.api.verbs.verb import Verb, run_verb
from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.compile.check import check
from omnigraphdb.compile.checked import Checked
from omnigraphdb.compile.choices import find_choices
from omnigraphdb.compile.complete import complete as list_completions
from omnigraphdb.compile.descriptor import describe_value
from omnigraphdb.compile.lint import lint_report
from omnigraphdb.engine.description import TypeDescription
from omnigraphdb.errors import QueryError, UserInputError
from omnigraphdb.language.diagnostics import Diagnostic
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.query.tree import Query
from omnigraphdb.language.source import Source
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.reads import read_point
from omnigraphdb.surfaces.http.replies import Reply, reply_json
from omnigraphdb.values import replace

_A = TypeVar("_A")

NEIGHBOURS_SHOWN: Final = 50
NEIGHBOURS_MAX: Final = 1_000
"""Edges of one type and direction that a page may ask for."""
VERSIONS_KEPT: Final = 10
"""Versions of each table that a preview of cleanup keeps, unless the caller names another number."""
NODES_MAX: Final = 20_000
EDGES_MAX: Final = 60_000
"""What a drawing may be asked to hold."""


def _open_snapshot(call: Call) -> Snapshot:
    return call.place.graph.snapshot(branch=call.text("branch"), at=read_point(call.text("at")))


# ---- texts


def lint(call: Call) -> Reply:
    """Check a query text against the schema."""
    source = Source(call.body["text"], "<text>")
    catalog = call.place.graph.catalog
    report = lint_report(catalog, source)
    return reply_json(
        {
            "diagnostics": [_spell_diagnostic(source, one) for one in report.findings],
            "queries": _list_queries(source, catalog),
        }
    )


def _spell_diagnostic(source: Source, found: Diagnostic) -> dict[str, Any]:
    end = source.position(found.span.end)
    return {
        "code": found.code or "",
        "severity": str(found.severity),
        "message": found.message,
        "hint": found.fix,
        "line": found.position.line,
        "column": found.position.column,
        "end_line": end.line,
        "end_column": end.column,
    }


def _list_queries(source: Source, catalog: Catalog) -> list[dict[str, Any]]:
    """The queries of a text and what they take; nothing is said about those with mistakes."""
    try:
        queries = parse_queries(source).queries
    except QueryError:
        return []
    return [found for one in queries if (found := _describe_query(one, source, catalog))]


def _describe_query(query: Query, source: Source, catalog: Catalog) -> dict[str, Any] | None:
    try:
        checked = check(query, catalog, source)
    except QueryError:
        return None
    return {
        "name": query.name.text,
        "writes": query.is_mutation,
        "parameters": _describe_parameters(checked),
    }


def _describe_parameters(checked: Checked) -> list[dict[str, Any]]:
    choices = find_choices(checked)
    return [
        replace(describe_value(name, parameter.type), choices=choices.get(name)).to_dict()
        for name, parameter in checked.params.items()
    ]


def complete(call: Call) -> Reply:
    """List what may be written next at an offset of a query text."""
    text, offset = call.body["text"], call.body["offset"]
    if not 0 <= offset <= len(text):
        raise UserInputError(f"'offset' is {offset}, and the text has {len(text)} characters")
    found = list_completions(text, offset, call.place.graph.catalog)
    return reply_json(
        {
            "from": found[0].start if found else offset,
            "items": [
                {"label": one.text, "kind": str(one.kind), "detail": one.detail} for one in found
            ],
        }
    )


# ---- types


def schema_graph(call: Call) -> Reply:
    """Show the types as nodes and edges of a drawing, with their rows and indexes."""
    seen = _open_snapshot(call)
    catalog = call.place.graph.catalog
    described = {one.table_key: one for one in seen.describe().types}
    return reply_json(
        {
            "graph_commit_id": seen.commit,
            "types": [
                _spell_type(catalog.tables[key], described[key])
                for key in sorted(catalog.tables)
                if key in described
            ],
        }
    )


def _spell_type(type_: TableType, found: TypeDescription) -> dict[str, Any]:
    indexes = {one.column: one for one in found.indexes}
    unique = {one.columns[0] for one in type_.unique if len(one.columns) == 1}
    key = () if isinstance(type_, EdgeType) else type_.key_columns
    facts: dict[str, Any] = {
        "kind": "edge" if isinstance(type_, EdgeType) else "node",
        "name": type_.name,
        "rows": found.rows,
        "bytes": found.bytes,
        "fragments": found.fragments,
        "description": type_.description,
        "properties": [],
    }
    for name in type_.declared or tuple(type_.properties):
        one = type_.properties[name]
        index = indexes.get(name)
        facts["properties"].append(
            {
                "name": name,
                "type": str(one.type.required()),
                "optional": one.type.nullable,
                "key": name in key,
                "unique": name in unique,
                "indexed": index is not None,
                "coverage": None
                if index is None
                else (index.rows_indexed / index.rows if index.rows else 1.0),
            }
        )
    if isinstance(type_, EdgeType):
        facts |= {
            "from": type_.source,
            "to": type_.target,
            "cardinality": type_.cardinality.display,
        }
    return facts


# ---- drawings


def neighbours(call: Call) -> Reply:
    """Show the edges of a node and the nodes they lead to."""
    limit = min(call.count("limit") or NEIGHBOURS_SHOWN, NEIGHBOURS_MAX)
    found = _open_snapshot(call).neighbours(
        call.needed("type"),
        call.needed("id"),
        edge=call.text("edge"),
        direction=call.text_or("direction", "both"),  # type: ignore[arg-type]
        limit=limit,
    )
    return reply_json(found.to_dict())


def diff_graph(call: Call) -> Reply:
    """Show what differs between two states as a drawing."""
    found = call.place.graph.diff_drawing(
        call.needed("base"),
        call.needed("head"),
        types=call.texts("type"),
        ops=call.texts("operation"),  # type: ignore[arg-type]
        properties=call.texts("property"),
        actors=call.texts("actor"),
        shows=call.may_read,
        nodes_max=min(call.count("limit_nodes") or NODES_DRAWN, NODES_MAX),
        edges_max=min(call.count("limit_edges") or EDGES_DRAWN, EDGES_MAX),
    )
    return reply_json(found.to_dict())


# ---- health


def doctor(call: Call) -> Reply:
    """Show what is wrong with a graph, and what to do about it; branches that the actor may not read are left out."""
    return _answer(call, EXAMINE, Examine())


def cleanup_preview(call: Call) -> Reply:
    """Show what cleanup would remove, by table; names of forks are those of branches, and stay with who runs it."""
    keep = call.count("keep")
    found = call.place.graph.cleanup_preview(keep=VERSIONS_KEPT if keep is None else keep)
    return reply_json(
        {
            "tables": [
                {
                    "table_key": one.table_key,
                    "versions_removed": one.versions_removed,
                    "bytes_removed": one.bytes_removed,
                    "forks_removed": len(one.forks_removed),
                    "dropped": one.dropped,
                }
                for one in found.tables
            ]
        }
    )


def recoveries(call: Call) -> Reply:
    """Show writes that recovery has yet to finish, and those it finished, of branches that the actor may read."""
    return _answer(call, LIST_RECOVERIES, RecoveriesList(pending=True, settled=True))


def _answer(call: Call, verb: Verb[_A, Any], asked: _A) -> Reply:
    """Answer with texts that may name files by the address of the graph."""
    facts = VerbCall(actor=call.actor, shows=call.may_read)
    return reply_json(call.name_graph(run_verb(call.place.graph, verb, asked, facts).to_dict()))
