"""How a graph is made, opened, and reached when it cannot be opened."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.api.arguments import config_of, location_of, options_of, read_policy, text_of
from omnigraph.api.graph import Graph
from omnigraph.api.results import DiscardedRecovery
from omnigraph.api.texts import schema_of
from omnigraph.catalog.ir.encode import shape_hash
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.engine.session.open import init_graph, open_graph, open_unsettled
from omnigraph.errors import AlreadyInitialized
from omnigraph.ids import OperationId
from omnigraph.manifest.names import actor_name

if TYPE_CHECKING:
    from omnigraph.api.reports import RelocateReport
    from omnigraph.policy import PolicyChecker


def init(
    uri: str | os.PathLike[str],
    schema: str | Path,
    *,
    force: bool = False,
    exist_ok: bool = False,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Graph:
    """Create a graph with a schema and open it.

    Example:
        >>> graph = omnigraph.init("pets.omni", "node Pet { name: String @key  legs: U32 }", actor="ada")
        >>> graph.catalog.nodes["Pet"].properties["legs"].type.display
        'U32'
    """
    text, actor = schema_of(schema), actor_name(actor)
    try:
        engine = init_graph(
            location_of(uri),
            text,
            force=force,
            storage_options=options_of("storage_options", storage_options),
            config=config_of(config),
        )
    except AlreadyInitialized:
        if not exist_ok:
            raise
        graph = open(
            uri,
            storage_options=options_of("storage_options", storage_options),
            actor=actor,
            config=config,
        )
        if shape_hash(graph.catalog) != shape_hash(compile_schema(text)):
            graph.close()
            raise
        return graph
    return Graph(engine, actor=actor)


def open(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    policy: "PolicyChecker | str | Path | None" = None,
    config: Mapping[str, Any] | None = None,
) -> Graph:
    """Open a graph; a read-write open recovers interrupted writes before it returns.

    `policy` guards every writer of the handle: the text of a policy, a `pathlib.Path` to its file, or a checker.

    Example:
        >>> with omnigraph.open("friends.omni", read_only=True) as graph:
        ...     [branch.name for branch in graph.branches()]
        ['main', 'review']
    """
    guard = read_policy(policy)
    actor = actor_name(actor)
    engine = open_graph(
        location_of(uri),
        read_only=read_only,
        storage_options=options_of("storage_options", storage_options),
        config=config_of(config),
    )
    return Graph(engine, actor=actor, guard=guard)


def discard_recovery(
    uri: str | os.PathLike[str],
    operation_id: str,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DiscardedRecovery:
    """Discard a pending operation that prevents the graph from being opened.

    Example:
        >>> try:
        ...     graph = omnigraph.open("friends.omni")
        ... except omnigraph.RecoveryError as error:  # it names the operation
        ...     omnigraph.discard_recovery("friends.omni", error.details["operation_id"])
    """
    from omnigraph.recovery.discard import discard_operation

    engine = open_unsettled(
        location_of(uri), storage_options=options_of("storage_options", storage_options)
    )
    chosen = OperationId(text_of("operation_id", operation_id))
    return discard_operation(engine.committer, engine.recovery.audit, chosen)


def relocate(
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> "RelocateReport":
    """Write the present address of a graph that was moved or copied into its branches; repeat it after a crash.

    Nothing outside the graph is written. Handles that were opened before have to be opened again.

    Example:
        >>> omnigraph.relocate("friends.omni").branches
        {}
    """
    from omnigraph.engine.maintenance.relocate import relocate_graph

    return relocate_graph(
        location_of(uri), storage_options=options_of("storage_options", storage_options)
    )
