"""Commands about one Blob value: get its bytes, or its facts."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.display import format_bytes
from omnigraphdb.surfaces.cli.address import (
    Branch,
    Json,
    Store,
    choose_graph,
    open_store,
    read_point,
)
from omnigraphdb.surfaces.cli.data import At
from omnigraphdb.surfaces.cli.files import replace_file
from omnigraphdb.surfaces.cli.output import print_facts, remark, say_json

if TYPE_CHECKING:
    from omnigraphdb.api.blobs import Blob
    from omnigraphdb.api.graph import Graph


class Entity(StrEnum):
    """What holds the value."""

    NODE = "node"
    EDGE = "edge"


Kind = Annotated[Entity, typer.Argument(metavar="ENTITY", help="node or edge.")]
Type = Annotated[str, typer.Argument(metavar="TYPE", help="Its type.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Property = Annotated[str, typer.Argument(metavar="PROPERTY", help="The Blob property.")]


def get(
    entity: Kind,
    type_name: Type,
    id: Id,
    property: Property,
    branch: Branch = "main",
    at: At = None,
    offset: Annotated[int, typer.Option("--offset", min=0, help="The first byte.")] = 0,
    length: Annotated[
        int | None, typer.Option("--length", min=1, help="At most this many bytes.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to a file.")] = None,
    store: Store = None,
) -> None:
    """Print the bytes of a Blob, or write them to a file.

    An external reference is not downloaded.

    Example: omnigraphdb blob get node Person Ada photo --out ada.jpg --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        found = _find(graph, entity, type_name, id, property, branch, at).read(offset, length)
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(found)
        return
    replace_file(out, lambda stream: stream.write(found))
    remark(f"wrote {len(found):,} bytes to {out}")


def stat(
    entity: Kind,
    type_name: Type,
    id: Id,
    property: Property,
    branch: Branch = "main",
    at: At = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show the size and the place of a Blob; no byte of it is read.

    Example: omnigraphdb blob stat node Person Ada photo --store people.omni
    """
    with open_store(choose_graph(store)) as graph:
        found = _find(graph, entity, type_name, id, property, branch, at)
    if json:
        say_json(found.to_dict())
        return
    size = None if found.size is None else f"{found.size:,} bytes ({format_bytes(found.size)})"
    facts = {"blob": str(found), "kind": found.kind, "size": size, "uri": found.uri}
    print_facts(facts | {"etag": found.etag, "commit": found.commit})


def _find(
    graph: "Graph",
    entity: Entity,
    type_name: str,
    id: str,
    property: str,
    branch: str,
    at: str | None,
) -> "Blob":
    held = graph.catalog.table(type_name).table_key.partition(":")[0]
    if held != entity:
        raise typer.BadParameter(f"'{type_name}' is the type of a {held}, not of a {entity}")
    return graph.blob(type_name, id, property, branch=branch, at=read_point(at))
