"""Indices and searches: how they are staged, what they cover, and where unindexed search differs."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.query import MatchQuery, PhraseQuery

from tests.support.lance_bare import Op, append, commit, covered, create, fragments

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int32()),
        pa.field("body", pa.string()),
        pa.field("v", pa.list_(pa.field("item", pa.float32()), 4)),
    ]
)
ANALYZER: dict[str, Any] = {
    "base_tokenizer": "simple",
    "language": "English",
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
    "max_token_length": 40,
}


def rows(bodies: dict[str, str | None], vector: Any = (0, 0, 0, 1)) -> pa.Table:
    count = len(bodies)
    columns = [list(bodies), list(range(count)), list(bodies.values()), [vector] * count]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


@pytest.fixture
def base(tmp_path: Path) -> LanceDataset:
    bodies = {"a": "machine learning", "b": "he LEARNED the Café", "c": None}
    return append(create(tmp_path / "t", SCHEMA), rows(bodies))


def text_segment(dataset: LanceDataset, ids: list[int], *, replace: bool = False) -> Any:
    built = dataset.create_index_uncommitted(
        "body",
        "INVERTED",
        name="t",
        fragment_ids=ids,
        replace=replace,
        with_position=True,
        **ANALYZER,
    )
    return dataset.merge_existing_index_segments([built])


def texted(dataset: LanceDataset) -> LanceDataset:
    return commit(dataset, Op.CreateIndex([text_segment(dataset, fragments(dataset))], []))


def found(dataset: LanceDataset, query: Any, **options: Any) -> list[str]:
    table = dataset.scanner(columns=["id", "_score"], full_text_query=query, **options).to_table()
    return sorted(table["id"].to_pylist())


def test_several_kinds_fit_one_commit_and_staging_moves_nothing(base: LanceDataset) -> None:
    ids = fragments(base)
    segments = [
        base.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=ids),
        base.create_index_uncommitted(
            "v", "IVF_FLAT", name="v", num_partitions=1, metric="L2", fragment_ids=ids
        ),
        text_segment(base, ids),
    ]
    assert base.latest_version == base.version
    landed = commit(base, Op.CreateIndex(segments, []))
    assert covered(landed) == {"i": [0], "t": [0], "v": [0]}
    kinds = {d.name: d.index_type for d in landed.describe_indices()}
    assert kinds == {"i": "BTree", "t": "Inverted", "v": "IVF_FLAT"}


def test_an_index_tells_how_it_analyses_text(base: LanceDataset) -> None:
    (described,) = texted(base).describe_indices()
    assert {key: described.details[key] for key in ANALYZER} == ANALYZER
    assert described.field_names == ["body"]


def test_a_text_index_committed_without_the_merge_step_breaks_queries(base: LanceDataset) -> None:
    raw = base.create_index_uncommitted("body", "INVERTED", name="t", fragment_ids=[0])
    broken = commit(base, Op.CreateIndex([raw], []))
    with pytest.raises((OSError, ValueError)):
        found(broken, MatchQuery("learning", "body"))


def test_segments_of_one_name_form_one_index(base: LanceDataset) -> None:
    dataset = append(texted(base), rows({"d": "she learns"}))
    assert covered(dataset) == {"t": [0]}
    delta = text_segment(dataset, [1], replace=True)
    landed = commit(dataset, Op.CreateIndex([delta], []))
    (described,) = landed.describe_indices()
    assert (covered(landed), len(described.segments)) == ({"t": [0, 1]}, 2)
    assert found(landed, MatchQuery("learning", "body")) == ["a", "b", "d"]


def test_a_segment_is_removed_by_its_uuid_and_name(base: LanceDataset) -> None:
    from lance.bitmap import Bitmap
    from lance.dataset import Index

    dataset = texted(base)
    (described,) = dataset.describe_indices()
    old = Index(
        uuid=described.segments[0].uuid,
        name="t",
        fields=[],
        dataset_version=0,
        fragment_ids=Bitmap([]),
        index_version=0,
    )
    fresh = text_segment(dataset, [0], replace=True)
    (only,) = commit(dataset, Op.CreateIndex([fresh], [old])).describe_indices()
    assert [segment.uuid for segment in only.segments] == [fresh.uuid]


def test_the_tokenizer_is_the_one_of_the_index() -> None:
    words = [token.text for token in lance.tokenize("He LEARNED the Café machines", **ANALYZER)]
    assert words == ["learn", "cafe", "machin"]


def test_without_an_index_text_is_analysed_differently(base: LanceDataset) -> None:
    query = MatchQuery("LEARNING", "body")
    indexed = texted(base)
    assert found(indexed, query) == ["a", "b"]
    assert found(base, query) != ["a", "b"]
    assert found(base, MatchQuery("the", "body")) == ["b"]
    assert found(indexed, MatchQuery("the", "body")) == []


def test_rows_past_the_index_are_searched_with_its_analysis(base: LanceDataset) -> None:
    dataset = append(texted(base), rows({"d": "she learns the machine"}))
    assert found(dataset, MatchQuery("LEARNING", "body")) == ["a", "b", "d"]
    assert found(dataset, MatchQuery("LEARNING", "body"), fast_search=True) == ["a", "b"]
    assert found(dataset, PhraseQuery("machine learning", "body")) == ["a"]


def test_fuzzy_search_sees_indexed_rows_only(base: LanceDataset) -> None:
    query = MatchQuery("machne", "body", fuzziness=2)
    assert found(base, query) == []
    dataset = texted(base)
    assert found(dataset, query) == ["a"]
    assert found(append(dataset, rows({"d": "machines"})), query) == ["a"]


def test_a_filter_beside_a_search_applies_after_it_unless_asked_otherwise(
    base: LanceDataset,
) -> None:
    near = {"column": "v", "q": [0, 0, 0, 1], "k": 1, "metric": "L2"}
    dataset = append(base, rows({"far": "x"}, vector=(9, 9, 9, 9)))
    late = dataset.scanner(columns=["id", "_distance"], nearest=near, filter="id = 'far'")
    assert late.to_table().num_rows == 0
    early = dataset.scanner(
        columns=["id", "_distance"], nearest=near, filter="id = 'far'", prefilter=True
    )
    assert early.to_table()["id"].to_pylist() == ["far"]


def test_the_distance_is_squared_and_nulls_never_appear(base: LanceDataset) -> None:
    dataset = append(base, rows({"n": None}, vector=None))
    near = {"column": "v", "q": [0, 0, 0, 3], "k": 9, "metric": "L2"}
    table = dataset.scanner(columns=["id", "_distance"], nearest=near, prefilter=True).to_table()
    assert set(table["_distance"].to_pylist()) == {4.0}
    assert "n" not in table["id"].to_pylist()


def test_a_vector_index_over_nulls_alone_cannot_be_built(tmp_path: Path) -> None:
    dataset = append(create(tmp_path / "t", SCHEMA), rows({"a": "x"}, vector=None))
    with pytest.raises((OSError, ValueError, RuntimeError)):
        dataset.create_index_uncommitted(
            "v", "IVF_FLAT", name="v", num_partitions=1, fragment_ids=[0]
        )


def test_a_wider_literal_of_a_typed_expression_still_uses_the_index(base: LanceDataset) -> None:
    import pyarrow.compute as pc

    built = base.create_index_uncommitted("n", "BTREE", name="n", fragment_ids=[0])
    dataset = commit(base, Op.CreateIndex([built], []))
    for condition in ("n = 1", pc.field("n").isin(pa.array([1, 2], pa.int32()))):
        assert "ScalarIndexQuery" in dataset.scanner(filter=condition).explain_plan(True)


def test_an_overwrite_drops_coverage_and_keeps_settings(base: LanceDataset) -> None:
    metadata = Op.UpdateConfig(schema_metadata_updates=Op.UpdateMap({"stamp": "4"}))
    dataset = commit(texted(base), metadata)
    empty = commit(dataset, Op.Overwrite(dataset.lance_schema, []))
    assert covered(empty) in ({}, {"t": []})
    assert empty.has_stable_row_ids
    assert empty.schema.metadata == {b"stamp": b"4"}


def test_an_empty_index_is_allowed_on_an_empty_table(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t", SCHEMA)
    built = dataset.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[])
    landed = append(commit(dataset, Op.CreateIndex([built], [])), rows({"a": "x"}))
    assert landed.to_table(filter="id = 'a'").num_rows == 1
