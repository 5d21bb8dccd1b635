"""Commands about what differs: merge, diff, the changes of a commit, the change feed."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.errors import MergeConflicts, OmniError
from omnigraph.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Store,
    Uri,
    announce,
    choose_graph,
    open_store,
)
from omnigraph.surfaces.cli.output import exit_code, note, say, say_json

if TYPE_CHECKING:
    from omnigraph.api.comparisons import Change, MergeResult
    from omnigraph.api.graph import Graph

CONFLICTS_SHOWN_MAX = 50

Types = Annotated[list[str] | None, typer.Option("--type", help="Only this type; repeatable.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="node or edge; repeatable.")]
Ops = Annotated[
    list[str] | None, typer.Option("--op", help="insert, update or delete; repeatable.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="At most this many changes.")
]


def branch_merge(
    source: Annotated[str, typer.Argument(help="The branch to merge.")],
    into: Annotated[str, typer.Option("--into", help="The branch to merge into.")] = "main",
    granularity: Annotated[
        str,
        typer.Option(
            "--granularity", help="What both sides may not both change: a row or a property."
        ),
    ] = "row",
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
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    actor: Actor = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Merge a branch into another, in one commit.

    Example: omnigraph branch merge review --into main --store people.omni
    """
    with open_store(choose_graph(store), read_only=dry_run, actor=actor) as graph:
        if not dry_run:
            announce("branch merge", graph)
        if delete_branch and "://" in graph.uri and not yes:
            raise typer.BadParameter("deleting a branch of a remote graph needs --yes")
        try:
            result = graph.merge(
                source,
                into=into,
                granularity=granularity,
                dry_run=dry_run,
                allow_older_base=allow_older_base,
            )
        except MergeConflicts as error:
            _print_conflicts(error, json=json)
            raise typer.Exit(exit_code(error)) from error
        body = result.to_dict()
        if delete_branch and not dry_run:
            body |= _delete(graph, source)
        if json:
            say_json(body)
        else:
            _print_merge(result)
        if result.conflicts:
            raise typer.Exit(exit_code(MergeConflicts(result.conflicts)))


def _delete(graph: "Graph", name: str) -> dict[str, Any]:
    """Delete the merged branch; a refusal is only a warning, because the merge is done."""
    try:
        graph.branch_delete(name)
    except OmniError as error:
        note(f"warning: branch {name} was merged but not deleted: {error}")
        return {"branch_deleted": False, "branch_delete_error": str(error)}
    return {"branch_deleted": True}


def _print_merge(result: "MergeResult") -> None:
    would = "would be " if result.dry_run else ""
    say(f"{result.source} into {result.target}: {would}{result.outcome}")
    for key, (inserts, updates, deletes) in result.tables.items():
        say(f"  {key}: +{inserts} ~{updates} -{deletes}")
    if result.commit is not None:
        say(f"commit {result.commit.id}")
    for conflict in result.conflicts[:CONFLICTS_SHOWN_MAX]:
        say(f"  {conflict}")
    _print_more(len(result.conflicts))


def _print_conflicts(error: MergeConflicts, *, json: bool) -> None:
    if json:
        say_json(error.to_dict())
    note(f"error: {len(error.conflicts)} merge conflicts, nothing was written")
    for conflict in error.conflicts[:CONFLICTS_SHOWN_MAX]:
        note(f"{conflict}")
    more = len(error.conflicts) - CONFLICTS_SHOWN_MAX
    if more > 0:
        note(f"and {more} more; --json lists all of them")
    note(f"hint: {error.hint}")


def _print_more(conflicts: int) -> None:
    if conflicts > CONFLICTS_SHOWN_MAX:
        say(f"  and {conflicts - CONFLICTS_SHOWN_MAX} more")


def diff(
    base: Annotated[str, typer.Argument(help="A branch or commit, or A..B.")],
    head: Annotated[str | None, typer.Argument(help="A branch or commit.")] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Counts only.")] = False,
    types: Types = None,
    kinds: Kinds = None,
    ops: Ops = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show what differs between two branches or commits.

    Example: omnigraph diff main review --store people.omni
    """
    one, other = _ends(base, head)
    with open_store(choose_graph(store)) as graph:
        found = graph.diff(one, other, types=types, kinds=kinds, ops=ops)
        body = found.to_dict()
        if json:
            say_json({k: v for k, v in body.items() if k != "changes" or not stat})
            return
        stats = found.stats
        say(f"{one}..{other}: +{stats.inserts} ~{stats.updates} -{stats.deletes}")
        if stat:
            say("\n".join(f"  {name}" for name in stats.types_affected) or "  no differences")
            return
        _print_changes(found.changes)


def _ends(base: str, head: str | None) -> tuple[str, str]:
    one, dots, other = base.partition("..")
    if head is None and dots and one and other:
        return one, other
    if head is None or dots:
        raise typer.BadParameter("name two branches or commits: A B, or A..B")
    return base, head


def _print_changes(changes: Iterable["Change"]) -> None:
    for key, group in groupby(changes, key=lambda change: change.table_key):
        say(f"{key}")
        for change in group:
            text = str(change).replace(f" {key}", "", 1)
            say(f"  {text}")


def commit_changes(
    commit: Annotated[str, typer.Argument(help="The commit, or the beginning of its id.")],
    types: Types = None,
    kinds: Kinds = None,
    ops: Ops = None,
    limit: Limit = None,
    page_token: Annotated[
        str | None,
        typer.Option("--page-token", help="Continue after an earlier page.", show_default=False),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show what a commit changed; a page at a time with --limit.

    Example: omnigraph commit changes 01M7EQ3P4VK0 --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        block = graph.commit_changes(
            commit, types=types, kinds=kinds, ops=ops, limit=limit, page_token=page_token
        )
        if json:
            say_json(block.to_dict())
            return
        more = " on this page" if limit is not None else ""
        say(f"commit {block.commit.id}: {len(block.changes)} changes{more}")
        _print_changes(block.changes)
        if block.next_page_token is not None:
            say(block.next_page_token)


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

    Example: omnigraph changes poll people.omni --start beginning
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
            _print_changes(block.changes)
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

    Example: omnigraph changes baseline people.omni --out people.jsonl
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.baseline(out, branch=branch, types=types)
        if json:
            say_json(found.to_dict())
            return
        note(f"wrote {found.records} records to {out}")
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
