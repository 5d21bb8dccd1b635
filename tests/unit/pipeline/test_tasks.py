"""Tasks travel: what they are told is small and says nothing of the process it comes from."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.pipeline.checks import LoadProcess, LoadSpec, check_step
from omnigraphdb.pipeline.input.splits import ByteRange, CommittedSplit, Split
from omnigraphdb.pipeline.keys.decide import decide_step
from omnigraphdb.pipeline.keys.local import local_endpoints_step, local_ids_step
from omnigraphdb.pipeline.keys.plan import KeyPlan
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.messages import (
    MESSAGES,
    ScratchSlice,
    SliceKind,
    SplitLines,
    decode,
    encode,
)
from omnigraphdb.pipeline.runner import Shuffle, Step
from omnigraphdb.pipeline.stage import make_stage_step, mark_splits, write_splits
from omnigraphdb.storage.store import open_store
from omnigraphdb.storage.values import TableAt

SCHEMA = """
node Person { name: String @key  sig: Vector(3)?  scan: Blob?  mail: String?  @unique(mail) }
edge Knows: Person -> Person @card(0..2) { w: F64? }
"""
PERSON, KNOWS = TableKey("node:Person"), TableKey("edge:Knows")
AT = TableAt(path="nodes/x", branch=None, version=Version(3))


@pytest.fixture
def load(tmp_path: Path) -> LoadSpec:
    return LoadSpec(
        location=StoreLocation.of(str(tmp_path)),
        process=LoadProcess(open_store(tmp_path)),
        catalog=compile_schema(SCHEMA),
        kind=DeltaKind.MERGE,
        seed="01M7F4EXVBZE224K4YQTKV9TNX",
        area="__staging/x",
    )


def steps(load: LoadSpec) -> list[Step]:
    split = Split(number=0, source=0, content=ByteRange("a"), table_key=PERSON)
    one = ScratchSlice(kind=SliceKind.REPLACED, table_key=PERSON, part=0, path="p", start=0, rows=1)
    slices = {(PERSON, 0): (one,)}
    committed = CommittedSplit(table_key=PERSON, at=AT, fragments=(0, 1))
    key_plan = KeyPlan(
        load=load,
        incoming_rows={PERSON: 5, KNOWS: 7},
        pins={PERSON: AT, KNOWS: AT},
        committed_rows={PERSON: 9, KNOWS: 9},
        resolves_ids=True,
        checks_rules=True,
    )
    return [
        check_step(load, [split]),
        decide_step(key_plan, [split], [committed]),
        local_ids_step(key_plan, [split], [PERSON]),
        local_endpoints_step(key_plan, [split], list(key_plan.edges())),
        make_stage_step(
            load,
            write_splits([split], {PERSON: AT}, slices, slices, 2, [PERSON]),
            mark_splits({PERSON: AT}, slices, 2),
        ),
    ]


def test_every_step_travels_without_the_open_graph(load: LoadSpec) -> None:
    for step in steps(load):
        spelled = pickle.dumps(step)
        assert len(spelled) < 10_000
        again = pickle.loads(spelled)
        assert list(again.splits) == list(step.splits)
    alone: LoadSpec = pickle.loads(pickle.dumps(load))
    assert alone.process.store is None
    assert alone.store() is alone.store()


def test_what_a_process_caches_for_a_load_is_made_once_and_dropped(load: LoadSpec) -> None:
    alone: LoadSpec = pickle.loads(pickle.dumps(load))
    for one in (load, alone):
        made = [object(), object()]
        first = one.cached("ids", AT, lambda: made[0])  # noqa: B023 - called at once
        assert one.cached("ids", AT, lambda: made[1]) is first  # noqa: B023 - called at once
        one.clear_cache()
        assert one.cached("ids", AT, lambda: made[1]) is made[1]  # noqa: B023 - called at once


def test_no_vector_and_no_blob_is_ever_shuffled_or_sent(load: LoadSpec) -> None:
    for step in steps(load):
        assert step.out == MESSAGES
        for schema in step.sides.values() if isinstance(step, Shuffle) else ():
            for field in schema:
                assert not pa.types.is_nested(field.type)
                assert not pa.types.is_large_binary(field.type)


def test_messages_are_decoded_as_they_were_encoded() -> None:
    messages = [SplitLines(3, (17,)), SplitLines(4, (0, 2))]
    assert decode(encode(messages)) == messages
    assert decode(MESSAGES.empty_table()) == []
