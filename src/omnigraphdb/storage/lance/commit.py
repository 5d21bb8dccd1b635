"""The commit that moves a HEAD, refused when the HEAD is not where the write was staged, and its proof."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final

from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

from omnigraphdb.errors import HeadMoved, Interleaved, OmniError, TableNotFound
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.faults import translate_faults
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.tables import CommitLock
from omnigraphdb.storage.values import Landed, TableAt, TransactionInfo

OPERATION_ID: Final = "omnigraph:operation_id"
ACTOR: Final = "omnigraph:actor"


class VersionTaken(Exception):
    """Raised inside Lance's commit when the version about to be written is not the next one."""


def commit(
    datasets: Datasets,
    base: TableAt,
    transaction: Transaction,
    *,
    operation_id: OperationId,
    actor: str | None,
    lock: CommitLock | None,
    is_conditional: Callable[[], bool] = lambda: False,
) -> Landed:
    """Make a transaction the version after its base, or raise.

    Lance rebases a stale transaction by itself. Under an exclusive kernel lock its commit hook refuses any
    version but the next; the hook replaces put-if-absent by look-then-put, so it is used only there. Without
    such a lock a store that creates nothing twice (`is_conditional`) proves the outcome by the version alone; on
    another one our own transaction is read back.
    """
    ours = name_operation(transaction, operation_id, actor)
    dataset = datasets.at(base)
    fence = _require_next_version(base.version) if lock is not None and lock.exclusive else None
    location = datasets.location(base.path, base.branch, base.version)
    # Files first: a manifest must never be more durable than the files that it names.
    datasets.settle(base.path)
    try:
        with translate_faults(StoreAction.WRITE, location):
            landed = LanceDataset.commit(dataset, ours, max_retries=0, commit_lock=fence)
    except OmniError as error:
        return resolve_failed(datasets, base, ours.uuid, error)
    datasets.settle(base.path)
    if fence is None:
        _require_next(base, landed)
        if not is_conditional():
            _prove(datasets, base, landed, ours.uuid)
    return _make_landed(datasets, base, landed, ours.uuid)


def name_operation(
    transaction: Transaction, operation_id: OperationId, actor: str | None
) -> Transaction:
    """Let a transaction tell which operation it is part of."""
    properties = {OPERATION_ID: operation_id} | ({ACTOR: actor} if actor else {})
    return replace(transaction, transaction_properties=properties)


def transaction_infos(
    datasets: Datasets, path: str, branch: str | None, after: Version, upto: Version
) -> tuple[TransactionInfo, ...]:
    """Read the commits in (after, upto], oldest first; an unreadable commit is listed without its facts."""
    versions = map(Version, range(after + 1, upto + 1))
    return tuple(_info(datasets, path, branch, version) for version in versions)


def _require_next_version(expected: Version) -> Callable[[int], AbstractContextManager[None]]:
    @contextmanager
    def lock(version: int) -> Iterator[None]:
        # Nothing of Lance may be called in here: it panics.
        if version != expected + 1:
            raise VersionTaken(f"version {version} instead of {expected + 1}")
        yield

    return lock


def resolve_failed(datasets: Datasets, base: TableAt, uuid: str, error: OmniError) -> Landed:
    """Return a failed commit that landed all the same, since its answer may have been lost; else raise."""
    following = replace(base, version=Version(base.version + 1))
    try:
        head = datasets.head(base.path, base.branch)
        with translate_faults(StoreAction.READ, datasets.location_of(following)):
            ours = (
                head > base.version
                and _uuid_at(datasets.any(base.path, base.branch), following.version) == uuid
            )
        landed = datasets.at(following) if ours else None
    except OmniError:
        # The store does not answer; the first error says more than the second.
        raise error from None
    if landed is not None:
        return _make_landed(datasets, base, landed, uuid)
    if isinstance(error, HeadMoved):
        raise HeadMoved(base.path, base.version, head) from error.__cause__
    raise error


def _require_next(base: TableAt, landed: LanceDataset) -> None:
    """Require that ours became the very next version: anything else is a foreign commit in between."""
    if landed.version != base.version + 1:
        raise Interleaved(base.path, base.version + 1, landed.version)


def _prove(datasets: Datasets, base: TableAt, landed: LanceDataset, uuid: str) -> None:
    """Require that the next version holds our transaction."""
    expected = base.version + 1
    with translate_faults(StoreAction.READ, datasets.location(base.path, base.branch, expected)):
        landed_uuid = _uuid_at(landed, Version(expected))
    if landed_uuid != uuid:
        raise Interleaved(base.path, expected, None)


def _make_landed(datasets: Datasets, base: TableAt, dataset: LanceDataset, uuid: str) -> Landed:
    at = replace(base, version=Version(dataset.version))
    datasets.keep(at, dataset)
    return Landed(at=at, row_count=int(dataset.count_rows()), uuid=uuid)


def _uuid_at(dataset: LanceDataset, version: Version) -> str | None:
    transaction = _read_transaction(dataset, version)
    return transaction.uuid if transaction is not None else None


def _read_transaction(dataset: LanceDataset, version: Version) -> Transaction | None:
    # A handle of its own: this call borrows it mutably, and other threads could not use a shared one.
    return copy.copy(dataset).read_transaction(version)


def _info(datasets: Datasets, path: str, branch: str | None, version: Version) -> TransactionInfo:
    transaction = _readable(datasets, path, branch, version)
    if transaction is None:
        return TransactionInfo(version=version, uuid=None, operation=None)
    properties = transaction.transaction_properties or {}
    operation_id = properties.get(OPERATION_ID)
    return TransactionInfo(
        version=version,
        uuid=transaction.uuid,
        operation=type(transaction.operation).__name__,
        operation_id=OperationId(operation_id) if operation_id else None,
        actor=properties.get(ACTOR),
        restored=_find_restored(transaction),
    )


def _find_restored(transaction: Transaction) -> Version | None:
    operation = transaction.operation
    return Version(operation.version) if isinstance(operation, LanceOperation.Restore) else None


def _readable(
    datasets: Datasets, path: str, branch: str | None, version: Version
) -> Transaction | None:
    """Read one transaction; None when it was removed, or when this release cannot represent it."""
    try:
        with translate_faults(StoreAction.READ, datasets.location(path, branch, version)):
            return _read_transaction(datasets.any(path, branch), version)
    except (TableNotFound, TypeError):
        return None
