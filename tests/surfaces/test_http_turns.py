"""Turns of reads: bounded by actor, given in order, and given on by whoever leaves."""

import asyncio
import random

import pytest

from omnigraphdb.errors import TooManyRequests
from omnigraphdb.surfaces.http.turns import WAITING_SETTING, Turns


def test_reads_of_an_actor_take_turns_in_order() -> None:
    turns = Turns(running_max=2, waiting_max=2)
    assert turns.enter("ada") is turns.enter("ada") is None
    first, second = turns.enter("ada"), turns.enter("ada")
    assert first is not None
    assert second is not None
    with pytest.raises(TooManyRequests, match=WAITING_SETTING):
        turns.enter("ada")
    # Another actor has turns of its own.
    assert turns.enter("bo") is None
    turns.leave("ada")
    assert first.done()
    assert not second.done()
    assert turns.counts() == {"ada": 2, "bo": 1}
    assert turns.rejections == 1


def test_whoever_leaves_the_queue_makes_room_and_gives_its_turn_on() -> None:
    turns = Turns(running_max=1, waiting_max=2)
    turns.enter(None)
    first, second = turns.enter(None), turns.enter(None)
    assert first is not None
    assert second is not None
    turns.abandon(None, first)
    third = turns.enter(None)
    assert third is not None
    turns.leave(None)
    assert second.done()
    # The turn came, and nobody is there to take it.
    turns.abandon(None, second)
    assert third.done()
    turns.leave(None)
    assert turns.counts() == {}


def test_interrupted_reads_lose_no_turn() -> None:
    """Of two hundred reads, many are interrupted while they wait or as they begin; never do more run than may."""

    async def read(turns: Turns, actor: str, draw: random.Random, running: dict[str, int]) -> None:
        turn = turns.enter(actor)
        if turn is not None:
            await turns.wait(actor, turn)
        try:
            running[actor] = running.get(actor, 0) + 1
            assert running[actor] <= turns.running_max
            await asyncio.sleep(draw.random() / 500)
        finally:
            running[actor] -= 1
            turns.leave(actor)

    async def story(seed: int) -> None:
        draw, turns, running = random.Random(seed), Turns(3, 1_000), dict[str, int]()
        reads = [
            asyncio.ensure_future(read(turns, draw.choice("ab"), draw, running)) for _ in range(200)
        ]
        while not all(one.done() for one in reads):
            await asyncio.sleep(draw.random() / 1000)
            draw.choice(reads).cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        assert turns.counts() == {}

    for seed in range(5):
        asyncio.run(story(seed))
