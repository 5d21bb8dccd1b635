"""Commands about branches and commits."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.ids import RECOVERY_ACTOR
from omnigraph.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Store,
    Uri,
    Yes,
    announce,
    ask_consent,
    choose_graph,
    open_store,
)
from omnigraph.surfaces.cli.output import say, say_json

if TYPE_CHECKING:
    from omnigraph.api.results import Commit

Name = Annotated[str, typer.Argument(help="The branch.")]


def branch_create(
    name: Name,
    base: Annotated[str, typer.Option("--from", help="The branch to start from.")] = "main",
    at: Annotated[str | None, typer.Option("--at", help="A commit of that branch.")] = None,
    actor: Actor = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Create a branch; nothing is copied.

    Example: omnigraph branch create review --store people.omni
    """
    with open_store(choose_graph(store), read_only=False, actor=actor) as graph:
        announce("branch create", graph)
        made = graph.branch_create(name, from_branch=base, at=at)
        if json:
            say_json({"uri": graph.uri, "from": base, "name": made.name, "actor_id": actor})
        else:
            say(f"created branch {made.name} from {base}")


def branch_list(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """List branches.

    Example: omnigraph branch list people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        names = [branch.name for branch in graph.branches()]
        if json:
            say_json({"branches": names})
        else:
            say("\n".join(names))


def branch_delete(
    name: Name,
    actor: Actor = None,
    store: Store = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete a branch nothing depends on.

    Example: omnigraph branch delete review --store people.omni
    """
    uri = choose_graph(store)
    ask_consent("branch delete", uri, yes=yes, json=json)
    with open_store(uri, read_only=False, actor=actor) as graph:
        announce("branch delete", graph)
        graph.branch_delete(name)
        if json:
            say_json({"uri": graph.uri, "name": name, "actor_id": actor})
        else:
            say(f"deleted branch {name}")


def commit_list(
    uri: Uri = None,
    branch: Branch = "main",
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="actor=…, since=…, until=…, kind=linear|merge|recovery; may be repeated.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most this many.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Oldest first.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Also list commits of other branches that were merged.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """List commits, newest first.

    Example: omnigraph commit list people.omni --filter actor=omnigraph:recovery
    """
    wanted = _filters(filters)
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.commits(
            branch=branch, actor=wanted.get("actor"), since=wanted.get("since"), all=all_
        )
        found = [commit for commit in found if _passes(commit, wanted)][:limit]
        shown = list(reversed(found)) if reverse else found
        if json:
            say_json({"commits": [commit.to_dict() for commit in shown]})
            return
        for commit in shown:
            actor = commit.actor or "-"
            say(f"{commit.id}  {commit.created_at:%Y-%m-%d %H:%M:%S}  {commit.kind:14} {actor}")


def commit_show(
    commit: Annotated[str, typer.Argument(help="The commit, or the beginning of its id.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Show one commit.

    Example: omnigraph commit show 01M7EQ3P4VK0 --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        found = graph.commit(commit)
        body: dict[str, Any] = found.to_dict()
        settled = [one for one in graph.recoveries() if one.commit == found.id]
        if settled:
            body["recovery"] = settled[0].to_dict()
        if json:
            say_json(body)
            return
        for name, value in body.items():
            say(f"{name}: {value}")


_FILTERS = ("actor", "since", "until", "kind")


def _passes(commit: "Commit", wanted: Mapping[str, Any]) -> bool:
    until, kind = wanted.get("until"), wanted.get("kind")
    if until is not None and commit.created_at > until:
        return False
    match kind:
        case None:
            return True
        case "merge":
            return commit.merged_parent is not None
        case "recovery":
            return commit.actor == RECOVERY_ACTOR
        case "linear":
            return commit.merged_parent is None and commit.actor != RECOVERY_ACTOR
        case _:
            return bool(str(commit.kind) == kind)


def _filters(given: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in given or ():
        key, equals, value = pair.partition("=")
        if not equals or key not in _FILTERS:
            raise typer.BadParameter(
                f"'{pair}' is not one of {', '.join(f'{k}=…' for k in _FILTERS)}"
            )
        found[key] = _parse_moment(value) if key in ("since", "until") else value
    if isinstance(found.get("until"), str):
        raise typer.BadParameter(f"until={found['until']} is no moment, as in 2026-01-31T10:00:00")
    return found


def _parse_moment(text: str) -> str | datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
