"""The writes of a served graph: mutations, loads, schema changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.arguments import one_or_names
from omnigraphdb.api.results import Commit, LoadResult, MutationResult
from omnigraphdb.remote import forms
from omnigraphdb.remote.arguments import Lines, read_lines, refuse_local, spell_headers
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

LINES = {"content-type": "application/x-ndjson"}


@check_arguments
class Writes(Handle):
    """The writes of a served graph: mutations, loads, schema changes."""

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        if_commit: str | Commit | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> MutationResult:
        """Run a mutation: one commit for all of its statements, or nothing; `dry_run` only counts and checks."""
        refuse_local(local)
        body = self._query_body(source, name, params) | {"branch": self._branch_of(branch)}
        headers = spell_headers(idempotency_key, message)
        body |= {"dry_run": dry_run}
        return self._write(
            ("mutate",), forms.MUTATION, body, if_commit, headers, writes=not dry_run
        )

    def load(
        self,
        source: Lines,
        *,
        mode: "Mode",
        branch: str | None = None,
        from_branch: str | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
        create_missing: str | Sequence[str] = (),
        **local: object,
    ) -> LoadResult:
        """Load records in one commit: a file of JSON lines, a stream of them, or dicts; `dry_run` only reads and checks."""
        refuse_local(local)
        return self._server.post(
            self._server.path("load", "ndjson"),
            forms.LOAD,
            writes=not dry_run,
            content=read_lines(source),
            headers=LINES | spell_headers(idempotency_key, message),
            params={
                "mode": str(mode),
                "dry_run": "true" if dry_run else None,
                "branch": self._branch_of(branch),
                "from": from_branch,
                "create_missing": list(one_or_names("create_missing", create_missing)),
            },
        )
