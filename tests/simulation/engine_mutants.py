"""Mutants that the engine has on a bucket as well: the code, or the store, without one guard."""

from collections.abc import Callable
from typing import Final

from tests.simulation.bucket import Answer, Bucket
from tests.simulation.mutants import MUTANTS

_SHARED: Final = (
    "no_sidecar",
    "lease_ignored",
    "locks_never_looked_at",
    "blind_arming",
    "no_last_look",
    "publish_expects_nothing",
    "wrong_base",
)


def _ignore_conditions() -> None:
    """Let every put of the bucket succeed."""
    put = Bucket.put

    def put_blindly(
        bucket: Bucket, key: str, data: bytes, *, absent: bool, match: str | None
    ) -> Answer:
        del absent, match
        return put(bucket, key, data, absent=False, match=None)

    setattr(Bucket, "put", put_blindly)  # noqa: B010 - a method is replaced


ENGINE_MUTANTS: Final[dict[str, Callable[[], None]]] = {
    **{name: MUTANTS[name].apply for name in _SHARED},
    "conditions_ignored": _ignore_conditions,
}
"""What takes the guard away, by the name of the mutant."""
