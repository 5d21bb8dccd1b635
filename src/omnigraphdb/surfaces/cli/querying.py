"""Commands that run queries: query, mutate, alias."""

import json as jsonlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.display import count_of
from omnigraphdb.errors import shorten
from omnigraphdb.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Key,
    Message,
    Store,
    announce,
    choose_graph,
    is_server_chosen,
    open_store,
    read_point,
    use_server,
)
from omnigraphdb.surfaces.cli.completing import complete_alias
from omnigraphdb.surfaces.cli.config import Config, load_config
from omnigraphdb.surfaces.cli.data import At
from omnigraphdb.surfaces.cli.files import replace_file
from omnigraphdb.surfaces.cli.formats import (
    BINARY,
    Format,
    Layout,
    TableStyle,
    format_of_file,
    render,
    render_returned,
    terminal_style,
    write,
)
from omnigraphdb.surfaces.cli.output import note, remark, say, say_data, say_json
from omnigraphdb.surfaces.cli.parameters import (
    Name,
    Param,
    Params,
    ParamsFile,
    QueryFile,
    QueryText,
    Values,
    bind_values,
    read_query,
    read_value,
    read_values,
)
from omnigraphdb.surfaces.cli.terminal import is_terminal

if TYPE_CHECKING:
    from omnigraphdb.api.query_results import QueryResult

