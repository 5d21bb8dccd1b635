"""What Lance raises, told in our words: one table, typed first, text where the type does not tell."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import StrEnum
from typing import Final

from lance.commit import CommitConflictError

from omnigraph.errors import (
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
from omnigraph.storage.layout import Root
from omnigraph.storage.objects.faults import Doing, storage_error
from omnigraph.values import dataclass


class Trouble(StrEnum):
    """What a foreign error means to a caller."""

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
class Row:
    """One row: the type, the text where the type does not tell, and what it means."""

    trouble: Trouble
    raised: type[BaseException] = Exception
    text: str = ""

    def fits(self, error: BaseException) -> bool:
        """Type first, then text."""
        return isinstance(error, self.raised) and re.search(self.text, str(error)) is not None


FAULTS: Final = (
    Row(trouble=Trouble.CONTENTION, raised=CommitConflictError),
    Row(trouble=Trouble.CONTENTION, raised=OSError, text=r"Too many concurrent writers"),
    Row(trouble=Trouble.CONTENTION, raised=OSError, text=r"^Incompatible transaction"),
    Row(trouble=Trouble.CONTENTION, raised=OSError, text=r"^Retryable commit conflict"),
    Row(trouble=Trouble.FENCED, raised=OSError, text=r"Error from commit handler: Fenced\b"),
    Row(trouble=Trouble.EXISTS, raised=OSError, text=r"^Dataset already exists"),
    # The loser of a race to create a table looks for the version before the winner's first.
    Row(trouble=Trouble.EXISTS, raised=OSError, text=r"_versions/0\.manifest was not found"),
    Row(trouble=Trouble.REF_MISSING, raised=ValueError, text=r"^Ref not found"),
    Row(trouble=Trouble.REF_IN_USE, raised=OSError, text=r"^Ref conflict"),
    Row(trouble=Trouble.REF_NAME, raised=OSError, text=r"^Ref is invalid"),
    Row(trouble=Trouble.REF_TAKEN, raised=OSError, text=r"Clone operation should not enter"),
    # The refs are listed first and read one by one: a branch that is dropped in between is not there to be read.
    Row(trouble=Trouble.REF_VANISHED, text=r"^Not found: .*/_refs/branches/"),
    Row(trouble=Trouble.MISSING, text=r"^Dataset at path .* was not found|^Not found: .*_versions"),
    Row(trouble=Trouble.FILE_MISSING, text=r"^External error: .*Not found: "),
    Row(trouble=Trouble.FILE_MISSING, text=r"^LanceError\(IO\): .*Not found: "),
    Row(trouble=Trouble.FILE_MISSING, text=r"^Not found: .*/(?:data|_deletions|_indices)/"),
    # A file that was cut off or overwritten, by the part of it that was read first.
    Row(trouble=Trouble.DAMAGED, text=r"does not appear to be a Lance file|file size is too small"),
    Row(trouble=Trouble.DAMAGED, text=r"Invalid range \d+\.\.\d+ for object of size"),
    Row(
        trouble=Trouble.DAMAGED,
        text=r"Encountered corrupt file|EOF while parsing a|expected value at line 1 ",
    ),
    Row(trouble=Trouble.DAMAGED, text=r"not contain correct footer|invalid seek to a negative"),
    Row(trouble=Trouble.DAMAGED, text=r"failed to decode Protobuf|failed to fill whole buffer"),
    # What is wrong with a request shows before the first row is read; later it is a file that asks for the impossible.
    Row(trouble=Trouble.DAMAGED, raised=ValueError, text=r"^External error: Invalid user input: "),
    # A thread that reads a file panicked over what it found there.
    Row(trouble=Trouble.DAMAGED, text=r"reader producer terminated before end of stream"),
    Row(trouble=Trouble.BAD_DATA, raised=OSError, text=r"^Append with different schema"),
    Row(trouble=Trouble.BAD_DATA, raised=OSError, text=r"marked non-null|declared as non-nullable"),
    Row(trouble=Trouble.BAD_DATA, raised=OSError, text=r"Blob v2 field"),
    Row(trouble=Trouble.BAD_REQUEST, raised=ValueError, text=r"Invalid user input"),
    Row(trouble=Trouble.BAD_REQUEST, raised=ValueError, text=r"^No match for FieldRef"),
    Row(trouble=Trouble.EXHAUSTED, text=r"Resources exhausted"),
    Row(trouble=Trouble.STORE, raised=OSError),
    Row(trouble=Trouble.STORE, raised=ValueError),
    Row(trouble=Trouble.STORE, raised=RuntimeError),
)

_SOURCE_PLACE: Final = re.compile(
    r",? (?:location: )?(?:/|src/|rust/)\S*\.rs:\d+(?::\d+)?.*$", re.S
)
_NOT_FOUND: Final = re.compile(r"Not found: (.+?)(?:,|$)")
_ERRNO: Final = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something was tried: the facts that every error of a table names."""

    root: Root
    path: str
    branch: str | None = None
    version: int | None = None
    reclaimed: Callable[[], OmniError | None] = field(
        default=lambda: None, compare=False, repr=False
    )
    """What there is to say of a version whose files are gone, if it was removed as a whole."""

    def __str__(self) -> str:
        on = f" on branch '{self.branch}'" if self.branch else ""
        at = f" at version {self.version}" if self.version is not None else ""
        return f"{self.path}{on}{at}"


