"""Errors of the file system and the object stores, translated into ours by one table."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.layout import Root, redact
from omnigraphdb.values import dataclass


class StoreAction(StrEnum):
    """A request to the store; the value completes "could not …"."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    REPLACE = "replace"
    LOOK = "look for"
    RENAME = "rename"
    DELETE = "delete"
    LIST = "list"
    LOCK = "lock"

    @property
    def changes(self) -> bool:
        """Whether a failure may leave a change behind."""
        return self not in (StoreAction.OPEN, StoreAction.READ, StoreAction.LOOK, StoreAction.LIST)


class StorageKind(StrEnum):
    """The kind of a store's failure, by the reaction that is open to a caller."""

    TRANSIENT = "transient"
    CONFIGURATION = "configuration"
    NOT_FOUND = "not_found"
    PRECONDITION = "precondition"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class Advice(StrEnum):
    """The advice of a hint; its words depend on the store."""

    ACCESS = "access"
    CONTAINER = "container"
    ENDPOINT = "endpoint"
    PLAIN_HTTP = "plain_http"
    REGION = "region"
    SETTINGS = "settings"
    SPACE = "space"
    FILES = "files"
    WAIT = "wait"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row: how to recognise an error, its kind, its reason, and the advice."""

    kind: StorageKind
    reason: str
    advice: Advice
    errnos: tuple[int, ...] = ()
    types: tuple[type[Exception], ...] = ()
    text: str = ""

    def fits(self, error: Exception) -> bool:
        """Compare error number and type first, then the text."""
        if isinstance(error, OSError) and error.errno in self.errnos:
            return True
        if self.types and isinstance(error, self.types):
            return True
        return bool(self.text) and re.search(self.text, str(error)) is not None


FAULTS: Final = (
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="there is no such bucket",
        advice=Advice.CONTAINER,
        # A GET gives the same status for a missing bucket and a missing object; only the body differs.
        text=r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist",
    ),
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="no credentials were found",
        advice=Advice.ACCESS,
        text=r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal",
    ),
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="permission denied",
        advice=Advice.ACCESS,
        errnos=(errno.EACCES, errno.EPERM),
        types=(PermissionDeniedError, UnauthenticatedError),
        text=r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|403 Forbidden",
    ),
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="the file system is read-only",
        advice=Advice.ACCESS,
        errnos=(errno.EROFS,),
    ),
    Fault(
        kind=StorageKind.PERMANENT,
        reason="the disk is full",
        advice=Advice.SPACE,
        errnos=(errno.ENOSPC, errno.EDQUOT),
        text=r"os error 28\b|os error 122\b",
    ),
    Fault(
        # Of this process or this machine, for any store: waiting alone does not help.
        kind=StorageKind.CONFIGURATION,
        reason="too many files are open",
        advice=Advice.FILES,
        errnos=(errno.EMFILE, errno.ENFILE),
        text=r"os error 24\b|os error 23\b|Too many open files",
    ),
    Fault(
        kind=StorageKind.PERMANENT,
        reason="the name does not fit the file system",
        advice=Advice.NONE,
        errnos=(errno.ENAMETOOLONG, errno.ELOOP),
    ),
    Fault(
        kind=StorageKind.PERMANENT,
        reason="a file stands where a directory is needed, or the other way round",
        advice=Advice.NONE,
        errnos=(errno.ENOTDIR, errno.EISDIR),
    ),
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="the endpoint is not https",
        advice=Advice.PLAIN_HTTP,
        text=r"BadScheme",
    ),
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="the bucket lives in another region",
        advice=Advice.REGION,
        text=r"PermanentRedirect|AuthorizationHeaderMalformed|301 Moved Permanently",
    ),
    Fault(
        kind=StorageKind.NOT_FOUND,
        reason="it is not there",
        advice=Advice.NONE,
        errnos=(errno.ENOENT,),
        types=(FileNotFoundError,),
    ),
    Fault(
        kind=StorageKind.PRECONDITION,
        reason="another writer was faster",
        advice=Advice.NONE,
        types=(PreconditionError, AlreadyExistsError),
    ),
    Fault(
        kind=StorageKind.CONFIGURATION,
        reason="the store does not take this setting",
        advice=Advice.SETTINGS,
        types=(UnknownConfigurationKeyError, NotSupportedError, NotImplementedError),
    ),
    Fault(
        kind=StorageKind.TRANSIENT,
        reason="the endpoint could not be reached",
        advice=Advice.ENDPOINT,
        text=r"kind: (Connect|Timeout|Interrupted|Request)\b|error sending request|dns error",
    ),
    Fault(
        kind=StorageKind.TRANSIENT,
        reason="the store is overloaded or failing",
        advice=Advice.WAIT,
        errnos=(
            errno.EAGAIN,
            errno.EINTR,
            errno.ESTALE,
            errno.ETIMEDOUT,
            errno.ENOLCK,
        ),
        text=r"SlowDown|status code: (429|5\d\d)",
    ),
)
_UNKNOWN: Final = Fault(kind=StorageKind.UNKNOWN, reason="the store failed", advice=Advice.NONE)

FOREIGN: Final = (OSError, BaseError, NotImplementedError)


@contextmanager
def translate_object_faults(action: StoreAction, root: Root, path: str) -> Iterator[None]:
    """Translate errors of a store inside the block into a StorageError."""
    try:
        yield
    except FOREIGN as error:
        raise storage_error(error, action, root, path) from error


def storage_error(error: Exception, action: StoreAction, root: Root, path: str) -> StorageError:
    """Build the error from the failed action, its path, the cause, the state that is left, and the hint."""
    fault = fault_of(error)
    return StorageError(
        f"could not {action} '{redact(root.at(path))}': {fault.reason} ({_cause(error)})"
        f"; {_outcome(action, fault)}",
        storage_kind=fault.kind,
        hint=_hint(fault.advice, root),
    )


def text_of(data: bytes, root: Root, path: str) -> str:
    """Decode a stored text; anything but UTF-8 was not written by us."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise StorageError(
            f"could not read '{redact(root.at(path))}': it is not UTF-8 text (byte {error.start}); "
            "nothing was changed",
            storage_kind=StorageKind.PERMANENT,
            hint="restore it from a backup",
        ) from error