Form = Annotated[
    Format | None, typer.Option("--format", "-f", help="The form of the rows. [default: table]")
]
Queries = Annotated[
    Path | None,
    typer.Option("--queries", metavar="DIR", help="Folder of stored queries, for NAME."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write the rows to a file, in the format of its ending."),
]


def query(
    name: Name = None,
    query_file: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    param: Param = None,
    branch: Branch = "main",
    at: At = None,
    form: Form = None,
    out: Out = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan instead of rows.")
    ] = False,
    queries: Queries = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Run a query that reads, and print its rows.

    Formats: table, kv, csv, jsonl, json, and for files parquet and arrow.

    Example: omnigraphdb query friends --store people.omni --query people.gq --param name=Ada

    Example: omnigraphdb query --store people.omni -e 'query q() { match { $p: Person } return { $p.name } }' --out people.parquet
    """
    _refuse_two_forms(json=json, form=form)
    source = _read_source("query", name, query_file, query_string, queries)
    values = read_values(params, params_file, param, query_file=query_file)
    with open_store(_choose_graph("query", name, store)) as graph:
        if queries is not None:
            source = _find_stored(graph, name, queries)
        if source is None:
            if explain:
                raise typer.BadParameter("--explain needs the text of the query: --query or -e")
            print_rows(_run_stored(graph, name, values, branch, at), _form(json, form), out)
            return
        bound = bind_values(graph, source, name, values)
        if explain:
            plan = graph.explain(source, name, bound, branch=branch, at=read_point(at))
            say(jsonlib.dumps(plan.to_dict(), indent=2) if json else plan.text)
            return
        result = graph.query(source, name, bound, branch=branch, at=read_point(at))
        print_rows(result, _form(json, form), out)


def _form(json: bool, form: Format | None) -> Format | None:
    return Format.JSON if json else form


def _run_stored(
    graph: Any, name: str | None, values: Values, branch: str | None, at: str | None
) -> "QueryResult":
    """Run a stored read of a server; the server knows its parameters."""
    given = dict(values.objects) | {key: read_value(text) for key, text in values.pairs.items()}
    found: QueryResult = graph.run_stored(
        name, given or None, branch=branch, at=read_point(at), expect_mutation=False
    )
    return found


def _read_source(
    command: str, name: str | None, file: str | None, text: str | None, queries: Path | None
) -> str | Path | None:
    """The text of a query, or its file; None stands for a stored query, which its name alone finds."""
    if queries is not None:
        if file is not None or text is not None or name is None:
            raise typer.BadParameter("--queries takes the name of a query, without --query and -e")
        return None
    if name is not None and file is None and text is None and is_server_chosen():
        if "{" in name:
            raise typer.BadParameter(
                f"'{shorten(name)}' is a text, not the name of a stored query: give it with -e"
            )
        return None
    return read_query(command, name, file, text)


def _find_stored(graph: Any, name: str | None, queries: Path) -> str:
    """The text of a query in a folder, by its name."""
    from omnigraphdb.api.stored_queries import read_stored_queries

    return read_stored_queries(queries, graph)[str(name)].text


def _refuse_two_forms(*, json: bool, form: Format | None) -> None:
    if json and form is not None:
        raise typer.BadParameter(f"--json and --format {form} exclude each other; keep one")


def print_rows(result: "QueryResult", form: Format | None, out: Path | None) -> None:
    """Print rows, or write them to a file; without a format the file's ending or the configuration chooses."""
    config = load_config(os.environ)
    chosen = form or (format_of_file(out) if out else None) or _default_format(config)
    if out is not None:
        replace_file(out, lambda stream: write(result, chosen, stream))
        remark(f"wrote {count_of(len(result), 'row')} to {out}")
    elif chosen not in BINARY:
        text = render(result, chosen, terminal_style(_table_style(config)))
        (say_data if chosen is Format.CSV else say)(text)
    elif is_terminal(sys.stdout):
        raise typer.BadParameter(f"--format {chosen} is for files: name one with --out")
    else:
        sys.stdout.flush()
        write(result, chosen, sys.stdout.buffer)


def _default_format(config: Config) -> Format:
    given = config.default("output")
    return Format.TABLE if given is None else config.choose("output", given, Format)


def _table_style(config: Config) -> TableStyle:
    width, layout = config.default("table_max_column_width"), config.default("table_cell_layout")
    plain = TableStyle()
    return TableStyle(
        column_max=plain.column_max
        if width is None
        else config.count("table_max_column_width", width),
        layout=plain.layout
        if layout is None
        else config.choose("table_cell_layout", layout, Layout),
    )


def _choose_graph(command: str, name: str | None, store: str | None) -> str:
    """The graph of a command whose word names a query; who gave the graph as that word is told."""
    try:
        return choose_graph(store)
    except typer.BadParameter as error:
        if name is None or not Path(name).exists():
            raise
        message = f"{command} takes the graph as --store: --store {name}"
        raise typer.BadParameter(message) from error


def mutate(
    name: Name = None,
    query_file: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    param: Param = None,
    branch: Branch = "main",
    if_commit: Annotated[
        str | None,
        typer.Option("--if-commit", metavar="ID", help="Write only if this commit is the head."),
    ] = None,
    queries: Queries = None,
    message: Message = None,
    key: Key = None,
    actor: Actor = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Run a query that writes, in one commit or not at all.

    Example: omnigraphdb mutate --store people.omni -e 'query add($n: String) { insert Person { name: $n } }' --param n=Bo
    """
    stored = queries is not None
    source = None if stored else read_query("mutate", name, query_file, query_string)
    values = read_values(params, params_file, param, query_file=query_file)
    with open_store(_choose_graph("mutate", name, store), read_only=False, actor=actor) as graph:
        if queries is not None:
            source = _find_stored(graph, name, queries)
        assert source is not None, "a query has a text or a name"
        announce("mutate", graph)
        bound = bind_values(graph, source, name, values)
        result = graph.mutate(
            source,
            name,
            bound,
            branch=branch,
            if_commit=if_commit,
            message=message,
            idempotency_key=key,
        )
        if json:
            say_json(result.to_dict())
            return
        say(
            f"changed {result.branch} via {result.query_name}: "
            f"{count_of(result.affected_nodes, 'node')}, {count_of(result.affected_edges, 'edge')}"
        )
        if result.columns:
            say(render_returned(result))
        if result.replayed:
            note(f"this key was used before; nothing was written again ({result.commit})")
        elif result.commit is None:
            note("nothing matched; no commit")


def alias(
    name: Annotated[
        str, typer.Argument(help="An alias of the configuration.", autocompletion=complete_alias)
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Values of its parameters, in order.")
    ] = None,
    params: Params = None,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Run a query that the configuration names.

    An alias binds a query, the names of its arguments, parameters and a format; the query is in a file, for a store or a
    server, or it is a stored query of a server.

    Example: omnigraphdb alias friends Ada
    """
    _refuse_two_forms(json=json, form=form)
    config = load_config(os.environ)
    bound = config.named("aliases", "alias", name)
    source, chosen = _source_of_alias(config, name, bound)
    _refuse_two_scopes(config, name, bound)
    given = Values(
        objects=dict(bound.get("params") or {})
        | _match_arguments(name, bound, arguments or ())
        | dict(read_values(params, None, None, query_file=None).objects),
        pairs={},
    )
    written = bound.get("format")
    wanted = form or (None if written is None else config.choose("format", written, Format))
    with open_store(_choose_bound(bound)) as graph:
        if source is None:
            result = _run_stored(graph, chosen, given, None, None)
        else:
            result = graph.query(source, chosen, bind_values(graph, source, chosen, given))
        print_rows(result, _form(json, wanted), out)


def _source_of_alias(
    config: Config, name: str, bound: Mapping[str, Any]
) -> tuple[Path | None, str | None]:
    """The file and the name of the query that an alias runs; a stored query of a server has no file."""
    file, chosen = bound.get("file"), bound.get("query")
    if file is None and bound.get("server") is None:
        raise config.wrong(f"alias '{name}' names no query file: add file: FILE.gq")
    if file is None and chosen is None:
        raise config.wrong(f"alias '{name}' names no stored query of its server: add query: NAME")
    return None if file is None else Path(str(file)), None if chosen is None else str(chosen)


def _refuse_two_scopes(config: Config, name: str, bound: Mapping[str, Any]) -> None:
    if bound.get("server") is not None and bound.get("store") is not None:
        raise config.wrong(f"alias '{name}' names a server and a store; keep one")
    if bound.get("graph") is not None and bound.get("server") is None:
        raise config.wrong(f"alias '{name}' names a graph of a server: add server: NAME")


def _choose_bound(bound: Mapping[str, Any]) -> str:
    """The graph that an alias is bound to; without a binding it is chosen as for any command."""
    if bound.get("server") is None:
        return choose_graph(bound.get("store"))
    graph = bound.get("graph")
    return use_server(str(bound["server"]), None if graph is None else str(graph))


def _match_arguments(
    name: str, bound: Mapping[str, Any], given: "list[str] | tuple[()]"
) -> dict[str, Any]:
    wanted = [str(one) for one in bound.get("args") or ()]
    if len(given) > len(wanted):
        expected = ", ".join(wanted) or "no arguments"
        raise typer.BadParameter(f"alias '{name}' takes {expected}; {len(given)} were given")
    return {key: read_value(value) for key, value in zip(wanted, given, strict=False)}
