"""Routes of the explorer: what a page that shows a graph asks for, each answer bounded."""

from typing import Any, Final, TypeVar

from omnigraphdb.api.drawings import EDGES_DRAWN, NODES_DRAWN
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.api.verbs.call import Call as VerbCall
from omnigraphdb.api.verbs.maintenance import EXAMINE, LIST_RECOVERIES, Examine, RecoveriesList
from omnigraphdb.api.verbs.verb import Verb, run_verb
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.reads import read_point
from omnigraphdb.surfaces.http.replies import Reply, reply_json

_A = TypeVar("_A")

NEIGHBOURS_SHOWN: Final = 50
NEIGHBOURS_MAX: Final = 1_000
"""Edges of one type and direction that a page may ask for."""
VERSIONS_KEPT: Final = 10
"""Versions of each table that a preview of cleanup keeps, unless the caller names another number."""
NODES_MAX: Final = 20_000
EDGES_MAX: Final = 60_000
"""What a drawing may be asked to hold."""


def _open_snapshot(call: Call) -> Snapshot:
    return call.place.graph.snapshot(branch=call.text("branch"), at=read_point(call.text("at")))


# ---- drawings


def neighbours(call: Call) -> Reply:
    """Show the edges of a node and the nodes they lead to."""
    limit = min(call.count("limit") or NEIGHBOURS_SHOWN, NEIGHBOURS_MAX)
    found = _open_snapshot(call).neighbours(
        call.needed("type"),
        call.needed("id"),
        edge=call.text("edge"),
        direction=call.text_or("direction", "both"),  # type: ignore[arg-type]
        limit=limit,
    )
    return reply_json(found.to_dict())


def diff_graph(call: Call) -> Reply:
    """Show what differs between two states as a drawing."""
    found = call.place.graph.diff_drawing(
        call.needed("base"),
        call.needed("head"),
        types=call.texts("type"),
        ops=call.texts("operation"),  # type: ignore[arg-type]
        properties=call.texts("property"),
        actors=call.texts("actor"),
        shows=call.may_read,
        nodes_max=min(call.count("limit_nodes") or NODES_DRAWN, NODES_MAX),
        edges_max=min(call.count("limit_edges") or EDGES_DRAWN, EDGES_MAX),
    )
    return reply_json(found.to_dict())


# ---- health


def doctor(call: Call) -> Reply:
    """Show what is wrong with a graph, and what to do about it; branches that the actor may not read are left out."""
    return _answer(call, EXAMINE, Examine())


def cleanup_preview(call: Call) -> Reply:
    """Show what cleanup would remove, by table; names of forks are those of branches, and stay with who runs it."""
    keep = call.count("keep")
    found = call.place.graph.cleanup_preview(keep=VERSIONS_KEPT if keep is None else keep)
    return reply_json(
        {
            "tables": [
                {
                    "table_key": one.table_key,
                    "versions_removed": one.versions_removed,
                    "bytes_removed": one.bytes_removed,
                    "forks_removed": len(one.forks_removed),
                    "dropped": one.dropped,
                }
                for one in found.tables
            ]
        }
    )


def recoveries(call: Call) -> Reply:
    """Show writes that recovery has yet to finish, and those it finished, of branches that the actor may read."""
    return _answer(call, LIST_RECOVERIES, RecoveriesList(pending=True, settled=True))


def _answer(call: Call, verb: Verb[_A, Any], asked: _A) -> Reply:
    """Answer with texts that may name files by the address of the graph."""
    facts = VerbCall(actor=call.actor, shows=call.may_read)
    return reply_json(call.name_graph(run_verb(call.place.graph, verb, asked, facts).to_dict()))
