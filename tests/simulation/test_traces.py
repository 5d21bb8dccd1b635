"""Traces of the model drive the code: the judge is silent, and nearly every place is one that the code comes to."""

import datetime
import re
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.children import simulate
from tests.simulation.models import install_quint
from tests.simulation.stored_traces import (
    BROKEN,
    FOLDER,
    SEED,
    WHOLE,
    Source,
    draw_traces,
    read_traces,
)

FOLLOWED_MIN: Final = 0.999
"""The part of the actions of stored traces that the code follows; where it falls, model or code went another way."""
QUICK: Final = "sleepers-CAREFUL"
"""The others are a soak."""
FRESH_FOLLOWED_MIN: Final = 0.93
FRESH_EACH: Final = 40


def read_followed(printed: str) -> float:
    """Read which part of the actions of traces of whole models was followed."""
    lines = re.findall(r"^(\S+): followed (\d+) of (\d+) actions", printed, re.MULTILINE)
    names = {source.name for source in WHOLE}
    numbers = [(int(followed), int(every)) for name, followed, every in lines if name in names]
    return sum(followed for followed, _ in numbers) / sum(every for _, every in numbers)


def test_stored_traces_keep_the_judge_silent_and_those_of_whole_models_are_followed() -> None:
    names = (source.name for source in (*WHOLE, *BROKEN))
    verdict = simulate(f"--plan traces --traces {','.join(names)}")
    assert verdict.is_silent, verdict.printed
    assert read_followed(verdict.printed) >= FOLLOWED_MIN, verdict.printed


def test_stored_traces_come_from_the_sources_that_are_declared() -> None:
    names = {path.stem for path in FOLDER.glob("*.txt")}
    assert names == {source.name for source in (*WHOLE, *BROKEN)}
    assert all(read_traces(FOLDER / f"{name}.txt") for name in names)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, marks=[] if source.name == QUICK else pytest.mark.soak, id=source.name)
        for source in BROKEN
    ],
)
def test_a_trace_of_a_model_without_a_guard_finds_the_code_without_it(source: Source) -> None:
    """With the guard they are silent: the test above runs them."""
    verdict = simulate(f"--plan traces --traces {source.name} --mutant {source.mutant}")
    assert not verdict.is_silent, verdict.printed


@pytest.fixture(scope="session")
def quint() -> Path:
    """The program that runs models, as npm installs it."""
    installed = install_quint()
    if installed is None:
        pytest.skip("npm is not installed")
    return installed


@pytest.mark.soak
@pytest.mark.parametrize("source", WHOLE, ids=lambda source: source.name)
def test_fresh_traces_keep_the_judge_silent(quint: Path, tmp_path: Path, source: Source) -> None:
    seed = datetime.datetime.now(datetime.UTC).date().toordinal()
    path = tmp_path / f"{source.name}.txt"
    path.write_text("\n".join(map(str, draw_traces(quint, source, seed, FRESH_EACH))))
    verdict = simulate(f"--plan traces --traces {path}")
    assert verdict.is_silent, verdict.printed
    assert read_followed(verdict.printed) >= FRESH_FOLLOWED_MIN, verdict.printed


@pytest.mark.soak
@pytest.mark.parametrize("source", WHOLE, ids=lambda source: source.name)
def test_stored_traces_are_those_that_the_model_makes(quint: Path, source: Source) -> None:
    drawn = draw_traces(quint, source, SEED, source.count)
    stored = read_traces(FOLDER / f"{source.name}.txt")
    assert [*map(str, drawn)] == [*map(str, stored)], "make them again: see `stored_traces`"
