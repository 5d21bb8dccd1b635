"""Loads of a served graph: rows are sent as a stream of lines."""

from omnigraphdb.api.results import LoadResult
from omnigraphdb.api.verbs.argument import write_body
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.write import LOAD, Load
from omnigraphdb.remote import forms
from omnigraphdb.remote.arguments import read_lines, spell_headers
from omnigraphdb.remote.graph.handle import Handle

LINES = {"content-type": "application/x-ndjson"}


class Loads(Handle):
    """Loads of a served graph."""

    def _load(self, asked: Load, call: Call) -> LoadResult:
        """Send a file of JSON lines, a stream of them, or dicts."""
        asked = self._check(LOAD, asked, call)
        return self._server.post(
            self._server.path("load", "ndjson"),
            forms.LOAD,
            writes=not asked.dry_run,
            content=read_lines(asked.source),
            headers=LINES | spell_headers(call.key, call.message),
            params=write_body(asked, {"source": None}),
        )
