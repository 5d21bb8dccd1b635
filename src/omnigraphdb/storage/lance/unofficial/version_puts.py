"""The PUT that creates a version in an object store: the store refuses it where there is one, and its lost answer is found out."""

from omnigraphdb.errors import HeadMoved, OmniError, StorageError
from omnigraphdb.ids import Version
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import TableAt


def try_put_version(objects: Objects, at: TableAt, file: bytes) -> OmniError | None:
    """Create a version of a table from its manifest file, or give the error; None when this very version is in the store.

    `HeadMoved`: somebody else created that version, and this one is nowhere. Another error leaves the outcome open.
    """
    path = version_file(branch_path(at.path, at.branch), at.version)
    try:
        if objects.put_if_absent(path, file):
            return None
        lost: OmniError = HeadMoved(at.path, Version(at.version - 1), at.version)
    except StorageError as error:
        lost = error
    # Perhaps only the answer was lost: then the version exists, and it is ours.
    try:
        return None if objects.read_bytes(path) == file else lost
    except StorageError as unseen:
        # A version that is there may be ours, so nobody is told that it is not, nor that nothing was changed.
        return lost if isinstance(lost, StorageError) else _make_unknown(at, unseen)


def _make_unknown(at: TableAt, unseen: StorageError) -> StorageError:
    reason = str(unseen).removesuffix("; nothing was changed")
    return StorageError(
        f"version {at.version} of {at.path} is in the store, and whether this write made it is not known: {reason}; "
        "it may or may not have taken effect",
        storage_kind=unseen.storage_kind,
        hint=unseen.hint,
    )
