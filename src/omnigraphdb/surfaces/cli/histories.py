"""The command that shows the history of one entity."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.display import format_cell
from omnigraphdb.surfaces.cli.address import (
    Branch,
    Json,
    Store,
    choose_graph,
    open_store,
    read_point,
)
from omnigraphdb.surfaces.cli.data import At
from omnigraphdb.surfaces.cli.moments import show_moment
from omnigraphdb.surfaces.cli.output import note, say, say_json

if TYPE_CHECKING:
    from omnigraphdb.api.comparisons import HistoryChange


def history(
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type of the entity.")],
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the value of its key.")],
    branch: Branch = "main",
    at: At = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="At most this many changes.")
    ] = 100,
    store: Store = None,
    json: Json = False,
) -> None:
    """List the commits that changed one entity, the newest first.

    Changes that came by a merge are followed into the branch that was merged.

    Example: omnigraphdb history Person Ada --store people.omni
    """
    with open_store(choose_graph(None, store)) as graph:
        found = graph.history(type_name, id, branch=branch, at=read_point(at), limit=limit)
    if json:
        say_json(found.to_dict())
        return
    for one in found:
        say(_spell(one))
    for gap in found.gaps:
        note(f"before {gap.commit}: {gap.reason}")
    if found.more:
        note(f"there are more changes than {limit}: raise --limit")
    if not found.changes and not found.gaps:
        note(f"no commit of branch '{branch}' changed {type_name} {id}")


def _spell(one: "HistoryChange") -> str:
    """One line: the commit, who, when, what, and through which merge."""
    commit, change = one.commit, one.change
    values = (
        f"{name}: {format_cell(was)} → {format_cell(now)}"
        for name, (was, now) in change.values.items()
    )
    parts = [
        commit.id,
        show_moment(commit.created_at),
        commit.actor or "-",
        commit.branch,
        str(change.op),
        ", ".join(values),
        f"by merge {one.merges[-1]}" if one.merges else "",
        commit.message or "",
    ]
    return "  ".join(part for part in parts if part)
