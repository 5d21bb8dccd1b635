"""As-of is a law: whatever happens to a graph later, an earlier commit answers as it did."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph import failpoints
from omnigraph.errors import OmniError, QueryError
from omnigraph.failpoints import Failpoint
from tests.support.histories import STEPS, History, Words, questions
from tests.support.settled import assert_settled


@contextmanager
def begun() -> Iterator[History]:
    root = Path(tempfile.mkdtemp(prefix="omnigraph-as-of-"))
    history = History.begun(str(root / "g"))
    try:
        history.graph.load(FIRST, mode="append")
        history.remember()
        yield history
        assert_settled(history.graph)
    finally:
        history.graph.close()
        shutil.rmtree(root, ignore_errors=True)


FIRST = [
    *(
        {"type": "Person", "data": {"key": key, "name": text, "age": place, "mark": f"m{place}"}}
        for place, (key, text) in enumerate(zip("abcd", ["red rope", "knots", None, "rope"], strict=True))
    ),
    {"type": "Team", "data": {"key": "t", "note": "first"}},
    *({"edge": "Knows", "from": a, "to": b, "data": {"since": 1}} for a, b in ("ab", "bc", "ca", "dd")),
    {"edge": "MemberOf", "from": "a", "to": "t", "data": {}},
]  # fmt: skip


@settings(max_examples=12)
@given(data=st.data())
def test_nothing_that_happens_later_changes_an_earlier_answer(data: st.DataObject) -> None:
    with begun() as history:
        for name in data.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=7)):
            event(name)
            history.step(name, data.draw)
        with omnigraph.open(history.graph.uri, read_only=True) as cold:
            history.check(cold)


@pytest.mark.parametrize("name", STEPS)
@settings(max_examples=1)
@given(data=st.data())
def test_every_kind_of_step_leaves_the_answers_of_before(name: str, data: st.DataObject) -> None:
    with begun() as history:
        for one in ("update", name, "optimize", name):
            history.step(one, data.draw)
        assert len(history.memories) > 1


# ---- names that come back


def test_a_property_is_found_by_its_new_name_though_another_took_the_old_one() -> None:
    with begun() as history:
        graph, before = history.graph, history.memories[0].commit
        renamed = Words(age="years")
        graph.schema_apply(renamed.schema(Words()))
        graph.schema_apply(renamed.schema().replace("sig:", "age: I32?  sig:"))
        history.words = renamed
        both = "query q() { match { $p: Person } return { $p.years, $p.age } order { $p.key } }"
        assert [(r["p.years"], r["p.age"]) for r in graph.query(both, at=before)] == [
            (0, None),
            (1, None),
            (2, None),
            (3, None),
        ]
        found = "query q() { match { $p: Person  $p.years = 2 } return { $p } }"
        assert graph.query(found, at=before).rows == [{"p": "c"}]
        assert graph.query(found.replace("years", "age"), at=before).rows == []


def test_a_query_that_fits_neither_time_is_told_what_is_wrong_with_it_now() -> None:
    with begun() as history:
        graph, before = history.graph, history.memories[0].commit
        graph.schema_apply(Words(age="years").schema(Words()))
        history.words = Words(age="years")
        text = "query q() { match { $p: Person } return { $p.years, $p.age } }"
        with pytest.raises(QueryError, match=r"T6.*age"):
            graph.query(text, at=before)


def test_the_schema_of_then_is_known_after_a_schema_change_that_recovery_finished() -> None:
    with begun() as history:
        graph, before = history.graph, history.memories[0].commit
        renamed = Words(age="years")
        with failpoints.armed(Failpoint.SCHEMA_PUBLISHED), pytest.raises(OmniError):
            graph.schema_apply(renamed.schema(Words()))
        graph.close()
        history.graph, history.words = omnigraph.open(graph.uri), renamed
        history.check()
        assert history.graph.query(questions(Words())["all"], at=before).rows
