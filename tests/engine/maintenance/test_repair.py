"""Repair: foreign commits are shown, judged by what they did, and adopted only when told to."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance.repair import Action, Classification, choose, classify
from omnigraphdb.errors import DriftError, UserInputError
from omnigraphdb.ids import Version
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import IndexKind, IndexSpec, Staged, TableAt, TransactionInfo
from tests.support.maintenance import (
    ADD,
    PERSON,
    appended,
    compacted,
    content,
    drifted,
    entry,
    heads,
    scattered,
)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = scattered(tmp_path / "g")
    yield opened
    opened.close()


def indexed(tables: Tables, at: TableAt) -> Staged | None:
    return tables.stage_indices(at, [IndexSpec(column="note", kind=IndexKind.BTREE)])


# ---- judging


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], Classification.NO_DRIFT),
        (["Rewrite"], Classification.VERIFIED_MAINTENANCE),
        (["ReserveFragments", "Rewrite", "CreateIndex"], Classification.VERIFIED_MAINTENANCE),
        (["Rewrite", "Append"], Classification.SUSPICIOUS),
        (["UpdateConfig"], Classification.SUSPICIOUS),
        (["Restore"], Classification.SUSPICIOUS),
        (["Rewrite", None], Classification.UNVERIFIABLE),
        (["Append", None], Classification.UNVERIFIABLE),
    ],
)
def test_commits_are_judged_by_their_operations(
    operations: list[str | None], expected: Classification
) -> None:
    made = [
        TransactionInfo(version=Version(n), uuid="u", operation=o) for n, o in enumerate(operations)
    ]
    assert classify(made) is expected


@pytest.mark.parametrize(
    ("classification", "preview", "confirmed", "forced"),
    [
        (Classification.NO_DRIFT, Action.NO_OP, Action.NO_OP, Action.NO_OP),
        (Classification.VERIFIED_MAINTENANCE, Action.PREVIEW, Action.HEALED, Action.HEALED),
        (Classification.SUSPICIOUS, Action.PREVIEW, Action.REFUSED, Action.FORCED),
        (Classification.UNVERIFIABLE, Action.PREVIEW, Action.REFUSED, Action.FORCED),
    ],
)
def test_what_is_done_depends_on_the_class_and_on_what_was_allowed(
    classification: Classification, preview: Action, confirmed: Action, forced: Action
) -> None:
    assert choose(classification, confirm=False, force=False) is preview
    assert choose(classification, confirm=True, force=False) is confirmed
    assert choose(classification, confirm=True, force=True) is forced


# ---- doing


def test_a_graph_without_drift_is_left_alone(graph: Graph) -> None:
    before = heads(graph), graph.snapshot().manifest_version
    report = graph.repair(confirm=True, force=True)
    assert {str(one.action) for one in report.tables} == {"no_op"}
    assert report.commit is None
    assert (heads(graph), graph.snapshot().manifest_version) == before


@pytest.mark.parametrize(("stage", "operation"), [(compacted, "Rewrite"), (indexed, "CreateIndex")])
def test_maintenance_is_adopted_once_it_is_confirmed(
    graph: Graph, stage: Callable[[Tables, TableAt], Staged | None], operation: str
) -> None:
    rows = content(graph)
    head = drifted(graph, stage)
    with pytest.raises(DriftError, match="repair"):
        graph.mutate(ADD, {"name": "blocked"})
    preview = next(one for one in graph.repair().tables if one.table_key == PERSON)
    assert (preview.action, preview.operations) == ("preview", (operation,))
    assert entry(graph).version < head
    done = graph.repair(confirm=True, actor="ops")
    person = next(one for one in done.tables if one.table_key == PERSON)
    assert (person.classification, person.action) == ("verified_maintenance", "healed")
    assert entry(graph).version == head == heads(graph)[PERSON]
    assert content(graph) == rows
    assert done.commit is not None
    assert (done.commit.kind, done.commit.actor, done.commit.tables) == ("repair", "ops", (PERSON,))
    assert graph.mutate(ADD, {"name": "free"}).commit is not None
    assert graph.doctor() == []


def test_foreign_rows_need_force(graph: Graph) -> None:
    head = drifted(graph, appended)
    refused = graph.repair(confirm=True)
    person = next(one for one in refused.tables if one.table_key == PERSON)
    assert (person.classification, person.action) == ("suspicious", "refused")
    assert refused.commit is None
    assert graph.entity("Person", "stranger") is None
    graph.repair(confirm=True, force=True)
    assert entry(graph).version == head
    assert graph.entity("Person", "stranger") is not None
    assert graph.doctor() == []


def test_force_alone_is_refused(graph: Graph) -> None:
    with pytest.raises(UserInputError, match="confirm"):
        graph.repair(force=True)


def test_every_table_is_adopted_in_one_publish(graph: Graph) -> None:
    drifted(graph, compacted)
    graph_knows = next(one for one in heads(graph) if one == "edge:Knows")
    drifted(
        graph,
        lambda tables, at: tables.stage_indices(
            at, [IndexSpec(column="since", kind=IndexKind.BTREE)]
        ),
        graph_knows,
    )
    before = graph.snapshot().manifest_version
    done = graph.repair(confirm=True)
    assert done.commit is not None
    assert done.commit.tables == ("edge:Knows", "node:Person")
    assert graph.snapshot().manifest_version == before + 1
