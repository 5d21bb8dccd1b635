"""Whether a store creates nothing twice: what conditional puts prove, and when they prove nothing."""

from omnigraph.errors import OmniError
from omnigraph.storage.layout import CONDITIONS
from omnigraph.storage.objects.protocol import Objects


class Conditions:
    """The conditions of one store, tried once for each handle."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._are_honoured: bool | None = None

    def are_honoured(self) -> bool:
        """Whether the store refuses to create what exists."""
        if self._are_honoured is None:
            try:
                # The first handle of a graph creates the object, and only the second try is refused.
                tries = (self._objects.put_if_absent(CONDITIONS, "{}") for _ in range(2))
                self._are_honoured = not all(tries)
            except OmniError:
                return False
        return self._are_honoured
