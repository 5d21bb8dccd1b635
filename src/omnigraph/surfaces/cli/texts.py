"""Commands about schema and query files: lint, format. They need no graph."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.language.diagnostics import render
from omnigraph.surfaces.cli.address import Json
from omnigraph.surfaces.cli.files import replace_text
from omnigraph.surfaces.cli.output import EXIT_FAILURE, note, say, say_json


def lint(
    query: Annotated[
        list[Path] | None, typer.Option("--query", help="Query file; may be repeated.")
    ] = None,
    schema: Annotated[Path | None, typer.Option("--schema", "-s", help="Schema file.")] = None,
    json: Json = False,
) -> None:
    """Check query files against a schema, or a schema alone.

    Example: omnigraph lint --schema people.pg --query people.gq
    """
    from omnigraph.api.texts import read_schema, read_source
    from omnigraph.catalog.resolve.schema import compile_schema
    from omnigraph.compile.lint import lint_report

    if schema is None:
        raise typer.BadParameter("give --schema FILE", param_hint="--schema")
    catalog = compile_schema(read_schema(schema))
    origin = {"kind": "file", "path": str(schema)}
    sources = [read_source(path) for path in query or ()]
    reports = [lint_report(catalog, source, schema_source=origin) for source in sources]
    if json:
        documents = [report.to_dict() for report in reports]
        say_json(documents[0] if len(documents) == 1 else documents)
    elif not reports:
        say(f"OK {schema}: {len(catalog.nodes)} node types, {len(catalog.edges)} edge types")
    for source, report in zip(sources, reports, strict=True):
        if not json:
            for result in report.results:
                say(f"{result.status.upper():5} {source.name} {result.name}")
            for finding in report.findings:
                note(render(source, finding))
            say(f"{source.name}: {len(report.results)} queries, {report.status}")
    if any(report.status == "error" for report in reports):
        raise typer.Exit(EXIT_FAILURE)


def fmt(
    files: Annotated[list[Path], typer.Argument(help="Files ending in .pg or .gq.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change no file; fail if a file would change.")
    ] = False,
    json: Json = False,
) -> None:
    """Rewrite schema and query files in their canonical layout.

    Comments stay. A file that cannot be read stays as it is.

    Example: omnigraph fmt people.pg people.gq
    """
    from omnigraph.api.texts import read_source
    from omnigraph.language.query.format import format_source
    from omnigraph.language.schema.format import format_schema
    from omnigraph.language.schema.parse import parse_schema_text

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
