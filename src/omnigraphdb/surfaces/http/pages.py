"""The explorer's own requests: the files of its page, and what the page must know before it asks for more."""

from omnigraphdb.errors import MethodNotAllowed
from omnigraphdb.policy import PolicyAction
from omnigraphdb.surfaces.http.replies import Reply, reply_json
from omnigraphdb.surfaces.http.requests import Request
from omnigraphdb.surfaces.http.served import Served
from omnigraphdb.surfaces.ui.files import FRAMED_POLICY, find_file

START = ("ui", "start.json")


def find_page(served: Served, request: Request, path: tuple[str, ...]) -> Reply | None:
    """Answer a request for a file of the page; the page itself holds nothing of any graph, so that everyone may see it."""
    if path[0] != "ui" or path == START:
        return None
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(request.method, "/ui", ["GET", "HEAD"])
    if len(path) == 1:
        return Reply(media=None, status=308, headers={"location": "/ui/"})
    packed = "gzip" in request.headers.get("accept-encoding", "")
    found = find_file(path[1:], packed=packed)
    if found is None:
        return None
    headers = dict(found.headers)
    if served.framed:
        headers["content-security-policy"] = FRAMED_POLICY
    if request.method == "HEAD":
        return Reply(media=found.media, headers=headers | {"content-length": str(len(found.body))})
    return Reply(body=found.body, media=found.media, headers=headers)


def describe_start(served: Served, actor: str | None) -> Reply:
    """Tell the page which graphs this visitor may open."""
    may_list = served.gate.may_somewhere(PolicyAction.GRAPH_LIST, actor, None, writes=False)
    shown = sorted(served.graphs) if may_list else [served.default] if served.default else []
    return reply_json({"graphs": shown, "read_only": served.gate.read_only})
