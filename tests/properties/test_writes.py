"""Random writes beside a plain model: the same rows, or the same refusal; branches and the past included."""

import io
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.settled import assert_settled
from tests.support.write_model import EDGES, NODES, OPERATORS, SCHEMA, Model, model_of, refused

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

keys = st.sampled_from("pqrst")
numbers = st.integers(-1, 10)
small = st.integers(0, 9)
mails = st.sampled_from(["x", "y", "z"])
maybe_numbers = st.none() | small
values = st.fixed_dictionaries(
    {}, optional={"n": maybe_numbers | numbers, "mail": st.none() | mails, "kind": st.sampled_from(["a", "b", "c"])}
)  # fmt: skip
wheres = st.one_of(
    st.tuples(st.just("k"), st.sampled_from(["=", "!=", "<"]), keys),
    st.tuples(st.just("n"), st.sampled_from(sorted(OPERATORS)), small),
    st.tuples(st.just("mail"), st.sampled_from(["=", "!="]), mails),
)
inserts = st.one_of(
    st.tuples(st.just("Person"), st.tuples(keys, values).map(lambda kv: {"k": kv[0]} | kv[1])),
    st.tuples(st.just("Note"), st.fixed_dictionaries({"text": mails})),
    st.tuples(st.sampled_from(sorted(EDGES)), st.fixed_dictionaries({"src": keys, "dst": keys, "w": maybe_numbers})),
)  # fmt: skip
writes = st.lists(
    st.tuples(st.just("insert"), inserts)
    | st.tuples(st.just("update"), st.tuples(wheres, values.filter(bool))),
    min_size=1,
    max_size=4,
)
edge_wheres = st.one_of(
    st.tuples(st.sampled_from(["src", "dst"]), st.just("="), keys),
    st.tuples(st.just("w"), st.sampled_from(sorted(OPERATORS)), small),
)
deletes = st.lists(
    st.tuples(st.just("Person"), wheres)
    | st.tuples(st.just("Note"), st.tuples(st.just("text"), st.sampled_from(["=", "!="]), mails))
    | st.tuples(st.sampled_from(sorted(EDGES)), edge_wheres),
    min_size=1,
    max_size=3,
)
ids = st.sampled_from("123456")
records = st.lists(
    st.one_of(
        st.tuples(keys, values).map(lambda kv: {"type": "Person", "data": {"k": kv[0]} | kv[1]}),
        st.tuples(ids, mails).map(lambda it: {"type": "Note", "data": {"id": it[0], "text": it[1]}}),
        st.tuples(ids, keys, keys).map(lambda ids: {"edge": "Knows", "from": ids[1], "to": ids[2], "data": {"id": ids[0]}}),
        st.tuples(ids, keys, ids).map(lambda ids: {"edge": "Wrote", "from": ids[1], "to": ids[2], "data": {"id": ids[0]}}),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip
modes = st.sampled_from(["append", "merge", "overwrite"])
branches = st.sampled_from(["main", "one", "two"])


class Writes(RuleBasedStateMachine):
    """A graph through two handles, and its model, branch by branch, with every state a commit made."""

    @initialize()
    def begin(self) -> None:
        self.home = tempfile.TemporaryDirectory()
        self.graph: Graph = omnigraphdb.init(Path(self.home.name) / "g", SCHEMA)
        self.other: Graph = omnigraphdb.open(self.graph.uri)
        self.models: dict[str, Model] = {"main": Model()}
        self.past: list[tuple[str, str, Model]] = []

    # ---- mutations

    @rule(statements=writes, branch=branches)
    def write(self, statements: list[Any], branch: str) -> None:
        if branch not in self.models:
            return
        model, touched = self.models[branch].copy(), 0
        text: list[str] = []
        params: dict[str, Any] = {}
        for number, (verb, told) in enumerate(statements):
            if verb == "insert":
                name, row = told
                model.insert(name, row)
                touched += 1
                text.append(f"insert {name} {{ {assigned(row, number, params)} }}")
            else:
                where, row = told
                touched += model.update(where, row)
                clause = compared(where, f"{number}w", params)
                text.append(
                    f"update Person set {{ {assigned(row, number, params)} }} where {clause}"
                )
        done = self._run(branch, model, text, params, check=touched > 0)
        if done is not None:
            assert done.affected_nodes + done.affected_edges == touched

    @rule(statements=deletes, branch=branches)
    def remove(self, statements: list[Any], branch: str) -> None:
        if branch not in self.models:
            return
        before = self.models[branch]
        model = before.copy()
        text: list[str] = []
        params: dict[str, Any] = {}
        for number, (name, where) in enumerate(statements):
            # Every delete reads the same committed state.
            model.delete(name, before.matching(name, where))
            text.append(f"delete {name} where {compared(where, f'{number}w', params)}")
        done = self._run(branch, model, text, params, check=False)
        assert done is not None
        assert done.affected_nodes == lost(before, model, NODES)
        assert done.affected_edges == lost(before, model, EDGES)

    def _run(
        self, branch: str, model: Model, text: list[str], params: dict[str, Any], *, check: bool
    ) -> Any:
        declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in params.items())
        query = f"query q({declared}) {{ {' '.join(text)} }}"
        given = {name: value for name, (_, value) in params.items()}
        refusal = refused(model.check) if check else None
        if refusal is not None:
            with pytest.raises(omnigraphdb.OmniError) as caught:
                self.graph.mutate(query, given, branch=branch)
            assert caught.value.kind == refusal, (query, given)
            return None
        done = self.graph.mutate(query, given, branch=branch)
        self._landed(branch, model, done.commit)
        return done

    # ---- loads

    @rule(records=records, mode=modes, branch=branches)
    def load(self, records: list[dict[str, Any]], mode: "Mode", branch: str) -> None:
        if branch not in self.models:
            return
        model = self.models[branch].copy()
        refusal = refused(lambda: model.load(records, mode))
        if refusal is not None:
            with pytest.raises(omnigraphdb.OmniError) as caught:
                self.graph.load(records, mode=mode, branch=branch)
            assert caught.value.kind == refusal, (records, mode)
            return
        done = self.graph.load(records, mode=mode, branch=branch)
        assert done.total_rows == len(records)
        self._landed(branch, model, done.commit)

    def _landed(self, branch: str, model: Model, commit: Any) -> None:
        """The graph shows what the model shows; ids the graph made up take the place of stand-ins."""
        found = model_of(self.graph.export(branch=branch))
        assert sorted_rows(found) == sorted_rows(model)
        assert cached_ids(found, model) == cached_ids(model, model)
        self.models[branch] = found
        if commit is not None:
            self.past.append((commit.id, branch, found))

    # ---- branches and the past

    @rule(name=st.sampled_from(["one", "two"]), source=branches)
    def fork(self, name: str, source: str) -> None:
        if name in self.models or source not in self.models:
            return
        self.graph.branch_create(name, from_branch=source)
        self.models[name] = self.models[source].copy()

    @rule(name=st.sampled_from(["one", "two"]))
    def drop(self, name: str) -> None:
        if name not in self.models:
            return
        try:
            self.graph.branch_delete(name)
        except omnigraphdb.BranchInUse:
            return
        del self.models[name]
        self.past = [one for one in self.past if one[1] != name]

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        commit, branch, model = data.draw(st.sampled_from(self.past))
        assert model_of(self.graph.export(branch=branch, at=commit)).rows == model.rows

    @rule()
    def turn_to_the_other_handle(self) -> None:
        self.graph, self.other = self.other, self.graph

    @rule()
    def reopen(self) -> None:
        uri = self.graph.uri
        self.graph.close()
        self.graph = omnigraphdb.open(uri)

    @invariant()
    def shows_every_branch(self) -> None:
        if hasattr(self, "graph"):
            assert {branch.name for branch in self.graph.branches()} == set(self.models)

    def teardown(self) -> None:
        if not hasattr(self, "graph"):
            return
        with self.home, self.graph, self.other:
            for branch, model in self.models.items():
                assert model_of(self.graph.export(branch=branch)).rows == model.rows
            for commit, branch, model in self.past[-3:]:
                assert model_of(self.graph.export(branch=branch, at=commit)).rows == model.rows
            assert_settled(self.graph)


_ENDS = {"src": "from", "dst": "to"}
_TYPES = {"n": "I32?", "w": "I32?"}


def assigned(row: dict[str, Any], number: int, params: dict[str, Any]) -> str:
    parts = []
    for name, value in row.items():
        parameter = f"v{number}{name}"
        params[parameter] = (_TYPES.get(name, "String?"), value)
        parts.append(f"{_ENDS.get(name, name)}: ${parameter}")
    return ", ".join(parts)


def compared(where: tuple[str, str, Any], parameter: str, params: dict[str, Any]) -> str:
    name, op, value = where
    params[f"p{parameter}"] = (_TYPES.get(name, "String?"), value)
    return f"{_ENDS.get(name, name)} {op} $p{parameter}"


def lost(before: Model, after: Model, names: Any) -> int:
    return sum(len(before.rows[name]) - len(after.rows[name]) for name in names)


def sorted_rows(model: Model) -> dict[str, list[str]]:
    return {name: sorted(repr(row) for row in rows.values()) for name, rows in model.rows.items()}


def cached_ids(model: Model, told: Model) -> dict[str, list[str]]:
    """Ids that somebody gave, not those the graph made up."""
    return {
        name: sorted(key for key in rows if key in told.rows[name] and not key.startswith("made-"))
        for name, rows in model.rows.items()
    }


TestWrites = Writes.TestCase
TestWrites.settings = settings(max_examples=30, stateful_step_count=15)


# ---- anything at all


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return omnigraphdb.init(tmp_path_factory.mktemp("any") / "g", ANY)


ANY = """
node Thing { k: String @key  b: Bool?  i: I32?  l: I64?  u: U32?  v: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?
             e: enum(a, b)?  s: [String]?  n: [I64]?  m: [DateTime]?  w: Vector(2)?  x: Blob? }
edge Link: Thing -> Thing
"""
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.dates() | st.datetimes()
    | st.binary(max_size=3) | st.sampled_from(["2024-01-01", "base64:AA==", "1e400", "\ud800"])
)  # fmt: skip
things = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)  # fmt: skip
members = st.sampled_from(
    ["k", "b", "i", "l", "u", "v", "f", "d", "day", "at", "e", "s", "n", "m", "w", "x", "id", "zz"]
)
shaped = st.fixed_dictionaries(
    {"type": st.sampled_from(["Thing", "Thing", "Think"]), "data": st.dictionaries(members, things, max_size=5)}
) | st.fixed_dictionaries(
    {"edge": st.just("Link"), "from": scalars, "to": scalars}, optional={"data": st.dictionaries(members, scalars)}
)  # fmt: skip


