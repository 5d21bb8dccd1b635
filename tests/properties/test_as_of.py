"""As-of is a law: whatever happens to a graph later, an earlier commit answers as it did."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb import failpoints
from omnigraphdb.errors import OmniError, QueryError
from omnigraphdb.failpoints import Failpoint
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
    {"type": "Tool", "data": {"key": "w", "note": "rope"}},
    *({"edge": "Uses", "from": one, "to": "w", "data": {}} for one in "ab"),
]  # fmt: skip


@settings(max_examples=5)
@given(data=st.data())
def test_nothing_that_happens_later_changes_an_earlier_answer(data: st.DataObject) -> None:
    with begun() as history:
        for name in data.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=7)):
            event(name)
            history.step(name, data.draw)
        with omnigraphdb.open(history.graph.uri, read_only=True) as cold:
            history.check(cold)


@pytest.mark.parametrize("name", STEPS)
@settings(max_examples=1)
@given(data=st.data())
def test_every_kind_of_step_leaves_the_answers_of_before(name: str, data: st.DataObject) -> None:
    with begun() as history:
        for one in ("update", name, "optimize", name):
            history.step(one, data.draw)
        assert len(history.memories) > 1


@pytest.mark.soak
@settings(max_examples=4, phases=[Phase.generate])
@given(data=st.data())
def test_fifty_commits_answer_every_form_as_they_did(data: st.DataObject) -> None:
    with begun() as history:
        while len(history.memories) < 51:
            history.advance(data.draw(st.sampled_from(STEPS)), data.draw)
        history.check()
        history.graph.optimize()
        with omnigraphdb.open(history.graph.uri, read_only=True) as cold:
            history.check(cold)


@settings(max_examples=1, phases=[Phase.generate])
@given(data=st.data())
def test_a_dozen_commits_answer_every_form_as_they_did(data: st.DataObject) -> None:
    with begun() as history:
        for name in DOZEN:
            history.advance(name, data.draw)
        history.check()


DOZEN = (
    "merge load", "rename a property", "update", "merge", "drop a type", "delete", "rename a type", "drop a property", "append",
    "use the name again", "optimize", "rename an edge",
)  # fmt: skip


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


@pytest.mark.parametrize("type_", ["String?", "I32?", "[Date]?"])
def test_a_property_whose_name_came_back_shows_what_was_stored_then(type_: str) -> None:
    with begun() as history:
        graph, before = history.graph, history.memories[0].commit
        shown = "query q() { match { $p: Person } return { $p.mark } order { $p.key } }"
        said, records = graph.query(shown).rows, list(graph.export())
        assert {"p.mark": "m1"} in said
        graph.schema_apply(Words(mark=None).schema())
        between = graph.commits(limit=1)[0]
        assert graph.query(shown, at=before).rows == said
        graph.schema_apply(Words(mark=None).schema().replace("sig:", f"mark: {type_}  sig:"))
        assert graph.query(shown, at=before).rows == said
        for at in (between, None):
            assert {row["p.mark"] for row in graph.query(shown, at=at).rows} == {None}
        # The entity and an export of that time say the same.
        assert [(graph.entity("Person", key, at=before) or {})["mark"] for key in "abcd"] == [
            row["p.mark"] for row in said
        ]
        assert list(graph.export(at=before)) == records


def test_an_export_of_the_past_holds_what_was_dropped_or_renamed_since() -> None:
    schema = (
        "node A { k: String @key  d: Date?  t: DateTime?  n: I32? }  edge E: A -> A { w: Date? }"
    )
    data = {"k": "a", "d": "2020-01-02", "t": "2020-01-02T03:04:05.006Z", "n": 1}
    records = [{"type": "A", "data": data}, {"edge": "E", "from": "a", "to": "a"}]
    with tempfile.TemporaryDirectory() as place, omnigraphdb.init(f"{place}/g", schema) as graph:
        graph.load(records, mode="append")
        before = graph.commits(limit=1)[0]
        exported, entity = list(graph.export()), graph.entity("A", "a")
        graph.export_files(f"{place}/now")
        graph.schema_apply('node B @rename_from("A") { k: String @key  m: I32? @rename_from("n") }')
        graph.export_files(f"{place}/then", at=before)
        assert list(graph.export(at=before)) == exported
        assert list(graph.export(at=before, types=["B"])) == exported[:1]
        assert list(graph.export(at=before, types=["A"])) == exported[:1]
        assert list(graph.export(at=before, types=["E"])) == exported[1:]
        assert graph.entity("B", "a", at=before) == entity
        now, then = (sorted(Path(place, name).iterdir()) for name in ("now", "then"))
        # The order of columns is that of the present schema, which knows neither the type nor what was dropped.
        assert [_read_lines(one) for one in now] == [_read_lines(one) for one in then]
        changes = graph.diff(before, "main", images=True).changes
        assert json.loads(json.dumps([one.to_dict() for one in changes]))


def _read_lines(file: Path) -> list[object]:
    return [json.loads(line) for line in file.read_text().splitlines()]


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
        history.graph, history.words = omnigraphdb.open(graph.uri), renamed
        history.check()
        assert history.graph.query(questions(Words())["all"], at=before).rows
