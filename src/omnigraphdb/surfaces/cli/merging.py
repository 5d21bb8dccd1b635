"""`omnigraphdb branch merge`."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.display import count_of
from omnigraphdb.errors import MergeConflicts
from omnigraphdb.ids import Granularity
from omnigraphdb.surfaces.cli.address import (
    Actor,
    Json,
    Key,
    Message,
    Store,
    Yes,
    announce,
    ask_consent,
    choose_graph,
    complete_branch,
    open_store,
)
from omnigraphdb.surfaces.cli.output import exit_code, note, remark, say, say_json, suggest
from omnigraphdb.surfaces.cli.progress import watch

if TYPE_CHECKING:
    from omnigraphdb.api.comparisons import MergeResult

CONFLICTS_SHOWN_MAX = 50


def branch_merge(
    source: Annotated[
        str, typer.Argument(help="The branch to merge.", autocompletion=complete_branch)
    ],
    into: Annotated[
        str,
        typer.Option("--into", help="The branch to merge into.", autocompletion=complete_branch),
    ] = "main",
    granularity: Annotated[
        Granularity,
        typer.Option(
            "--granularity", help="What both sides may not both change: a row or a property."
        ),
    ] = Granularity.ROW,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; write nothing.")
    ] = False,
    allow_older_base: Annotated[
        bool,
        typer.Option(
            "--allow-older-base",
            help="Merge over an older commit if the common history cannot be read.",
        ),
    ] = False,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source afterwards.")
    ] = False,
    yes: Yes = False,
    message: Message = None,
    key: Key = None,
    rejects: Annotated[
        str | None,
        typer.Option("--rejects", metavar="FILE", help="Write every conflict to a .jsonl file."),
    ] = None,
    actor: Actor = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Merge a branch into another, in one commit.

    Example: omnigraphdb branch merge review --into main --store people.omni
    """
    where = choose_graph(store)
    if delete_branch and not dry_run:
        ask_consent("branch merge --delete-branch", where, yes=yes, json=json)
    with open_store(where, read_only=dry_run, actor=actor) as graph:
        if not dry_run:
            announce("branch merge", graph)
        try:
            with watch("branch merge") as on_progress:
                result = graph.merge(
                    source,
                    into=into,
                    granularity=granularity,
                    dry_run=dry_run,
                    allow_older_base=allow_older_base,
                    progress=on_progress,
                    message=message,
                    idempotency_key=key,
                    rejects=rejects,
                    delete_branch=delete_branch,
                )
        except MergeConflicts as error:
            _print_conflicts(error, json=json)
            suggest(f"omnigraphdb diff {into} {source} --store {where}   (what both sides changed)")
            raise typer.Exit(exit_code(error)) from error
        if result.branch_delete_error is not None:
            note(
                f"warning: branch {source} was merged but not deleted: {result.branch_delete_error}"
            )
        if json:
            say_json(result.to_dict())
        else:
            _print_merge(result)
        if result.conflicts:
            raise typer.Exit(exit_code(MergeConflicts(result.conflicts, result.conflicts_total)))


def _print_merge(result: "MergeResult") -> None:
    would = "would be " if result.dry_run else ""
    say(f"{result.source} into {result.target}: {would}{result.outcome}")
    for key, (inserts, updates, deletes) in result.tables.items():
        say(f"  {key}: +{inserts} ~{updates} -{deletes}")
    if result.engine != "local":
        remark(f"done by {result.engine}: {result.reason}")
    if result.commit is not None:
        say(f"commit {result.commit.id}")
    for conflict in result.conflicts[:CONFLICTS_SHOWN_MAX]:
        say(f"  {conflict}")
    _print_more(result.conflicts_total)


def _print_conflicts(error: MergeConflicts, *, json: bool) -> None:
    if json:
        say_json(error.to_dict())
    note(f"error: {count_of(error.total, 'merge conflict')}, nothing was written")
    for conflict in error.conflicts[:CONFLICTS_SHOWN_MAX]:
        note(f"{conflict}")
    more = error.total - CONFLICTS_SHOWN_MAX
    if more > 0:
        note(f"and {more} more; --rejects FILE writes all of them")
    note(f"hint: {error.hint}")


def _print_more(conflicts: int) -> None:
    if conflicts > CONFLICTS_SHOWN_MAX:
        say(f"  and {conflicts - CONFLICTS_SHOWN_MAX} more")
