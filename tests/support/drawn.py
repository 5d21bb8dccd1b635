"""Strategies drawn by a plain random source: a soak of many draws is no single example, and needs no shrinking."""

import random
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.control import BuildContext
from hypothesis.errors import StopTest, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData

T = TypeVar("T")

Draw = Callable[[st.SearchStrategy[Any]], Any]


def draw_by(chance: random.Random) -> Draw:
    """A function that draws a value of a strategy; equal seeds draw equal values."""

    def draw(strategy: st.SearchStrategy[T]) -> T:
        while True:
            data = ConjectureData(random=chance)
            try:
                with BuildContext(data, wrapped_test=draw):
                    return data.draw(strategy)
            except (StopTest, UnsatisfiedAssumption):
                continue  # What a strategy gives up is drawn again.

    return draw