def trouble_of(error: BaseException) -> Trouble | None:
    """Find what an error means; None for one that is not Lance's to raise."""
    if is_panic(error):
        return Trouble.PANIC
    return next((row.trouble for row in FAULTS if row.fits(error)), None)


def is_panic(error: BaseException) -> bool:
    """Tell a panic of the library, which is not an Exception."""
    return type(error).__name__ == "PanicException"


@contextmanager
def faults(
    doing: Doing, place: Place, *, contention: Callable[[], OmniError] | None = None
) -> Iterator[None]:
    """Turn what Lance raises inside the block into our errors; our own pass through."""
    try:
        yield
    except OmniError:
        raise
    # A panic of the library is not an Exception, and must not end the process as if it were an exit.
    except BaseException as error:
        trouble = trouble_of(error)
        if trouble is None:
            raise
        if trouble is Trouble.CONTENTION and contention is not None:
            raise contention() from error
        raise error_of(trouble, error, doing, place) from error


def error_of(trouble: Trouble, error: BaseException, doing: Doing, place: Place) -> OmniError:
    """Build our error for a foreign one."""
    said = plain(error)
    match trouble:
        case Trouble.CONTENTION | Trouble.FENCED:
            return HeadMoved(place.path, place.version or 0, None)
        case Trouble.EXISTS:
            return TableExists(place.path)
        case Trouble.MISSING:
            return TableNotFound(str(place), "table")
        case Trouble.FILE_MISSING if (elsewhere := _elsewhere(said, place)) is not None:
            return make_moved_error(f"could not {doing} {place}", elsewhere, place.root)
        case Trouble.FILE_MISSING if (reclaimed := place.reclaimed()) is not None:
            return reclaimed
        case Trouble.FILE_MISSING:
            return StorageError(
                f"could not {doing} {place}: a file of this version is gone ({said}); nothing was changed",
                storage_kind="not_found",
                hint="the version may have been removed by cleanup, or the directory was damaged",
            )
        case Trouble.REF_MISSING:
            return TableNotFound(str(place), "branch")
        case Trouble.REF_IN_USE:
            return BranchInUse(place.branch or "main", _children(said), said)
        case Trouble.REF_NAME:
            return UserInputError(
                f"'{place.branch}' is no branch name: {said}; no changes were made"
            )
        case Trouble.REF_TAKEN:
            return StorageError(
                f"could not {doing} {place}: its name is taken; no changes were made",
                storage_kind="precondition",
            )
        case Trouble.REF_VANISHED:
            return StorageError(
                f"could not {doing} {place}: branches kept disappearing while they were listed ({said}); "
                "no changes were made",
                storage_kind="transient",
                hint="repeat it; if it stays, a file that is no ref lies among the refs: remove it",
            )
        case Trouble.DAMAGED:
            return StorageError(
                f"could not {doing} {place}: a file of it is damaged ({said}); nothing was committed",
                storage_kind="permanent",
                hint="put the file back from a copy of the graph; other tables and earlier commits may still be read",
            )
        case Trouble.BAD_DATA:
            return InternalError(
                f"could not {doing} {place}: the rows do not fit the table ({said}); nothing was committed"
            )
        case Trouble.BAD_REQUEST:
            return EngineError(f"could not {doing} {place}: {said}; nothing was changed")
        case Trouble.EXHAUSTED:
            return EngineError(
                f"could not {doing} {place}: a join or sort ran out of its memory ({said}); "
                "nothing was committed",
                hint="work on fewer rows at once",
            )
        case Trouble.PANIC:
            return InternalError(
                f"could not {doing} {place}: Lance gave up ({said}); look at HEAD before repeating",
            )
        case Trouble.STORE:
            return storage_error(_with_errno(error, said), doing, place.root, place.path)


def make_moved_error(what: str, elsewhere: str, root: Root) -> StorageError:
    """The error of a branch that looks for its files where the graph was when the branch was made."""
    return StorageError(
        f"{what}: a branch keeps the address of the graph it was made in, '{elsewhere}', and the graph lies in "
        f"'{root}': its directory was moved or copied; nothing was changed",
        storage_kind="not_found",
        hint=f"run `omnigraph relocate {root}` (in Python: omnigraph.relocate('{root}')); until then main can be used, "
        "and such a branch can be read while the files it was made from are where they were",
    )


def _elsewhere(said: str, place: Place) -> str | None:
    """Where a missing file was looked for, when that is outside the graph."""
    missing = _NOT_FOUND.search(said)
    if missing is None or not place.root.is_local:
        return None
    before, found, _ = f"/{missing[1].lstrip('/')}".partition(f"/{place.path}/")
    return before if found and before != place.root.uri.rstrip("/") else None


def plain(error: BaseException) -> str:
    """What Lance said, without the place in its source and without its plea for a bug report."""
    text = _SOURCE_PLACE.sub("", str(error))
    return re.sub(r"^Encountered internal error\. Please file .*?issues\. ", "", text).strip()


def _with_errno(error: BaseException, said: str) -> Exception:
    """Give back the number that Lance only spells out, so that one table serves files and tables."""
    number = _ERRNO.search(str(error))
    return OSError(int(number[1]), said) if number else OSError(said)


def _children(said: str) -> tuple[str, ...]:
    return tuple(re.findall(r'\("([^"]+)", \d+\)', said))
