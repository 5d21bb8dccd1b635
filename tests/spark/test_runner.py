"""A step says the same on Spark as in this process, whatever it is given."""

import gc
import signal
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from omnigraphdb.errors import (
    EngineError,
    InternalError,
    NotFound,
    Problem,
    StorageError,
    UserInputError,
    data_error,
)
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import KEY, Each, Runner, Shuffle
from omnigraphdb.spark import SparkRunner, spark_runner

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OUT = pa.schema([("split", pa.int64()), ("text", pa.string()), ("big", pa.uint64())])


@pytest.fixture(scope="module")
def runner(spark: Any) -> SparkRunner:
    return spark_runner(spark)


# ---- each


def _spelled(split: tuple[int, list[str | None]]) -> Iterator[pa.Table]:
    number, texts = split
    for text in texts:
        yield pa.table([[number], [text], [2**64 - 1 - number]], schema=OUT)


def _each(splits: list[tuple[int, list[str | None]]]) -> Each:
    return Each(name="spell", splits=splits, run=_spelled, out=OUT)


texts = st.one_of(st.none(), st.text(max_size=8))


@settings(max_examples=5)
@given(parts=st.lists(st.lists(texts, max_size=4), max_size=6))
def test_every_split_answers_once_and_in_order(
    runner: SparkRunner, parts: list[list[str | None]]
) -> None:
    step = _each(list(enumerate(parts)))
    assert runner.run(step).equals(LocalRunner(2).run(step))


def test_a_step_without_splits_says_nothing(runner: SparkRunner) -> None:
    assert runner.run(_each([])).equals(OUT.empty_table())


def test_the_heaviest_splits_have_the_first_turns_and_answers_keep_their_order(
    runner: SparkRunner,
) -> None:
    step = Each(name="weigh", splits=range(6), run=_turn, out=OUT, weigh=lambda number: number % 3)
    found = runner.run(step)
    assert found["split"].to_pylist() == list(range(6))
    assert found["text"].to_pylist() == ["4", "2", "0", "5", "3", "1"]


def _turn(number: int) -> Iterator[pa.Table]:
    context = TaskContext.get()
    assert context is not None
    yield pa.table([[number], [str(context.partitionId())], [0]], schema=OUT)


def test_what_a_worker_has_loaded_is_not_looked_through_after_every_task(
    runner: SparkRunner,
) -> None:
    step = Each(name="count", splits=range(4), run=_frozen, out=OUT)
    runner.run(step)
    assert min(runner.run(step)["split"].to_pylist()) > 10_000


def _frozen(number: int) -> Iterator[pa.Table]:
    yield pa.table([[gc.get_freeze_count()], [None], [0]], schema=OUT)


# ---- shuffle

SIDES = {
    "node": pa.schema([(KEY, pa.string()), ("position", pa.int64())]),
    "edge": pa.schema([(KEY, pa.string()), ("position", pa.int64()), ("weight", pa.uint64())]),
}
VERDICTS = pa.schema([(KEY, pa.string()), ("rule", pa.string()), ("position", pa.int64())])


def _sides(split: tuple[int, list[Any], list[Any]]) -> Iterator[tuple[str, pa.Table]]:
    number, nodes, edges = split
    places = lambda keys: [number << 40 | i for i in range(len(keys))]  # noqa: E731
    yield "node", pa.table([nodes, places(nodes)], schema=SIDES["node"])
    yield "edge", pa.table([edges, places(edges), places(edges)], schema=SIDES["edge"])


