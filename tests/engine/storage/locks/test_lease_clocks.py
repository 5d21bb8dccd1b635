"""Whose clock ends a lease: the waiter's own monotonic one, or the store's; never the wall clock of any machine."""

import time
from collections.abc import Callable

import pytest

from omnigraphdb.limits import LEASE_MARGIN_PART, LEASE_RENEW_SECONDS, LEASE_SECONDS
from omnigraphdb.storage.layout import STORE_TIME, lock_name
from omnigraphdb.storage.locks import lease
from omnigraphdb.storage.locks.holders import UNNAMED
from omnigraphdb.storage.locks.lease import LeaseLock, LeaseLocks
from tests.support.fault_objects import Failure, FaultObjects
from tests.support.hand_clocks import DatedObjects, Machine, World
from tests.support.store_roots import StoreRoot

KEY = "node:Person@main"
PATH = f"__locks/{lock_name(KEY)}.json"
TERM = LEASE_SECONDS * (1 + 1 / LEASE_MARGIN_PART)
"""When a lease that nobody renews is free."""
MINUTES, HOUR = 600.0, 3600.0
SKEWS = [0.0, 12.0, -12.0, MINUTES, -MINUTES, HOUR, -HOUR]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def objects(world: World) -> DatedObjects:
    return DatedObjects(world)


@pytest.fixture
def open_on(objects: DatedObjects, world: World) -> Callable[..., LeaseLocks]:
    """Opens the locks on another machine, whose thread of renewals never runs."""

    def open_(wall_off: float = 0.0, machine: Machine | None = None, **options: bool) -> LeaseLocks:
        runtime = machine or Machine(world=world, wall_off=wall_off)
        return LeaseLocks(objects, runtime, renew_seconds=1e6, **options)

    return open_


Open = Callable[..., LeaseLocks]


def take(locks: LeaseLocks, wait: float = 0.0, key: str = KEY) -> LeaseLock:
    lock = locks.acquire(key, wait=wait)
    assert lock is not None
    return lock


# ---- clocks that are apart


@pytest.mark.parametrize("holder_off", SKEWS)
@pytest.mark.parametrize("rival_off", [0.0, MINUTES, -MINUTES])
def test_no_wall_clock_frees_the_lease_of_a_live_holder(
    open_on: Open, world: World, holder_off: float, rival_off: float
) -> None:
    holder, rival = open_on(holder_off), open_on(rival_off)
    lock = take(holder)
    for _ in range(12):
        assert rival.acquire(KEY, wait=0) is None
        assert rival.holder(KEY) is not None
        assert open_on(rival_off).acquire(KEY, wait=0) is None
        world.pass_time(LEASE_RENEW_SECONDS)
        assert holder._try_renew(lock)
        assert lock.is_valid()
    assert lock.token == "1"


@pytest.mark.parametrize("holder_off", SKEWS)
@pytest.mark.parametrize("rival_off", [0.0, MINUTES, -MINUTES])
@pytest.mark.parametrize("store_off", [0.0, 86_400.0])
def test_no_clock_keeps_the_lease_of_a_dead_holder_past_one_term(
    open_on: Open,
    world: World,
    objects: DatedObjects,
    holder_off: float,
    rival_off: float,
    store_off: float,
) -> None:
    objects.off = store_off
    lock = take(open_on(holder_off))
    rival, watcher = open_on(rival_off), open_on(rival_off)
    began = world.now
    assert watcher.holder(KEY) is not None
    assert take(rival, wait=60).token == "2"
    assert TERM < world.now - began < TERM + 1
    assert not lock.is_valid()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_rival_whose_wall_clock_jumps_waits_as_long_as_any_other(
    open_on: Open, world: World, jump: float
) -> None:
    machine = Machine(world=world)
    rival = open_on(machine=machine)
    take(open_on())
    assert rival.acquire(KEY, wait=0) is None
    world.pass_time(TERM - 1)
    machine.wall_off = jump
    assert rival.acquire(KEY, wait=0) is None
    world.pass_time(2)
    assert take(rival).token == "2"


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_holder_whose_wall_clock_jumps_trusts_its_lease_from_the_next_renewal_on(
    open_on: Open, world: World, jump: float
) -> None:
    machine = Machine(world=world)
    holder, rival = open_on(machine=machine), open_on()
    lock = take(holder)
    assert rival.acquire(KEY, wait=0) is None
    world.pass_time(LEASE_RENEW_SECONDS)
    machine.wall_off = jump
    # A machine that slept for an hour would see the same.
    assert lock.is_valid() == (jump < 0)
    assert holder._try_renew(lock)
    assert lock.is_valid()
    world.pass_time(TERM - 1)
    assert not lock.is_valid()
    # The renewal was a sign of life, wherever it moved the end to.
    assert rival.acquire(KEY, wait=0) is None
    world.pass_time(TERM + 0.1)
    assert take(rival).token == "2"


