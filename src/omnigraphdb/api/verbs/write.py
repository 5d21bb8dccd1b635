"""Writes of rows: mutations and loads."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraphdb import ids
from omnigraphdb.api.arguments import name_and_params, path_of
from omnigraphdb.api.results import Commit, LoadResult, MutationResult
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import (
    BranchName,
    Flag,
    Mode,
    Names,
    OneOrNames,
    OwnBranch,
    QueryText,
    Rows,
    Text,
    arg,
    arguments,
)
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Verb
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.ids import LoadMode
from omnigraphdb.manifest.names import branch_name

if TYPE_CHECKING:
    from omnigraphdb.api import types
    from omnigraphdb.api.types import Source, SparkChoice
    from omnigraphdb.api.verbs.handle import Handle
    from omnigraphdb.pipeline.progress import OnProgress

Scope = Mapping[str, str | None]


# ---- mutate


@arguments
class Mutate:
    """A mutation. With `dry_run` it is only counted and checked."""

    source: QueryText = arg("The text of the mutation.", wire="query")
    name: Text | None = arg("The mutation to run, where the text has several.", default=None)
    params: Mapping[str, Any] | None = arg("Values of its parameters, by name.", default=None)
    branch: OwnBranch = arg("The branch; main by default.", default=None)
    dry_run: Flag = arg("Count and check; write nothing.", default=False)


def _scope_mutate(graph: "Handle", asked: Mutate) -> Scope:
    return {"branch": graph._target(asked.branch, "mutate")}


def _run_mutate(graph: "Handle", asked: Mutate, call: Call) -> MutationResult:
    from omnigraphdb.engine.write.mutate import mutate

    return mutate(
        graph._engine,
        asked.source,
        asked.name,
        asked.params,
        branch=graph._target(asked.branch, "mutate"),
        options=call.options,
        dry_run=asked.dry_run,
    )


MUTATE = Verb(
    arguments=Mutate,
    result="omnigraphdb.engine.results:MutationResult",
    run=_run_mutate,
    kind=CallKind.MUTATE,
    scope=_scope_mutate,
    summary="Run a mutation in one commit, or not at all",
    endpoint=Endpoint(method=Method.POST, path="/mutate", operation="mutate", input="MutateInput"),
    writes=True,
    keyed=True,
    conditional=True,
)


# ---- load


@arguments
class Load:
    """Rows to load."""

    source: Rows = arg("JSON lines.", wire="data")
    mode: Mode = arg("`append`, `merge` (default) or `overwrite`.", default=LoadMode.MERGE)
    branch: OwnBranch = arg("The branch; main by default.", default=None)
    from_branch: BranchName | None = arg(
        "Create a missing branch from this one.", wire="from", default=None
    )
    append_only: Names = arg("Types that must bring new ids in a merge.", default=())
    create_missing: OneOrNames = arg(
        "Create nodes of this type that edges name and that are nowhere.", default=()
    )
    dry_run: Flag = arg("`true`: read and check everything, write nothing.", default=False)
    type: Text | None = arg("The type of a single frame.", default=None, local=True)
    allow_empty: bool = arg("Let overwrite remove all rows.", default=False, local=True)
    batch_id: Text | None = arg("Load this batch once per branch.", default=None, local=True)
    rejects: str | os.PathLike[str] | None = arg(
        "Write every problem to a file.", default=None, local=True
    )


def _scope_load(graph: "Handle", asked: Load) -> Scope:
    branch, base = graph._target(asked.branch, "load"), _name_base(asked)
    made = branch if graph._guard.makes_branch(branch, base) else None
    return {"branch": branch, "base": base, "made": made}


def _name_base(asked: Load) -> ids.BranchName | None:
    return None if asked.from_branch is None else branch_name(asked.from_branch, "load")


def _run_load(graph: "Handle", asked: Load, call: Call) -> LoadResult:
    from omnigraphdb.api.loading import make_runner_choice
    from omnigraphdb.engine.write.load import load
    from omnigraphdb.pipeline.rejects import parse_rejects

    engine, target = graph._engine, graph._target(asked.branch, "load")
    base = _name_base(asked)
    rejects = asked.rejects
    if asked.append_only:
        # Only a load in steps knows modes per type, and steps need scratch files.
        engine.require_writable("load with append_only")
    with graph._job(JobKind.LOAD, target, call.actor, call.progress) as on_progress:
        return load(
            engine,
            asked.source if asked.type is None else {asked.type: asked.source},
            mode=asked.mode,
            branch=target,
            from_branch=base,
            options=call.options,
            allow_empty=asked.allow_empty,
            dry_run=asked.dry_run,
            choose_runner=make_runner_choice(
                engine, call.spark, on_progress, in_steps=bool(asked.append_only)
            ),
            batch_id=asked.batch_id,
            strict=asked.append_only,
            on_progress=on_progress,
            rejects=parse_rejects(None if rejects is None else path_of("rejects", rejects)),
            create=asked.create_missing,
        )


LOAD = Verb(
    arguments=Load,
    result="omnigraphdb.engine.results:LoadResult",
    run=_run_load,
    kind=CallKind.LOAD,
    scope=_scope_load,
    summary="Load JSON lines in one commit, or not at all",
    endpoint=Endpoint(method=Method.POST, path="/load", operation="load", input="LoadInput"),
    writes=True,
    keyed=True,
)

WRITE_VERBS: tuple[Verb[Any, Any], ...] = (MUTATE, LOAD)


# ---- methods


class WriteVerbs(Calls):
    """Writes of rows: mutations and loads."""

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
        query_name, values = name_and_params(name, params)
        asked = Mutate(
            source=source,  # type: ignore[arg-type]
            name=query_name,
            params=values,
            branch=branch,
            dry_run=dry_run,
        )
        call = Call(actor=actor, message=message, key=idempotency_key, if_commit=if_commit)
        return self._call(MUTATE, asked, call)

    def load(
        self,
        source: "Source",
        *,
        mode: "types.Mode",
        type: str | None = None,
        branch: str | None = None,
        from_branch: str | None = None,
        actor: str | None = None,
        allow_empty: bool = False,
        dry_run: bool = False,
        spark: "SparkChoice" = "auto",
        progress: "OnProgress | None" = None,
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
        asked = Load(
            source=source,  # type: ignore[arg-type]
            mode=mode,  # type: ignore[arg-type]
            branch=branch,
            from_branch=from_branch,
            append_only=append_only,
            create_missing=create_missing,  # type: ignore[arg-type]
            dry_run=dry_run,
            type=type,
            allow_empty=allow_empty,
            batch_id=batch_id,
            rejects=rejects,
        )
        call = Call(
            actor=actor,
            message=message,
            key=idempotency_key,
            if_commit=if_commit,
            progress=progress,
            spark=spark,
        )
        return self._load(asked, call)

    def _load(self, asked: Load, call: Call) -> LoadResult:
        """Run a load; a client sends its rows as a stream."""
        return self._call(LOAD, asked, call)