def _verdicts(sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    """Twins among the nodes, edges without a node, and how many edges each node has."""
    nodes, edges = sides["node"], sides["edge"]
    last = nodes.group_by(KEY).aggregate([("position", "max"), ("position", "count")])
    duplicates = last.filter(pc.greater(last["position_count"], 1))
    yield _verdict("duplicate", duplicates[KEY], duplicates["position_max"])
    lost = edges.filter(pc.invert(pc.is_in(edges[KEY], nodes[KEY].combine_chunks())))
    yield _verdict("lost", lost[KEY], lost["position"])
    degrees = edges.group_by(KEY).aggregate([("weight", "count")])
    yield _verdict("degree", degrees[KEY], degrees["weight_count"])


def _verdict(rule: str, keys: Any, positions: Any) -> pa.Table:
    return pa.table([keys, pa.array([rule] * len(keys), pa.string()), positions], schema=VERDICTS)


def _shuffle(splits: list[Any]) -> Shuffle:
    return Shuffle(
        name="verdicts", splits=splits, keys=_sides, sides=SIDES, decide=_verdicts, out=VERDICTS
    )


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)


keys = st.lists(st.one_of(st.none(), st.sampled_from("abcä€𝄞"), st.text(max_size=3)), max_size=12)


@settings(max_examples=5)
@given(parts=st.lists(st.tuples(keys, keys), min_size=1, max_size=5))
def test_keys_of_all_splits_meet_wherever_they_come_from(
    runner: SparkRunner, parts: list[tuple[list[Any], list[Any]]]
) -> None:
    step = _shuffle([(i, *sides) for i, sides in enumerate(parts)])
    here: list[Runner] = [LocalRunner(2), LocalRunner(2, buckets=5)]
    found = _sorted(runner.run(step))
    assert all(found == _sorted(one.run(step)) for one in here)


@pytest.mark.soak
def test_a_million_keys_meet_in_buckets(runner: SparkRunner) -> None:
    step = Shuffle(
        name="many",
        splits=[(i, 250_000) for i in range(4)],
        keys=_many,
        sides={"node": SIDES["node"]},
        decide=_counted,
        out=pa.schema([("rows", pa.int64()), ("keys", pa.int64())]),
    )
    found = runner.run(step)
    assert sum(found["rows"].to_pylist()) == 1_000_000
    assert sum(found["keys"].to_pylist()) == 625_000
    assert found.num_rows >= 4


