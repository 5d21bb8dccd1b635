"""The decision of a branch operation, which its idempotency key keeps until the operation is done."""

from omnigraphdb.ids import MAIN, OperationId
from omnigraphdb.manifest.change import Change, OperationDraft
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.operations import find_operation
from omnigraphdb.manifest.publish import publish


def decide(manifest: Manifest, version: int, *, is_pending: bool = True) -> None:
    draft = OperationDraft(
        key="k",
        actor=None,
        request="digest",
        operation_id=OperationId("o1"),
        receipt={"version": version},
        is_pending=is_pending,
    )
    publish(manifest, Change(branch=MAIN, operation=draft))


def test_a_decision_that_is_taken_again_replaces_the_first(manifest: Manifest) -> None:
    decide(manifest, 1)
    decide(manifest, 2)
    known = find_operation(manifest.load(MAIN), None, "k")
    assert known is not None
    assert (known.receipt, known.is_pending) == ({"version": 2}, True)


def test_a_decision_that_is_recorded_already_writes_nothing(manifest: Manifest) -> None:
    decide(manifest, 1)
    before = manifest.rows.head(None)
    decide(manifest, 1)
    assert manifest.rows.head(None) == before
