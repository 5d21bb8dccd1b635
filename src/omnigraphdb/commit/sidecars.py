"""The folder of pending operations: a sidecar is armed, confirmed, decided, disarmed."""

from contextlib import suppress
from dataclasses import field
from pathlib import PurePosixPath

from omnigraphdb.commit.sidecar import Sidecar
from omnigraphdb.commit.sidecar_json import decode, encode
from omnigraphdb.errors import OmniError, RecoveryRequired, SidecarUnreadable
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import OperationId
from omnigraphdb.limits import ARMED_KNOWN_MAX
from omnigraphdb.storage import layout
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.values import dataclass

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The sidecars of one graph."""

    objects: Objects
    root: layout.Root
    _armed: Recent[OperationId, str] = field(default_factory=lambda: Recent(ARMED_KNOWN_MAX))

    def arm(self, sidecar: Sidecar) -> None:
        """Make the intent durable; when this fails nothing has moved, and an intent that arrives late is harmless.

        The request may reach the store twice, the second time when a recoverer has decided: it replaces nothing.
        """
        fail(Failpoint.SIDECAR_WRITE)
        text = encode(sidecar, self.root)
        try:
            token = self.objects.put_if_absent(sidecar.path, text)
        except OmniError:
            # Perhaps only the answer was lost.
            with suppress(OmniError):
                token = self._find_token(sidecar.path, text)
                if token is not None:
                    self._armed.put(sidecar.operation_id, token)
                    return
            raise
        token = token or self._find_token(sidecar.path, text)
        if token is None:
            raise _make_settled_error(sidecar)
        self._armed.put(sidecar.operation_id, token)

    def _find_token(self, path: str, text: str) -> str | None:
        """Find the token of a file that has exactly this text."""
        seen = self.objects.read_versioned(path)
        return seen.token if seen is not None and seen.text == text else None

    def confirm(self, sidecar: Sidecar) -> None:
        """Make the outcome of a merge durable."""
        fail(Failpoint.SIDECAR_CONFIRM)
        self.record(sidecar)

    def record(self, sidecar: Sidecar, *, brings_back: bool = False) -> None:
        """Replace the sidecar on disk; refuse when somebody else settled it meanwhile.

        `brings_back`: the caller has the locks of the operation, so that a missing file was removed by a request of
        its writer that arrived late.
        """
        token = self._token(sidecar)
        text = encode(sidecar, self.root)
        landed = None if token is None else self.objects.put_if_match(sidecar.path, text, token)
        if landed is not None:
            return
        # The client repeats a request whose answer was lost, and then conflicts with its own write.
        now = self.objects.read(sidecar.path)
        is_back = now is None and brings_back and self.objects.put_if_absent(sidecar.path, text)
        if now != text and not is_back:
            raise _make_settled_error(sidecar)

    def _token(self, sidecar: Sidecar) -> str | None:
        """Return the token of the state on disk: the process that armed it has it in memory, once; else it is read."""
        token = self._armed.pop(sidecar.operation_id)
        if token is not None:
            return token
        seen = self.objects.read_versioned(sidecar.path)
        return None if seen is None else seen.token

    def rearm(self, sidecar: Sidecar) -> None:
        """Bring an intent back that was settled while its owner still made effects."""
        self.objects.put_if_absent(sidecar.path, encode(sidecar, self.root))

    def disarm(self, operation_id: OperationId) -> None:
        """Remove a spent intent."""
        fail(Failpoint.SIDECAR_DELETE)
        self.objects.delete(layout.sidecar_path(operation_id))

    # ---- looking

    def names(self) -> tuple[str, ...]:
        """Paths of all pending sidecars, oldest first; other files are ignored."""
        fail(Failpoint.SIDECAR_LIST)
        return tuple(path for path in self.objects.list(layout.RECOVERY) if path.endswith(_SUFFIX))

    def read(self, path: str) -> Sidecar | None:
        """Read one; None when its owner finished meanwhile."""
        text = self.objects.read(path)
        return None if text is None else decode(path, text)

    def find(self, operation_id: OperationId) -> Sidecar | None:
        """Read the one of an operation."""
        return self.read(layout.sidecar_path(operation_id))

    def pending(self) -> tuple[Sidecar, ...]:
        """List every pending operation, oldest first; an unreadable file is refused, loudly."""
        sidecars = (self.read(path) for path in self._listed())
        return tuple(sidecar for sidecar in sidecars if sidecar is not None)

    def inventory(self) -> tuple[Sidecar | SidecarUnreadable, ...]:
        """List every pending operation, oldest first; an unreadable file is shown as the refusal it causes."""
        entries = (self._readable(path) for path in self._listed())
        return tuple(entry for entry in entries if entry is not None)

    def _listed(self) -> tuple[str, ...]:
        names = self.names()
        if names:
            fail(Failpoint.SIDECAR_LISTED)
        return names

    def _readable(self, path: str) -> Sidecar | SidecarUnreadable | None:
        try:
            return self.read(path)
        except SidecarUnreadable as error:
            return error


def _make_settled_error(sidecar: Sidecar) -> RecoveryRequired:
    return RecoveryRequired(
        sidecar.operation_id,
        f"the {sidecar.writer_kind} {sidecar.operation_id} was settled by another process while it ran; "
        "`omnigraphdb recovery list` tells how, look before repeating it",
    )


def operation_of(path: str) -> OperationId:
    """Return the operation that a sidecar file is named after, independent of its contents."""
    return OperationId(PurePosixPath(path).name.removesuffix(_SUFFIX))
