"""The writes of a served graph: mutations, loads, schema changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.api.arguments import one_or_names
from omnigraph.api.results import Commit, LoadResult, MutationResult, SchemaApplyResult
from omnigraph.api.texts import schema_of
from omnigraph.catalog.diff.steps import SchemaPlan
from omnigraph.remote import decode
from omnigraph.remote.arguments import Lines, read_lines, refuse_local, spell_headers
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraph.api.types import Mode

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
        body = self._call(source, name, params) | {"branch": self._branch_of(branch)}
        headers = spell_headers(idempotency_key, message)
        done = self._write(("mutate",), body | {"dry_run": dry_run}, if_commit, headers)
        return decode.read_mutation(done)

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
        body = self._server.post(
            self._server.path("load", "ndjson"),
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
        return decode.read_load(body)

    def schema_plan(self, schema: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """Plan a schema change; changes nothing."""
        body = {"schema_source": schema_of(schema).text, "allow_data_loss": allow_data_loss}
        found = self._server.post(self._server.path("schema", "plan"), body)
        return SchemaPlan(decode.read_steps(found), tuple(found.get("warnings", ())))

    def schema_apply(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        message: str | None = None,
        if_commit: str | Commit | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> SchemaApplyResult:
        """Change the schema in one commit."""
        refuse_local(local)
        body = {"schema_source": schema_of(schema).text, "allow_data_loss": allow_data_loss}
        done = self._write(
            ("schema", "apply"), body, if_commit, spell_headers(idempotency_key, message)
        )
        return decode.read_schema_apply(done)
