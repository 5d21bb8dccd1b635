"""The policy that a graph keeps: every version of it, on the manifest of main; branches and merges have no part in it."""

import json
from collections.abc import Sequence

import pyarrow as pa

from omnigraphdb.errors import ConflictError, InternalError
from omnigraphdb.manifest.records import KEY, ObjectType, PolicyVersion, policy_of
from omnigraphdb.manifest.table_history import rows_of


def policies_of(rows: pa.Table) -> tuple[PolicyVersion, ...]:
    """Read every version of the policy, oldest first; the last one holds."""
    policy_rows = rows_of(rows, ObjectType.POLICY, (KEY, "metadata"))
    return tuple(_decode(*row.values()) for row in policy_rows.sort_by(KEY).to_pylist())


def _decode(object_id: str, metadata: str) -> PolicyVersion:
    try:
        return policy_of(object_id, json.loads(metadata))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InternalError(
            f"the manifest row '{object_id}' ({ObjectType.POLICY}) has metadata that is not a policy's; the manifest "
            "is damaged"
        ) from error


def require_same(policies: Sequence[PolicyVersion], allowed_by: int) -> None:
    """Refuse a write that another version of the policy allowed than the newest."""
    newest = policies[-1].number if policies else 0
    if newest != allowed_by:
        raise ConflictError(
            "the policy of the graph was set or replaced while this write ran, and who may write was asked before; "
            "nothing was written",
            details={"policy": {"expected": allowed_by, "actual": newest}},
            hint="repeat the write: the policy of now decides",
        )


def require_next(policies: Sequence[PolicyVersion], policy: PolicyVersion) -> None:
    """Refuse a version that was made on another one than the newest."""
    newest = policies[-1].number if policies else 0
    if policy.number != newest + 1:
        raise ConflictError(
            f"the policy of the graph was replaced meanwhile: it has version {newest}, and version "
            f"{policy.number - 1} was expected; nothing was written",
            details={"policy": {"expected": policy.number - 1, "actual": newest}},
            hint="look at the policy of today, then set yours again",
        )
