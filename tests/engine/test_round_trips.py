"""What leaves a graph by any door comes back by a load, equal to the last digit."""

import base64
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCALARS = {
    "text": "String", "kind": "enum(raw, made)", "flag": "Bool", "i32": "I32", "i64": "I64", "u32": "U32",
    "u64": "U64", "f32": "F32", "f64": "F64", "day": "Date", "moment": "DateTime",
}  # fmt: skip
LISTS = {f"{name}s": f"[{type_}]" for name, type_ in SCALARS.items() if name != "kind"}
PROPERTIES = {**SCALARS, **LISTS, "sig": "Vector(3)"}
OPEN = "  ".join(f"{name}: {type_}?" for name, type_ in PROPERTIES.items())
MUST = "  ".join(f"{name}: {type_}" for name, type_ in PROPERTIES.items())
SCHEMA = f"""
node Open {{ key: String @key  {OPEN}  file: Blob? }}
node Must {{ key: String @key  {MUST}  file: Blob }}
"""

INSTANT = pa.timestamp("ms", "UTC")
F32_MAX, F32_TINY = (struct.unpack("<f", bits)[0] for bits in (b"\xff\xff\x7f\x7f", b"\1\0\0\0"))
LEAST: Mapping[str, Any] = {
    "text": "", "kind": "raw", "flag": False, "i32": -(2**31), "i64": -(2**63), "u32": 0, "u64": 0,
    "f32": -F32_MAX, "f64": -1.7976931348623157e308, "day": "0001-01-01", "moment": "0001-01-01T00:00:00Z",
}  # fmt: skip
MOST: Mapping[str, Any] = {
    "text": "Grüße 世界 🚢 \t\u0001\u007f\u2028 \"quoted\", 'so', \\n\nnew\r\nlines, [1] {} null",
    "kind": "made", "flag": True, "i32": 2**31 - 1, "i64": 2**63 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1,
    "f32": F32_MAX, "f64": 1.7976931348623157e308, "day": "9999-12-31", "moment": "9999-12-31T23:59:59.999Z",
}  # fmt: skip
ODD: Mapping[str, Any] = {
    "text": "null", "kind": "made", "flag": True, "i32": -1, "i64": 2**53 + 1, "u32": 1, "u64": 2**63,
    "f32": F32_TINY, "f64": 5e-324, "day": "1969-12-31", "moment": "1969-12-31T23:59:59.999Z",
}  # fmt: skip
WHOLE: Mapping[str, Any] = {**ODD, "text": "1", "f32": -0.0, "f64": 9007199254740994.0, "u64": 7}


def full(key: str, near: Mapping[str, Any], far: Mapping[str, Any], numbers: Any) -> dict[str, Any]:
    """An entity with every property."""
    lists = {f"{name}s": [near[name], far[name]] for name in near if name != "kind"}
    file = "base64:" + base64.b64encode(bytes(range(256))).decode()
    return {"key": key, **near, **lists, "sig": numbers, "file": file}