KINDS = {"fine", "data_error", "constraint_error", "referential_error", "key_conflict"}


def outcome(graph: Graph, source: Any, **options: Any) -> str:
    """How a load that writes nothing ends: fine, or refused in our words."""
    try:
        graph.load(source, mode="append", dry_run=True, **options)
    except omnigraphdb.OmniError as error:
        str(error).encode()
        json.dumps(error.to_dict()).encode()
        return error.kind
    return "fine"


@given(st.lists(things | shaped, max_size=4))
def test_any_record_is_taken_or_refused_in_our_words(graph: Graph, found: list[Any]) -> None:
    # A list of texts is a list of files.
    assert outcome(graph, found) in KINDS | {"user_input"}


@given(
    st.lists(
        st.binary(max_size=40) | shaped.map(lambda one: json.dumps(one, default=str).encode()),
        max_size=4,
    )
)
def test_any_line_is_taken_or_refused_in_our_words(graph: Graph, found: list[bytes]) -> None:
    assert outcome(graph, io.BytesIO(b"\n".join(found))) in KINDS


columns = st.dictionaries(
    members, st.lists(scalars, min_size=2, max_size=2), min_size=1, max_size=4
)


@given(columns)
def test_any_frame_is_taken_or_refused_in_our_words(graph: Graph, found: dict[str, Any]) -> None:
    try:
        frame = pa.table(found)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return
    assert outcome(graph, frame, type="Thing") in KINDS
