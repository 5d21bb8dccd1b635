"""Routes about the server itself: whether it lives, whether it serves, and what."""

from omnigraphdb.errors import NotReady
from omnigraphdb.manifest.stamp import CURRENT
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.replies import Reply, reply_json
from omnigraphdb.surfaces.http.served import Served
from omnigraphdb.version import VERSION


def health(_call: Call) -> Reply:
    """Tell that the process lives."""
    return reply_json(
        {
            "status": "ok",
            "version": VERSION,
            "internal_schema_version": CURRENT,
            "source_version": None,
        }
    )


def ready(call: Call) -> Reply:
    """Tell whether requests are served."""
    served = call.served
    ready_count = sum(one.is_readable() for one in served.graphs.values())
    if ready_count == 0:
        raise make_not_ready(served, "empty", ready_count)
    counts = {"graphs_ready": ready_count, "graphs_quarantined": len(served.quarantined)}
    return reply_json({"status": "ready"} | counts)


def make_not_ready(served: Served, status: str, ready_count: int) -> NotReady:
    """Make the refusal of a server that cannot serve, which every route answers alike."""
    return NotReady(status, graphs_ready=ready_count, graphs_quarantined=len(served.quarantined))


def graphs(call: Call) -> Reply:
    """List the served graphs."""
    found = sorted(call.served.graphs.values(), key=lambda one: one.id)
    return reply_json({"graphs": [{"graph_id": one.id, "uri": one.graph.uri} for one in found]})
