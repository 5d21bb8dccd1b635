"""Changes of the schema of a graph: planned, and applied."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.results import Commit, SchemaApplyResult, SchemaPlan
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import Flag, SchemaText, arg, arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Verb
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.ids import MAIN

if TYPE_CHECKING:
    from omnigraphdb.api.types import SparkChoice
    from omnigraphdb.api.verbs.handle import Handle
    from omnigraphdb.pipeline.progress import OnProgress


@arguments
class SchemaChange:
    """A schema to plan or apply."""

    schema: SchemaText = arg("The new schema.", wire="schema_source")
    allow_data_loss: Flag = arg(
        "Remove dropped types and properties from history too.", default=False
    )


# ---- plan


def _run_plan(graph: "Handle", asked: SchemaChange, _call: Call) -> SchemaPlan:
    from omnigraphdb.engine.schema.apply import plan_schema

    return plan_schema(graph._engine, asked.schema, allow_data_loss=asked.allow_data_loss)


PLAN_SCHEMA = Verb(
    arguments=SchemaChange,
    result="omnigraphdb.catalog.diff.steps:SchemaPlan",
    run=_run_plan,
    kind=CallKind.READ,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="Show the steps of a schema change",
    endpoint=Endpoint(
        method=Method.POST, path="/schema/plan", operation="planSchema", input="SchemaInput"
    ),
)


# ---- apply


def _scope_apply(_graph: "Handle", _asked: SchemaChange) -> Mapping[str, str | None]:
    return {}


def _run_apply(graph: "Handle", asked: SchemaChange, call: Call) -> SchemaApplyResult:
    from omnigraphdb.api.loading import make_runner_choice
    from omnigraphdb.engine.schema.apply import apply_schema

    with graph._job(JobKind.SCHEMA_APPLY, MAIN, call.actor, call.progress) as on_progress:
        return apply_schema(
            graph._engine,
            asked.schema,
            allow_data_loss=asked.allow_data_loss,
            options=call.options,
            on_progress=on_progress,
            choose_runner=make_runner_choice(graph._engine, call.spark, on_progress),
        )


APPLY_SCHEMA = Verb(
    arguments=SchemaChange,
    result="omnigraphdb.engine.results:SchemaApplyResult",
    run=_run_apply,
    kind=CallKind.APPLY_SCHEMA,
    scope=_scope_apply,
    summary="Change the schema in one commit, or not at all",
    endpoint=Endpoint(
        method=Method.POST, path="/schema/apply", operation="applySchema", input="SchemaInput"
    ),
    writes=True,
    keyed=True,
    conditional=True,
)

SCHEMA_VERBS: tuple[Verb[Any, Any], ...] = (PLAN_SCHEMA, APPLY_SCHEMA)


# ---- methods


class SchemaVerbs(Calls):
    """Changes of the schema of a graph."""

    def schema_plan(self, schema: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """Plan a schema change; changes nothing.

        Example:
            >>> wanted = graph.schema_source.replace("age: I32?", "age: I32?  email: String?")
            >>> [str(step.kind) for step in graph.schema_plan(wanted).steps]
            ['add_property']
        """
        asked = SchemaChange(
            schema=schema,  # type: ignore[arg-type]
            allow_data_loss=allow_data_loss,
        )
        return self._call(PLAN_SCHEMA, asked)

    def schema_apply(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        spark: "SparkChoice" = "auto",
        progress: "OnProgress | None" = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | Commit | None = None,
    ) -> SchemaApplyResult:
        """Change the schema in one commit; `allow_data_loss` removes dropped types and properties from history too.

        Only then rows are written anew. With `if_commit` the change is refused unless that commit is the head of main. `spark` is a session, True, or False; `auto` asks for Spark past the small-work bound.

        Example:
            >>> pets = omnigraphdb.open("pets.omni")
            >>> pets.schema_apply("node Pet { name: String @key  legs: U32  born: Date? }").step_count
            1
        """
        asked = SchemaChange(
            schema=schema,  # type: ignore[arg-type]
            allow_data_loss=allow_data_loss,
        )
        call = Call(
            actor=actor,
            message=message,
            key=idempotency_key,
            if_commit=if_commit,
            progress=progress,
            spark=spark,
        )
        return self._call(APPLY_SCHEMA, asked, call)
