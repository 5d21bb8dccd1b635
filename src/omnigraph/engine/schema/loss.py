"""Hard drops: what a schema change drops also leaves the history of its tables."""

from collections.abc import Callable, Iterator

from omnigraph.engine.schema.work import Work
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError
from omnigraph.logs import get_logger
from omnigraph.manifest.snapshot import Entry, Snapshot
from omnigraph.storage.tables import Tables

_log = get_logger(__name__)

_Remove = Callable[[Tables, str], None]


def forget_dropped(engine: Engine, before: Snapshot, work: Work) -> tuple[str, ...]:
    """Remove dropped tables and the past of tables that lost a column; say what could not be removed.

    The change is visible already, so nothing here may fail it.
    """
    dropped = ((before.entry(key), _remove_table) for key in work.dropped)
    stripped = ((before.entry(key), _remove_past) for key in sorted(work.stripped))
    return tuple(_remove_each(engine, (*dropped, *stripped)))


def _remove_each(engine: Engine, work: tuple[tuple[Entry, _Remove], ...]) -> Iterator[str]:
    for entry, remove in work:
        try:
            remove(engine.store.tables, entry.at.path)
        except OmniError as error:
            _log.warning("schema.history_kept", table=entry.table_key, reason=str(error))
            yield (
                f"what was dropped of {entry.table_key} is still in its history ({error}); "
                "`omnigraph cleanup` removes it"
            )


def _remove_table(tables: Tables, path: str) -> None:
    tables.delete_table(path)


def _remove_past(tables: Tables, path: str) -> None:
    *past, _ = (info.version for info in tables.versions(path))
    tables.reclaim(path, past, dry_run=False)
