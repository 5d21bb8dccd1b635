"""The clocks of cleanup: on an object store, this machine's clock measures ages only if it agrees with the store's."""

from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import ClockSkew
from omnigraphdb.limits import CLEANUP_SKEW_SECONDS_MAX, STORE_TIME_STEP_SECONDS
from omnigraphdb.storage.locks.store_clock import StoreClock
from omnigraphdb.storage.objects.faults import StorageKind

_US = 1_000_000


def refuse_skew(engine: Engine) -> None:
    """Refuse to measure ages by a clock that is too far from the store's clock; a disk has the clock of its machine."""
    if not engine.store.root.is_distant:
        return
    ahead = _measure_skew(engine)
    if abs(ahead) <= CLEANUP_SKEW_SECONDS_MAX:
        return
    side = "ahead of" if ahead > 0 else "behind"
    raise ClockSkew(
        f"the clock of this machine is at least {abs(ahead):.0f} s {side} that of the store, and cleanup tells ages by it "
        f"up to {CLEANUP_SKEW_SECONDS_MAX:.0f} s; nothing was removed",
        storage_kind=StorageKind.CONFIGURATION,
        hint="set the clock of this machine right, or run cleanup on another one",
    )


def _measure_skew(engine: Engine) -> float:
    """Measure by how many seconds, at least, this machine's wall clock is ahead of the store's; negative if it is behind.

    The store dates an object at some moment of the request, and in whole seconds.
    """
    before = engine.runtime.now_us()
    store = StoreClock(engine.store.objects, engine.runtime).now_us()
    after = engine.runtime.now_us()
    upper, lower = (after - store) / _US, (before - store) / _US - STORE_TIME_STEP_SECONDS
    return max(lower, 0.0) + min(upper, 0.0)
