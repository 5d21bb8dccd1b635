"""What a server serves: graphs by id, who may ask, and the bounds of its work."""

import re
import threading
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.stored_queries import StoredQueries
from omnigraphdb.errors import LimitError, NotFound, OmniError, ResourceLimit, UserInputError
from omnigraphdb.memory import MemoryBound, MemoryPool
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.entry import EntryRules
from omnigraphdb.surfaces.http.gate import Gate
from omnigraphdb.surfaces.http.tokens import Tokens
from omnigraphdb.surfaces.http.turns import Turns
from omnigraphdb.surfaces.mcp.tools import QueryTools
from omnigraphdb.values import dataclass

HEADER_BYTES: Final = 64 * 1024
"""The request line and all headers when nobody says otherwise; they are read before it is known who asks."""
REQUEST_SECONDS: Final = 60.0
"""The work of a read, or of one piece of a stream, when nobody says otherwise."""
HEADER_BYTES_SETTING: Final = "--max-header-bytes"
BODY_BYTES_SETTING: Final = "--max-body-bytes"
LOAD_BYTES_SETTING: Final = "--max-load-bytes"
RESULT_ROWS_SETTING: Final = "--max-result-rows"
HEADER_TIME_SETTING: Final = "--header-timeout"
BODY_TIME_SETTING: Final = "--body-timeout"
STALL_TIME_SETTING: Final = "--stall-timeout"
REQUEST_TIME_SETTING: Final = "--request-timeout"
QUERY_MEMORY_SETTING: Final = "--max-query-memory"
MEMORY_SETTING: Final = "--max-memory"
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

    @property
    def addresses(self) -> tuple[str, ...]:
        """The ways in which texts spell where the graph is, the longest first."""
        uri = self.graph.uri
        if "://" in uri.removeprefix("file://"):
            return (uri,)
        path = Path(uri.removeprefix("file://"))
        spelled = {uri, str(path), str(path.absolute()), str(path.resolve())}
        return tuple(sorted((one for one in spelled if "/" in one), key=len, reverse=True))

    def is_readable(self) -> bool:
        """Whether the newest commit of the graph can be found: its folder may have gone, or its store be away."""
        try:
            self.graph.snapshot()
        except OmniError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """Bounds of requests and answers."""

    header_bytes: int = HEADER_BYTES
    """The request line and all headers."""
    body_bytes: int = 1024 * 1024
    load_bytes: int = 32 * 1024 * 1024
    result_rows: int = 1_000_000
    query_memory_bytes: int = 1024 * 1024 * 1024
    """Intermediate results of one query."""
    memory_bytes: int = 4 * 1024 * 1024 * 1024
    """Intermediate results of all queries together."""

    def bound_body(self, *, loads: bool) -> "BodyBound":
        """Give the bound of the body of a request: a load may be larger than another request."""
        if loads:
            return BodyBound(self.load_bytes, LOAD_BYTES_SETTING)
        return BodyBound(self.body_bytes, BODY_BYTES_SETTING)


@dataclass(frozen=True, slots=True)
class BodyBound:
    """The bytes that a body may have, and the option that changes the bound."""

    bytes_max: int
    setting: str

    def require(self, size: int) -> None:
        """Refuse a body of so many bytes when it is too large."""
        if size > self.bytes_max:
            raise ResourceLimit(
                "request_bytes",
                self.bytes_max,
                size,
                hint="send less at a time; each request is a commit of its own",
                setting=self.setting,
            )


NO_TIME_LIMIT: Final = 1e9
"""So many seconds are no limit; a timer cannot be set to infinity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds that the parts of a request may take to arrive."""

    header_seconds: float = 10.0
    """The request line and the headers, from their first byte."""
    body_seconds: float = 300.0
    """The whole body."""
    stall_seconds: float = 20.0
    """The next piece of a body."""
    idle_seconds: float = 5.0
    """The first byte of a connection, and of the next request on it."""


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
    times: TimeLimits = field(default_factory=TimeLimits)
    exports: ExportSlots = field(default_factory=ExportSlots)
    turns: Turns = field(default_factory=Turns)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    entry: EntryRules = field(default_factory=EntryRules)
    """Who is let in, by the headers of a request alone."""
    framed: bool = False
    """Whether other pages of this machine, such as notebooks, may show the page in a frame."""
    request_seconds: float = REQUEST_SECONDS
    query_tools: QueryTools = QueryTools.EACH
    draining: bool = False
    _memory: MemoryPool = field(init=False)

    def __post_init__(self) -> None:
        self._memory = MemoryPool(self.limits.memory_bytes, MEMORY_SETTING)

    def bound_memory(self) -> MemoryBound:
        """Bound the memory of one read."""
        return MemoryBound(self.limits.query_memory_bytes, QUERY_MEMORY_SETTING, self._memory)

    @property
    def memory_used(self) -> int:
        """Bytes of the intermediate results of all reads."""
        return self._memory.used

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
