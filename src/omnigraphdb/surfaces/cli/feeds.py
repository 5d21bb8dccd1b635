"""Commands of the change feed: poll it, and write the state that it starts from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.display import count_of
from omnigraphdb.surfaces.cli.address import Branch, Json, Store, Uri, choose_graph, open_store
from omnigraphdb.surfaces.cli.differences import Kinds, Limit, Ops, Types, print_changes
from omnigraphdb.surfaces.cli.output import note, remark, say, say_json

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph


def changes_poll(
    uri: Uri = None,
    branch: Branch = "main",
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="Continue after this cursor.", show_default=False)
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", help="now (default), beginning, or after:COMMIT."),
    ] = None,
    types: Types = None,
    kinds: Kinds = None,
    ops: Ops = None,
    limit: Limit = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Read the change feed: whole commits, then the next cursor.

    Example: omnigraphdb changes poll people.omni --start beginning
    """
    if cursor is not None and start is not None:
        raise typer.BadParameter("--cursor and --start exclude each other")
    with open_store(choose_graph(uri, store)) as graph:
        since = cursor if cursor is not None else _since(graph, branch, start or "now")
        page = graph.changes(
            branch=branch, since=since, limit=limit, types=types, kinds=kinds, ops=ops
        )
        if json:
            say_json(page.to_dict())
            return
        for block in page.blocks:
            say(f"commit {block.commit.id}  {block.commit.kind}  {block.commit.actor or '-'}")
            print_changes(block.changes)
        if page.engine != "local":
            remark(f"compared by {page.engine}: {page.reason}")
        note("caught up" if page.caught_up else "there is more")
        say(page.cursor)


def changes_baseline(
    out: Annotated[Path, typer.Option("--out", help="The file to write, or to replace.")],
    uri: Uri = None,
    branch: Branch = "main",
    types: Types = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Write every entity to a file, and print the cursor after it.

    Example: omnigraphdb changes baseline people.omni --out people.jsonl
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.baseline(out, branch=branch, types=types)
        if json:
            say_json(found.to_dict())
            return
        note(f"wrote {count_of(found.records, 'record')} to {out}")
        say(found.commit.id)
        say(found.cursor)


def _since(graph: "Graph", branch: str, start: str) -> str | None:
    match start.partition(":"):
        case ("beginning", "", _):
            return None
        case ("now", "", _):
            return graph.commits(branch=branch, limit=1)[0].id
        case ("after", ":", commit) if commit:
            return commit
    raise typer.BadParameter(f"'{start}' is not one of now, beginning, after:COMMIT")
