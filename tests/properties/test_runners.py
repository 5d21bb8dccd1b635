"""A load in steps does what a load in memory does: the same rows, or the same refusal, told in the same words."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.replacing import two_commits
from tests.support.two_ways import base_graph, loaded, threads

names = st.sampled_from(["p", "q", "r", "s", "t", "u", "é", "日", "v"])
ids = st.sampled_from(["1", "2", "3", "4", "é", "n-5"])
mails = st.none() | st.sampled_from(["x", "y", "日本"])
rarely_bad = st.integers(0, 60)


@st.composite
def person(draw: st.DrawFn) -> dict[str, Any]:
    """A person, now and then with a value that does not fit."""
    data: dict[str, Any] = {"name": draw(names), "mail": draw(mails)}
    match draw(rarely_bad):
        case 0:
            data["age"] = draw(st.sampled_from([10, -1]))
        case 1:
            data["age"] = "old"
        case 2:
            data["kind"] = "c"
        case 3:
            data["name"] = draw(st.sampled_from(["9", None]))
        case 4:
            data["id"] = "other"
        case 5:
            data["shoe"] = 42
        case 6:
            data["sig"] = draw(st.sampled_from([[1.0], [1.0, 2.5], "no"]))
        case _:
            data["age"] = draw(st.none() | st.integers(0, 9))
    return {"type": "Person", "data": data}


@st.composite
def edge(draw: st.DrawFn) -> dict[str, Any]:
    """An edge, now and then to nowhere."""
    kind = draw(st.sampled_from(["Knows", "Wrote", "About"]))
    node = {"Knows": (names, names), "Wrote": (names, ids), "About": (ids, names)}[kind]
    found = {"edge": kind, "from": draw(node[0]), "to": draw(node[1]), "data": {}}
    if draw(st.booleans()):
        found["data"] = {"id": draw(ids)}
    if draw(rarely_bad) == 0:
        found["to"] = draw(st.sampled_from([7, "nowhere"]))
    return found


notes = st.builds(
    lambda id_, text, n: {"type": "Note", "data": {"text": text, "n": n} | ({"id": id_} if id_ else {})},
    st.none() | ids,
    st.sampled_from(["a", "日本語", "", "long" * 9]),
    st.none() | st.integers(-3, 3),
)  # fmt: skip
pairs = st.builds(lambda a, b: {"type": "Pair", "data": {"a": a, "b": b}}, names, st.integers(0, 2))
records = st.lists(person() | notes | pairs | edge() | edge(), max_size=14)
noise = st.sampled_from(["", "  ", "{", "[1]", '{"type": "Nobody"}', '{"type": "Note"}'])
modes = st.sampled_from(["append", "merge", "merge", "overwrite"])
steps = st.builds(
    threads, st.sampled_from([1, 3]), st.sampled_from([1, 2, 5]), st.sampled_from([0, 1 << 30])
)
grains = st.integers(1, 400) | st.just(1 << 20)
"""What a task reads: less than most inputs have, or so much that all of them are read together."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_graph(tmp_path_factory.mktemp("ways"))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Lines of records, now and then with a line that is none."""
    lines = [json.dumps(one, ensure_ascii=draw(st.booleans())) for one in draw(records)]
    for bad in draw(st.lists(noise, max_size=1)):
        lines.insert(draw(st.integers(0, len(lines))), bad)
    return "".join(f"{line}\n" for line in lines)


@settings(max_examples=30)
@given(
    files=st.lists(texts(), min_size=1, max_size=4),
    mode=modes,
    runner=steps,
    split_bytes=grains,
    packed=st.booleans(),
    create=st.sampled_from([(), ("Person",)]),
)
def test_files_of_records(
    base: Path,
    files: list[str],
    mode: str,
    runner: Any,
    split_bytes: int,
    packed: bool,
    create: tuple[str, ...],
) -> None:
    paths = []
    for number, text in enumerate(files):
        path = base.with_name(f"{number}.jsonl")
        path.write_text(text)
        if packed and number == 1:
            path = path.with_name(f"{number}.jsonl.gz")
            path.write_bytes(gzip.compress(text.encode()))
        paths.append(path)
    whole = loaded(base, paths, mode, create=create)
    stepped = loaded(base, paths, mode, runner=runner, split_bytes=split_bytes, create=create)
    assert stepped == whole


