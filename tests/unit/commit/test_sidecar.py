"""Sidecars as values and as JSON, each version by its own meaning."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.commit.locks import SCHEMA_APPLY, lock_key
from omnigraphdb.commit.sidecar import (
    Decided,
    Mode,
    Pin,
    PointerUpdate,
    RecordedDecision,
    Registration,
    Sidecar,
    TableOutcome,
    Tombstone,
    WriterKind,
)
from omnigraphdb.commit.sidecar_json import decode, encode
from omnigraphdb.errors import InternalError, SidecarUnreadable
from omnigraphdb.ids import CommitId, OperationId, TableKey, Version
from omnigraphdb.manifest.change import OperationDraft
from omnigraphdb.storage.layout import root_of, sidecar_path

ID = OperationId("01HZY8M3D8Q4XT6V5R2N7K9B1C")
ROOT = root_of("/tmp/some/nodes/graph")

keys = st.sampled_from([TableKey("node:A"), TableKey("node:B"), TableKey("edge:C")])
versions = st.integers(1, 2**40).map(Version)
texts = st.text(min_size=1, max_size=8)
branches = st.none() | st.sampled_from(["b", "team/b"])
paths = st.from_regex(r"(nodes|edges)/[0-9a-f]{16}(-[1-9])?", fullmatch=True)
pins = st.builds(
    Pin,
    table_key=keys,
    table_path=paths,
    table_branch=branches,
    expected=versions,
    post_commit=versions,
    confirmed=st.none() | versions,
    uuids=st.lists(texts, max_size=2).map(tuple),
    forked=st.booleans(),
    token=st.none() | texts,
)
recorded = st.builds(
    RecordedDecision,
    decision=st.just(Decided.ROLL_BACK),
    outcomes=st.lists(
        st.builds(TableOutcome, table_key=keys, from_version=versions, to_version=versions),
        max_size=2,
    ).map(tuple),
    restored=st.dictionaries(keys, versions, max_size=2),
)
operations = st.builds(
    OperationDraft,
    key=texts,
    actor=st.none() | texts,
    request=texts,
    operation_id=st.just(ID),
    receipt=st.dictionaries(texts, st.integers() | texts | st.none(), max_size=2),
)
sidecars = st.builds(
    Sidecar,
    operation_id=st.just(ID),
    writer_kind=st.sampled_from(WriterKind),
    branch=branches,
    actor=st.none() | texts,
    started_at=texts,
    branch_incarnation=st.none()
    | st.lists(st.tuples(st.integers(0, 9), texts), min_size=1, max_size=2).map(tuple),
    tables=st.lists(pins, max_size=3).map(tuple),
    registrations=st.lists(
        st.builds(
            Registration,
            table_key=keys,
            table_path=paths,
            table_branch=branches,
            created=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    tombstones=st.lists(st.builds(Tombstone, keys, versions), max_size=2).map(tuple),
    pointer_updates=st.lists(
        st.builds(
            PointerUpdate,
            table_key=keys,
            version=versions,
            branch=branches,
            row_count=st.integers(0, 9),
            path=st.none() | paths,
        ),
        max_size=2,
    ).map(tuple),
    read_set=st.dictionaries(keys, versions, max_size=2),
    merge_source=st.none() | texts.map(CommitId),
    commit_id=st.none() | texts.map(CommitId),
    if_commit=st.none() | texts.map(CommitId),
    batch_id=st.none() | texts,
    batch_request=st.none() | texts,
    message=st.none() | texts,
    operation=st.none() | operations,
    schema_hash=st.none() | texts,
    recorded=st.none() | recorded,
)


@given(sidecars)
def test_what_is_written_is_read_back(sidecar: Sidecar) -> None:
    assert decode(sidecar.path, encode(sidecar, ROOT)) == sidecar


@given(sidecars, st.integers(0, 400), st.binary(max_size=3))
def test_a_torn_or_damaged_file_is_refused_or_read_never_misunderstood(
    sidecar: Sidecar, at: int, junk: bytes
) -> None:
    text = encode(sidecar, ROOT).encode()
    damaged = (text[:at] + junk).decode(errors="replace")
    assert _read(sidecar.path, damaged) in (sidecar, sidecar.path)


def _read(path: str, text: str) -> Sidecar | str:
    """The sidecar, or the file that its refusal names."""
    try:
        return decode(path, text)
    except SidecarUnreadable as error:
        return error.path


def body(version: int, **facts: Any) -> str:
    pin = {
        "table_key": "node:A",
        "table_path": "s3://bucket/some/nodes/graph/nodes/0123456789abcdef/tree/team/b",
        "expected_version": 4,
        "post_commit_pin": 5,
        "table_branch": "team/b",
        "confirmed_version": 6,
        "transaction_uuids": ["u"],
        "forked": True,
    }
    return json.dumps(
        {
            "schema_version": version,
            "operation_id": ID,
            "started_at": "2025-01-01T00:00:00.000000",
            "branch": "team/b",
            "actor_id": None,
            "writer_kind": "BranchMerge",
            "tables": [pin],
            "merge_source_commit_id": "01HZY8M3D8Q4XT6V5R2N7K9B1D",
            "commit_id": "01HZY8M3D8Q4XT6V5R2N7K9B1E",
            "pointer_updates": [{"table_key": "node:B", "table_version": 3, "row_count": 1}],
            "read_set": [{"table_key": "node:B", "expected": 3}],
            "recovery": {"decision": "RollBack", "restored": {}},
            **facts,
        }
    )


@pytest.mark.parametrize(
    ("version", "mode", "confirmed", "knows"),
    [(1, Mode.LOOSE, None, False), (2, Mode.CONFIRMED, 6, False), (3, Mode.CONFIRMED, 6, True)],
)
def test_each_version_means_what_it_meant(
    version: int, mode: Mode, confirmed: int | None, knows: bool
) -> None:
    found = decode(sidecar_path(ID), body(version))
    (pin,) = found.tables
    assert (found.mode, pin.confirmed, found.knows_its_commits) == (mode, confirmed, knows)
    assert (pin.table_path, pin.table_branch) == ("nodes/0123456789abcdef", "team/b")
    assert bool(pin.uuids) == pin.forked == knows
    assert (found.commit_id is not None) == knows
    assert bool(found.pointer_updates) == bool(found.read_set) == knows
    assert (found.recorded is not None) == knows
    assert found.merge_source == "01HZY8M3D8Q4XT6V5R2N7K9B1D"


def test_a_decision_makes_older_releases_refuse_the_file() -> None:
    old = decode(sidecar_path(ID), body(1))
    decided = old.decided(RecordedDecision(decision=Decided.ROLL_BACK))
    assert json.loads(encode(decided, ROOT))["schema_version"] == 3


def test_absent_facts_are_left_out() -> None:
    plain = Sidecar(
        operation_id=ID, writer_kind=WriterKind.LOAD, branch=None, actor=None, started_at="now"
    )
    assert json.loads(encode(plain, ROOT)) == {
        "schema_version": 3,
        "operation_id": ID,
        "started_at": "now",
        "branch": None,
        "actor_id": None,
        "writer_kind": "Load",
        "tables": [],
    }


def test_a_table_outside_the_graph_is_refused() -> None:
    told = json.loads(body(3))
    told["tables"][0]["table_path"] = "/somewhere/else"
    with pytest.raises(SidecarUnreadable, match="not the place of a table"):
        decode(sidecar_path(ID), json.dumps(told))


def test_confirming_needs_a_version_of_every_table() -> None:
    one = decode(sidecar_path(ID), body(3))
    other = replace(one.tables[0], table_key=TableKey("node:B"))
    both = replace(one, tables=(*one.tables, other))
    with pytest.raises(InternalError, match="node:B"):
        both.confirm({TableKey("node:A"): Version(5)})
    done = both.confirm({TableKey("node:A"): Version(5), TableKey("node:B"): Version(7)})
    assert [pin.confirmed for pin in done.tables] == [5, 7]


def test_the_turns_of_an_owner_are_those_of_all_it_moves() -> None:
    merge = decode(sidecar_path(ID), body(3))
    assert merge.lock_keys == {
        lock_key(TableKey("node:A"), "team/b"),
        lock_key(TableKey("node:B"), "team/b"),
    }
    schema = replace(
        merge, writer_kind=WriterKind.SCHEMA_APPLY, tables=(), pointer_updates=(), branch=None
    )
    assert schema.lock_keys == {SCHEMA_APPLY}
