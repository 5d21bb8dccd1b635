"""Where a HEAD moves: a reading of storage, so that it never moves where no one looks for it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb

ROOT = Path(omnigraphdb.__file__).parent
STORAGE = ROOT / "storage"

MOVING = frozenset(
    {
        "add_columns",
        "alter_columns",
        "cleanup_old_versions",
        "commit_batch",
        "commit_existing_index_segments",
        "compact_files",
        "create_index",
        "create_scalar_index",
        "delete_config_keys",
        "drop_columns",
        "drop_index",
        "initialize_mem_wal",
        "migrate_manifest_paths_v2",
        "optimize_indices",
        "replace_field_metadata",
        "replace_schema",
        "truncate_table",
        "update_config",
        "update_field_metadata",
        "update_metadata",
        "update_schema_metadata",
        "write_dataset",
    }
)
"""Methods of a dataset that commit, or delete versions, by themselves."""

MOVING_ON_DATASETS = frozenset(
    {"commit", "delete", "insert", "merge", "replace_schema_metadata", "restore", "update"}
)
"""Names that other objects have too: they count on what is called a dataset, or on Lance's own class."""

DOORS = frozenset(
    {
        ("lance/commit.py", "commit"),
        ("lance/rows.py", "LanceRows._commit"),
        ("lance/rows.py", "merge_rows"),
        ("lance/rows.py", "LanceRows._configure"),
        ("lance/rows.py", "LanceRows._undo_cut_merge"),
        ("lance/rows.py", "LanceRows.create"),
        ("lance/tables.py", "LanceTables.create"),
        ("lance/files.py", "reclaim.work"),
        ("lance/restores.py", "Restores._make"),
        ("lance/unofficial/drafts.py", "Drafts.make"),
    }
)
"""Behind `commit_staged` and `restore`, behind `Rows`, behind cleanup, behind drafts and restores, whose HEAD is a copy on the local disk, and the named door."""

ALLOWED = re.compile(r"# moves HEAD: \S.{9,}")
"""A line may exempt itself, with a reason."""


def moves(source: str) -> Iterator[tuple[int, str, str]]:
    """Every call that moves a HEAD: its line, its name, the function it stands in."""
    lines = source.splitlines()
    for scope, call in calls(ast.parse(source)):
        name = moving_name(call)
        if name and not ALLOWED.search(lines[call.lineno - 1]):
            yield call.lineno, name, scope


def calls(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            inner = f"{scope}.{child.name}" if scope else child.name
        if isinstance(child, ast.Call):
            yield inner, child
        yield from calls(child, inner)


def moving_name(call: ast.Call) -> str | None:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in MOVING else None
    if not isinstance(function, ast.Attribute):
        return None
    receiver = ast.unparse(function.value)
    if function.attr in MOVING:
        return function.attr
    if function.attr == "execute" and "merge_insert(" in receiver:
        return "merge_insert.execute"
    of_dataset = re.search(
        r"(?:^|\.)(?:LanceDataset|\w*dataset|Compaction|(?:any|at|latest)\(.*\))$", receiver, re.I
    )
    return function.attr if function.attr in MOVING_ON_DATASETS and of_dataset else None


def _in_storage(path: Path) -> str:
    return path.relative_to(STORAGE).as_posix()


def modules(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


@pytest.mark.parametrize("path", modules(STORAGE), ids=lambda p: str(p.relative_to(STORAGE)))
def test_heads_move_behind_the_known_doors_only(path: Path) -> None:
    outside = [m for m in moves(path.read_text()) if (_in_storage(path), m[2]) not in DOORS]
    assert not outside, f"{path.name}: {outside}; add a door, or say why on the line"


def test_every_door_is_still_there() -> None:
    found = {
        (_in_storage(p), scope) for p in modules(STORAGE) for _, _, scope in moves(p.read_text())
    }
    assert found == DOORS


@pytest.mark.parametrize(
    "line",
    [
        "dataset.delete('age > 90')",
        "self._dataset.update({'a': '1'})",
        "LanceDataset.commit(uri, operation)",
        "lance.write_dataset(rows, uri)",
        "write_dataset(rows, uri)",
        "dataset.create_scalar_index('id', 'BTREE')",
        "dataset.optimize.compact_files()",
        "Compaction.commit(dataset, results)",
        "datasets.at(at).restore()",
        "ds.merge_insert('id').when_matched_update_all().execute(rows)",
        "dataset.update_config({'a': 'b'})",
        "dataset.cleanup_old_versions()",
    ],
)
def test_the_reading_knows_a_moving_call(line: str) -> None:
    assert list(moves(f"def f():\n    {line}\n"))
    assert not list(moves(f"def f():\n    {line}  # moves HEAD: because a test says so\n"))
    assert list(moves(f"def f():\n    {line}  # moves HEAD:\n"))


@pytest.mark.parametrize(
    "line",
    [
        "dataset.branches.delete('side')",
        "objects.delete(path)",
        "names.update(more)",
        "tables.restore(path, None, version)",
        "dataset.merge_insert('id').when_matched_update_all().execute_uncommitted(rows)",
        "dataset.create_index_uncommitted('id', 'BTREE')",
        "task.execute(dataset)",
    ],
)
def test_the_reading_leaves_other_calls_alone(line: str) -> None:
    assert not list(moves(line))