FULL = (
    full("least", LEAST, MOST, [-F32_MAX, 0.0, F32_TINY]),
    full("most", MOST, ODD, [F32_MAX, -0.0, 0.1]),
    full("odd", ODD, LEAST, [1.0, 2.0, 3.0]),
    full("whole", WHOLE, ODD, [0.5, 1e-40, -7.0]),
    full("short", ODD, ODD, [0.0, 0.0, 0.0]) | {name: [] for name in LISTS} | {"file": "base64:"},
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Two types with every property, one of them with NULLs among the values."""
    graph = omnigraphdb.init(tmp_path_factory.mktemp("source") / "g", SCHEMA)
    records = [{"type": type_, "data": one} for type_ in ("Open", "Must") for one in FULL]
    records.append({"type": "Open", "data": {"key": "nothing"}})
    graph.load(records, mode="append")
    return graph


# ---- the ways out


def _queried(graph: Graph, type_: str, names: Any = PROPERTIES) -> Any:
    shown = ", ".join(f"$n.{name} as {name}" for name in ("key", *names))
    return graph.query(f"query q() {{ match {{ $n: {type_} }} return {{ {shown} }} }}")


def by_table(graph: Graph, type_: str, folder: Path) -> Any:
    return graph.table(type_)


def by_scan(graph: Graph, type_: str, folder: Path) -> Any:
    return graph.snapshot().scan(type_, ["key", *PROPERTIES])


def by_query(graph: Graph, type_: str, folder: Path) -> Any:
    return _queried(graph, type_)


def by_stream(graph: Graph, type_: str, folder: Path) -> Any:
    shown = ", ".join(f"$n.{name} as {name}" for name in ("key", *PROPERTIES))
    return graph.stream(f"query q() {{ match {{ $n: {type_} }} return {{ {shown} }} }}")


def by_ipc(graph: Graph, type_: str, folder: Path) -> Any:
    rows = graph.table(type_)
    with pa.ipc.new_file(folder / "rows.arrow", rows.schema) as file:
        file.write_table(rows)
    return pa.ipc.open_file(folder / "rows.arrow").read_all()


def by_parquet(graph: Graph, type_: str, folder: Path) -> Any:
    pa.parquet.write_table(graph.table(type_), folder / "rows.parquet")
    return folder / "rows.parquet"


def by_export(graph: Graph, type_: str, folder: Path) -> Any:
    done = graph.export_files(folder / "out", format="parquet", types=[type_])
    return [part.file for part in done.parts]


def by_lines(graph: Graph, type_: str, folder: Path) -> Any:
    return [record["data"] for record in graph.export(types=[type_])]


def by_csv(graph: Graph, type_: str, folder: Path) -> Any:
    (folder / "rows.csv").write_text(_queried(graph, type_).to_csv(), newline="")
    return folder / "rows.csv"


def by_arrow_csv(graph: Graph, type_: str, folder: Path) -> Any:
    pa.csv.write_csv(graph.table(type_).select(["key", *SCALARS]), folder / "rows.csv")
    return folder / "rows.csv"


def by_pandas(graph: Graph, type_: str, folder: Path) -> Any:
    return _queried(graph, type_).to_pandas()


def by_pandas_objects(graph: Graph, type_: str, folder: Path) -> Any:
    return graph.table(type_).to_pandas(integer_object_nulls=True).astype(object)


def by_polars(graph: Graph, type_: str, folder: Path) -> Any:
    return _queried(graph, type_).to_polars()


def by_polars_table(graph: Graph, type_: str, folder: Path) -> Any:
    return polars.from_arrow(graph.table(type_))


def by_duckdb(graph: Graph, type_: str, folder: Path) -> Any:
    rows = graph.table(type_)
    with duckdb.connect() as database:
        database.execute("set timezone = 'Asia/Tokyo'")
        return database.from_arrow(rows).to_arrow_table()


def by_duckdb_csv(graph: Graph, type_: str, folder: Path) -> Any:
    rows = graph.table(type_).select(["key", *SCALARS])
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        database.from_arrow(rows).to_csv(str(folder / "rows.csv"))
    return folder / "rows.csv"


WAYS: tuple[Callable[[Graph, str, Path], Any], ...] = (
    by_table, by_scan, by_query, by_stream, by_ipc, by_parquet, by_export, by_lines, by_csv, by_arrow_csv,
    by_pandas, by_pandas_objects, by_polars, by_polars_table, by_duckdb, by_duckdb_csv,
)  # fmt: skip
WITHOUT_LISTS = (by_arrow_csv, by_duckdb_csv)
WITH_BLOBS = (
    by_table, by_ipc, by_parquet, by_export, by_lines, by_pandas_objects, by_polars_table, by_duckdb,
)  # fmt: skip


REQUIRED = (by_table, by_export, by_csv, by_pandas_objects)
"""One way of each reader with required properties; the other ways are soak, since nullable ones hold the same values."""


def _ways() -> list[ParameterSet]:
    soak = pytest.mark.soak
    return [
        pytest.param(
            way,
            type_,
            id=f"{type_}-{way.__name__}",
            marks=() if type_ == "Open" or way in REQUIRED else soak,
        )
        for type_ in ("Open", "Must")
        for way in WAYS
    ]


@pytest.mark.parametrize(("way", "type_"), _ways())
def test_every_value_comes_back(
    source: Graph, way: Callable[[Graph, str, Path], Any], type_: str, tmp_path: Path
) -> None:
    names = ["key", *(SCALARS if way in WITHOUT_LISTS else PROPERTIES)]
    names += ["file"] if way in WITH_BLOBS else []
    given = way(source, type_, tmp_path)
    with omnigraphdb.init(tmp_path / "g", _schema_of(names)) as graph:
        graph.load({type_: given}, mode="append")
        assert_equal(graph.table(type_).select(names), source.table(type_).select(names))


def _schema_of(names: list[str]) -> str:
    """The schema with these properties only: what was not handed out cannot be required."""
    held = {"file": "Blob"} | PROPERTIES
    must = "  ".join(f"{name}: {held[name]}" for name in names if name != "key")
    nullable = "  ".join(f"{name}: {held[name]}?" for name in names if name != "key")
    return f"node Open {{ key: String @key  {nullable} }} node Must {{ key: String @key  {must} }}"


def assert_equal(found: pa.Table, wanted: pa.Table) -> None:
    """Rows by key, to the last bit: `-0.0` is not `0.0` here."""
    assert found.schema == wanted.schema
    shown, known = ({row["key"]: row for row in t.to_pylist()} for t in (found, wanted))
    assert shown.keys() == known.keys()
    pairs = [
        (key, name, shown[key][name], known[key][name]) for key in known for name in known[key]
    ]
    assert [pair for pair in pairs if repr(pair[2]) != repr(pair[3])] == []


def test_instants_are_instants_wherever_arrow_is_handed_out(source: Graph, tmp_path: Path) -> None:
    done = source.export_files(tmp_path / "out", format="parquet", types=["Open"])
    handed_out = {
        "table": source.table("Open").schema,
        "scan": source.snapshot().scan("Open").schema,
        "result": _queried(source, "Open").to_arrow().schema,
        "C stream": pa.table(_queried(source, "Open")).schema,
        "batches": next(_queried(source, "Open").batches()).schema,
        "stream": by_stream(source, "Open", tmp_path).schema,
        "stream of batches": next(iter(by_stream(source, "Open", tmp_path))).schema,
        "export": pa.parquet.read_schema(done.parts[0].file),
    }
    for way, schema in handed_out.items():
        assert schema.field("moment").type == INSTANT, way
        assert schema.field("moments").type.value_type == INSTANT, way
        assert schema.field("day").type == pa.date32(), way
    assert _queried(source, "Open").to_pandas()["moment"].dtype == "datetime64[ms, UTC]"
    assert _queried(source, "Open").to_polars()["moment"].dtype == polars.Datetime("ms", "UTC")


def test_sql_over_a_result_sees_the_time_of_day(source: Graph) -> None:
    found = _queried(source, "Open").to_arrow()
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        database.register("found", found)
        asked = "select hour(moment), millisecond(moment) from found where key = 'most'"
        assert database.sql(asked).fetchall() == [(23, 59999)]


@pytest.mark.parametrize("nested", [False, True])
def test_instants_as_they_were_handed_out_before_still_load(tmp_path: Path, nested: bool) -> None:
    """Arrow kept `date64` as it was; Parquet and CSV had cut it to the day."""
    moments = pa.array([1_773_500_966_535, -1, None], pa.int64()).cast(pa.date64())
    if nested:
        moments = pa.ListArray.from_arrays(
            pa.array([0, 1, 1, 3], pa.int32()), moments.slice(0, 2).take(pa.array([0, 1, 1]))
        )
    rows = pa.table({"key": ["a", "b", "c"], "at": moments})
    type_ = "[DateTime]?" if nested else "DateTime?"
    with omnigraphdb.init(tmp_path / "g", f"node N {{ key: String @key  at: {type_} }}") as graph:
        graph.load({"N": rows}, mode="append")
        numbers = pa.list_(pa.int64()) if nested else pa.int64()
        assert graph.table("N")["at"].cast(numbers).equals(rows["at"].cast(numbers))
        pa.parquet.write_table(rows, tmp_path / "rows.parquet")
        graph.load({"N": tmp_path / "rows.parquet"}, mode="merge")
        midnight = datetime(2026, 3, 14, tzinfo=UTC)
        assert graph.table("N")["at"][0].as_py() == ([midnight] if nested else midnight)


# ---- integers beyond I64


U64 = "node N { key: String @key  u: U64?  us: [U64]? }"
MOST_U64 = 2**64 - 1


@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"key": ["a", "b"], "u": pandas.Series([MOST_U64, None], dtype=object)}),
        pandas.DataFrame({"key": ["a", "b"], "u": [MOST_U64, 0], "us": [[MOST_U64, 1], None]}),
        pandas.DataFrame({"key": ["a"], "u": pandas.array([MOST_U64], dtype="UInt64")}),
        polars.DataFrame({"key": ["a"], "u": [MOST_U64], "us": [[MOST_U64, 0]]}),
        pa.table({"key": ["a"], "u": pa.array([MOST_U64], pa.decimal128(20, 0))}),
    ],
    ids=["objects", "lists", "nullable", "polars", "decimals"],
)
def test_large_integers_load_from_frames(frame: Any, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", U64) as graph:
        graph.load({"N": frame}, mode="append")
        assert _stored(graph, "a")["u"] == MOST_U64
        assert _stored(graph, "a")["us"] in (None, [MOST_U64, 1], [MOST_U64, 0])


@pytest.mark.parametrize("cells", ["18446744073709551615", '" 18446744073709551615"'])
def test_large_integers_load_from_csv(cells: str, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(f'key,u,us\na,{cells},"[18446744073709551615, 1]"\nb,,\n')
    with omnigraphdb.init(tmp_path / "g", U64) as graph:
        graph.load({"N": tmp_path / "n.csv"}, mode="append")
        assert graph.entity("N", "a") == {
            "id": "a", "key": "a", "u": MOST_U64, "us": [MOST_U64, 1],
        }  # fmt: skip
        assert _stored(graph, "b")["u"] is None


@pytest.mark.parametrize("bad", [-1, 2**64, 2**70])
@pytest.mark.parametrize("way", ["csv", "pandas"])
def test_an_integer_that_does_not_fit_is_named_with_its_row(
    way: str, bad: int, tmp_path: Path
) -> None:
    values = [MOST_U64, bad, 3]
    frame: Any = pandas.DataFrame({"key": list("abc"), "u": pandas.Series(values, dtype=object)})
    if way == "csv":
        frame.to_csv(tmp_path / "n.csv", index=False)
        frame = tmp_path / "n.csv"
    with omnigraphdb.init(tmp_path / "g", U64) as graph:
        with pytest.raises(
            omnigraphdb.DataError, match=rf"record 2: .* {bad} is outside .* U64"
        ) as caught:
            graph.load({"N": frame}, mode="append")
        assert len(caught.value.problems) == 1


# ---- text tables


def test_lists_in_cells_are_json_and_others_are_named(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text('key,us\na,"[1, 2]"\nb,"[1, x]"\nc,7\nd,[]\n')
    with omnigraphdb.init(tmp_path / "g", U64) as graph:
        with pytest.raises(omnigraphdb.DataError) as caught:
            graph.load({"N": path}, mode="append")
        assert [one.rule for one in caught.value.problems] == ["J13", "J13"]
        assert re.search(r"record 2: .*'\[1, x\]'\n.*record 3: .*'7'", str(caught.value))


def test_an_empty_cell_at_the_end_of_a_file_is_null(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text('key,text\n"a",')
    with omnigraphdb.init(tmp_path / "g", "node N { key: String @key  text: String? }") as graph:
        graph.load({"N": tmp_path / "n.csv"}, mode="append")
        assert _stored(graph, "a")["text"] is None


def test_texts_with_line_breaks_are_read_across_blocks(tmp_path: Path) -> None:
    """Arrow reads a megabyte at a time; a text that lies across the end of one is a text still."""
    text = "a line\nand another, " * 40
    rows = pandas.DataFrame({"key": [f"k{n}" for n in range(4000)], "text": text})
    rows.to_csv(tmp_path / "n.csv", index=False)
    assert (tmp_path / "n.csv").stat().st_size > 2 * 2**20
    with omnigraphdb.init(tmp_path / "g", "node N { key: String @key  text: String }") as graph:
        graph.load({"N": tmp_path / "n.csv"}, mode="append")
        assert set(graph.table("N")["text"].to_pylist()) == {text}


# ---- values nobody chose

_FLOATS: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}
_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(codec="utf-8"), max_size=8),
    "kind": st.sampled_from(["raw", "made"]),
    "flag": st.booleans(),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "f32": st.floats(width=32, **_FLOATS),
    "f64": st.floats(**_FLOATS),
    "day": st.dates().map(date.isoformat),
    "moment": st.integers(0, (datetime.max - datetime.min) // timedelta(milliseconds=1)).map(
        lambda n: (
            (datetime.min + timedelta(milliseconds=n)).isoformat(timespec="milliseconds") + "Z"
        )
    ),
}


def _stored(graph: Graph, key: str) -> dict[str, Any]:
    """The entity that is there."""
    found = graph.entity("N", key)
    assert found is not None
    return found


def _entity() -> st.SearchStrategy[dict[str, Any]]:
    scalars = {name: st.none() | values for name, values in _VALUES.items()}
    lists = {
        f"{name}s": st.none() | st.lists(values, max_size=3)
        for name, values in _VALUES.items()
        if name != "kind"
    }
    numbers = st.none() | st.lists(_VALUES["f32"], min_size=3, max_size=3)
    return st.fixed_dictionaries({**scalars, **lists, "sig": numbers})


DRAWN = (
    by_lines,
    by_pandas,
    by_pandas_objects,
    by_polars,
    by_duckdb,
    by_parquet,
    by_csv,
    by_arrow_csv,
)
"""Each by another reader; those that lose the lists come last."""


@settings(max_examples=3, phases=[Phase.generate])
@given(entities=st.lists(_entity(), min_size=4, max_size=8))
def test_any_value_comes_back_by_every_way(
    entities: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("any")
    with omnigraphdb.init(home / "g", _schema_of(["key", *PROPERTIES])) as graph:
        keyed = [{"key": f"k{n}", **one} for n, one in enumerate(entities)]
        graph.load([{"type": "Open", "data": one} for one in keyed], mode="append")
        before = graph.table("Open")
        for way in DRAWN:
            graph.load({"Open": way(graph, "Open", home)}, mode="overwrite")
            names = ["key", *(SCALARS if way in WITHOUT_LISTS else PROPERTIES)]
            assert_equal(graph.table("Open").select(names), before.select(names))
