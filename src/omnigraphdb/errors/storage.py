"""Errors of the store and of single tables in it."""

from omnigraphdb.errors.base import OmniError
from omnigraphdb.errors.conflict import ConflictError
from omnigraphdb.errors.input import NotFoundError


class StorageError(OmniError):
    """The store failed; look before repeating.

    Read first, to see whether the last request arrived; then repeat.
    """

    kind = "storage_error"
    http_code = "internal"

    def __init__(
        self, message: str, *, storage_kind: str = "unknown", hint: str | None = None
    ) -> None:
        super().__init__(message, details={"storage": {"kind": storage_kind}}, hint=hint)
        self.storage_kind = storage_kind


class ClockSkew(StorageError):
    """The clock of this machine is too far from that of the store to tell ages by it; nothing was removed.

    Set the clock of the machine right, or run `cleanup` on another one.
    """

    kind = "clock_skew"


class TableNotFound(NotFoundError):
    """A table, its branch or its version is not in the store.

    Look whether cleanup removed the version or the branch was deleted; read a later commit.
    """

    kind = "table_not_found"

    def __init__(self, table: str, what: str = "table") -> None:
        super().__init__(
            f"{what} '{table}' is not in the store",
            details={"missing": {"what": what, "name": table, "did_you_mean": []}},
            hint="cleanup may have removed the version; the branch may have been deleted",
        )
        self.table, self.what = table, what


class RowContention(ConflictError):
    """A compare-and-swap on rows lost against another writer; nothing was written."""

    kind = "row_contention"

    def __init__(self, table: str, branch: str | None, version: int) -> None:
        super().__init__(
            f"another writer changed the same rows of {table} on branch '{branch or 'main'}' after "
            f"version {version}; nothing was written",
            details={"row_contention": {"table": table, "version": version}},
            hint="load again and retry",
        )
        self.table, self.branch, self.version = table, branch, version


class HeadMoved(ConflictError):
    """A table's HEAD is not the base a change was staged on; nothing was committed."""

    kind = "head_moved"

    def __init__(self, table: str, expected: int, actual: int | None) -> None:
        seen = f"HEAD is {actual}" if actual is not None else "HEAD has moved on"
        super().__init__(
            f"a change of {table} was staged on version {expected}, but {seen}; nothing was committed",
            details={"head_moved": {"table": table, "expected": expected, "actual": actual}},
            hint="stage again on the new HEAD",
        )
        self.table, self.expected, self.actual = table, expected, actual


class TableExists(ConflictError):
    """A table exists where one was to be created.

    Retry on a fresh look.
    """

    kind = "table_exists"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"a table exists at '{table}'; no changes were made", details={"table": table}
        )
        self.table = table


class ForkExists(ConflictError):
    """A Lance branch of that name exists, or files of a former one are left.

    Retry: the next writer clears the files of a former fork.
    """

    kind = "fork_exists"

    def __init__(self, table: str, branch: str, *, has_ref: bool) -> None:
        left = "exists" if has_ref else "left files behind and has no ref"
        super().__init__(
            f"branch '{branch}' of {table} {left}; no changes were made",
            details={"fork": {"table": table, "branch": branch, "has_ref": has_ref}},
        )
        self.table, self.branch, self.has_ref = table, branch, has_ref
