"""The handle of a served graph: `Graph`'s methods, where a server has a route for them; one module for each kind of verb."""

from collections.abc import Mapping
from typing import Any

from omnigraphdb.api.query_results import QueryResult
from omnigraphdb.api.results import Commit, MutationResult
from omnigraphdb.api.verbs.branch import BranchVerbs
from omnigraphdb.api.verbs.history import HistoryVerbs
from omnigraphdb.api.verbs.maintenance import MaintenanceVerbs
from omnigraphdb.api.verbs.read import ReadVerbs
from omnigraphdb.api.verbs.schema import SchemaVerbs
from omnigraphdb.api.verbs.tag import TagVerbs
from omnigraphdb.api.verbs.write import WriteVerbs
from omnigraphdb.remote import decode, forms
from omnigraphdb.remote.answers import ARROW
from omnigraphdb.remote.arguments import spell_headers, spell_params
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.changes import Changes
from omnigraphdb.remote.graph.diffs import Diffs
from omnigraphdb.remote.graph.reads import Reads
from omnigraphdb.remote.graph.writes import Loads
from omnigraphdb.remote.transport import Transport


def connect(
    url: str,
    *,
    token: str | None = None,
    graph: str | None = None,
    answer_bytes: int | None = None,
) -> "RemoteGraph":
    """Reach a graph that a server serves; `graph` is its id, needed where the server has several.

    The token decides who writes. Nothing is asked before the first call. `answer_bytes` bounds the memory of an answer.
    """
    return RemoteGraph(Transport(url, token, graph, answer_bytes=answer_bytes))


@check_arguments
class RemoteGraph(
    Reads,
    ReadVerbs,
    Loads,
    WriteVerbs,
    SchemaVerbs,
    HistoryVerbs,
    TagVerbs,
    BranchVerbs,
    Diffs,
    Changes,
    MaintenanceVerbs,
):
    """A served graph; safe to share between threads. Calls raise the errors that a graph at hand raises."""

    def on(self, branch: str) -> "RemoteGraph":
        """The same graph with another default branch; closing either closes both."""
        return RemoteGraph(self._server, branch=self._branch_of(branch))

    def stored_queries(self) -> list[dict[str, Any]]:
        """The stored queries of the server: their names, and the parameters that they take."""
        return self._server.get(self._server.path("queries"), forms.QUERIES)

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
            path = ("queries", name)
            return self._write(path, forms.MUTATION, body | target, if_commit, headers)
        found = self._server.ask(
            "POST",
            self._server.path("queries", name),
            body=body | target,
            headers={"accept": ARROW, **spell_headers(idempotency_key, message)},
        )
        return decode.read_rows(found) if found.media == ARROW else found.document(forms.MUTATION)
