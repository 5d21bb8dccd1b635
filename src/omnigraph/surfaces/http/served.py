"""What a server serves: graphs by id, who may ask, and the bounds of its work."""

import re
import threading
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from omnigraph.api.graph import Graph
from omnigraph.api.stored_queries import StoredQueries
from omnigraph.errors import LimitError, NotFound, ResourceLimit, UserInputError
from omnigraph.surfaces.http.admission import Admission
from omnigraph.surfaces.http.gate import Gate
from omnigraph.surfaces.http.tokens import Tokens
from omnigraph.surfaces.mcp.tools import QueryTools
from omnigraph.values import dataclass

_GRAPH_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_RESERVED: Final = frozenset(
    {"policies", "healthz", "readyz", "openapi", "graphs", "metrics", "mcp"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """One graph and its stored queries."""

    id: str
    graph: Graph
    queries: StoredQueries | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """Bounds of requests and answers."""

    body_bytes: int = 1024 * 1024
    load_bytes: int = 32 * 1024 * 1024
    result_rows: int = 1_000_000


@dataclass(slots=True)
class ExportSlots:
    """How many exports run at a time; one more waits for a moment, then is refused."""

    count: int = 8
    wait_seconds: float = 0.25
    _free: threading.BoundedSemaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = threading.BoundedSemaphore(self.count)

    def take(self) -> None:
        """Take a slot, or refuse."""
        if not self._free.acquire(timeout=self.wait_seconds):
            raise self._refusal()

    def _refusal(self) -> LimitError:
        return ResourceLimit(
            "concurrent_exports", self.count, self.count + 1, hint="try again when another ends"
        )

    def give_back(self) -> None:
        """Give a slot back."""
        self._free.release()


@dataclass(slots=True, kw_only=True)
class Served:
    """Everything that requests are answered from."""

    graphs: Mapping[str, ServedGraph]
    default: str | None
    """The graph of flat routes; None when several are served."""
    gate: Gate
    tokens: Tokens | None
    admission: Admission
    limits: SizeLimits = field(default_factory=SizeLimits)
    exports: ExportSlots = field(default_factory=ExportSlots)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    origins: frozenset[str] = frozenset()
    loopback: bool = True
    """Whether the server listens to this machine alone."""
    framed: bool = False
    """Whether other pages of this machine, such as notebooks, may show the page in a frame."""
    request_seconds: float = 0.0
    query_tools: QueryTools = QueryTools.EACH
    draining: bool = False

    def find_graph(self, name: str | None) -> ServedGraph:
        """Find a graph by the id in a path, or that of flat routes."""
        chosen = self.default if name is None else check_graph_id(name)
        if chosen is None or chosen not in self.graphs:
            raise NotFound("graph", chosen or "default")
        return self.graphs[chosen]


def check_graph_id(name: str) -> str:
    """Refuse what is no id of a graph."""
    if not _GRAPH_ID.fullmatch(name) or name in _RESERVED:
        raise UserInputError(
            f"'{name}' is no id of a graph: it has 1 to 64 letters, digits and hyphens, and is none of "
            f"{', '.join(sorted(_RESERVED))}"
        )
    return name
