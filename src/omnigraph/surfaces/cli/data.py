"""Commands that read and write a graph: init, load, query, mutate, export, snapshot."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Quiet,
    Store,
    Uri,
    announce,
    opened,
    place,
)
from omnigraph.surfaces.cli.formats import Format, rendered
from omnigraph.surfaces.cli.output import note, say, say_json

QueryFile = Annotated[Path | None, typer.Option("--query", help="Query file.")]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", help="Query text.")]
Params = Annotated[str | None, typer.Option("--params", help="Parameters as a JSON object.")]
ParamsFile = Annotated[
    Path | None, typer.Option("--params-file", help="Parameters from a JSON file.")
]
Param = Annotated[
    list[str] | None, typer.Option("--param", help="One parameter, k=v; may be repeated.")
]
At = Annotated[
    str | None, typer.Option("--snapshot", "--at", help="A commit, or a manifest version.")
]


def init(
    uri: Annotated[str, typer.Argument(help="Where the graph shall be.")],
    schema: Annotated[str, typer.Option("--schema", "-s", help="Schema file; - is stdin.")],
    force: Annotated[
        bool, typer.Option("--force", help="Take over schema files of an init that died.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a graph with a schema.

    Example: omnigraph init people.omni --schema people.pg
    """
    from omnigraph.api.graph import init as init_graph

    text: str | Path = sys.stdin.read() if schema == "-" else Path(schema)
    with init_graph(place(uri), text, force=force) as graph:
        if json:
            say_json({"uri": graph.uri, "initialized": True})
        else:
            say(f"initialized {graph.uri}")


def load(
    uri: Uri = None,
    data: Annotated[str, typer.Option("--data", "-d", help="File of records; - is stdin.")] = "",
    mode: Annotated[str, typer.Option("--mode", "-m", help="append, merge or overwrite.")] = "",
    type_: Annotated[
        str | None, typer.Option("--type", help="Type of a Parquet or CSV file.")
    ] = None,
    branch: Branch = "main",
    base: Annotated[
        str | None, typer.Option("--from", help="Fork a missing branch from here.")
    ] = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let overwrite replace by nothing.")
    ] = False,
    actor: Actor = None,
    store: Store = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Load a file in one commit, or not at all.

    Example: omnigraph load people.omni --data people.jsonl --mode append
    """
    if not data or not mode:
        raise typer.BadParameter("give --data FILE and --mode append|merge|overwrite")
    with opened(place(uri, store), read_only=False, actor=actor) as graph:
        announce("load", graph, quiet=quiet)
        source: Any = _records(sys.stdin) if data == "-" else Path(data)
        result = graph.load(
            source, mode=mode, type=type_, branch=branch, from_branch=base, allow_empty=allow_empty
        )
        if json:
            say_json(result.to_dict())
            return
        nodes = {k: n for k, n in result.tables.items() if k.startswith("node:")}
        edges = {k: n for k, n in result.tables.items() if k.startswith("edge:")}
        say(
            f"loaded {graph.uri} on branch {result.branch} with {mode}: {sum(nodes.values())} nodes across "
            f"{len(nodes)} node types, {sum(edges.values())} edges across {len(edges)} edge types"
        )
        if result.branch_created:
            say(f"branch {result.branch} created from {base}")
        for remark in result.notes:
            note(remark)


def _records(stream: Any) -> Any:
    from omnigraph.errors import UserInputError

    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                yield jsonlib.loads(line)
            except ValueError as error:
                raise UserInputError(
                    f"stdin line {number} is not JSON: {error}; no changes were made"
                ) from error


def query(
    name: Annotated[str | None, typer.Argument(help="Which query of the file.")] = None,
    query_file: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    param: Param = None,
    branch: Branch = "main",
    at: At = None,
    form: Annotated[
        Format, typer.Option("--format", "-f", help="How rows are printed.")
    ] = Format.TABLE,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan instead of rows.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Run a read.

    Example: omnigraph query --store people.omni --query people.gq friends --param name=Ada
    """
    source = _source(query_file, query_string)
    with opened(place(store)) as graph:
        values = _params(params, params_file, param)
        if explain:
            say(graph.explain(source, name, values, branch=branch, at=_point(at)).text)
            return
        result = graph.query(source, name, values, branch=branch, at=_point(at))
        say(rendered(result, Format.JSON if json else form))


def mutate(
    name: Annotated[str | None, typer.Argument(help="Which query of the file.")] = None,
    query_file: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    param: Param = None,
    branch: Branch = "main",
    if_commit: Annotated[
        str | None, typer.Option("--if-commit", help="Write only on this head.")
    ] = None,
    actor: Actor = None,
    store: Store = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a mutation in one commit, or not at all.

    Example: omnigraph mutate --store people.omni -e 'query add($n: String) { insert Person { name: $n } }' --param n=Bo
    """
    source = _source(query_file, query_string)
    with opened(place(store), read_only=False, actor=actor) as graph:
        announce("mutate", graph, quiet=quiet)
        values = _params(params, params_file, param)
        result = graph.mutate(source, name, values, branch=branch, if_commit=if_commit)
        if json:
            say_json(result.to_dict())
        else:
            say(
                f"changed {result.branch} via {result.query_name}: {result.affected_nodes} nodes, "
                f"{result.affected_edges} edges"
            )


def export(
    uri: Uri = None,
    branch: Branch = "main",
    at: At = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to a file.")] = None,
    store: Store = None,
) -> None:
    """Print every entity as JSON lines, in the format that load reads.

    Example: omnigraph export people.omni > people.jsonl
    """
    with opened(place(uri, store)) as graph:
        records = graph.export(branch=branch, at=_point(at), types=types)
        if out is None:
            for record in records:
                say(jsonlib.dumps(record, ensure_ascii=False, separators=(",", ":")))
            return
        partial = out.with_name(out.name + ".partial")
        with partial.open("w", encoding="utf-8") as file:
            for record in records:
                file.write(jsonlib.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
        partial.replace(out)
        note(f"exported {graph.uri} to {out}")


def snapshot(
    uri: Uri = None, branch: Branch = "main", at: At = None, store: Store = None, json: Json = False
) -> None:
    """Show the table versions that are visible together.

    Example: omnigraph snapshot people.omni --json
    """
    with opened(place(uri, store)) as graph:
        body = graph.snapshot(branch=branch, at=_point(at)).to_dict()
        if json:
            say_json(body)
            return
        say(f"branch {body['branch']} at manifest version {body['manifest_version']}")
        for table in body["tables"]:
            say(
                f"  {table['table_key']} version {table['table_version']}, {table['row_count']} rows"
            )


# ---- arguments


def _source(query_file: Path | None, query_string: str | None) -> str | Path:
    if (query_file is None) == (query_string is None):
        raise typer.BadParameter("give either --query FILE or -e TEXT")
    return query_file if query_file is not None else str(query_string)


def _point(at: str | None) -> str | int | None:
    return int(at) if at is not None and at.isdigit() and len(at) < 20 else at


def _params(text: str | None, file: Path | None, pairs: list[str] | None) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for source, name in ((file.read_text() if file else None, "--params-file"), (text, "--params")):
        if source is not None:
            found |= _object(source, name)
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"'{pair}' is not k=v", param_hint="--param")
        found[key] = _value(value)
    return found or None


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        value = jsonlib.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint=option) from error
    if not isinstance(value, dict):
        raise typer.BadParameter("not a JSON object", param_hint=option)
    return value


def _value(text: str) -> Any:
    try:
        return jsonlib.loads(text)
    except ValueError:
        return text