def test_a_machine_that_slept_notices_it_by_its_own_wall_clock(open_on: Open, world: World) -> None:
    machine = Machine(world=world, wall_off=-MINUTES)
    lock = take(open_on(machine=machine))
    world.pass_time(LEASE_SECONDS)
    machine.slept = LEASE_SECONDS
    assert not lock.is_valid()


def test_a_waiter_that_slept_waits_the_whole_term_again(open_on: Open, world: World) -> None:
    machine = Machine(world=world)
    holder, rival = open_on(), open_on(machine=machine)
    take(holder)
    assert rival.acquire(KEY, wait=0) is None
    world.pass_time(TERM)
    machine.slept = TERM
    assert rival.acquire(KEY, wait=0) is None
    world.pass_time(TERM + 1)
    assert take(rival).token == "2"


# ---- signs of life


def test_the_names_of_waiters_are_no_sign_of_life(open_on: Open, world: World) -> None:
    take(open_on())
    rival = open_on()
    assert rival.acquire(KEY, wait=0) is None
    for _ in range(6):
        world.pass_time(TERM / 6)
        # Dies in line: its name stays.
        other = open_on()
        assert other._try(KEY, PATH, UNNAMED, other._name_owner(), is_queued=True) is None
    world.pass_time(0.1)
    assert take(rival).token == "2"


def test_dead_waiters_are_passed_by_the_clock_of_whoever_waits(open_on: Open, world: World) -> None:
    for wall_off in (0.0, HOUR, -HOUR):
        holder = open_on(wall_off)
        lock = take(holder)
        for _ in range(3):
            other = open_on()
            other._try(KEY, PATH, UNNAMED, other._name_owner(), is_queued=True)
        holder.release(lock)
        began = world.now
        rival = open_on()
        rival.release(take(rival, wait=30))
        assert 3 < world.now - began < 4


def test_waiters_that_died_long_ago_are_passed_at_once(open_on: Open, world: World) -> None:
    holder = open_on()
    lock = take(holder)
    for _ in range(3):
        other = open_on()
        other._try(KEY, PATH, UNNAMED, other._name_owner(), is_queued=True)
    holder.release(lock)
    world.pass_time(MINUTES)
    began = world.now
    take(open_on(), wait=30)
    assert world.now - began < 1


# ---- the time of the store


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("store_off", [0.0, 0.6, -HOUR, 86_400.0])
def test_a_lease_is_free_at_once_when_the_store_last_changed_it_a_whole_term_ago(
    open_on: Open, world: World, objects: DatedObjects, fraction: float, store_off: float
) -> None:
    objects.off = store_off
    world.pass_time(fraction)
    take(open_on(MINUTES))
    world.pass_time(TERM - 0.01)
    early = open_on(HOUR)
    assert early.holder(KEY) is not None
    assert early.acquire(KEY, wait=0) is None
    # Whole seconds of the store: two may be missing at most.
    world.pass_time(2.02)
    late = open_on(-HOUR)
    assert late.holder(KEY) is None
    assert take(late).token == "2"


def test_what_passed_before_the_first_look_counts_too(open_on: Open, world: World) -> None:
    take(open_on())
    world.pass_time(20)
    began = world.now
    take(open_on(), wait=60)
    assert TERM - 20 < world.now - began < TERM - 20 + 3


