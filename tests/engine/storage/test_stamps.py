"""One listing tells which texts of a directory changed, on every store."""

import pytest

from omnigraph.storage.counters import Cost, counting
from omnigraph.storage.objects import Objects


def test_a_stamp_changes_when_its_text_does_and_only_then(objects: Objects) -> None:
    for name in ("a", "b", "sub/c"):
        objects.put(f"d/{name}", "first")
    before = objects.stamps("d")
    assert set(before) == {"d/a", "d/b"}
    assert objects.stamps("d/") == before
    objects.put("d/a", "other")
    after = objects.stamps("d")
    assert after["d/a"] != before["d/a"]
    assert after["d/b"] == before["d/b"]
    objects.put("d/a", "first")
    assert objects.stamps("d")["d/a"] != after["d/a"]
    objects.delete("d/b")
    assert set(objects.stamps("d")) == {"d/a"}


@pytest.mark.parametrize("directory", ["", "nowhere"])
def test_an_empty_directory_has_no_stamps(objects: Objects, directory: str) -> None:
    assert objects.stamps(directory) == {}


def test_stamps_cost_one_listing(objects: Objects) -> None:
    for number in range(5):
        objects.put(f"d/{number}", "text")
    with counting() as costs:
        objects.stamps("d")
    assert (costs[Cost.OBJECT_LISTS], costs[Cost.OBJECT_READS]) == (1, 0)
