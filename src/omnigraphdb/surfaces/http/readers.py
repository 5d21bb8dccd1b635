"""Readers: the threads in which reads run, each in the turn of its actor, within its time and its memory."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from traceback import clear_frames
from typing import Any, Final, TypeVar

from omnigraphdb.cancellation import Cancellation
from omnigraphdb.errors import ReadCancelled, TooManyRequests
from omnigraphdb.limits import SERVER_READS_MAX, SERVER_STATUS_MAX
from omnigraphdb.memory import MemoryBound
from omnigraphdb.runtime import Runtime
from omnigraphdb.surfaces.http.replies import Reply, Stream
from omnigraphdb.surfaces.http.requests import CallerGone, Request
from omnigraphdb.surfaces.http.served import REQUEST_TIME_SETTING, Served
from omnigraphdb.surfaces.http.turns import READERS_SETTING
from omnigraphdb.values import dataclass

SOON_SECONDS: Final = 0.05
"""How long a read runs before anyone looks whether its caller is still there: most are done sooner."""

Answer = Reply | Stream
T = TypeVar("T")


class WorkLimit(Cancellation):
    """The time of one step of a read: of the read itself, or of one piece of its stream.

    A stream keeps the guards under which it was opened, so all steps have the same one.
    """

    def begin_step(self) -> None:
        """Start the time again."""
        if self._seconds is not None:
            self._end = self._runtime.monotonic() + self._seconds


@dataclass(slots=True, kw_only=True)
class Reading:
    """One read: who asks, and what stops it."""

    request: Request
    actor: str | None
    deadline: Cancellation
    """Stops the whole answer: when the caller leaves, and at the time that the caller set."""
    work: WorkLimit
    """Stops a step of the answer that takes longer than this server lets it."""
    memory: MemoryBound
    ends: float | None
    """When the time is over that the caller set."""
    caller_seconds: float | None


class Readers:
    """Runs reads in threads."""

    def __init__(self, served: Served, runtime: Runtime) -> None:
        self._served, self._runtime = served, runtime
        self._work_seconds = served.request_seconds or None
        """The time of the work of a read, or of one piece of a stream."""
        self.threads = ThreadPoolExecutor(SERVER_READS_MAX, "omnigraph-read")
        self._status = ThreadPoolExecutor(SERVER_STATUS_MAX, "omnigraph-status")
        self._streams = ThreadPoolExecutor(served.exports.count + 2, "omnigraph-stream")

    def close(self) -> None:
        """Give up the threads."""
        for pool in (self.threads, self._status, self._streams):
            pool.shutdown(wait=False, cancel_futures=True)

    def start(self, request: Request, actor: str | None, caller_seconds: float | None) -> Reading:
        """Describe a read whose clock starts now."""
        now = self._runtime.monotonic()
        return Reading(
            request=request,
            actor=actor,
            deadline=Cancellation(caller_seconds, runtime=self._runtime),
            work=WorkLimit(self._work_seconds, setting=REQUEST_TIME_SETTING, runtime=self._runtime),
            memory=self._served.bound_memory(),
            ends=None if caller_seconds is None else now + caller_seconds,
            caller_seconds=caller_seconds,
        )

    async def run_status(self, handler: Callable[[], Answer]) -> Answer:
        """Answer a request about the server itself."""
        return await asyncio.get_running_loop().run_in_executor(self._status, handler)

    async def run(self, reading: Reading, handler: Callable[[], Answer]) -> Answer:
        """Run a read; it stops when its time is over, or when nobody waits for it any more."""
        await self.wait_turn(reading)
        future = self._submit(self.threads, reading, handler)
        work: asyncio.Future[Answer] = asyncio.wrap_future(future)
        seconds = self._remaining(reading)
        soon = SOON_SECONDS if seconds is None else min(SOON_SECONDS, seconds)
        try:
            if (await asyncio.wait((work,), timeout=soon))[0]:
                return work.result()
            await self._watch(reading, work, seconds)
            return work.result()
        except BaseException:
            future.add_done_callback(_drop_answer)
            raise

    async def take_piece(self, reading: Reading, take: Callable[[], T]) -> T:
        """Make the next piece of a stream, as a read of its own."""
        turns, actor = self._served.turns, reading.actor
        turn = turns.enter(actor)
        if turn is not None:
            await turns.wait(actor, turn)
        return await asyncio.wrap_future(self._submit(self._streams, reading, take))

    async def wait_turn(self, reading: Reading) -> None:
        """Wait until the actor has fewer reads under way."""
        turns, actor = self._served.turns, reading.actor
        turn = turns.enter(actor)
        if turn is None:
            return
        waiting = asyncio.ensure_future(turns.wait(actor, turn))
        try:
            await self._watch(reading, waiting, self._remaining(reading))
        except ReadCancelled:
            if reading.ends is not None and self._runtime.monotonic() >= reading.ends:
                raise
            raise TooManyRequests("reads under way", turns.running_max, READERS_SETTING) from None
        finally:
            # Whoever leaves the queue does so before anything else happens.
            with suppress(asyncio.CancelledError):
                await waiting

    def _submit(
        self, pool: ThreadPoolExecutor, reading: Reading, work: Callable[[], T]
    ) -> Future[T]:
        """Start work whose turn has come; the turn ends with the work, even if nobody waits for it."""
        reading.work.begin_step()

        def run() -> T:
            with reading.deadline, reading.work, reading.memory:
                try:
                    return work()
                except BaseException as error:
                    _release_columns(error)
                    reading.memory.end()
                    raise

        try:
            future = pool.submit(run)
        except BaseException:
            self._served.turns.leave(reading.actor)
            raise
        future.add_done_callback(lambda _: self._served.turns.leave(reading.actor))
        return future

    async def _watch(
        self, reading: Reading, work: "asyncio.Future[Any]", seconds: float | None
    ) -> None:
        """Wait for what may take long, for its time to be over, or for the caller to leave."""
        gone = asyncio.ensure_future(reading.request.wait_until_gone())
        try:
            await asyncio.wait((work, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return
            reading.deadline.cancel()
            # A read that has not begun leaves its place in the queue.
            work.cancel()
            if gone.done():
                raise CallerGone
            if reading.caller_seconds is not None:
                raise ReadCancelled(reading.caller_seconds)
            raise ReadCancelled(self._work_seconds, REQUEST_TIME_SETTING)
        finally:
            gone.cancel()

    def _remaining(self, reading: Reading) -> float | None:
        """Seconds until the read is stopped."""
        if reading.ends is None:
            return self._work_seconds
        remaining = max(0.0, reading.ends - self._runtime.monotonic())
        return remaining if self._work_seconds is None else min(remaining, self._work_seconds)


def _release_columns(error: BaseException) -> None:
    """Let go of what a failed read held: the traceback of its error keeps it until a garbage collection."""
    link: BaseException | None = error
    while link is not None:
        clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def _drop_answer(work: Future[Answer]) -> None:
    """Let go of the answer to a read that nobody waits for."""
    if not work.cancelled() and work.exception() is None:
        answer = work.result()
        if isinstance(answer, Stream):
            answer.release()
