"""Commands about a whole graph: init, load, export, snapshot."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.display import count_of
from omnigraphdb.ids import LoadMode, PartFormat
from omnigraphdb.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Key,
    Store,
    Uri,
    Yes,
    announce,
    ask_consent,
    choose_graph,
    complete_branch,
    open_store,
    read_point,
)
from omnigraphdb.surfaces.cli.files import STDIN, text_argument
from omnigraphdb.surfaces.cli.output import note, remark, say, say_json, say_lines, suggest
from omnigraphdb.surfaces.cli.progress import track_lines, watch
from omnigraphdb.surfaces.cli.workers import Engine, SparkConf, SparkMaster, choose_workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyarrow import Buffer

    from omnigraphdb.api.graph import Graph
    from omnigraphdb.api.snapshot import Snapshot
    from omnigraphdb.engine.results import LoadResult

At = Annotated[
    str | None,
    typer.Option(
        "--snapshot", "--at", metavar="POINT", help="A commit, a manifest version, or a moment."
    ),
]


def init(
    uri: Annotated[str, typer.Argument(help="Where to create the graph.")],
    schema: Annotated[
        str, typer.Option("--schema", "-s", metavar="FILE", help="Schema file; - is stdin.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Use the schema files that an interrupted init left.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a graph with a schema.

    Example: omnigraphdb init people.omni --schema people.pg
    """
    from omnigraphdb.api.opening import init as init_graph

    with init_graph(choose_graph(uri), text_argument(schema), force=force) as graph:
        if json:
            say_json({"uri": graph.uri, "initialized": True})
        else:
            say(f"initialized {graph.uri}")
            suggest(f"omnigraphdb load {uri} --data FILE.jsonl --mode append")


