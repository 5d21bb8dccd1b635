"""Commands about the schema of a graph: show it, plan a change, apply it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Key,
    Message,
    Store,
    Uri,
    Yes,
    announce,
    ask_consent,
    choose_graph,
    is_remote,
    open_store,
    refuse_unconfirmed,
)
from omnigraphdb.surfaces.cli.files import text_argument
from omnigraphdb.surfaces.cli.output import EXIT_FAILURE, remark, say, say_json, suggest, warn
from omnigraphdb.surfaces.cli.progress import watch
from omnigraphdb.surfaces.cli.terminal import is_terminal

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph
    from omnigraphdb.catalog.diff.steps import SchemaPlan

DataLoss = Annotated[
    bool,
    typer.Option("--allow-data-loss", help="Remove dropped types and properties from history too."),
]
SchemaFile = Annotated[
    str | None, typer.Option("--schema", "-s", metavar="FILE", help="The new schema; - is stdin.")
]


def show(uri: Uri = None, branch: Branch = "main", store: Store = None, json: Json = False) -> None:
    """Print the schema of a graph as it was written.

    All branches have the same schema: it is the one that their next write is checked by.

    Example: omnigraphdb schema show people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        if branch != "main":
            graph.snapshot(branch=branch).close()
        if json:
            say_json({"schema_source": graph.schema_source})
        else:
            say(graph.schema_source.rstrip("\n"))


def plan(
    uri: Uri = None,
    schema: SchemaFile = None,
    old: Annotated[
        Path | None, typer.Option("--from", help="Without a graph: the present schema.")
    ] = None,
    new: Annotated[
        Path | None, typer.Option("--to", help="Without a graph: the new schema.")
    ] = None,
    allow_data_loss: DataLoss = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail when the plan is not supported.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show the steps of a schema change; changes nothing.

    Example: omnigraphdb schema plan people.omni --schema new.pg
    """
    if old is not None and new is not None:
        found = _plan_of_files(old, new, allow_data_loss)
    elif old is None and new is None:
        with open_store(choose_graph(uri, store)) as graph:
            found = graph.schema_plan(_text(schema), allow_data_loss=allow_data_loss)
    else:
        raise typer.BadParameter("give both --from and --to, or a graph and --schema")
    if json:
        say_json(found.to_dict())
    else:
        say(str(found))
    if check and not found.supported:
        raise typer.Exit(EXIT_FAILURE)


def _plan_of_files(old: Path, new: Path, allow_data_loss: bool) -> "SchemaPlan":
    from omnigraphdb.api.texts import read_schema
    from omnigraphdb.catalog.diff import types
    from omnigraphdb.catalog.resolve.schema import compile_schema

    accepted, desired = (compile_schema(read_schema(path)) for path in (old, new))
    return types.plan(accepted, desired, allow_data_loss=allow_data_loss)


def apply(
    uri: Uri = None,
    schema: SchemaFile = None,
    allow_data_loss: DataLoss = False,
    message: Message = None,
    key: Key = None,
    actor: Actor = None,
    store: Store = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Change the schema of a graph in one commit, or not at all.

    Example: omnigraphdb schema apply people.omni --schema new.pg
    """
    text, where = _text(schema), choose_graph(uri, store)
    if allow_data_loss:
        ask_consent("schema apply --allow-data-loss", where, yes=yes, json=json)
    with open_store(where, read_only=False, actor=actor) as graph:
        announce("schema apply", graph)
        if allow_data_loss:
            _ask_about_loss(graph, text, yes=yes, json=json)
        with watch("schema apply") as on_progress:
            done = graph.schema_apply(
                text,
                allow_data_loss=allow_data_loss,
                progress=on_progress,
                message=message,
                idempotency_key=key,
            )
        if json:
            say_json(done.to_dict())
            return
        say(f"applied: {'yes' if done.applied else 'no'}")
        for step in done.steps:
            say(f"  {step}")
        for warning in (*done.warnings, *(f"index pending: {i}" for i in done.pending_indexes)):
            warn(warning)
        if done.pending_indexes:
            suggest(f"omnigraphdb optimize {where}   (builds the indexes)")
        if done.engine != "local":
            remark(f"rows written anew by {done.engine}: {done.reason}")
        if done.commit is not None:
            say(f"commit {done.commit}")


def _ask_about_loss(graph: "Graph", text: str | Path, *, yes: bool, json: bool) -> None:
    """List what becomes unreadable; ask on a terminal, unless the caller has consented."""
    plan = graph.schema_plan(text, allow_data_loss=True)
    lost = [step for step in plan.steps if str(step.kind).startswith("drop_")]
    for step in lost:
        warn(f"it becomes unreadable, in history too: {step}")
    asked = bool(lost) and is_terminal(sys.stdin) and not (yes or json or is_remote(graph.uri))
    if asked and not typer.confirm("Apply?", default=False, err=True):
        raise refuse_unconfirmed("schema apply --allow-data-loss")


def _text(schema: str | None) -> str | Path:
    if schema is None:
        raise typer.BadParameter("give the new schema: --schema FILE")
    return text_argument(schema)


def infer(
    files: Annotated[
        list[Path],
        typer.Argument(help="Parquet, CSV or JSON-lines files, named after their types."),
    ],
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="How many rows of each file are read at most.")
    ] = 10_000,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Print why each choice was made, as comments.")
    ] = False,
    json: Json = False,
) -> None:
    """Propose a schema for files, for review.

    Example: omnigraphdb schema infer person.csv knows.csv --evidence
    """
    from omnigraphdb.api.texts import infer_schema

    proposal = infer_schema(files, rows_max=rows)
    if json:
        say_json(proposal.to_dict())
        return
    if evidence:
        for choice in proposal.choices:
            say(f"// {choice.place}: {choice.chosen}: {choice.evidence}")
    say(proposal.source)
    for type_name, renames in proposal.renames.items():
        listed = ", ".join(f"'{old}' to '{new}'" for old, new in renames.items())
        suggest(f"rename the columns {listed} of {type_name} before you load it")
    for risk in proposal.risks:
        warn(f"{risk.place}: {risk.risk}")
