"""Search for damaged versions of tables, and for the earlier commit that shows a readable version."""

from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFoundError, StorageError
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.travel import past_state_of
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class ReadableVersion:
    """A version of a table that can be read, and the newest commit that shows it."""

    entry: Entry
    commit: GraphCommit


def remedy_of_damage(branch: str) -> str:
    """Return the remedy for a file of rows that is cut, damaged or missing."""
    copy = "put the file back from a copy of the graph"
    if branch == MAIN:
        return f"{copy}; without a copy run `omnigraphdb repair`, which restores the last readable version"
    return f"{copy}; without a copy read an earlier commit (`at=`), or delete the branch"


def find_damage(tables: Tables, at: TableAt) -> str | None:
    """Describe a file of rows of a version that is cut or missing; None without damage."""
    try:
        damage = tables.find_cut(at)
        if damage is not None:
            return damage
        listed, needed = tables.listed_files(at.path), tables.needed_files(at)
    except (StorageError, NotFoundError) as error:
        return str(error)
    # The damage of an index is not a reason to lose rows: reads scan the table, and the index is built again.
    missing = (path for path in needed if not path.endswith("/") and path not in listed)
    return next((f"'{path}': the file does not exist" for path in missing), None)


def find_last_readable(engine: Engine, entry: Entry) -> ReadableVersion | None:
    """Find the newest commit of main that shows an earlier, readable version of a table with its present columns."""
    tables = engine.store.tables
    tried = {entry.at}
    for commit in engine.manifest.load(MAIN).lineage.listed():
        try:
            past_entry = past_state_of(engine.manifest, commit).snapshot.entries.get(
                entry.table_key
            )
        except NotFoundError:
            # Cleanup removed this state.
            return None
        if past_entry is None or (past_entry.at.path, past_entry.at.branch) != (
            entry.at.path,
            entry.at.branch,
        ):
            return None
        if past_entry.at in tried:
            continue
        tried.add(past_entry.at)
        if find_damage(tables, past_entry.at) is None:
            is_alike = tables.open(past_entry.at).schema == tables.open(entry.at).schema
            return ReadableVersion(past_entry, commit) if is_alike else None
    return None
