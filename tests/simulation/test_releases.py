"""Two releases at once: what one leaves at each death, the other brings in order, or refuses by number and leaves alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.releases import ROOT, SOURCES, meet, name_release, unpack_release
from tests.simulation.writer_kinds import KINDS

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no history to take a release from"),
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of another release."""
    return unpack_release(name_release(), tmp_path_factory.mktemp("release"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """A fault that releases have whose source file lacks a word."""

    file: str
    word: str
    fault: str


MENDS: Final = (
    Mend(file="commit/sidecar.py", word="DISCARD", fault="discard died after"),
    Mend(
        file="recovery/schema_files.py",
        word="is_source_placed",
        fault="PUT _schema.pg: SchemaContractError",
    ),
)


def list_new_faults(release: Path, broken: Sequence[str]) -> list[str]:
    """List the faults but those that the release is known to have."""
    known = [
        mend.fault
        for mend in MENDS
        if mend.word not in (release / "omnigraphdb" / mend.file).read_text()
    ]
    return [fault for fault in broken if not any(part in fault for part in known)]


def test_this_release_comes_after_each_death_of_another(release: Path, tmp_path: Path) -> None:
    met = meet(release, SOURCES, tmp_path / "tape", list(KINDS))
    assert list_new_faults(release, met.broken) == []
    assert met.refused == 0, "a release must read what an earlier one wrote"
    assert met.states > len(KINDS)


def test_another_release_comes_after_each_death_of_this_one(release: Path, tmp_path: Path) -> None:
    met = meet(SOURCES, release, tmp_path / "tape", list(KINDS))
    assert list_new_faults(release, met.broken) == []
    assert met.refused < met.states
