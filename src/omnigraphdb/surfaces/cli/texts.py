"""Commands about schema and query files: lint, fmt."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.display import count_of
from omnigraphdb.language.diagnostics import render
from omnigraphdb.surfaces.cli.address import Json, Store, Uri, choose_graph, open_store
from omnigraphdb.surfaces.cli.files import replace_text, text_argument
from omnigraphdb.surfaces.cli.output import EXIT_FAILURE, note, paint_diagnostic, say, say_json
from omnigraphdb.surfaces.cli.terminal import Style, paint

if TYPE_CHECKING:
    from omnigraphdb.catalog.model import Catalog
    from omnigraphdb.compile.lint import LintReport
    from omnigraphdb.language.source import Source


class LintForm(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def lint(
    uri: Uri = None,
    query: Annotated[
        list[str] | None,
        typer.Option("--query", metavar="FILE", help="Query file; - is stdin; may be repeated."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", "-s", metavar="FILE", help="Schema file instead of a graph."),
    ] = None,
    form: Annotated[
        LintForm, typer.Option("--format", "-f", help="github: lines that its checks show.")
    ] = LintForm.TEXT,
    store: Store = None,
    json: Json = False,
) -> None:
    """Check query files against a graph or a schema, or a schema alone.

    Example: omnigraphdb lint people.omni --query people.gq

    Example: omnigraphdb lint --schema people.pg --query people.gq
    """
    from omnigraphdb.api.texts import source_of
    from omnigraphdb.compile.lint import lint_report

    catalog, origin = _find_schema(uri, store, schema)
    sources = [source_of(text_argument(one), "<stdin>") for one in query or ()]
    reports = [lint_report(catalog, source, schema_source=origin) for source in sources]
    if not reports and schema is None:
        raise typer.BadParameter("give query files: --query FILE")
    if json or form is LintForm.JSON:
        documents = [report.to_dict() for report in reports] or [_describe_schema(catalog, origin)]
        say_json(documents[0] if len(documents) == 1 else documents)
    elif not reports:
        counts = f"{count_of(len(catalog.nodes), 'node type')}, {count_of(len(catalog.edges), 'edge type')}"
        say(f"{paint('OK', Style.GOOD)} {origin['path']}: {counts}")
    else:
        show = _print_github if form is LintForm.GITHUB else _print_report
        for source, report in zip(sources, reports, strict=True):
            show(source, report)
    if any(report.status == "error" for report in reports):
        raise typer.Exit(EXIT_FAILURE)


def _find_schema(
    uri: str | None, store: str | None, schema: str | None
) -> "tuple[Catalog, dict[str, str]]":
    """The schema to check against, from a file or from a graph, and where it is from."""
    if schema is not None:
        if uri is not None or store is not None:
            raise typer.BadParameter("give either a graph or --schema FILE, not both")
        from omnigraphdb.api.texts import schema_of
        from omnigraphdb.catalog.resolve.schema import compile_schema

        return compile_schema(schema_of(text_argument(schema))), {"kind": "file", "path": schema}
    with open_store(choose_graph(uri, store)) as graph:
        return graph.catalog, {"kind": "graph", "path": graph.uri}


def _describe_schema(catalog: "Catalog", origin: dict[str, str]) -> dict[str, Any]:
    return {
        "status": "ok",
        "schema_source": origin,
        "node_types": len(catalog.nodes),
        "edge_types": len(catalog.edges),
    }


def _print_report(source: "Source", report: "LintReport") -> None:
    for result in report.results:
        ink = {"ok": Style.GOOD, "error": Style.BAD}.get(result.status, Style.WARNING)
        say(f"{paint(f'{result.status.upper():5}', ink)} {source.name} {result.name}")
    for finding in report.findings:
        note(paint_diagnostic(render(source, finding)))
    say(f"{source.name}: {count_of(len(report.results), 'query', 'queries')}, {report.status}")


def _print_github(source: "Source", report: "LintReport") -> None:
    for one in report.findings:
        level = "error" if str(one.severity) == "error" else "warning"
        place = f"file={source.name},line={one.position.line},col={one.position.column}"
        say(f"::{level} {place},title={one.code}::{one.message}")


def fmt(
    files: Annotated[list[Path], typer.Argument(help="Files ending in .pg or .gq.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change no file; fail if a file would change.")
    ] = False,
    json: Json = False,
) -> None:
    """Rewrite schema and query files in their canonical layout.

    Comments stay. A file that cannot be read stays as it is.

    Example: omnigraphdb fmt people.pg people.gq
    """
    from omnigraphdb.api.texts import read_source
    from omnigraphdb.language.query.format import format_source
    from omnigraphdb.language.schema.format import format_schema
    from omnigraphdb.language.schema.parse import parse_schema_text

    formats = {".pg": lambda source: format_schema(parse_schema_text(source)), ".gq": format_source}
    changed = []
    for path in files:
        if path.suffix not in formats:
            raise typer.BadParameter(f"'{path}' ends neither in .pg nor in .gq")
        source = read_source(path)
        text = formats[path.suffix](source)
        if text != source.text:
            changed.append(path)
            if not check:
                replace_text(path, text)
    verb = "would change" if check else "changed"
    if json:
        say_json({"files": len(files), "changed": [str(path) for path in changed], "check": check})
    else:
        for path in changed:
            say(f"{verb} {path}")
        say(f"{len(files)} files, {len(changed)} {verb}")
    if check and changed:
        raise typer.Exit(EXIT_FAILURE)
