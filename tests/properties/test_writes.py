"""Random writes beside a plain model: the same rows, or the same refusal; branches and the past included."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import omnigraph
from omnigraph.api.graph import Graph
from tests.support.settled import assert_settled
from tests.support.write_model import EDGES, NODES, OPERATORS, SCHEMA, Model, model_of, refused

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
        self.graph: Graph = omnigraph.init(Path(self.home.name) / "g", SCHEMA)
        self.other: Graph = omnigraph.open(self.graph.uri)
        self.models: dict[str, Model] = {"main": Model()}
        self.past: list[tuple[str, str, Model]] = []

    # ---- mutations

    @rule(statements=writes, branch=branches)
    def write(self, statements: list[Any], branch: str) -> None:
        if branch not in self.models:
            return
        model, touched = self.models[branch].copy(), 0
        text, params = [], {}
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
        text, params = [], {}
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
            with pytest.raises(omnigraph.OmniError) as caught:
                self.graph.mutate(query, given, branch=branch)
            assert caught.value.kind == refusal, (query, given)
            return None
        done = self.graph.mutate(query, given, branch=branch)
        self._landed(branch, model, done.commit)
        return done

    # ---- loads

    @rule(records=records, mode=modes, branch=branches)
    def load(self, records: list[dict[str, Any]], mode: str, branch: str) -> None:
        if branch not in self.models:
            return
        model = self.models[branch].copy()
        refusal = refused(lambda: model.load(records, mode))
        if refusal is not None:
            with pytest.raises(omnigraph.OmniError) as caught:
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
        assert known_ids(found, model) == known_ids(model, model)
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
        except omnigraph.BranchInUse:
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
        self.graph = omnigraph.open(uri)

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


def known_ids(model: Model, told: Model) -> dict[str, list[str]]:
    """Ids that somebody gave, not those the graph made up."""
    return {
        name: sorted(key for key in rows if key in told.rows[name] and not key.startswith("made-"))
        for name, rows in model.rows.items()
    }


TestWrites = Writes.TestCase
TestWrites.settings = settings(max_examples=30, stateful_step_count=15)
