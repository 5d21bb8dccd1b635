"""Errors of Lance, translated into ours by one table: by type first, by text where the type does not suffice."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import StrEnum
from typing import Final

from lance.commit import CommitConflictError

from omnigraphdb.errors import (
    BranchInUse,
    EngineError,
    HeadMoved,
    InternalError,
    OmniError,
    StorageError,
    TableExists,
    TableNotFound,
    UserInputError,
)
from omnigraphdb.storage.layout import Root
from omnigraphdb.storage.objects.faults import StoreAction, storage_error
from omnigraphdb.values import dataclass


class FaultKind(StrEnum):
    """The meaning of a foreign error to a caller."""

    CONTENTION = "contention"
    FENCED = "fenced"
    EXISTS = "exists"
    MISSING = "missing"
    FILE_MISSING = "file_missing"
    REF_MISSING = "ref_missing"
    REF_IN_USE = "ref_in_use"
    REF_NAME = "ref_name"
    REF_TAKEN = "ref_taken"
    REF_VANISHED = "ref_vanished"
    DAMAGED = "damaged"
    BAD_DATA = "bad_data"
    BAD_REQUEST = "bad_request"
    EXHAUSTED = "exhausted"
    PANIC = "panic"
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One row: the type, the text where the type does not suffice, and the kind."""

    kind: FaultKind
    raised: type[BaseException] = Exception
    text: str = ""

    def fits(self, error: BaseException) -> bool:
        """Type first, then text."""
        return isinstance(error, self.raised) and re.search(self.text, str(error)) is not None


FAULTS: Final = (
    FaultRow(kind=FaultKind.CONTENTION, raised=CommitConflictError),
    FaultRow(kind=FaultKind.CONTENTION, raised=OSError, text=r"Too many concurrent writers"),
    FaultRow(kind=FaultKind.CONTENTION, raised=OSError, text=r"^Incompatible transaction"),
    FaultRow(kind=FaultKind.CONTENTION, raised=OSError, text=r"^Retryable commit conflict"),
    # A compaction names its new fragments; a commit that came before it has taken the ids.
    FaultRow(
        kind=FaultKind.CONTENTION,
        raised=OSError,
        text=r"The commit would produce two fragments with id",
    ),
    FaultRow(
        kind=FaultKind.FENCED, raised=OSError, text=r"Error from commit handler: VersionTaken\b"
    ),
    FaultRow(kind=FaultKind.EXISTS, raised=OSError, text=r"^Dataset already exists"),
    # A writer that loses the race to create a table reads the version before the winner's first.
    FaultRow(kind=FaultKind.EXISTS, raised=OSError, text=r"_versions/0\.manifest was not found"),
    FaultRow(kind=FaultKind.REF_MISSING, raised=ValueError, text=r"^Ref not found"),
    FaultRow(kind=FaultKind.REF_IN_USE, raised=OSError, text=r"^Ref conflict"),
    FaultRow(kind=FaultKind.REF_NAME, raised=OSError, text=r"^Ref is invalid"),
    FaultRow(kind=FaultKind.REF_TAKEN, raised=OSError, text=r"Clone operation should not enter"),
    # Lance lists the refs first and reads them one by one: a branch may be dropped in between.
    FaultRow(kind=FaultKind.REF_VANISHED, text=r"^Not found: .*/_refs/branches/"),
    FaultRow(
        kind=FaultKind.MISSING, text=r"^Dataset at path .* was not found|^Not found: .*_versions"
    ),
    FaultRow(kind=FaultKind.FILE_MISSING, text=r"^External error: .*Not found: "),
    FaultRow(kind=FaultKind.FILE_MISSING, text=r"^LanceError\(IO\): .*Not found: "),
    FaultRow(kind=FaultKind.FILE_MISSING, text=r"^Not found: .*/(?:data|_deletions|_indices)/"),
    # A file that was cut off or overwritten; the message depends on the part that was read first.
    FaultRow(
        kind=FaultKind.DAMAGED, text=r"does not appear to be a Lance file|file size is too small"
    ),
    FaultRow(kind=FaultKind.DAMAGED, text=r"Invalid range \d+\.\.\d+ for object of size"),
    FaultRow(
        kind=FaultKind.DAMAGED,
        text=r"Encountered corrupt file|EOF while parsing a|expected value at line 1 ",
    ),
    FaultRow(kind=FaultKind.DAMAGED, text=r"not contain correct footer|invalid seek to a negative"),
    FaultRow(kind=FaultKind.DAMAGED, text=r"failed to decode Protobuf|failed to fill whole buffer"),
    # A wrong request fails before the first row is read; later a damaged file causes this error.
    FaultRow(
        kind=FaultKind.DAMAGED, raised=ValueError, text=r"^External error: Invalid user input: "
    ),
    # A thread that reads a file panicked over its contents.
    FaultRow(kind=FaultKind.DAMAGED, text=r"reader producer terminated before end of stream"),
    FaultRow(kind=FaultKind.BAD_DATA, raised=OSError, text=r"^Append with different schema"),
    FaultRow(
        kind=FaultKind.BAD_DATA, raised=OSError, text=r"marked non-null|declared as non-nullable"
    ),
    FaultRow(kind=FaultKind.BAD_DATA, raised=OSError, text=r"Blob v2 field"),
    FaultRow(kind=FaultKind.BAD_REQUEST, raised=ValueError, text=r"Invalid user input"),
    FaultRow(kind=FaultKind.BAD_REQUEST, raised=ValueError, text=r"^No match for FieldRef"),
    FaultRow(kind=FaultKind.EXHAUSTED, text=r"Resources exhausted"),
    FaultRow(kind=FaultKind.STORE, raised=OSError),
    FaultRow(kind=FaultKind.STORE, raised=ValueError),
    FaultRow(kind=FaultKind.STORE, raised=RuntimeError),
)

