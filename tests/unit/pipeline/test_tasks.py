"""Tasks travel: what they are told is small and says nothing of the process it comes from."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.commit.delta import DeltaKind
from omnigraph.ids import TableKey, Version
from omnigraph.pipeline.checks import Here, Job, check_step
from omnigraph.pipeline.input.splits import ByteRange, CommittedSplit, Split
from omnigraph.pipeline.keys.decide import decide_step
from omnigraph.pipeline.keys.local_endpoints import local_endpoints_step
from omnigraph.pipeline.keys.local_ids import local_ids_step
from omnigraph.pipeline.keys.plan import KeyPlan
from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.messages import ANSWERS, CheckPassed, Piece, PieceKind, decode, encode
from omnigraph.pipeline.runner import Shuffle, Step
from omnigraph.pipeline.stage import mark_splits, stage_step, write_splits
from omnigraph.storage.store import open_store
from omnigraph.storage.tables import TableAt

SCHEMA = """
node Person { name: String @key  sig: Vector(3)?  scan: Blob?  mail: String?  @unique(mail) }
edge Knows: Person -> Person @card(0..2) { w: F64? }
"""
PERSON, KNOWS = TableKey("node:Person"), TableKey("edge:Knows")
AT = TableAt(path="nodes/x", branch=None, version=Version(3))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(
        home=StoreLocation.of(str(tmp_path)),
        here=Here(open_store(tmp_path)),
        catalog=compile_schema(SCHEMA),
        kind=DeltaKind.MERGE,
        seed="01M7F4EXVBZE224K4YQTKV9TNX",
        area="__staging/x",
    )


def steps(job: Job) -> list[Step]:
    split = Split(number=0, source=0, content=ByteRange("a"), table_key=PERSON)
    piece = Piece(kind=PieceKind.REPLACED, table_key=PERSON, part=0, path="p", start=0, rows=1)
    pieces = {(PERSON, 0): (piece,)}
    held = CommittedSplit(table_key=PERSON, at=AT, fragments=(0, 1))
    key_plan = KeyPlan(
        job=job,
        rows={PERSON: 5, KNOWS: 7},
        pins={PERSON: AT, KNOWS: AT},
        held={PERSON: 9, KNOWS: 9},
        identifies=True,
        judges=True,
    )
    return [
        check_step(job, [split]),
        decide_step(key_plan, [split], [held]),
        local_ids_step(key_plan, [split], [PERSON]),
        local_endpoints_step(key_plan, [split], list(key_plan.edges())),
        stage_step(
            job,
            write_splits([split], {PERSON: AT}, pieces, pieces, 2),
            mark_splits({PERSON: AT}, pieces, 2),
        ),
    ]


def test_every_step_travels_without_the_open_graph(job: Job) -> None:
    for step in steps(job):
        spelled = pickle.dumps(step)
        assert len(spelled) < 10_000
        again = pickle.loads(spelled)
        assert list(again.splits) == list(step.splits)
    alone: Job = pickle.loads(pickle.dumps(job))
    assert alone.here.store is None
    assert alone.store() is alone.store()


def test_what_a_process_keeps_for_a_load_is_made_once_and_let_go(job: Job) -> None:
    alone: Job = pickle.loads(pickle.dumps(job))
    for one in (job, alone):
        made = [object(), object()]
        first = one.kept("ids", AT, lambda: made[0])  # noqa: B023 - called at once
        assert one.kept("ids", AT, lambda: made[1]) is first  # noqa: B023 - called at once
        one.let_go()
        assert one.kept("ids", AT, lambda: made[1]) is made[1]  # noqa: B023 - called at once


def test_no_vector_and_no_blob_is_ever_brought_together_or_answered(job: Job) -> None:
    for step in steps(job):
        assert step.out == ANSWERS
        for schema in step.sides.values() if isinstance(step, Shuffle) else ():
            for field in schema:
                assert not pa.types.is_nested(field.type)
                assert not pa.types.is_large_binary(field.type)


def test_answers_are_heard_as_they_were_told() -> None:
    answers = [CheckPassed(3, (17,)), CheckPassed(4, (0, 2))]
    assert decode(encode(answers)) == answers
    assert decode(ANSWERS.empty_table()) == []