@settings(max_examples=25)
@given(
    some=st.lists(records, min_size=1, max_size=2),
    odd=st.lists(st.sampled_from([None, 7, "x", {"type": "Note"}, {"edge": 3}]), max_size=1),
    mode=modes,
    runner=steps,
    split_bytes=st.integers(1, 400),
    typed=st.booleans(),
)
def test_records_from_memory(
    base: Path, some: list[Any], odd: list[Any], mode: str, runner: Any, split_bytes: int, typed: bool
) -> None:  # fmt: skip
    given = [one for part in some for one in part]
    source: Any = rows_by_type(given) if typed else [*given, *odd]
    whole = loaded(base, source, mode)
    assert loaded(base, source, mode, runner=runner, split_bytes=split_bytes) == whole


def rows_by_type(given_records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The same rows under the names of their types."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for one in given_records:
        ends = {end: one[end] for end in ("from", "to") if end in one}
        rows.setdefault(one.get("type") or one["edge"], []).append(one["data"] | ends)
    return rows


def frames_of(given_records: list[dict[str, Any]]) -> dict[str, pa.Table]:
    """Frames that say what records say; columns become text where values do not agree."""
    return {name: _frame(found) for name, found in rows_by_type(given_records).items()}


def _frame(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if one is None else str(one) for one in values])
    return pa.table(columns)


@settings(max_examples=25)
@given(
    some=records.filter(bool),
    mode=modes,
    runner=steps,
    split_bytes=grains,
    files=st.integers(0, 3),
)
def test_frames(
    base: Path, some: list[dict[str, Any]], mode: str, runner: Any, split_bytes: int, files: int
) -> None:
    source: dict[str, Any] = dict(frames_of(some))
    if files:
        source = {name: _stored(base, name, frame, files) for name, frame in source.items()}
    whole = loaded(base, source, mode)
    assert loaded(base, source, mode, runner=runner, split_bytes=split_bytes) == whole


def _stored(base: Path, name: str, frame: pa.Table, files: int) -> list[Path]:
    """The rows of a frame in so many files, one after the other."""
    paths, step = [], -(-frame.num_rows // files)
    for number in range(files):
        paths.append(base.with_name(f"{name}-{number}.parquet"))
        rows = frame.slice(number * step, step)
        pyarrow.parquet.write_table(rows, paths[-1], row_group_size=2)
    return paths


@st.composite
def sound(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records that a merge takes: keys once, ids as often as one likes, ends that are there."""
    people = draw(st.lists(names, unique=True, max_size=6))
    found: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": name, "age": draw(st.none() | st.integers(0, 9))}}
        for name in people
    ]
    there = st.sampled_from(["p", "q", "r", "s", *people])
    found += draw(st.lists(notes, max_size=8))
    for id_ in draw(st.lists(st.sampled_from(["1", "2", "7", "8", "9"]), max_size=6)):
        ends = {"from": draw(there), "to": draw(there)}
        found.append({"edge": "Knows", "data": {"id": id_, "w": draw(st.integers(0, 9))}} | ends)
    return draw(st.permutations(found))


@settings(max_examples=20)
@given(
    some=sound(),
    runner=steps,
    split_bytes=st.integers(1, 400),
    framed=st.booleans(),
    twice=st.booleans(),
)
def test_merges_that_replace_rows(
    base: Path, some: list[dict[str, Any]], runner: Any, split_bytes: int, framed: bool, twice: bool
) -> None:
    path = base.with_name("sound.jsonl")
    path.write_text("".join(f"{json.dumps(one)}\n" for one in some))
    source = frames_of(some) if framed else path
    whole = loaded(base, source, "merge")
    with two_commits(twice):
        assert loaded(base, source, "merge", runner=runner, split_bytes=split_bytes) == whole
