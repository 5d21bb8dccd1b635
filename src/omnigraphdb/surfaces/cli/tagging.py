"""Commands about tags, and about requests with idempotency keys."""

from typing import Annotated

import typer

from omnigraphdb.surfaces.cli.address import (
    Actor,
    Branch,
    Json,
    Store,
    Uri,
    announce,
    choose_graph,
    open_store,
    read_point,
)
from omnigraphdb.surfaces.cli.output import say, say_json

Name = Annotated[str, typer.Argument(help="The tag.")]


def tag_create(
    name: Name,
    at: Annotated[
        str | None,
        typer.Option("--at", help="A commit, a manifest version or a tag; the head by default."),
    ] = None,
    branch: Branch = "main",
    actor: Actor = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Name a commit.

    The name stands wherever a commit does, and cleanup keeps what it shows.

    Example: omnigraphdb tag create release-1 --store people.omni
    """
    with open_store(choose_graph(store), read_only=False, actor=actor) as graph:
        announce("tag create", graph)
        made = graph.tag(name, read_point(at), branch=branch)
        if json:
            say_json(made.to_dict())
        else:
            say(f"tagged commit {made.commit} as {made.name}")


def tag_list(uri: Uri = None, store: Store = None, json: Json = False) -> None:
    """List tags, by name.

    Example: omnigraphdb tag list people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.tags()
        if json:
            say_json({"tags": [tag.to_dict() for tag in found]})
            return
        width = max((len(tag.name) for tag in found), default=0)
        for tag in found:
            say(
                f"{tag.name:{width}}  {tag.commit}  {tag.created_at:%Y-%m-%d %H:%M:%S}  {tag.branch}"
            )


def tag_delete(name: Name, actor: Actor = None, store: Store = None, json: Json = False) -> None:
    """Free the name of a tag; its commit stays, until cleanup.

    Example: omnigraphdb tag delete release-1 --store people.omni
    """
    with open_store(choose_graph(store), read_only=False, actor=actor) as graph:
        announce("tag delete", graph)
        graph.tag_delete(name)
        if json:
            say_json({"uri": graph.uri, "name": name, "actor_id": actor})
        else:
            say(f"deleted tag {name}")


def operation(
    key: Annotated[str, typer.Argument(help="The idempotency key.")],
    branch: Branch = "main",
    actor: Annotated[
        str | None,
        typer.Option("--as", envvar="OMNIGRAPH_ACTOR", help="The actor of the request."),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Say what became of a request with an idempotency key.

    It landed, it did not land, or it is undecided.

    Example: omnigraphdb operation import-2026-11-16 --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        found = graph.operation(key, branch=branch, actor=actor)
        if json:
            say_json(found.to_dict())
            return
        say(str(found.state).replace("_", " "))
        if found.commit is not None:
            say(f"commit {found.commit}")
        elif found.operation_id is not None:
            say(f"operation {found.operation_id}")
