"""How a graph is made, opened, and reached when it cannot be opened."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.arguments import config_of, location_of, options_of, read_policy, text_of
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import DiscardedRecovery
from omnigraphdb.api.texts import schema_of
from omnigraphdb.catalog.ir.encode import shape_hash
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.engine.session.open import init_graph, open_graph, open_unsettled
from omnigraphdb.errors import AlreadyInitialized
from omnigraphdb.ids import OperationId
from omnigraphdb.manifest.names import actor_name

if TYPE_CHECKING:
    from omnigraphdb.api.reports import RelocateReport
    from omnigraphdb.policy import PolicyChecker


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
        >>> graph = omnigraphdb.init("pets.omni", "node Pet { name: String @key  legs: U32 }", actor="ada")
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
    except AlreadyInitialized as error:
        if not exist_ok or not error.has_graph:
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
        >>> with omnigraphdb.open("friends.omni", read_only=True) as graph:
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
        ...     graph = omnigraphdb.open("friends.omni")
        ... except omnigraphdb.RecoveryError as error:  # it names the operation
        ...     omnigraphdb.discard_recovery("friends.omni", error.details["operation_id"])
    """
    from omnigraphdb.recovery.discard import discard_operation

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
        >>> omnigraphdb.relocate("friends.omni").branches
        {}
    """
    from omnigraphdb.engine.maintenance.relocate import relocate_graph

    return relocate_graph(
        location_of(uri), storage_options=options_of("storage_options", storage_options)
    )
