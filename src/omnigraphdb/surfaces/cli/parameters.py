"""The query that a command runs, and the values of its parameters, from options, files and stdin."""

import json as jsonlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.errors import QueryError
from omnigraphdb.surfaces.cli.completing import complete_query
from omnigraphdb.surfaces.cli.files import STDIN, text_argument
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph
    from omnigraphdb.compile.checked import Parameter

Name = Annotated[
    str | None,
    typer.Argument(
        help="Which query of the file, if it has several.", autocompletion=complete_query
    ),
]
QueryFile = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="Query file; - is stdin.")
]
QueryText = Annotated[
    str | None, typer.Option("--query-string", "-e", metavar="TEXT", help="Query text.")
]
Params = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="Parameters as a JSON object.")
]
ParamsFile = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="Parameters from a JSON file; - is stdin."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="K=V", help="One parameter; may be repeated."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Values of parameters as they were given: whole objects, then pairs, which win."""

    objects: Mapping[str, Any]
    pairs: Mapping[str, str]


def read_query(command: str, name: str | None, file: str | None, text: str | None) -> str | Path:
    """The query text, or its file."""
    if file is not None and text is None:
        return text_argument(file)
    if text is not None and file is None:
        return text
    if name is not None and Path(name).is_dir():
        raise typer.BadParameter(f"{command} takes the graph as --store: --store {name}")
    if name is not None and file is None and Path(name).is_file():
        raise typer.BadParameter(f"{command} takes a query file as --query: --query {name}")
    given = "both" if file is not None else "neither"
    raise typer.BadParameter(f"give either --query FILE or -e TEXT; {given} was given")


def read_values(
    text: str | None, file: str | None, pairs: Sequence[str] | None, *, query_file: str | None
) -> Values:
    """The values that options give."""
    if file == STDIN and query_file == STDIN:
        raise typer.BadParameter("stdin cannot be both the query and the parameters; keep one -")
    found = {} if file is None else _read_object(_read_file(file), "--params-file")
    if text is not None:
        found |= _read_object(text, "--params")
    given = [pair.partition("=") for pair in pairs or ()]
    wrong = next((key for key, equals, _ in given if not equals or not key), None)
    if wrong is not None:
        raise typer.BadParameter(f"'{wrong}' is not k=v", param_hint="--param")
    return Values(objects=found, pairs={key: value for key, _, value in given})


def bind_values(
    graph: "Graph", source: str | Path, name: str | None, values: Values
) -> dict[str, Any] | None:
    """Values by parameter name; a name that the query does not declare is refused, because it is probably a typing error."""
    from omnigraphdb.compile.params import bind

    found = dict(values.objects)
    try:
        parameters = _list_parameters(graph, source, name)
    except QueryError:
        # A query of an earlier time, or a wrong one: running it tells.
        return (found | {key: read_value(value) for key, value in values.pairs.items()}) or None
    for key, value in values.pairs.items():
        wanted = parameters.get(key)
        is_text = wanted is not None and wanted.type.is_text and not wanted.type.is_enum
        found[key] = value if is_text else read_value(value)
    if not found.keys() <= parameters.keys():
        bind(parameters, found, strict=True)
    return found or None


def read_value(text: str) -> Any:
    """A value as JSON, else as text."""
    try:
        return jsonlib.loads(text)
    except ValueError:
        return text


def _list_parameters(
    graph: "Graph", source: str | Path, name: str | None
) -> "Mapping[str, Parameter]":
    """The parameters a query declares."""
    from omnigraphdb.api.texts import source_of
    from omnigraphdb.compile.check import check, choose
    from omnigraphdb.language.query.parse import parse_queries

    text = source_of(source)
    file = parse_queries(text)
    query = choose(file, graph.catalog, text, name)
    return check(query, graph.catalog, text).params


def _read_file(file: str) -> str:
    from omnigraphdb.api.texts import source_of

    return source_of(text_argument(file)).text


def _read_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = jsonlib.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"it is no JSON: {error}", param_hint=option) from error
    if not isinstance(value, dict):
        raise typer.BadParameter("it is no JSON object", param_hint=option)
    return value