def test_a_store_whose_clock_is_set_back_frees_no_live_lease(
    open_on: Open, world: World, objects: DatedObjects
) -> None:
    rival, holder = open_on(), open_on()
    lock = take(holder)
    assert rival.acquire(KEY, wait=0) is None
    holder.release(lock)
    world.pass_time(MINUTES)
    objects.off = -HOUR
    take(open_on())
    assert rival.acquire(KEY, wait=0) is None


def test_the_store_is_asked_for_its_time_only_when_somebody_else_holds_the_lease(
    open_on: Open, world: World, objects: DatedObjects
) -> None:
    def times_asked() -> int:
        return sum(path == STORE_TIME for _, path in objects.calls)

    one, other = open_on(), open_on()
    for locks in (one, one, other, one):
        locks.release(take(locks))
    assert times_asked() == 0
    lock = take(one)
    for _ in range(5):
        assert other.acquire(KEY, wait=0) is None
        world.pass_time(LEASE_RENEW_SECONDS)
        assert one._try_renew(lock)
    # One write and one read, then it counts on by itself.
    assert times_asked() == 2


def test_whoever_may_not_write_watches_and_writes_nothing(
    open_on: Open, world: World, objects: DatedObjects
) -> None:
    take(open_on())
    world.pass_time(MINUTES)
    objects.calls.clear()
    reader = open_on(read_only=True)
    assert reader.holder(KEY) is not None
    world.pass_time(TERM + 0.1)
    assert reader.holder(KEY) is None
    assert {name for name, _ in objects.calls} == {"read_versioned"}


def test_a_store_that_refuses_to_show_its_time_leaves_the_clock_of_the_waiter(
    open_on: Open, world: World, objects: DatedObjects
) -> None:
    take(open_on())
    world.pass_time(MINUTES)
    objects.fail("put", STORE_TIME, Failure.DENIED, times=None)
    rival = open_on()
    assert rival.acquire(KEY, wait=0) is None
    began = world.now
    assert take(rival, wait=60).token == "2"
    assert TERM < world.now - began < TERM + 1


def test_a_lease_of_a_release_without_terms_has_the_usual_one(
    open_on: Open, world: World, objects: DatedObjects
) -> None:
    objects.put(PATH, '{"owner": "host:7:X", "token": 4, "expires": 99}')
    began = world.now
    rival = open_on()
    holder = rival.holder(KEY)
    assert holder is not None
    assert (holder.host, holder.process) == ("host", 7)
    assert take(rival, wait=60).token == "5"
    assert TERM < world.now - began < TERM + 1


# ---- renewals


class SlowObjects(FaultObjects):
    """A store that takes its time over each replacement."""

    seconds = 0.02

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        time.sleep(self.seconds)
        return super().put_if_match(path, text, token)


@pytest.fixture
def slow(world: World) -> SlowObjects:
    return SlowObjects(DatedObjects(world), StoreRoot(kind="memory", uri="memory://slow").root)


def test_a_healthy_process_keeps_a_hundred_leases_on_a_slow_store(slow: SlowObjects) -> None:
    """A tenth of life: leases of 30 s, renewed every 10 s, and 0.2 s a request."""
    locks = LeaseLocks(slow, lease_seconds=3, renew_seconds=1)
    held = [take(locks, key=f"node:T{number:03}@main") for number in range(100)]
    ends = time.monotonic() + 4.5
    while time.monotonic() < ends:
        assert all(lock.is_valid() for lock in held)
        time.sleep(0.05)
    locks.release_all(held)


def test_leases_are_renewed_in_the_order_of_their_keys(
    objects: DatedObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_PUTS_MAX", 1)
    locks = LeaseLocks(objects, renew_seconds=0.05)
    keys = [f"node:T{number}@main" for number in range(9)]
    held = [take(locks, key=key) for key in reversed(keys)]
    objects.calls.clear()
    renewed: list[str] = []
    while len(renewed) < len(keys):
        time.sleep(0.01)
        renewed = [path for name, path in objects.calls if name == "put_if_match"]
    assert renewed[: len(keys)] == [f"__locks/{lock_name(key)}.json" for key in keys]
    locks.release_all(held)
