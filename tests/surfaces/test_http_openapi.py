"""The description of the server is what it serves, and every JSON form is the shape that the wire declares."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import omnigraphdb
from omnigraphdb.api import wire
from omnigraphdb.api.branches import BranchList
from omnigraphdb.api.comparisons import MergeResult
from omnigraphdb.api.results import CommitList, SnapshotState
from omnigraphdb.api.verbs.branch import LIST_BRANCHES, BranchesList
from omnigraphdb.api.verbs.history import LIST_COMMITS, CommitsList
from omnigraphdb.api.verbs.verb import run_verb
from omnigraphdb.catalog.diff.steps import SchemaPlan
from omnigraphdb.engine.results import Commit, LoadResult, MutationResult, SchemaApplyResult
from tests.support.reference import OPENAPI, describe_served
from tests.support.served import ADD, NAMES, PEOPLE, SCHEMA, make_graph, serving
from tests.support.shapes import fits


def test_the_committed_description_is_that_of_the_code() -> None:
    assert OPENAPI.read_text(encoding="utf-8") == describe_served()


def test_a_server_describes_itself_as_committed(tmp_path: Path) -> None:
    place = make_graph(tmp_path / "g")
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKEN": "t"}
    server = serving(str(place), log=tmp_path / "log", environment=environment)
    with server as found, found.client() as http:
        assert http.get("/openapi.json").json() == json.loads(OPENAPI.read_text())


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_operations_have_stable_names() -> None:
    names = [one["operationId"] for _, one in operations()]
    assert len(names) == len(set(names))
    assert {"query", "mutate", "load", "listBranches", "mergeBranches", "pollChanges"} <= set(names)
    deprecated = {one["operationId"] for _, one in operations() if one.get("deprecated")}
    assert deprecated == {"read", "change", "ingest", "flatRead", "flatChange", "flatIngest"}


def test_every_reference_in_the_description_leads_somewhere() -> None:
    text = OPENAPI.read_text()
    schemas = json.loads(text)["components"]["schemas"]
    for schema in schemas.values():
        jsonschema_rs.meta.validate(
            schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        )
    named = {one.split('"')[0] for one in text.split("#/components/schemas/")[1:]}
    assert named <= schemas.keys()


def test_results_have_the_shapes_that_the_wire_declares(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        loaded = graph.load(PEOPLE, mode="append")
        fits(LoadResult, loaded.to_dict())
        fits(SnapshotState, graph.snapshot().to_dict())
        fits(wire.ReadOutput, graph.query(NAMES).to_dict())
        graph.branch_create("b")
        done = graph.mutate(ADD, {"n": "Cy"}, branch="b", idempotency_key="k")
        fits(MutationResult, done.to_dict())
        fits(
            MutationResult,
            graph.mutate(ADD, {"n": "Cy"}, branch="b", idempotency_key="k").to_dict(),
        )
        assert done.commit is not None
        fits(Commit, done.commit.to_dict())
        fits(MergeResult, graph.merge("b", dry_run=True).to_dict())
        fits(MergeResult, graph.merge("b").to_dict())
        block = graph.commit_changes(loaded.commit or "", images=True)
        fits(wire.CommitChangesOutput, wire.spell_block(block))
        fits(BranchList, run_verb(graph, LIST_BRANCHES, BranchesList()).to_dict())
        fits(CommitList, run_verb(graph, LIST_COMMITS, CommitsList()).to_dict())
        graph.branch_delete("b")
        wider = SCHEMA.replace("age: I32?", "age: I64?  nick: String?")
        fits(SchemaPlan, graph.schema_plan(wider).to_dict())
        fits(
            SchemaApplyResult,
            graph.schema_apply(SCHEMA + "node Town { name: String }").to_dict(),
        )
        (tmp_path / "q").mkdir()
        (tmp_path / "q" / "a.gq").write_text(f"{NAMES}\n{ADD}")
        for one in graph.stored_queries(tmp_path / "q"):
            fits(wire.QueryCatalogEntry, one.to_dict())


@pytest.mark.parametrize(
    "wrong", [{"branches": ["a"], "details": [], "more": 1}, {"branches": [1], "details": []}, {}]
)
def test_a_form_that_is_not_declared_is_found(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        fits(BranchList, wrong)
