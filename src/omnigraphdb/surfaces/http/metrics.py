"""Numbers about a server in the text format of Prometheus."""

from collections.abc import Iterable
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ManifestConflict, OmniError, PolicyDenied
from omnigraphdb.ids import MAIN
from omnigraphdb.policy import PolicyAction, ResourceScope
from omnigraphdb.surfaces.http.gate import Ask
from omnigraphdb.surfaces.http.served import Served

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests; what the server knows anyway is read when it is asked for."""

    def __init__(self, served: Served) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_http_requests",
            "Requests, by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "omnigraph_http_request_duration_seconds",
            "Time to the end of an answer.",
            ("route", "method"),
            registry=self.registry,
        )
        self._conflicts = Counter(
            "omnigraph_manifest_conflicts",
            "Writes that were refused because a table had moved.",
            registry=self.registry,
        )
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        """The numbers of one route, method and status; to find them by their labels takes longer than to count."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._served = served

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = self._known.get((route, method, status))
        if known is None:
            known = (
                self._requests.labels(route, method, str(status)),
                self._seconds.labels(route, method),
            )
            self._known[route, method, status] = known
        requests, duration = known
        requests.inc()
        duration.observe(seconds)

    def count_failure(self, error: Exception) -> None:
        """Count a refusal that is worth watching."""
        if isinstance(error, ManifestConflict):
            self._conflicts.inc()

    def spell(self, actor: str | None) -> bytes:
        """Spell every number that an actor may see; one that may read nothing is refused."""
        numbers = _ServedNumbers(self._served, actor)
        if self._served.tokens is not None and self._served.graphs and not numbers.has_readable:
            raise PolicyDenied("denied: metrics need the right to read a graph", action="read")
        return generate_latest(self.registry) + generate_latest(numbers)


class _ServedNumbers(Collector):
    """The numbers that change by themselves, of the branches that an actor may read."""

    def __init__(self, served: Served, actor: str | None) -> None:
        self._served, self._actor = served, actor

    @property
    def has_readable(self) -> bool:
        """Whether the actor may read a branch of some graph."""
        return any(
            self._served.gate.may_somewhere(
                PolicyAction.READ, self._actor, one.graph.guard, writes=False
            )
            for one in self._served.graphs.values()
        )

    def _may_read(self, graph: Graph, branch: str) -> bool:
        ask = Ask(PolicyAction.READ, ResourceScope.branch(branch))
        return self._served.gate.allows(ask, self._actor, graph.guard)

    def collect(self) -> Iterable[Metric]:
        """Read the numbers that change by themselves."""
        writes = GaugeMetricFamily(
            "omnigraph_writes_inflight", "Writes under way.", labels=("actor",)
        )
        for actor, count in self._served.admission.counts().items():
            writes.add_metric((actor,), count)
        yield writes
        yield CounterMetricFamily(
            "omnigraph_admission_rejections",
            "Writes that were refused because their actor had too many under way.",
            value=self._served.admission.rejections,
        )
        reads = GaugeMetricFamily("omnigraph_reads_inflight", "Reads that run.", labels=("actor",))
        for actor, count in self._served.turns.counts().items():
            reads.add_metric((actor,), count)
        yield reads
        yield CounterMetricFamily(
            "omnigraph_read_rejections",
            "Reads that were refused because too many of their actor waited.",
            value=self._served.turns.rejections,
        )
        yield GaugeMetricFamily(
            "omnigraph_query_memory_bytes",
            "Bytes of the intermediate results of all queries.",
            value=self._served.memory_used,
        )
        yield from self._read_graphs()

    def _read_graphs(self) -> Iterable[Metric]:
        versions = GaugeMetricFamily(
            "omnigraph_graph_manifest_version",
            "The manifest version of a branch.",
            labels=("graph", "branch"),
        )
        recovered = CounterMetricFamily(
            "omnigraph_recovery_operations",
            "Interrupted writes that recovery ended.",
            labels=("outcome",),
        )
        outcomes: dict[str, int] = {}
        for one in self._served.graphs.values():
            try:
                shows = partial(self._may_read, one.graph)
                for branch in one.graph.branches(shows=shows):
                    version = one.graph.snapshot(branch=branch.name).manifest_version
                    versions.add_metric((one.id, branch.name), version)
                for recovery in one.graph.recoveries() if shows(MAIN) else ():
                    kind = str(recovery.recovery_kind)
                    outcomes[kind] = outcomes.get(kind, 0) + 1
            except OmniError:
                # A graph that cannot be read now has no numbers now.
                continue
        for outcome, count in outcomes.items():
            recovered.add_metric((outcome,), count)
        yield versions
        yield recovered
