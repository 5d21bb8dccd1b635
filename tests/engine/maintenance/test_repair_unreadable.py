"""Graphs that a full disk hurt before writes were checked: found by name, and healed by the documented command."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, StorageError
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.layout import MANIFEST
from tests.support.commands import Run, runner
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I32? }"


def people(first: int, last: int) -> list[dict[str, object]]:
    return [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(first, last)]


def cut(file: Path) -> None:
    """Leave what a disk keeps of a file when it is full at the last write."""
    file.write_bytes(file.read_bytes()[:128])


def remove(file: Path) -> None:
    file.unlink()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


@pytest.fixture
def hurt(tmp_path: Path) -> Callable[[Callable[[Path], None], str], Path]:
    """A graph of which the newest file of rows, or the newest deletion file, of a committed version was damaged."""

    def make(damage: Callable[[Path], None], which: str) -> Path:
        home = tmp_path / "g"
        with omnigraphdb.init(home, SCHEMA) as graph:
            graph.load(people(0, 20), mode="append")
            before = set(home.glob(f"nodes/*/{which}/*"))
            graph.load(people(15, 25), mode="merge")
        (new,) = set(home.glob(f"nodes/*/{which}/*")) - before
        damage(new)
        return home

    return make


@pytest.mark.parametrize("damage", [cut, remove])
@pytest.mark.parametrize("which", ["data", "_deletions"])
def test_the_documented_command_heals_it(
    hurt: Callable[[Callable[[Path], None], str], Path],
    damage: Callable[[Path], None],
    which: str,
    run: Run,
) -> None:
    home = hurt(damage, which)
    with omnigraphdb.open(home) as graph:
        with pytest.raises(OmniError):
            graph.table("Person")
        assert any("omnigraphdb repair" in issue.remedy for issue in graph.doctor())
        assert any("omnigraphdb repair" in issue.remedy for issue in graph.doctor(deep=True))
        (loaded, written, *_) = graph.commits()
    preview = run("repair", str(home), "--json")
    (table,) = preview.json["tables"]
    assert (table["classification"], table["action"]) == ("unreadable", "preview")
    last = table["last_readable"]
    assert (last["commit"], last["rows"], last["rows_lost"]) == (written.id, 20, 5)
    assert f"commit {written.id}" in run("repair", str(home)).out
    done = run("repair", str(home), "--confirm", "--json")
    assert done.json["commit"]["kind"] == "repair"
    with omnigraphdb.open(home) as graph:
        assert graph.table("Person")["age"].to_pylist() == list(range(20))
        assert (graph.commits()[0].kind, graph.commits()[1].id) == ("repair", loaded.id)
        assert graph.repair().tables[0].classification == "no_drift"
        graph.load(people(15, 25), mode="merge")
        assert graph.table("Person").num_rows == 25
        assert_settled(graph)


def test_a_table_without_a_readable_version_of_its_columns_is_refused_by_name(
    tmp_path: Path, run: Run
) -> None:
    home = tmp_path / "g"
    with omnigraphdb.init(home, SCHEMA) as graph:
        graph.load(people(0, 20), mode="append")
        graph.schema_apply(SCHEMA.replace("I32?", "I32?  town: String?"))
    for file in home.glob("nodes/*/data/*"):
        cut(file)
    done = run("repair", str(home), "--confirm", "--json")
    (table,) = done.json["tables"]
    assert (done.code, table["action"]) == (1, "refused")
    assert "no earlier version" in table["error"]


def test_a_manifest_of_which_a_file_is_cut_tells_the_way_to_the_commit_before(
    tmp_path: Path,
) -> None:
    home = tmp_path / "g"
    with omnigraphdb.init(home, SCHEMA) as graph:
        graph.load(people(0, 20), mode="append")
        before = set((home / MANIFEST / "data").iterdir())
        graph.load(people(20, 25), mode="append")
        version = graph._engine.manifest.rows.head(None)
    (new,) = set((home / MANIFEST / "data").iterdir()) - before
    cut(new)
    aside = home / version_file(MANIFEST, version)
    with pytest.raises(StorageError, match="cut or missing") as caught:
        open_and_read(home)
    assert str(aside) in str(caught.value.hint)
    aside.rename(tmp_path / "aside")
    assert open_and_read(home) == 20
    with omnigraphdb.open(home) as graph:
        assert {issue.check for issue in graph.doctor()} == {"drift"}
        graph.repair(confirm=True, force=True)
        assert graph.table("Person").num_rows == 25
        assert_settled(graph)


def open_and_read(home: Path) -> int:
    with omnigraphdb.open(home) as graph:
        return Graph.table(graph, "Person").num_rows
