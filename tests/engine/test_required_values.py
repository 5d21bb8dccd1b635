"""An insert gives every required property a value itself; no later statement makes up for it."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.errors import DataError

SCHEMA = """
node Port { code: String @key  name: String }
node Note { code: String @key  text: String  sig: Vector(2) @embed("text") }
"""


@pytest.mark.parametrize("later", ["update", "insert"])
@pytest.mark.parametrize(
    ("first", "put", "property"),
    [
        ('insert Port { code: "a", name: $none }', 'Port {} name: "A" {}', "name"),
        ('insert Note { code: "a", text: "t" }', 'Note {} text: "t", sig: [1.0, 2.0] {}', "sig"),
    ],
)
def test_a_required_value_that_a_later_statement_would_give_is_missing(
    tmp_path: Path, first: str, put: str, property: str, later: str
) -> None:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    around = ("set {", '} where code = "a"') if later == "update" else ('{ code: "a",', "}")
    before = graph.commits()
    with pytest.raises(DataError, match=f"'{property}' of") as caught:
        graph.mutate(f"query q($none: String?) {{ {first} {later} {put.format(*around)} }}")
    assert "[W01]" in str(caught.value)
    assert graph.commits() == before
