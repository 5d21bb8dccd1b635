"""The code without one guard, for the fault schedules of a local disk: ten schedules must notice each.

A schedule that cannot fail proves nothing. The mutants of the protocol on object stores are in `mutants`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.recovery import classify, roll_back
from omnigraphdb.recovery.classify import Observed, TablesDecision
from omnigraphdb.recovery.commits import publish_lineage_only
from omnigraphdb.recovery.gather import GatheredOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskMutant:
    """One guard that goes: an attribute of a module or a class, and what stands in its place."""

    name: str
    fault: str
    owner: Any
    attribute: str
    replacement: Callable[..., Any]


def _arm_nothing(sidecars: Sidecars, sidecar: object) -> None:
    """Write no sidecar."""


def _list_none(operation: GatheredOperation) -> Iterator[Observed]:
    return iter(())


def _always_complete(findings: object) -> TablesDecision:
    return TablesDecision.ROLL_FORWARD


def _publish_lineage(operation: GatheredOperation, recorded: object) -> object:
    return publish_lineage_only(operation.committer, operation.id, operation.branch)


DISK_MUTANTS: Final = {
    mutant.name: mutant
    for mutant in (
        DiskMutant(
            name="no_sidecar",
            fault="the intent is not written down",
            owner=Sidecars,
            attribute="arm",
            replacement=_arm_nothing,
        ),
        DiskMutant(
            name="nothing_restored",
            fault="a roll-back leaves tables where the dead writer left them",
            owner=roll_back,
            attribute="_list_moved",
            replacement=_list_none,
        ),
        DiskMutant(
            name="restored_versions_not_published",
            fault="a roll-back restores tables, and their pins stay where they were",
            owner=roll_back,
            attribute="_repin",
            replacement=_publish_lineage,
        ),
        DiskMutant(
            name="half_completed",
            fault="recovery completes an operation of which a part of the tables landed",
            owner=classify,
            attribute="decide_tables",
            replacement=_always_complete,
        ),
    )
}
