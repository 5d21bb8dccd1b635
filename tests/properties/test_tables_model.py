"""Random changes of one table beside a plain dictionary: rows, identity, indices and history stay right."""

import tempfile
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from omnigraphdb.storage.store import open_store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import IndexKind, IndexSpec, Landed, Staged, TableAt
from tests.support.tables import AGE_INDEX, ID_INDEX, OPERATION, PEOPLE, SCHEMA, KernelLock, people

NAMES = [f"n{number}" for number in range(12)]
SUBSETS = st.lists(st.sampled_from(NAMES), unique=True, max_size=6)
AGES = st.integers(0, 4)


@dataclass(slots=True)
class Model:
    """What the table should hold: an age and an identity per id."""

    ages: dict[str, int] = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)
    born: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "Model":
        return Model(dict(self.ages), dict(self.row_ids), dict(self.born))


class TableMachine(RuleBasedStateMachine):
    """One writer, every kind of change, each landing as the next version."""

    @initialize()
    def create(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.tables: Tables = open_store(self.directory.name).tables
        self.at = self.tables.create(PEOPLE, SCHEMA)
        self.model = Model()
        self.history: list[tuple[TableAt, Model]] = [(self.at, self.model.copy())]

    def land(self, staged: Staged | None) -> Landed | None:
        if staged is None:
            return None
        assert self.tables.head(PEOPLE, None) == self.at.version
        landed = self.tables.commit_staged(staged, operation_id=OPERATION, lock=KernelLock())
        assert landed.at.version == self.at.version + 1
        self.at = landed.at
        return landed

    def learn(self, names: list[str]) -> None:
        """Take over the identity of rows that are new to the model."""
        columns = ("id", "_row_created_at_version")
        rows = self.tables.open(self.at).read(columns, row_id=True).to_pylist()
        for row in rows:
            if row["id"] in names:
                self.model.row_ids[row["id"]] = row["_rowid"]
                self.model.born[row["id"]] = row["_row_created_at_version"]

    def forget(self, names: list[str]) -> None:
        for name in names:
            for facts in (self.model.ages, self.model.row_ids, self.model.born):
                facts.pop(name, None)

    @rule(names=SUBSETS, age=AGES)
    def append(self, names: list[str], age: int) -> None:
        fresh = [name for name in names if name not in self.model.ages]
        if fresh:
            self.land(self.tables.stage_append(self.at, people(fresh, age)))
            self.model.ages |= dict.fromkeys(fresh, age)
            self.learn(fresh)

    @rule(names=SUBSETS.filter(len), doomed=SUBSETS, age=AGES)
    def merge(self, names: list[str], doomed: list[str], age: int) -> None:
        gone = [name for name in doomed if name not in names]
        fresh = [name for name in names if name not in self.model.ages]
        deletes = pa.array(gone, pa.string())
        self.land(self.tables.stage_merge(self.at, people(names, age), deletes=deletes))
        self.forget(gone)
        self.model.ages |= dict.fromkeys(names, age)
        self.learn(fresh)

    @rule(names=SUBSETS)
    def delete(self, names: list[str]) -> None:
        landed = self.land(self.tables.stage_delete(self.at, pa.array(names, pa.string())))
        assert (landed is None) == self.model.ages.keys().isdisjoint(names)
        self.forget(names)

    @rule(names=SUBSETS, age=AGES)
    def overwrite(self, names: list[str], age: int) -> None:
        self.land(self.tables.stage_overwrite(self.at, people(names, age)))
        self.forget(list(self.model.ages))
        self.model.ages = dict.fromkeys(names, age)
        self.learn(names)

    @rule(specs=st.lists(st.sampled_from([ID_INDEX, AGE_INDEX]), unique=True))
    def index(self, specs: list[IndexSpec]) -> None:
        self.land(self.tables.stage_indices(self.at, specs))
        for spec in specs:
            assert self.tables.open(self.at).uncovered(spec.column, IndexKind.BTREE) == ()

    @rule()
    def compact(self) -> None:
        self.land(self.tables.stage_compaction(self.at))

    @precondition(lambda self: len(self.history) > 1)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        at, model = data.draw(st.sampled_from(self.history))
        landed = self.tables.restore(
            PEOPLE,
            None,
            at.version,
            expected_head=self.at.version,
            operation_id=OPERATION,
            lock=KernelLock(),
        )
        self.at, self.model = landed.at, model.copy()

    @rule()
    def reopen(self) -> None:
        self.tables = open_store(self.directory.name).tables

    @rule()
    def remember(self) -> None:
        self.history.append((self.at, self.model.copy()))

    @invariant()
    def the_table_holds_what_the_model_says(self) -> None:
        if hasattr(self, "at"):
            self.compare(self.at, self.model)

    @invariant()
    def queries_by_index_and_by_lookup_agree(self) -> None:
        if not hasattr(self, "at"):
            return
        table = self.tables.open(self.at)
        for age in range(5):
            found = set(table.read(("id",), f"age = {age}")["id"].to_pylist())
            assert found == {name for name, held in self.model.ages.items() if held == age}
        found = set(table.lookup("id", pa.array(NAMES), ("id",))["id"].to_pylist())
        assert found == self.model.ages.keys()
        for name in NAMES[:3]:
            assert table.count(f"id = '{name}'") == (name in self.model.ages)

    def compare(self, at: TableAt, model: Model) -> None:
        table = self.tables.open(at)
        columns = ("id", "age", "_row_created_at_version")
        rows = table.read(columns, row_id=True).to_pylist()
        assert len(rows) == table.count() == len(model.ages)
        assert {r["id"]: r["age"] for r in rows} == model.ages
        assert {r["id"]: r["_rowid"] for r in rows} == model.row_ids
        assert {r["id"]: r["_row_created_at_version"] for r in rows} == model.born
        assert len(set(model.row_ids.values())) == len(model.row_ids)

    def teardown(self) -> None:
        if hasattr(self, "at"):
            for at, model in self.history:
                self.compare(at, model)
            self.directory.cleanup()


TestTables = TableMachine.TestCase
TestTables.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