def fault_of(error: Exception) -> Fault:
    """Find the row of the table an error belongs to."""
    return next((fault for fault in FAULTS if fault.fits(error)), _UNKNOWN)


def is_missing(error: Exception) -> bool:
    """Tell a missing text from a missing store."""
    return fault_of(error).kind is StorageKind.NOT_FOUND


def _outcome(action: StoreAction, fault: Fault) -> str:
    if not action.changes:
        return "nothing was changed"
    if fault.kind in (StorageKind.TRANSIENT, StorageKind.UNKNOWN):
        return "it may or may not have taken effect"
    return "what was there before is intact"


def _cause(error: Exception) -> str:
    """Keep the store's own code and first sentence; its debug dump and its URLs' queries go."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).partition("\n\nDebug source")[0]
    code, message = (
        re.search(r"<Code>(.*?)</Code>", text),
        re.search(r"<Message>(.*?)</Message>", text),
    )
    if code is not None:
        return f"{code[1]}: {message[1]}" if message is not None else code[1]
    line = text.partition("\n")[0]
    return re.sub(r"https?://\S+", lambda url: redact(url[0]), line)


_ACCESS: Final = {
    "file": "check the owner and the mode of the directory",
    "memory": "",
    "s3": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and what they may do",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS, and what they may do",
    "az": "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, and what they may do",
}


def _hint(advice: Advice, root: Root) -> str | None:
    on_s3 = root.scheme == "s3"
    match advice:
        case Advice.ACCESS:
            return _ACCESS[root.scheme] or None
        case Advice.CONTAINER:
            settings = ", AWS_REGION and AWS_ENDPOINT_URL_S3" if on_s3 else ""
            return f"create '{root.container}', or check its name{settings}"
        case Advice.ENDPOINT:
            endpoint = "AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL)" if on_s3 else "the endpoint"
            return f"check {endpoint} and the network"
        case Advice.PLAIN_HTTP:
            return "set AWS_ALLOW_HTTP=true, or give an https endpoint in AWS_ENDPOINT_URL_S3"
        case Advice.REGION:
            return "set AWS_REGION to the region of the bucket"
        case Advice.SETTINGS:
            return "check storage_options"
        case Advice.SPACE:
            return "free some space and try again"
        case Advice.FILES:
            return "close graphs and files that are not needed, or raise the limit (`ulimit -n`)"
        case Advice.WAIT:
            return "try again after a short wait"
        case Advice.NONE:
            return None
