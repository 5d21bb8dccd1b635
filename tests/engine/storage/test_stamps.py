"""Stamps tell which of a few texts changed, on every store."""

import os

from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.local import LocalObjects
from omnigraphdb.storage.objects.protocol import Objects

PATHS = ("d/a", "d/b")


def test_a_stamp_changes_when_its_text_does_and_only_then(objects: Objects) -> None:
    for name in ("a", "b", "other", "sub/a"):
        objects.put(f"d/{name}", "first")
    before = objects.stamps(PATHS)
    assert set(before) == set(PATHS)
    assert objects.stamps(PATHS) == before
    objects.put("d/a", "other")
    after = objects.stamps(PATHS)
    assert after["d/a"] != before["d/a"]
    assert after["d/b"] == before["d/b"]
    objects.put("d/a", "first")
    assert objects.stamps(PATHS)["d/a"] != after["d/a"]
    objects.delete("d/b")
    assert set(objects.stamps(PATHS)) == {"d/a"}


def test_stamps_hold_until_a_text_changes_goes_or_comes(objects: Objects) -> None:
    objects.put("d/a", "first")
    before = objects.stamps(PATHS)
    assert objects.have_stamps(PATHS, before)
    objects.put("d/b", "new")
    assert not objects.have_stamps(PATHS, before)
    both = objects.stamps(PATHS)
    assert objects.have_stamps(PATHS, both)
    objects.put("d/a", "other")
    assert not objects.have_stamps(PATHS, both)
    objects.delete("d/b")
    assert not objects.have_stamps(PATHS, {**objects.stamps(PATHS), "d/b": both["d/b"]})


def test_what_is_not_there_has_no_stamp(objects: Objects) -> None:
    assert objects.stamps(("nothing",)) == {}
    assert objects.stamps(("nowhere/a", "nowhere/b")) == {}


def test_texts_at_the_top_have_stamps_too(objects: Objects) -> None:
    objects.put("a", "text")
    assert set(objects.stamps(("a", "b"))) == {"a"}


def test_stamps_cost_one_listing(objects: Objects) -> None:
    for number in range(5):
        objects.put(f"d/{number}", "text")
    with counting() as costs:
        seen = objects.stamps(("d/1", "d/2", "d/9"))
    assert (costs[Cost.OBJECT_LISTS], costs[Cost.OBJECT_READS]) == (1, 0)
    with counting() as costs:
        assert objects.have_stamps(("d/1", "d/2", "d/9"), seen)
    assert (costs[Cost.OBJECT_LISTS], costs[Cost.OBJECT_READS]) == (1, 0)


def test_an_edit_in_place_is_seen(tmp_path: os.PathLike[str]) -> None:
    objects = LocalObjects(root_of(tmp_path))
    objects.put("a", "text")
    before = objects.stamps(("a",))
    with open(os.path.join(tmp_path, "a"), "a") as stream:
        stream.write(" and more")
    assert objects.stamps(("a",)) != before
    assert not objects.have_stamps(("a",), before)
