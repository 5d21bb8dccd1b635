"""Routes about the server itself: whether it lives, whether it serves, and what."""

from omnigraph import __version__
from omnigraph.manifest.stamp import CURRENT
from omnigraph.surfaces.http.calls import Call
from omnigraph.surfaces.http.replies import Reply, reply_json


def health(_call: Call) -> Reply:
    """Tell that the process lives."""
    return reply_json(
        {
            "status": "ok",
            "version": __version__,
            "internal_schema_version": CURRENT,
            "source_version": None,
        }
    )


def ready(call: Call) -> Reply:
    """Tell whether requests are served."""
    served = call.served
    status = "draining" if served.draining else "ready" if served.graphs else "empty"
    body: dict[str, object] = {
        "status": status,
        "graphs_ready": len(served.graphs),
        "graphs_quarantined": len(served.quarantined),
    }
    if status == "ready":
        return reply_json(body)
    refusal = {"error": f"the server is not ready: it is {status}", "kind": "not_ready"}
    return reply_json(refusal | body, status=503)


def graphs(call: Call) -> Reply:
    """List the served graphs."""
    found = sorted(call.served.graphs.values(), key=lambda one: one.id)
    return reply_json({"graphs": [{"graph_id": one.id, "uri": one.graph.uri} for one in found]})
