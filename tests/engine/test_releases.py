"""A graph that an earlier release wrote is opened, read and written to by the code of today."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.errors import OmniWarning
from tests.support.releases import Release, list_releases, show_rows, thing

RELEASES = pytest.mark.parametrize("release", list_releases(), ids=lambda one: one.name)


def open_moved(root: Path, *, read_only: bool = False) -> Graph:
    """Open a graph that says of its branches that it was moved."""
    with pytest.warns(OmniWarning, match="moved or copied"):
        return omnigraph.open(root, read_only=read_only)


@RELEASES
@pytest.mark.parametrize("read_only", [True, False])
def test_main_of_an_earlier_release_reads_as_it_did(
    release: Release, read_only: bool, tmp_path: Path
) -> None:
    expected = release.expected
    with open_moved(release.unpack(tmp_path), read_only=read_only) as graph:
        for commit, shown in expected["branches"]["main"]["commits"].items():
            snapshot = graph.snapshot(at=commit)
            for key, rows in shown["tables"].items():
                assert show_rows(snapshot.table(key)) == [expected["rows"][n] for n in rows]
            found = graph.commit(commit)
            assert [found.kind, found.actor] == [shown["kind"], shown["actor"]]
            assert [found.parent, found.merged_parent] == shown["parents"]
        audits = [[row.recovery_kind, row.operation_id, row.commit] for row in graph.recoveries()]
        assert audits == expected["recoveries"]


@RELEASES
def test_main_of_an_earlier_release_is_written_to(release: Release, tmp_path: Path) -> None:
    with open_moved(release.unpack(tmp_path)) as graph:
        graph.load([thing("new", text="red knot"), thing("a", text="blue rope")], mode="merge")
        graph.mutate('query m() { delete Thing where key = "b" }')
        found = graph.query(
            'query q() { match { $t: Thing search($t.text, "rope") } return { $t.key as key } }'
        )
        assert [row["key"] for row in found.rows] == ["a"]
        assert {one.check for one in graph.doctor()} == {"moved graph"}