def _many(split: tuple[int, int]) -> Iterator[tuple[str, pa.Table]]:
    number, count = split
    numbers = pa.array(range(number * count // 2, number * count // 2 + count), pa.int64())
    yield "node", pa.table([numbers.cast(pa.string()), numbers], schema=SIDES["node"])


def _counted(sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    nodes = sides["node"]
    yield pa.table({"rows": [nodes.num_rows], "keys": [pc.count_distinct(nodes[KEY]).as_py()]})


# ---- failing


def _refusing(split: int) -> Iterator[pa.Table]:
    if split >= 2:
        problem = Problem(rule="J04", message="no such thing", file=f"part-{split}", line=split)
        raise data_error([problem], total=50)
    yield OUT.empty_table()


@pytest.mark.parametrize("kind", ["each", "shuffle"])
def test_what_a_task_refuses_comes_back_with_its_facts(runner: SparkRunner, kind: str) -> None:
    if kind == "each":
        step: Any = Each(name="refuse", splits=range(4), run=_refusing, out=OUT)
    else:
        step = Shuffle(
            name="refuse", splits=range(4), keys=_refusing_keys, sides={"node": SIDES["node"]},
            decide=_counted, out=OUT,
        )  # fmt: skip
    with pytest.raises(UserInputError) as caught:
        runner.run(step)
    error: Any = caught.value
    assert (error.total, error.problems[0].file, error.problems[0].line) == (50, "part-2", 2)


def _refusing_keys(split: int) -> Iterator[tuple[str, pa.Table]]:
    for _ in _refusing(split):
        yield "node", SIDES["node"].empty_table()


def _refusing_decision(sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    raise NotFound("node", sides["node"][KEY][0].as_py())


def test_what_a_decision_refuses_comes_back_with_its_facts(runner: SparkRunner) -> None:
    step = Shuffle(
        name="refuse", splits=[(0, 1)], keys=_many, sides={"node": SIDES["node"]},
        decide=_refusing_decision, out=OUT,
    )  # fmt: skip
    with pytest.raises(NotFound) as caught:
        runner.run(step)
    assert caught.value.name == "0"


def _tried(place: str, times: int, error: Exception, split: int) -> Iterator[pa.Table]:
    """Fail so many times, counted by files, then answer."""
    seen = len(list(Path(place).iterdir()))
    (Path(place) / f"{seen}").touch()
    if seen < times:
        raise error
    yield pa.table([[split], ["done"], [seen]], schema=OUT)


@pytest.mark.soak
@pytest.mark.parametrize("error", [OSError("gone"), StorageError("slow")], ids=["os", "storage"])
def test_a_task_that_met_a_failing_store_is_tried_again(
    runner: SparkRunner, tmp_path: Path, error: Exception
) -> None:
    step = Each(name="try", splits=[7], run=partial(_tried, str(tmp_path), 2, error), out=OUT)
    assert runner.run(step).to_pylist() == [{"split": 7, "text": "done", "big": 2}]


def test_a_bug_in_a_task_is_told_by_its_own_words(runner: SparkRunner, tmp_path: Path) -> None:
    bug = partial(_tried, str(tmp_path), 99, ZeroDivisionError("by nothing"))
    with pytest.raises(EngineError, match=r"'bug'.*ZeroDivisionError: by nothing.*nothing was"):
        runner.run(Each(name="bug", splits=[0], run=bug, out=OUT))
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("wide", [pa.list_(pa.float32(), 4), pa.large_binary()], ids=str)
def test_vectors_and_blobs_do_not_pass_through_the_jvm(
    runner: SparkRunner, wide: pa.DataType
) -> None:
    schema = pa.schema([("v", wide)])
    with pytest.raises(InternalError, match="stay inside tasks"):
        runner.run(Each(name="wide", splits=[0], run=_spelled, out=schema))


# ---- giving up


def _sleeping(place: str, split: int) -> Iterator[pa.Table]:
    (Path(place) / f"begun-{split}").touch()
    threading.Event().wait(200)
    (Path(place) / f"ended-{split}").touch()
    yield OUT.empty_table()


def test_an_interrupted_step_ends_and_the_next_one_runs(
    runner: SparkRunner, tmp_path: Path
) -> None:
    main, over = threading.main_thread().ident, threading.Event()
    assert main is not None

    def interrupt() -> None:
        while not over.wait(0.05):
            if any(tmp_path.glob("begun-*")):
                signal.pthread_kill(main, signal.SIGINT)
                return

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.run(
                Each(name="sleep", splits=range(4), run=partial(_sleeping, str(tmp_path)), out=OUT)
            )
    finally:
        # Nobody is interrupted by a step that ended otherwise.
        over.set()
        interrupter.join()
        signal.signal(signal.SIGINT, before)
    assert not any(tmp_path.glob("ended-*"))
    assert runner.run(_each([(0, ["x"])])).num_rows == 1


class _Dying(threading.Thread):
    """A thread that ends before it does anything, as one does whose gateway to Java is gone."""

    def __init__(self, *, target: object, session: object, daemon: bool) -> None:
        super().__init__(daemon=daemon)


def test_a_step_whose_thread_dies_is_not_waited_for(
    runner: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraphdb.spark_jobs.runner.InheritableThread", _Dying)
    with pytest.raises(EngineError, match="died on Spark without an answer"):
        runner.run(_each([(0, ["a"])]))


# ---- which session


@pytest.mark.parametrize("given", [None, True, "auto"])
def test_the_session_that_runs_is_used(spark: Any, given: Any) -> None:
    assert spark_runner(given).spark is spark


def test_something_else_is_not_a_session() -> None:
    with pytest.raises(UserInputError, match="SparkSession"):
        spark_runner(7)
