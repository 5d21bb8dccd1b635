"""The newest version of a local table is told without a listing only while nothing can have changed."""

import os
from pathlib import Path

import pytest

from omnigraph.ids import Version
from omnigraph.storage.newest import Newest, stamp_of

LAST = 2**64 - 1


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "_versions").mkdir()
    write(tmp_path, 1)
    return tmp_path


def write(table: Path, version: int) -> None:
    (table / "_versions" / f"{LAST - version:020}.manifest").touch()


def noted(table: Path, version: int) -> Newest:
    found = Newest()
    found.note(str(table), stamp_of(str(table)), Version(version))
    return found


def test_what_was_listed_is_known_while_the_directory_stays_as_it_was(table: Path) -> None:
    assert Newest().known(str(table)) is None
    assert noted(table, 1).known(str(table)) == 1


def test_a_version_that_came_is_not_overlooked_though_the_clock_did_not_tick(table: Path) -> None:
    newest = noted(table, 1)
    before = os.stat(table / "_versions")
    write(table, 2)
    os.utime(table / "_versions", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert stamp_of(str(table)) == (before.st_ino, before.st_mtime_ns)
    assert newest.known(str(table)) is None


def test_any_change_of_the_directory_asks_for_a_listing(table: Path) -> None:
    newest = noted(table, 1)
    write(table, 7)
    os.utime(table / "_versions", ns=(0, 1))
    assert newest.known(str(table)) is None


def test_a_directory_that_was_made_again_is_another_one(table: Path) -> None:
    newest = noted(table, 1)
    seen = os.stat(table / "_versions")
    os.rename(table / "_versions", table / "old")
    (table / "_versions").mkdir()
    os.utime(table / "_versions", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert newest.known(str(table)) is None


def test_a_directory_that_is_not_there_is_never_known(tmp_path: Path) -> None:
    newest = Newest()
    newest.note(str(tmp_path), stamp_of(str(tmp_path)), Version(3))
    assert newest.known(str(tmp_path)) is None


def test_a_table_with_names_of_the_older_kind_is_listed_every_time(tmp_path: Path) -> None:
    (tmp_path / "_versions").mkdir()
    (tmp_path / "_versions" / "1.manifest").touch()
    assert noted(tmp_path, 1).known(str(tmp_path)) is None