def load(
    uri: Uri = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", "-d", metavar="FILE", help="File or folder; - is stdin; may be repeated."
        ),
    ] = None,
    mode: Annotated[
        LoadMode | None,
        typer.Option(
            "--mode", "-m", help="Add new rows, add and replace rows, or replace everything."
        ),
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="Type of a Parquet, CSV or row file.")
    ] = None,
    branch: Branch = "main",
    base: Annotated[
        str | None,
        typer.Option(
            "--from", help="Create a missing branch from this one.", autocompletion=complete_branch
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check everything, write nothing.")
    ] = False,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty", help="Let overwrite remove all rows when the input is empty."
        ),
    ] = False,
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="Who does the work; auto uses Spark for large inputs."),
    ] = Engine.AUTO,
    spark_master: SparkMaster = None,
    spark_conf: SparkConf = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="What the commit says.")
    ] = None,
    key: Key = None,
    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="Write every problem to a .jsonl, .csv or .parquet file when the load is refused.",
        ),
    ] = None,
    create_missing: Annotated[
        list[str] | None,
        typer.Option(
            "--create-missing",
            metavar="TYPE",
            help="Create nodes of this type that edges name and that are nowhere; may be repeated.",
        ),
    ] = None,
    actor: Actor = None,
    store: Store = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Load files in one commit, or not at all.

    Example: omnigraphdb load people.omni --data people.jsonl --mode append
    """
    if not data or mode is None:
        file = uri if uri is not None and not data and Path(uri).is_file() else "FILE"
        raise typer.BadParameter(f"give --data {file} and --mode {'|'.join(LoadMode)}")
    place_ = choose_graph(uri, store)
    if mode is LoadMode.OVERWRITE and not check:
        ask_consent("load --mode overwrite", place_, yes=yes, json=json)
    with open_store(place_, read_only=check, actor=actor) as graph:
        if not check:
            announce("load", graph)
        with watch("load") as on_progress:
            result = graph.load(
                _files(data, type_),
                mode=mode,
                type=type_,
                branch=branch,
                from_branch=base,
                allow_empty=allow_empty,
                dry_run=check,
                spark=choose_workers(engine, spark_master, spark_conf or ()),
                progress=on_progress,
                message=message,
                idempotency_key=key,
                rejects=rejects,
                create_missing=create_missing or (),
            )
        if json:
            say_json(result.to_dict())
        else:
            _say_loaded(graph.uri, result, checked=check)


def _say_loaded(uri: str, result: "LoadResult", *, checked: bool) -> None:
    nodes = {k: n for k, n in result.tables.items() if k.startswith("node:")}
    edges = {k: n for k, n in result.tables.items() if k.startswith("edge:")}
    say(
        f"{'checked for' if checked else 'loaded'} {uri} on branch {result.branch} with {result.mode}: "
        f"{count_of(sum(nodes.values()), 'node')} across {count_of(len(nodes), 'node type')}, "
        f"{count_of(sum(edges.values()), 'edge')} across {count_of(len(edges), 'edge type')}"
    )
    for table, rows in result.created.items():
        what = "to be created" if checked else "created"
        say(f"{count_of(rows, 'node')} of {table.partition(':')[2]} {what} for the edges")
    if result.branch_created:
        say(f"branch {result.branch} created from {result.base_branch}")
    if result.engine != "local":
        remark(f"done by {result.engine}: {result.reason}")
    for line in result.notes:
        note(line)


def _files(given: list[str], type_: str | None) -> Any:
    """The input of `load`: one file, several files, or stdin."""
    if given == [STDIN]:
        return sys.stdin.buffer
    if STDIN in given or (type_ is not None and len(given) > 1):
        raise typer.BadParameter("stdin, and a file with --type, stand alone", param_hint="--data")
    return Path(given[0]) if len(given) == 1 else [Path(one) for one in given]


def export(
    uri: Uri = None,
    branch: Branch = "main",
    at: At = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to a file, or parquet to a folder.")
    ] = None,
    format: Annotated[
        PartFormat,
        typer.Option("--format", "-f", help="jsonl, or parquet: part files in a new folder."),
    ] = PartFormat.JSONL,
    store: Store = None,
) -> None:
    """Print every entity in the format that load reads.

    Example: omnigraphdb export people.omni > people.jsonl
    """
    with open_store(choose_graph(uri, store)) as graph:
        if format is not PartFormat.JSONL:
            _export_parts(graph, branch, at, types, out, format)
            return
        snapshot = graph.snapshot(branch=branch, at=read_point(at))
        lines = snapshot.export_lines(types)
        if out is None:
            say_lines(lines)
            return
        with watch("export") as on_progress:
            _export_file(out, track_lines(lines, _count_rows(snapshot, types), on_progress))
        note(f"exported {graph.uri} to {out}")


def _count_rows(snapshot: "Snapshot", types: list[str] | None) -> int:
    found = snapshot.tables().items()
    return sum(rows for key, rows in found if types is None or key.partition(":")[2] in types)


def _export_file(out: Path, lines: "Iterable[Buffer]") -> None:
    from omnigraphdb.engine.history.feed import write_lines

    write_lines(out, lines)


def _export_parts(
    graph: "Graph",
    branch: str,
    at: str | None,
    types: list[str] | None,
    out: Path | None,
    format: PartFormat,
) -> None:
    if out is None:
        raise typer.BadParameter(f"--format {format} writes into a folder: name it with --out")
    point = read_point(at)
    with watch("export") as on_progress:
        done = graph.export_files(
            out, format=format, branch=branch, at=point, types=types, progress=on_progress
        )
    rows = sum(one.rows for one in done.parts)
    note(f"exported {graph.uri} to {len(done.parts)} files in {out}, {rows} rows")


def snapshot(
    uri: Uri = None, branch: Branch = "main", at: At = None, store: Store = None, json: Json = False
) -> None:
    """Show the table versions that are visible together.

    Example: omnigraphdb snapshot people.omni --json
    """
    with open_store(choose_graph(uri, store)) as graph:
        body = graph.snapshot(branch=branch, at=read_point(at)).to_dict()
        if json:
            say_json(body)
            return
        say(f"branch {body['branch']} at manifest version {body['manifest_version']}")
        for table in body["tables"]:
            say(
                f"  {table['table_key']} version {table['table_version']}, {table['row_count']} rows"
            )
