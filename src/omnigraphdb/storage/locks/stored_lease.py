"""The stored form of a lease: `__locks/<key>.json`."""

import json

from omnigraphdb.errors import StorageError, shorten
from omnigraphdb.limits import LEASE_MARGIN_PART, LEASE_SECONDS, LEASE_TURN_SECONDS
from omnigraphdb.storage.layout import LOCKS, lock_name
from omnigraphdb.storage.locks.holders import Holder, holder_of
from omnigraphdb.storage.objects.faults import StorageKind
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The holder of a lock, its fencing token, the term of the lease, and its end by the clock of the holder.

    The end is for the holder alone. To everybody else it is a sign of life: each renewal moves it.
    """

    owner: str | None
    token: int
    expires_us: int
    seconds: float = LEASE_SECONDS
    holder: Holder | None = None
    waiting: tuple[str, ...] = ()
    """The names of the waiters, in the order in which they came."""

    def to_json(self) -> str:
        """Return the stored form."""
        body = {"owner": self.owner, "token": self.token, "expires": self.expires_us}
        term = {} if self.owner is None else {"seconds": self.seconds}
        holder = {} if self.holder is None else {"holder": self.holder.to_json()}
        queue = {"waiting": self.waiting} if self.waiting else {}
        return json.dumps(body | term | holder | queue)

    @property
    def signs_of_life(self) -> tuple[str | None, int, int]:
        """The part of a lease that only its holder changes; the names of waiters are not in it."""
        return self.owner, self.token, self.expires_us

    def is_same_hold(self, other: "Lease") -> bool:
        """Whether both were written by one holder, renewed or not."""
        return (self.owner, self.token) == (other.owner, other.token)

    def seconds_free(self, seconds_unchanged: float) -> float:
        """For how long a rival may take the lease; negative while it may not.

        A released lease is free at once, another one after it did not change for its whole term and a margin.
        """
        if self.owner is None:
            return seconds_unchanged
        return seconds_unchanged - self.seconds * (1 + 1 / LEASE_MARGIN_PART)

    def may_take(self, waiter: str, seconds_free: float) -> bool:
        """Whether it is the turn of a waiter: the first at once, the others when earlier waiters had their time.

        A waiter before it may have died; the store alone decides that nobody else has the lock.
        """
        if not self.waiting:
            return True
        if waiter not in self.waiting:
            return False
        position = self.waiting.index(waiter)
        return position == 0 or seconds_free > position * LEASE_TURN_SECONDS

    def waiting_after(self, waiter: str) -> tuple[str, ...]:
        """List the waiters that stay when a waiter gets the lock; waiters before it came too late and are dropped."""
        position = self.waiting.index(waiter) if waiter in self.waiting else -1
        return self.waiting[position + 1 :]


def lease_of(text: str, path: str) -> Lease:
    """Read the stored form."""
    try:
        body = json.loads(text)
        return Lease(
            owner=body["owner"],
            token=int(body["token"]),
            expires_us=int(body["expires"]),
            seconds=float(body.get("seconds", LEASE_SECONDS)),
            holder=holder_of(body.get("holder")),
            waiting=tuple(map(str, body.get("waiting", ()))),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"the lease '{path}' cannot be read ({error}): {shorten(text)}; nothing was written",
            storage_kind=StorageKind.PERMANENT,
            hint="make sure that no writer runs, then remove the file",
        ) from error


def lease_path(key: str) -> str:
    """Place the lease of a key."""
    return f"{LOCKS}/{lock_name(key)}.json"


def holder_of_lease(lease: Lease) -> Holder:
    """Give the holder; by the owner's name where an earlier release recorded no more."""
    if lease.holder is not None:
        return lease.holder
    host, _, rest = (lease.owner or "").partition(":")
    process = rest.partition(":")[0]
    return Holder(process=int(process) if process.isdigit() else 0, host=host, since_us=0)
