"""The command `analyze`: one algorithm over a graph, shown or written back."""

from typing import TYPE_CHECKING, Annotated, Any

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
from omnigraphdb.surfaces.cli.workers import Engine, SparkConf, SparkMaster, choose_workers

if TYPE_CHECKING:
    from omnigraphdb.api.analytics import Projection, Scores
    from omnigraphdb.api.results import MutationResult

ALGORITHMS = (
    "pagerank",
    "degrees",
    "betweenness",
    "wcc",
    "scc",
    "label_propagation",
    "louvain",
    "triangles",
    "k_core",
    "bfs",
    "dijkstra",
)
DISTANCES = ("bfs", "dijkstra")


def analyze(
    algorithm: Annotated[str, typer.Argument(help=f"One of {', '.join(ALGORITHMS)}.")],
    uri: Uri = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--nodes", help="A node type; may be repeated. Default: where the edges end."),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option("--edges", help="An edge type; may be repeated. Default: all."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option("--weight", help="The number property that weighs edges.")
    ] = None,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Let edges lead both ways.")
    ] = False,
    start: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--from", metavar="TYPE ID", help="The node from which bfs and dijkstra measure."
        ),
    ] = None,
    seconds_max: Annotated[
        float | None,
        typer.Option(
            "--seconds-max", metavar="SECONDS", min=0, help="How long the algorithm may run."
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many nodes are shown.")] = 20,
    write: Annotated[
        str | None,
        typer.Option(
            "--write", metavar="TYPE.PROPERTY", help="Write the values back, in one commit."
        ),
    ] = None,
    branch: Branch = "main",
    at: Annotated[
        str | None, typer.Option("--at", help="A commit, version, moment or tag.")
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="Who does the work; auto uses Spark past projection_bytes."),
    ] = Engine.AUTO,
    spark_master: SparkMaster = None,
    spark_conf: SparkConf = None,
    store: Store = None,
    actor: Actor = None,
    json: Json = False,
) -> None:
    """Compute on a graph: ranks, components, communities, distances.

    Example: omnigraphdb analyze pagerank people.omni --edges Knows --top 5
    Example: omnigraphdb analyze bfs people.omni --from Person Ada
    """
    _require_algorithm(algorithm, start)
    with open_store(choose_graph(uri, store), read_only=write is None, actor=actor) as graph:
        if write is not None:
            announce("analyze", graph)
            _require_target(graph, write, algorithm)
        names = edges or list(graph.catalog.edges)
        uses = {name: {"weight": weight, "undirected": undirected} for name in names}
        spark = choose_workers(engine, spark_master, spark_conf or ())
        projection = graph.project(
            nodes or None,
            uses,
            branch=branch,
            at=read_point(at),
            spark=spark,
            seconds_max=seconds_max,
        )
        scores = getattr(projection, algorithm)(*(start or ()))
        done = None if write is None else scores.write(write, branch=branch)
        if json:
            say_json(_describe(projection, scores, done, top))
            return
        say(f"{algorithm}: {projection.node_count} nodes, {projection.edge_count} arcs")
        for one in scores.top(top):
            say(f"{one['value']:<12.6g} {one['type']} {one['id']}")
        if done is not None:
            say(f"wrote {write} of {done.affected_nodes} nodes on branch {branch}")


def _require_algorithm(name: str, start: tuple[str, str] | None) -> None:
    if name not in ALGORITHMS:
        from omnigraphdb.errors import did_you_mean, suggestion

        near = suggestion(did_you_mean(name, ALGORITHMS)) or f"; there are {', '.join(ALGORITHMS)}"
        raise typer.BadParameter(f"unknown algorithm '{name}'{near}")
    if (start is None) is (name in DISTANCES):
        says = "needs" if start is None else "takes no"
        raise typer.BadParameter(f"{name} {says} --from TYPE ID")


def _require_target(graph: Any, target: str, algorithm: str) -> None:
    """Refuse what cannot be written before anything is computed."""
    from omnigraphdb.api.analytics import require_target

    require_target(graph.catalog, target, algorithm)


def _describe(
    projection: "Projection", scores: "Scores", done: "MutationResult | None", top: int
) -> dict[str, Any]:
    return {
        "algorithm": scores.algorithm,
        "nodes": projection.node_count,
        "edges": projection.edge_count,
        "graph_commit_id": projection.commit,
        "engine": projection.engine,
        "reason": projection.reason,
        "top": scores.top(top),
        "written": None if done is None else done.affected_nodes,
        "commit": None if done is None or done.commit is None else done.commit.id,
    }
