"""All that a client sees of a graph, and what clients write to it afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraphdb.api.graph import Graph
from tests.simulation.writer_kinds import KEY
from tests.support.story import ACTOR, WRITES, Content, content


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that a graph shows."""

    branches: Mapping[str, Content]
    schema: str
    tags: Mapping[str, str]
    policy: int | None
    request: str


def take_picture(graph: Graph) -> Picture:
    """Read all that a graph shows."""
    policy = graph.policy()
    return Picture(
        branches={b.name: content(graph, b.name) for b in graph.branches()},
        schema=graph.schema_source,
        tags={tag.name: tag.commit for tag in graph.tags()},
        policy=None if policy is None else policy.version,
        request=str(graph.operation(KEY).state),
    )


Past = Mapping[tuple[str, str], Content]
"""The content at each commit of each branch."""


def read_past(graph: Graph) -> Past:
    """Read what every commit of every branch shows."""
    return {
        (branch.name, commit.id): content(graph, branch.name, commit.id)
        for branch in graph.branches()
        for commit in graph.commits(branch=branch.name)
    }


# ---- afterwards


def follow_up(graph: Graph) -> Picture:
    """Upsert and delete in every table of every branch; all that is shown then."""
    notes = [n for n in ("Note", "Memo") if n in graph.catalog.nodes]
    for branch in [b.name for b in graph.branches()]:
        graph.load(
            [
                *({"type": "Person", "data": {"k": k, "n": 1}} for k in ("fa", "fb")),
                {"type": "City", "data": {"k": "fx"}},
                *({"type": name, "data": {"k": "followed"}} for name in notes),
                {"edge": "Knows", "from": "fa", "to": "fb", "data": {"id": "fk"}},
                {"edge": "LivesIn", "from": "fa", "to": "fx", "data": {"id": "fl"}},
            ],
            mode="merge",
            branch=branch,
        )
        graph.mutate('query m() { delete Person where k = "fb" }', branch=branch)
    return take_picture(graph)


def write_everything(graph: Graph) -> None:
    """Write in every other way."""
    for branch in [b.name for b in graph.branches()]:
        WRITES["insert"].run(graph, branch, "5", ACTOR)
        WRITES["update"].run(graph, branch, "6", ACTOR)
        WRITES["overwrite"].run(graph, branch, "6", ACTOR)
        graph.ensure_indices(branch=branch)
    graph.branch_create("later")
    WRITES["insert"].run(graph, "later", "7", ACTOR)
    graph.merge("later", actor=ACTOR)
    for branch in [b.name for b in graph.branches() if b.name != "main"]:
        graph.branch_delete(branch)
    graph.schema_apply(f"{graph.schema_source}\nnode Later {{ k: String @key }}\n", actor=ACTOR)
    graph.tag("later")
    graph.optimize()
    graph.cleanup(keep=2, confirm=True)
