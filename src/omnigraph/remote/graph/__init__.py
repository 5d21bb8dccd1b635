"""The handle of a served graph: `Graph`'s methods, where a server has a route for them; one module for each kind of verb."""

from collections.abc import Mapping
from typing import Any

from omnigraph.api.query_results import QueryResult
from omnigraph.api.results import Commit, MutationResult
from omnigraph.remote import decode
from omnigraph.remote.arguments import ARROW, spell_headers, spell_params
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.graph.branching import Branching
from omnigraph.remote.graph.changes import Changes
from omnigraph.remote.graph.diffs import Diffs
from omnigraph.remote.graph.maintenance import Maintenance
from omnigraph.remote.graph.reads import Reads
from omnigraph.remote.graph.writes import Writes
from omnigraph.remote.transport import Transport


def connect(url: str, *, token: str | None = None, graph: str | None = None) -> "RemoteGraph":
    """Reach a graph that a server serves; `graph` is its id, needed where the server has several.

    The token decides who writes. Nothing is asked before the first call.
    """
    return RemoteGraph(Transport(url, token, graph))


@check_arguments
class RemoteGraph(Reads, Writes, Branching, Diffs, Changes, Maintenance):
    """A served graph; safe to share between threads. Calls raise the errors that a graph at hand raises."""

    def on(self, branch: str) -> "RemoteGraph":
        """The same graph with another default branch; closing either closes both."""
        return RemoteGraph(self._server, branch=self._branch_of(branch))

    def stored_queries(self) -> list[dict[str, Any]]:
        """The stored queries of the server: their names, and the parameters that they take."""
        return list(self._server.get(self._server.path("queries"))["queries"])

    def run_stored(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: str | int | Commit | None = None,
        if_commit: str | Commit | None = None,
        expect_mutation: bool | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueryResult | MutationResult:
        """Run a stored query by its name."""
        body = {"params": spell_params(params), "expect_mutation": expect_mutation}
        target = self._target(branch, at)
        if if_commit is not None:
            headers = spell_headers(idempotency_key, message)
            done = self._write(("queries", name), body | target, if_commit, headers)
            return decode.read_mutation(done)
        found = self._server.ask(
            "POST",
            self._server.path("queries", name),
            body=body | target,
            headers={"accept": ARROW, **spell_headers(idempotency_key, message)},
        )
        if found.headers.get("content-type") == ARROW:
            return decode.read_rows(found.content)
        return decode.read_mutation(found.json())
