"""Changes in a file: one JSON object a line, whole or not there, however many there are."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from omnigraphdb.engine.history.changes import Change, Diff, DiffStats
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import Op


def parse_change_file(out: str | os.PathLike[str] | None) -> Path | None:
    """Parse the destination of changes, before anything is compared."""
    if out is None:
        return None
    path = Path(out).expanduser()
    if path.suffix != ".jsonl":
        raise UserInputError(f"out= of a diff is a file that ends in .jsonl, not '{path}'")
    if not path.absolute().parent.is_dir():
        raise UserInputError(
            f"the folder of out='{path}' does not exist",
            hint="make the folder, or name a file in one that exists",
        )
    return path


def collect_diff(
    changes: Iterator[Change],
    base: str | None,
    head: str | None,
    file: Path | None,
    *,
    engine: str = "local",
    reason: str = "",
) -> Diff:
    """Make a diff of changes: all in memory, or all in a file."""
    stats = None if file is None else _write_changes(changes, file)
    return Diff(
        base=base,
        head=head,
        changes=() if file is not None else tuple(changes),
        engine=engine,
        reason=reason,
        out=None if file is None else str(file),
        written=stats,
    )


def _write_changes(changes: Iterator[Change], path: Path) -> DiffStats:
    """Write under another name and rename; count the changes."""
    partial = path.with_name(f"{path.name}.partial")
    counts: Counter[Op] = Counter()
    types: set[str] = set()
    try:
        with partial.open("w", encoding="utf-8") as file:
            for change in changes:
                counts[change.op] += 1
                types.add(change.type_name)
                file.write(json.dumps(change.to_dict(), ensure_ascii=False) + "\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return DiffStats(
        inserts=counts[Op.INSERT],
        updates=counts[Op.UPDATE],
        deletes=counts[Op.DELETE],
        types_affected=tuple(sorted(types)),
    )
