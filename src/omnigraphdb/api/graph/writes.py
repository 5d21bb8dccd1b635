"""The writes of a graph: mutations, loads, schema changes."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.arguments import (
    flag_of,
    names_of,
    number_column,
    one_or_names,
    path_of,
    text_column,
    text_of,
)
from omnigraphdb.api.graph.handle import Handle
from omnigraphdb.api.guard import Permission
from omnigraphdb.api.results import Commit, LoadResult, MutationResult
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.snapshot import name_and_params
from omnigraphdb.api.texts import source_of
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.names import branch_name

if TYPE_CHECKING:
    from omnigraphdb.api.types import Frame, Mode, Source, SparkChoice
    from omnigraphdb.engine.schema.infer import SchemaProposal
    from omnigraphdb.pipeline.progress import Tell


class Writes(Handle):
    """The writes of a graph: mutations, loads, schema changes."""

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
        if_commit: str | Commit | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation: one commit for all of its statements, or nothing.

        `dry_run` counts what would change, checks every rule and writes nothing. The commit stores `message`. The same
        request with the same `idempotency_key` is carried out once: repeated, it returns its first result, `replayed`.

        Example:
            >>> grow = "query grow($who: String, $age: I32) { update Person set { age: $age } where name = $who }"
            >>> graph.mutate(grow, {"who": "Bo", "age": 41}, actor="ada").affected_nodes
            1
        """
        from omnigraphdb.engine.write.mutate import mutate

        chosen, values = name_and_params(name, params)
        target = self._target(branch, "mutate")
        by = self._authorize(CallKind.MUTATE, actor, branch=target)
        return mutate(
            self._engine,
            source_of(source),
            chosen,
            values,
            branch=target,
            options=self._options(
                by, message=message, idempotency_key=idempotency_key, if_commit=if_commit
            ),
            dry_run=flag_of("dry_run", dry_run),
        )

    def load(
        self,
        source: "Source",
        *,
        mode: "Mode",
        type: str | None = None,
        branch: str | None = None,
        from_branch: str | None = None,
        actor: str | None = None,
        allow_empty: bool = False,
        dry_run: bool = False,
        spark: "SparkChoice" = "auto",
        progress: "Tell | None" = None,
        batch_id: str | None = None,
        append_only: Sequence[str] = (),
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: str | os.PathLike[str] | None = None,
        if_commit: str | Commit | None = None,
        create_missing: str | Sequence[str] = (),
    ) -> LoadResult:
        """Load records or frames in one commit; `type` names the type of a single frame.

        `dry_run` reads and checks everything and writes nothing. `spark` is a session, True, or False; `auto` asks
        Spark for large inputs and Spark DataFrames, where it is installed. A `batch_id` is loaded once per branch:
        bringing it again writes nothing. `progress` is called with a `Progress` when a phase begins, as it goes on and
        when it is done; what it raises before the commit stops the load. Types in `append_only` must bring new ids while the
        others of a merge replace rows. `rejects` names a `.jsonl`, `.csv` or `.parquet` file that receives every problem of a
        load that is refused, or is `"frame"`: the error then has them as the Arrow table `rejects`. With `if_commit` the load is
        refused unless that commit is the head of the branch. `create_missing` names node types whose nodes an id alone can
        make: an edge may then end at an id that is nowhere, and the load creates that node; `created` of the result counts
        them.

        Example:
            >>> graph.load([{"type": "Person", "data": {"name": "Ed", "age": 7}}], mode="append").tables
            {'node:Person': 1}
            >>> import pyarrow as pa
            >>> graph.load(pa.table({"name": ["Ed", "Flo"], "age": [8, 9]}), type="Person", mode="merge").total_rows
            2
        """
        from omnigraphdb.api.loading import chooser
        from omnigraphdb.engine.write.load import load
        from omnigraphdb.pipeline.rejects import parse_rejects

        engine = self._engine
        if isinstance(source, str):
            source = path_of("source", source)
        target, base = self._load_target(branch, from_branch)
        by = self._authorize_load(actor, target, base)
        if append_only:
            # Only a load in steps knows modes per type, and steps need scratch files.
            engine.require_writable("load with append_only")
        with self._job(JobKind.LOAD, target, by.actor, progress) as tell:
            return load(
                engine,
                source if type is None else {text_of("type", type): source},
                mode=text_of("mode", mode),
                branch=target,
                from_branch=base,
                options=self._options(
                    by, message=message, idempotency_key=idempotency_key, if_commit=if_commit
                ),
                allow_empty=allow_empty,
                dry_run=flag_of("dry_run", dry_run),
                choose=chooser(engine, spark, tell, in_steps=bool(append_only)),
                batch_id=None if batch_id is None else text_of("batch_id", batch_id),
                strict=names_of("append_only", append_only) or (),
                tell=tell,
                rejects=parse_rejects(None if rejects is None else path_of("rejects", rejects)),
                create=one_or_names("create_missing", create_missing),
            )

    def _load_target(
        self, branch: str | None, from_branch: str | None
    ) -> tuple[BranchName, BranchName | None]:
        base = None if from_branch is None else branch_name(from_branch, "load")
        return self._target(branch, "load"), base

    def _authorize_load(
        self, actor: str | None, target: BranchName, base: BranchName | None
    ) -> Permission:
        made = target if self._guard.makes_branch(target, base) else None
        return self._authorize(CallKind.LOAD, actor, branch=target, base=base, made=made)

    def assign(
        self,
        target: str,
        ids: Iterable[str],
        values: Iterable[int | float | None],
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Set one number property, `Person.age`, of the nodes with these ids: one commit, or nothing.

        Ids that do not exist are left out; values that are there already are left alone.

        Example:
            >>> graph.assign("Person.age", ["Ada", "nobody"], [36, 1]).affected_nodes
            0
        """
        from omnigraphdb.engine.write.assign import assign_values

        type_name, _, property_name = text_of("target", target).partition(".")
        into = self._target(branch, "assign")
        by = self._authorize(CallKind.ASSIGN, actor, branch=into)
        return assign_values(
            self._engine,
            type_name,
            property_name,
            text_column("ids", ids),
            number_column("values", values),
            branch=into,
            options=self._options(by, message=message),
        )

    def schema_from(
        self,
        source: "str | Path | Iterable[str | Path] | Mapping[str, Frame]",
        *,
        rows_max: int = 10_000,
    ) -> "SchemaProposal":
        """Propose the schema of this graph with types for new data, for review; changes nothing.

        `source` is what `omnigraphdb.infer_schema` takes; types that the graph has are left as they are, and edges may end at
        their nodes. The proposal goes to `schema_apply`.

        Example:
            >>> import pyarrow as pa
            >>> cities = {"City": pa.table({"name": ["Oslo", "Turin"], "people": [7, 8]})}
            >>> print(graph.schema_from(cities).source.removeprefix(graph.schema_source).strip())
            node City {
              name: String @key
              people: I64
            }
        """
        from omnigraphdb.api.texts import propose_schema

        with self.snapshot() as snapshot:
            return propose_schema(
                source,
                rows_max,
                schema=self._engine.contracts.current().source,
                read_ids=lambda name: snapshot.table(name, ["id"])["id"],
                known=self.catalog,
            )