_SOURCE_PLACE: Final = re.compile(
    r",? (?:location: )?(?:/|src/|rust/)\S*\.rs:\d+(?::\d+)?.*$", re.S
)
_NOT_FOUND: Final = re.compile(r"Not found: (.+?)(?:,|$)")
_ERRNO: Final = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """The location of a table version, for the messages of errors."""

    root: Root
    path: str
    branch: str | None = None
    version: int | None = None
    reclaimed: Callable[[], OmniError | None] = field(
        default=lambda: None, compare=False, repr=False
    )
    """Finds the error for a version whose files are missing, if cleanup removed the version."""

    def __str__(self) -> str:
        on = f" on branch '{self.branch}'" if self.branch else ""
        at = f" at version {self.version}" if self.version is not None else ""
        return f"{self.path}{on}{at}"


def classify_fault(error: BaseException) -> FaultKind | None:
    """Find the kind of an error; None for an error that Lance does not raise."""
    if is_panic(error):
        return FaultKind.PANIC
    return next((row.kind for row in FAULTS if row.fits(error)), None)


def is_panic(error: BaseException) -> bool:
    """Tell whether an error is a panic of the library, which is not an Exception."""
    return type(error).__name__ == "PanicException"


@contextmanager
def translate_faults(
    action: StoreAction,
    location: TableLocation,
    *,
    contention: Callable[[], OmniError] | None = None,
) -> Iterator[None]:
    """Translate errors of Lance inside the block into ours; our own pass through."""
    try:
        yield
    except OmniError:
        raise
    # A panic of the library is not an Exception, and must not end the process as an exit would.
    except BaseException as error:
        kind = classify_fault(error)
        if kind is None:
            raise
        if kind is FaultKind.CONTENTION and contention is not None:
            raise contention() from error
        raise error_of(kind, error, action, location) from error


