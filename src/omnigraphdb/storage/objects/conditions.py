"""The proof by conditional puts that a store creates nothing twice, and the cases in which they prove nothing."""

from omnigraphdb.errors import OmniError, StorageError
from omnigraphdb.storage.layout import CONDITIONS, Root
from omnigraphdb.storage.objects.faults import StorageKind
from omnigraphdb.storage.objects.protocol import Objects


class Conditions:
    """The conditions of one store, tried once for each handle."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._are_honoured: bool | None = None

    def are_honoured(self) -> bool:
        """Whether the store refuses to create an existing object; false when that could not be tried."""
        try:
            return self._try()
        except OmniError:
            return False

    def require(self, root: Root) -> None:
        """Refuse a store that creates things twice, before an effect that would undo commits of others there."""
        if not self._try():
            raise make_conditions_error(root)

    def _try(self) -> bool:
        if self._are_honoured is None:
            # The first handle of a graph creates the object, and only the second try is refused.
            tries = (self._objects.put_if_absent(CONDITIONS, "{}") for _ in range(2))
            self._are_honoured = not all(tries)
        return self._are_honoured


def make_conditions_error(root: Root) -> StorageError:
    """Make the error for a store that creates things twice."""
    return StorageError(
        f"the store of '{root}' does not honour conditional puts (If-None-Match, If-Match), so two "
        "writers could lose each other's commits; nothing was written",
        storage_kind=StorageKind.CONFIGURATION,
        hint="use a store with conditional writes, or a local directory",
    )
