"""One row is found, changed and removed whatever types the properties of its table have, with indexes and without."""

from pathlib import Path

import pytest

import omnigraphdb

VALUES: dict[str, object] = {
    "I32": 1,
    "U64": 2**63,
    "F32": 0.5,
    "Date": "2020-02-29",
    "DateTime": "2026-01-10T08:00:00Z",
    "Bool": True,
    "Blob": "base64:aGk=",
    "Vector(2)": [1.0, 0.5],
    "enum(a, b)": "a",
    "[String]": ["x"],
    "[Date]": ["2020-02-29"],
    "[DateTime]": ["2026-01-10T08:00:00Z"],
}
ENOUGH = 1_200
"""Rows past which an index answers for one value."""


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("rows", [3, ENOUGH])
def test_a_row_is_found_changed_and_removed(tmp_path: Path, kind: str, rows: int) -> None:
    schema = f"node Thing {{ key: String @key  n: I64 @unique  day: Date? @unique  of: {kind}? }}"
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        graph.load(
            [
                {"type": "Thing", "data": {"key": f"it's {n}", "n": n, "of": VALUES[kind]}}
                for n in range(rows)
            ],
            mode="append",
        )
        graph.ensure_indices()
        assert graph.entity("Thing", "it's 1") is not None
        change = 'query q() { update Thing set { n: -1, day: date("2024-01-01") } where key = "it\'s 1" }'
        graph.mutate(change)
        found = graph.entity("Thing", "it's 1")
        assert found is not None
        assert found["n"] == -1
        clash = 'query q() { update Thing set { day: date("2024-01-01") } where key = "it\'s 2" }'
        with pytest.raises(omnigraphdb.errors.OmniError, match="unique"):
            graph.mutate(clash)
        graph.mutate('query q() { delete Thing where key = "it\'s 2" }')
        assert graph.entity("Thing", "it's 2") is None