def error_of(
    kind: FaultKind, error: BaseException, action: StoreAction, location: TableLocation
) -> OmniError:
    """Build our error for a foreign one."""
    message = clean_message(error)
    match kind:
        case FaultKind.CONTENTION | FaultKind.FENCED:
            return HeadMoved(location.path, location.version or 0, None)
        case FaultKind.EXISTS:
            return TableExists(location.path)
        case FaultKind.MISSING:
            return TableNotFound(str(location), "table")
        case FaultKind.FILE_MISSING if (
            foreign_root := _find_foreign_root(message, location)
        ) is not None:
            return make_moved_error(f"could not {action} {location}", foreign_root, location.root)
        case FaultKind.FILE_MISSING if (reclaimed := location.reclaimed()) is not None:
            return reclaimed
        case FaultKind.FILE_MISSING:
            return StorageError(
                f"could not {action} {location}: a file of this version is gone ({message}); nothing was changed",
                storage_kind="not_found",
                hint="the version may have been removed by cleanup, or the directory was damaged",
            )
        case FaultKind.REF_MISSING:
            return TableNotFound(str(location), "branch")
        case FaultKind.REF_IN_USE:
            return BranchInUse(location.branch or "main", _children(message), message)
        case FaultKind.REF_NAME:
            return UserInputError(
                f"'{location.branch}' is not a branch name: {message}; no changes were made"
            )
        case FaultKind.REF_TAKEN:
            return StorageError(
                f"could not {action} {location}: its name is taken; no changes were made",
                storage_kind="precondition",
            )
        case FaultKind.REF_VANISHED:
            return StorageError(
                f"could not {action} {location}: branches kept disappearing while they were listed ({message}); "
                "no changes were made",
                storage_kind="transient",
                hint="repeat it; if it stays, a file that is not a ref lies among the refs: remove it",
            )
        case FaultKind.DAMAGED:
            return StorageError(
                f"could not {action} {location}: a file of it is damaged ({message}); nothing was committed",
                storage_kind="permanent",
                hint="put the file back from a copy of the graph; other tables and earlier commits may still be read",
            )
        case FaultKind.BAD_DATA:
            return InternalError(
                f"could not {action} {location}: the rows do not fit the table ({message}); nothing was committed"
            )
        case FaultKind.BAD_REQUEST:
            return EngineError(f"could not {action} {location}: {message}; nothing was changed")
        case FaultKind.EXHAUSTED:
            return EngineError(
                f"could not {action} {location}: a join or sort ran out of its memory ({message}); "
                "nothing was committed",
                hint="work on fewer rows at once",
            )
        case FaultKind.PANIC:
            return InternalError(
                f"could not {action} {location}: Lance gave up ({message}); look at HEAD before repeating",
            )
        case FaultKind.STORE:
            return storage_error(_with_errno(error, message), action, location.root, location.path)


def make_moved_error(failure: str, foreign_root: str, root: Root) -> StorageError:
    """Make the error for a branch that keeps the former address of a moved graph."""
    return StorageError(
        f"{failure}: a branch keeps the address of the graph it was made in, '{foreign_root}', and the graph lies in "
        f"'{root}': its directory was moved or copied; nothing was changed",
        storage_kind="not_found",
        hint=f"run `omnigraphdb relocate {root}` (in Python: omnigraphdb.relocate('{root}')); until then main can be used, "
        "and such a branch can be read while the files it was made from are where they were",
    )


def _find_foreign_root(message: str, location: TableLocation) -> str | None:
    """Find the root in which Lance looked for a missing file, when it is outside the graph."""
    missing = _NOT_FOUND.search(message)
    if missing is None or not location.root.is_local:
        return None
    before, separator, _ = f"/{missing[1].lstrip('/')}".partition(f"/{location.path}/")
    return before if separator and before != location.root.uri.rstrip("/") else None


def clean_message(error: BaseException) -> str:
    """Give Lance's message without the position in its source and without its request for a bug report."""
    text = _SOURCE_PLACE.sub("", str(error))
    return re.sub(r"^Encountered internal error\. Please file .*?issues\. ", "", text).strip()


def _with_errno(error: BaseException, message: str) -> Exception:
    """Make an OSError with the number in Lance's message, so that one table serves files and tables."""
    number = _ERRNO.search(str(error))
    return OSError(int(number[1]), message) if number else OSError(message)


def _children(message: str) -> tuple[str, ...]:
    return tuple(re.findall(r'\("([^"]+)", \d+\)', message))
