"""Threads answer every split once, and rows of one key meet in one place."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraphdb.failpoints import PARK_SECONDS_MAX
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import KEY, Each, Shuffle, count_buckets
from omnigraphdb.pipeline.shuffle import buckets_of, split_by_bucket

SQUARES = pa.schema([("n", pa.int64()), ("square", pa.int64())])
NAMES = pa.schema([(KEY, pa.string()), ("position", pa.int64())])
COUNTED = pa.schema([(KEY, pa.string()), ("put", pa.int64()), ("held", pa.int64())])


def squares(number: int) -> Iterator[pa.Table]:
    yield pa.table({"n": [number], "square": [number * number]}, schema=SQUARES)


def names(split: tuple[int, list[str]]) -> Iterator[tuple[str, pa.Table]]:
    number, found = split
    side = "put" if number % 2 else "held"
    positions = [number << 40 | row for row in range(len(found))]
    yield side, pa.table({KEY: found, "position": positions}, schema=NAMES)


def counted(sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    for key in pc.unique(pa.concat_tables(list(sides.values()))[KEY]).to_pylist():
        both = {side: pc.sum(pc.equal(rows[KEY], key)).as_py() or 0 for side, rows in sides.items()}
        yield pa.table({KEY: [key], "put": [both["put"]], "held": [both["held"]]}, schema=COUNTED)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_split_is_answered_once(workers: int) -> None:
    step = Each(name="squares", splits=range(50), run=squares, out=SQUARES)
    found = LocalRunner(workers).run(step)
    assert found["n"].to_pylist() == list(range(50))
    assert found["square"].to_pylist() == [n * n for n in range(50)]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_heaviest_splits_begin_first_and_answers_keep_their_order(workers: int) -> None:
    begun: list[int] = []

    def run(number: int) -> Iterator[pa.Table]:
        begun.append(number)
        yield from squares(number)

    step = Each(name="squares", splits=range(9), run=run, out=SQUARES, weigh=lambda n: n % 3)
    found = LocalRunner(workers).run(step)
    assert found["n"].to_pylist() == list(range(9))
    assert list(step.schedule()) == [2, 5, 8, 1, 4, 7, 0, 3, 6]
    assert set(begun[:3]) == {2, 5, 8}


def test_a_step_without_splits_answers_with_nothing_of_its_schema() -> None:
    found = LocalRunner(2).run(Each(name="squares", splits=(), run=squares, out=SQUARES))
    assert found.schema == SQUARES
    assert found.num_rows == 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("buckets", [None, 1, 7])
@pytest.mark.parametrize("keys_bytes_max", [0, 500, 1 << 30])
def test_all_rows_of_a_key_meet_in_one_decision(
    workers: int,
    buckets: int | None,
    keys_bytes_max: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    texts = ["", "a", "b", "ä", "日本", "a\n", "ab"]
    splits = [(number, texts[number % 3 :] * 2) for number in range(9)]
    step = Shuffle(
        name="count",
        splits=splits,
        keys=names,
        sides={"put": NAMES, "held": NAMES},
        decide=counted,
        out=COUNTED,
    )
    runner = LocalRunner(workers, buckets=buckets, keys_bytes_max=keys_bytes_max)
    found = runner.run(step).sort_by(KEY).to_pylist()
    assert not list(tmp_path.iterdir())
    expected = {
        key: (
            sum(given.count(key) for number, given in splits if number % 2),
            sum(given.count(key) for number, given in splits if not number % 2),
        )
        for key in texts
    }
    assert {row[KEY]: (row["put"], row["held"]) for row in found} == expected
    assert len(found) == len(texts)


@pytest.mark.parametrize(
    ("rows", "workers", "buckets"),
    [
        (0, 200, 1),
        (100, 200, 1),
        (100_000, 200, 4),
        (10_000_000, 200, 200),
        (10_000_000, 2, 10),
        (1_000_000_000, 200, 954),
    ],
)
def test_buckets_are_as_many_as_the_rows_are_worth(rows: int, workers: int, buckets: int) -> None:
    assert count_buckets(rows, workers) == buckets


def test_the_first_failure_stops_what_has_not_begun() -> None:
    begun = []

    def run(number: int) -> Iterator[pa.Table]:
        begun.append(number)
        if number == 3:
            raise ValueError("split 3 is broken")
        yield from squares(number)

    step = Each(name="squares", splits=range(1000), run=run, out=SQUARES)
    with pytest.raises(ValueError, match="split 3 is broken"):
        LocalRunner(2).run(step)
    assert len(begun) < 100


def test_splits_are_worked_on_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=PARK_SECONDS_MAX)

    def run(number: int) -> Iterator[pa.Table]:
        together.wait()
        yield from squares(number)

    assert LocalRunner(2).run(Each(name="s", splits=range(2), run=run, out=SQUARES)).num_rows == 2


def test_a_text_and_its_bytes_have_one_bucket_wherever_they_stand() -> None:
    texts = pa.array(["", "a", "ab", None, "ba", "日本", "x" * 300])
    alone = [int(buckets_of(texts.slice(n, 1), 64)[0]) for n in range(len(texts))]
    assert buckets_of(texts, 64).tolist() == alone
    assert buckets_of(texts.cast(pa.binary()), 64).tolist() == alone
    assert buckets_of(pa.array([], pa.string()), 64).tolist() == []


def test_keys_that_count_up_spread_over_the_buckets() -> None:
    keys = pa.array([f"p{number:08d}" for number in range(20_000)])
    sizes = [rows.num_rows for _, rows in split_by_bucket(pa.table({KEY: keys}), 16)]
    assert sum(sizes) == 20_000
    assert len(sizes) == 16
    assert max(sizes) < 2 * min(sizes)
