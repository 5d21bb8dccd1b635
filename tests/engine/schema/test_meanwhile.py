"""Readers and writers while the schema changes: nobody sees half of it, nothing acknowledged is lost."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConflictError, QueryError
from tests.support.schema_changes import BASE, made

RENAMED = (
    BASE.replace("node City", 'node Town @rename_from("City")')
    .replace("-> City", "-> Town")
    .replace("age: I32?", 'years: I32? @rename_from("age")')
)
BACK = (
    BASE.replace("node City", 'node City @rename_from("Town")')
    .replace("age: I32?", 'age: I32? @rename_from("years")')
)  # fmt: skip
ROUNDS = 6


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with made(tmp_path / "g") as opened:
        yield opened
        assert opened.doctor() == []


@contextmanager
def busy(work: Callable[[], object], workers: int) -> Iterator[list[Future[None]]]:
    """Repeat work in threads until the block ends; what it raises is raised at the end."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            work()

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(repeat) for _ in range(workers)]
        try:
            yield futures
        finally:
            done.set()
        for future in futures:
            future.result()


def swing(graph: Graph, enough: Callable[[], bool]) -> None:
    """Change the schema to and fro until the others have had their share; a busy machine lets them wait."""
    rounds = 0
    while rounds < ROUNDS or not enough():
        for schema in (RENAMED, BACK):
            assert graph.schema_apply(schema).applied
            rounds += 1


def test_a_reader_never_sees_tables_of_another_schema(graph: Graph) -> None:
    other = omnigraphdb.open(graph.uri, read_only=True)
    seen = set()

    def look() -> None:
        view = other.snapshot()._view
        assert view.catalog.tables.keys() == view.snapshot.entries.keys()
        for key, type_ in view.catalog.tables.items():
            table = other._engine.store.tables.open(view.snapshot.entries[key].at)
            assert set(table.schema.names) == set(type_.schema.names)
        seen.add("Town" in view.catalog.nodes)

    with busy(look, 2) as readers:
        swing(graph, lambda: len(seen) == 2 or any(reader.done() for reader in readers))
    assert seen == {True, False}


def test_a_query_answers_in_the_old_words_or_the_new_and_never_with_lost_values(
    graph: Graph,
) -> None:
    answers = []

    def ask() -> None:
        for name in ("age", "years"):
            text = f'query q() {{ match {{ $p: Person {{ name: "Ada" }} }} return {{ $p.{name} as n }} }}'
            try:
                answers.append(graph.query(text).rows)
            except QueryError:
                continue

    with busy(ask, 2) as readers:
        swing(graph, lambda: bool(answers) or any(reader.done() for reader in readers))
    assert answers
    assert all(rows == [{"n": 36}] for rows in answers)


def test_every_write_that_was_acknowledged_survives_any_number_of_changes(graph: Graph) -> None:
    lock = threading.Lock()
    written: list[str] = []
    refused: list[str] = []

    def write() -> None:
        with lock:
            name = f"p{len(written) + len(refused)}"
            refused.append(name)
        try:
            graph.mutate("query m($n: String) { insert Person { name: $n } }", {"n": name})
        except ConflictError:
            return
        with lock:
            refused.remove(name)
            written.append(name)

    with busy(write, 2) as writers:
        swing(graph, lambda: len(written) >= ROUNDS or any(one.done() for one in writers))
    stored = set(graph.table("Person")["id"].to_pylist()) - {"Ada", "Bob"}
    assert stored == set(written)
    assert len(written) >= ROUNDS
