"""What a commit adds to the manifest does not grow with the history."""

from pathlib import Path

import pytest

from omnigraph.ids import MAIN, CommitId, Version
from omnigraph.manifest.change import Change, Draft, Update
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publish import publish
from omnigraph.manifest.records import CommitKind
from omnigraph.storage.store import open_store
from omnigraph.storage.values import TableAt
from tests.support.manifests import PATHS, PERSON, new_manifest

SPAN = 64
"""Commits between two measurements: some folds are among them."""


def commit_often(manifest: Manifest, times: int) -> None:
    pin = manifest.current(MAIN).snapshot.pins[PERSON]
    for number in range(1, times + 1):
        at = TableAt(path=PATHS[PERSON], branch=None, version=Version(pin + number))
        draft = Draft(commit=CommitId(manifest.runtime.new_id()), kind=CommitKind.MUTATION)
        publish(
            manifest,
            Change(
                branch=MAIN,
                updates=(Update(table_key=PERSON, at=at, row_count=number),),
                draft=draft,
            ),
        )


def count_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_span(manifest: Manifest, folder: Path) -> float:
    """Bytes that a commit adds, on the average of a span of commits."""
    before = count_bytes(folder)
    commit_often(manifest, SPAN)
    return (count_bytes(folder) - before) / SPAN


def measure(folder: Path, histories: list[int]) -> list[float]:
    """Bytes that a commit adds after so many commits."""
    manifest = new_manifest(open_store(folder).manifest)
    found: list[float] = []
    made = 0
    for history in histories:
        commit_often(manifest, history - made)
        found.append(measure_span(manifest, folder))
        made = history + SPAN
    return found


def test_bytes_of_a_commit_are_flat(tmp_path: Path) -> None:
    first, later = measure(tmp_path / "g", [64, 448])
    assert later <= 1.5 * first


@pytest.mark.soak
def test_bytes_of_a_commit_are_flat_up_to_ten_thousand(tmp_path: Path) -> None:
    first, *later = measure(tmp_path / "g", [100, 1_000, 3_000, 10_000])
    assert max(later) <= 1.5 * first
