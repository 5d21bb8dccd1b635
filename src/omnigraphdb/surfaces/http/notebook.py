"""The page of a graph inside a notebook: a server in a thread of this process, and a frame that shows it."""

import os
import threading
from typing import Final
from weakref import WeakKeyDictionary

import uvicorn

from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConfigError
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.entry import EntryRules
from omnigraphdb.surfaces.http.gate import Gate, RuntimeState
from omnigraphdb.surfaces.http.options import (
    DEFAULT_GRAPH,
    PER_ACTOR_BYTES,
    PER_ACTOR_WRITES,
    Options,
    read_hosts,
)
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.serving import configure, listen

_open: WeakKeyDictionary[Graph, "NotebookPage"] = WeakKeyDictionary()
_opening: Final = threading.Lock()


class NotebookPage:
    """A page that shows a graph for as long as this process lives, or until it is closed."""

    def __init__(self, graph: Graph, *, write: bool, height: int) -> None:
        self.write, self.height = write, height
        self._listener = listen("127.0.0.1", 0)
        port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/ui/g/{DEFAULT_GRAPH}/@main/start"
        self._app = Application(_describe_served(graph, write=write))
        options = Options(graphs={}, single=True, shutdown_seconds=1)
        self._server = uvicorn.Server(configure(self._app, options))
        self._thread = threading.Thread(target=self._run, name="omnigraph-page", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])

    @property
    def is_open(self) -> bool:
        """Whether the page is still served."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the server; the graph stays open."""
        self._server.should_exit = True
        self._thread.join(10)
        self._app.close()
        self._listener.close()

    def _repr_html_(self) -> str:
        """A frame with the page, for notebooks."""
        return (
            f'<iframe src="{self.url}" title="OmniGraph" width="100%" height="{self.height}" '
            f'style="border:1px solid #d5dae1;border-radius:8px"></iframe>'
        )

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        return f"<page of a graph at {self.url}{state}>"


def show(graph: Graph, *, write: bool = False, height: int = 640) -> NotebookPage:
    """Serve a graph to this machine from a thread, as `graph.show()` does; a graph that is shown already keeps its server."""
    with _opening:
        known = _open.get(graph)
        if known is not None and known.is_open and (known.write, known.height) == (write, height):
            return known
        if known is not None:
            known.close()
        _open[graph] = made = NotebookPage(graph, write=write, height=height)
        return made


def _describe_served(graph: Graph, *, write: bool) -> Served:
    gate = Gate(False, not write, None)
    if gate.state_of(graph.guard) is RuntimeState.POLICY_ENABLED:
        raise ConfigError(
            "a policy guards the graph, and a page in a notebook has no token that says who asks; nothing was started",
            hint="serve it with `omnigraphdb serve` and tokens",
        )
    return Served(
        graphs={DEFAULT_GRAPH: ServedGraph(id=DEFAULT_GRAPH, graph=graph)},
        default=DEFAULT_GRAPH,
        gate=gate,
        tokens=None,
        admission=Admission(PER_ACTOR_WRITES, PER_ACTOR_BYTES),
        entry=EntryRules(hosts=read_hosts(None, os.environ)),
        framed=True,
    )
