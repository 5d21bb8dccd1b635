"""Staged files of a schema change: recovery puts them in place, removes them, or asks an operator."""

from enum import StrEnum

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.ir.state import SchemaState, open_contract
from omnigraphdb.commit.schema_files import install_staged_files
from omnigraphdb.errors import SchemaContractError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import TableKey
from omnigraphdb.language.source import Source
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.storage.layout import SCHEMA_FILES, SCHEMA_PG, SCHEMA_STATE, staging_path
from omnigraphdb.storage.locks.table import RequireLocks
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.values import dataclass

_log = get_logger(__name__)

_STAGED_FILES = frozenset(staging_path(name) for name in SCHEMA_FILES)


@dataclass(frozen=True, slots=True)
class SchemaSummary:
    """The hash of a coherent contract and the tables it declares."""

    hash: str
    tables: frozenset[TableKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The staged schema files and the accepted ones.

    `files` are the schema files that have a staged form. `staged` is the contract that would result from putting
    them in place, `live` the accepted one; None when the three texts do not belong together. `visible` are the
    tables the manifest shows, `is_covered` says that a pending schema change owns these files. `is_source_placed`: the
    source text is in place and staged as well, because an object store renames by a copy and a removal.
    """

    files: frozenset[str]
    staged: SchemaSummary | None
    live: SchemaSummary | None
    visible: frozenset[TableKey]
    is_covered: bool
    is_source_placed: bool = False


class StagingAction(StrEnum):
    """The action on the staged schema files."""

    NOTHING = "nothing"
    PROMOTE = "promote"
    HOLD_BACK = "hold back"
    """They must not be put in place; the roll-back of the schema change removes them."""
    REMOVE = "remove"
    REFUSE = "refuse"


def decide_staging(staging: Staging) -> StagingAction:
    """Decide by the files and the visible tables; refuse where these leave two histories possible."""
    if not staging.files:
        return StagingAction.NOTHING
    if staging.is_covered:
        return StagingAction.HOLD_BACK if staging.staged is None else StagingAction.PROMOTE
    is_live_current = staging.live is not None and staging.live.tables == staging.visible
    is_placing = staging.is_source_placed or SCHEMA_PG not in staging.files
    if is_placing and staging.staged is not None:
        # The source text is put in place first, so the schema change was published.
        return StagingAction.PROMOTE
    if len(staging.files) < len(SCHEMA_FILES):
        # The writer died while it staged them, or one of them reached the store after the others were removed.
        return StagingAction.REMOVE if is_live_current else StagingAction.REFUSE
    return _decide_by_tables(staging)


def _decide_by_tables(staging: Staging) -> StagingAction:
    """Decide for a complete set by the visible tables, which tell whether the publish happened."""
    if staging.staged is None or staging.live is None:
        return StagingAction.REFUSE
    if staging.staged.hash == staging.live.hash:
        return StagingAction.REMOVE
    before, after = staging.live.tables == staging.visible, staging.staged.tables == staging.visible
    if before == after:
        return StagingAction.REFUSE
    return StagingAction.PROMOTE if after else StagingAction.REMOVE


# ---- reading and moving the files


def is_placed(objects: Objects, schema_hash: str) -> bool:
    """Whether the schema of that hash is in place; its state is put there last."""
    text = objects.read(SCHEMA_STATE)
    try:
        return text is not None and SchemaState.from_json(text).schema_ir_hash == schema_hash
    except SchemaContractError:
        return False


def has_staged(objects: Objects) -> bool:
    """Whether any schema file has a staged form; one listing."""
    return not _STAGED_FILES.isdisjoint(objects.list(""))


def read_staging(objects: Objects, snapshot: Snapshot, *, is_covered: bool) -> Staging:
    """Read the staged and the accepted files; `snapshot` is main's."""
    staged = {name: objects.read(staging_path(name)) for name in SCHEMA_FILES}
    present = frozenset(name for name, text in staged.items() if text is not None)
    live = {name: objects.read(name) for name in SCHEMA_FILES} if present else {}
    live_summary = _summarise(live)
    return Staging(
        files=present,
        staged=_summarise({name: staged[name] or live.get(name) for name in SCHEMA_FILES}),
        live=live_summary,
        visible=frozenset(snapshot.entries),
        is_covered=is_covered,
        is_source_placed=live_summary is None
        and SCHEMA_PG in present
        and staged[SCHEMA_PG] == live[SCHEMA_PG],
    )


def _summarise(texts: dict[str, str | None]) -> SchemaSummary | None:
    source, ir, state = (texts.get(name) for name in SCHEMA_FILES)
    if source is None:
        return None
    try:
        contract: Contract = open_contract(Source(source, SCHEMA_PG), ir, state)
    except SchemaContractError:
        return None
    return SchemaSummary(contract.ir_hash, frozenset(contract.catalog.tables))


def remove_staged(objects: Objects, require_locks: RequireLocks) -> None:
    """Remove the staged files, the source text last, so that a rest of them never looks like a published change."""
    for name in reversed(SCHEMA_FILES):
        require_locks()
        objects.delete(staging_path(name))
        fail(Failpoint.STAGING_REMOVED)
    _log.info("schema.staging_removed")


def reconcile_staged(
    objects: Objects, snapshot: Snapshot, require_locks: RequireLocks
) -> StagingAction:
    """Put in place or remove staged files that no pending schema change owns."""
    staging = read_staging(objects, snapshot, is_covered=False)
    action = decide_staging(staging)
    match action:
        case StagingAction.PROMOTE:
            install_staged_files(objects, require_locks)
        case StagingAction.REMOVE:
            remove_staged(objects, require_locks)
        case StagingAction.REFUSE:
            raise _undecidable(staging)
        case StagingAction.NOTHING | StagingAction.HOLD_BACK:
            pass
    return action


def is_readable(objects: Objects, snapshot: Snapshot) -> bool:
    """Whether a read-only open shows tables through their own schema; one listing when nothing is staged."""
    if not has_staged(objects):
        return True
    staging = read_staging(objects, snapshot, is_covered=False)
    return decide_staging(staging) is not StagingAction.PROMOTE


def _undecidable(staging: Staging) -> SchemaContractError:
    names = ", ".join(f"'{staging_path(name)}'" for name in sorted(staging.files))
    return SchemaContractError(
        f"schema files are left of an interrupted schema change ({names}), and the visible tables do not tell "
        "whether it was published; nothing was changed",
        hint="remove these files to keep the schema that stands, or rename them without '.staging' to take the new one",
    )
