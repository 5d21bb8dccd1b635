"""Errors about a write that recovery has to finish first."""

from omnigraphdb.errors.base import OmniError


class RecoveryError(OmniError):
    """Recovery must finish an earlier write first.

    Do not repeat the write; reopen the graph read-write, or run `omnigraphdb recovery run`.
    """

    kind = "recovery"
    http_code = None


class RecoveryRequired(RecoveryError):
    """An interrupted write covers tables that this write needs."""

    kind = "recovery_required"
    code = "W32"

    def __init__(self, operation_id: str, message: str, *, has_begun: bool = True) -> None:
        """`has_begun`: the write that is told has effects; else another one stands in its way."""
        super().__init__(
            message,
            details={"recovery_required": {"operation_id": operation_id}},
            hint="reopen the graph read-write, or run `omnigraphdb recovery run`",
        )
        self.operation_id = operation_id
        self.has_begun = has_begun


class SidecarUnreadable(RecoveryError):
    """A sidecar cannot be read, so no write is safe."""

    kind = "sidecar_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the recovery sidecar '{path}' cannot be used: {reason}; nothing was written",
            details={"sidecar": {"path": path, "reason": reason}},
            hint="read-only opens work; `omnigraphdb recovery list` shows it, "
            "`omnigraphdb recovery discard ID --confirm` removes it",
        )
        self.path, self.reason = path, reason


class Interleaved(RecoveryError):
    """A change landed, but not on the version it was staged on: a foreign commit lies between."""

    kind = "interleaved"

    def __init__(self, table: str, expected: int, actual: int | None) -> None:
        super().__init__(
            f"a commit to {table} was to become version {expected}, but a foreign commit interleaved "
            f"(it is version {actual if actual is not None else 'unknown'}); HEAD has moved and nothing "
            "was published",
            details={"interleaved": {"table": table, "expected": expected, "actual": actual}},
            hint="leave the recovery sidecar in place and reopen the graph read-write",
        )
        self.table, self.expected, self.actual = table, expected, actual
