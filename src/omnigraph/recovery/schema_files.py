"""Schema files that a schema change staged: put in place, removed, or left for somebody who can tell."""

from enum import StrEnum

from omnigraph.catalog.ir.contract import Contract
from omnigraph.catalog.ir.state import SchemaState, open_contract
from omnigraph.errors import SchemaContractError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import TableKey
from omnigraph.language.source import Source
from omnigraph.logs import get_logger
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.layout import SCHEMA_FILES, SCHEMA_IR, SCHEMA_PG, SCHEMA_STATE, staging_path
from omnigraph.storage.objects.protocol import Objects
from omnigraph.values import dataclass

_log = get_logger(__name__)

_STAGED_FILES = frozenset(staging_path(name) for name in SCHEMA_FILES)
_PLACED = {SCHEMA_PG: Failpoint.SCHEMA_SOURCE_PLACED, SCHEMA_IR: Failpoint.SCHEMA_IR_PLACED}


@dataclass(frozen=True, slots=True)
class Face:
    """A coherent contract, as far as this judgement needs it: its hash and the tables it declares."""

    hash: str
    tables: frozenset[TableKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """What lies beside the schema files.

    `files` are the schema files that have a staged form. `staged` is the contract that would result from putting
    them in place, `live` the one that stands; None when three texts do not belong together. `visible` are the
    tables the manifest shows, `is_covered` says that a pending schema change names these files as its own.
    """

    files: frozenset[str]
    staged: Face | None
    live: Face | None
    visible: frozenset[TableKey]
    is_covered: bool


class StagingAction(StrEnum):
    """What to do with them."""

    NOTHING = "nothing"
    PROMOTE = "promote"
    HOLD_BACK = "hold back"
    """Not to be completed: they go when the schema change is rolled back."""
    REMOVE = "remove"
    REFUSE = "refuse"


def judge_staging(seen: Staging) -> StagingAction:
    """Decide by what is known; where two histories look alike, an operator has to tell."""
    if not seen.files:
        return StagingAction.NOTHING
    if seen.is_covered:
        return StagingAction.HOLD_BACK if seen.staged is None else StagingAction.PROMOTE
    stands = seen.live is not None and seen.live.tables == seen.visible
    if SCHEMA_PG not in seen.files and seen.staged is not None:
        # The text goes first, so a schema change was putting its files in place: it was published.
        return StagingAction.PROMOTE
    if len(seen.files) < len(SCHEMA_FILES):
        # They were still being written, or one of them came to the store after the others had been removed.
        return StagingAction.REMOVE if stands else StagingAction.REFUSE
    return _by_tables(seen)


def _by_tables(seen: Staging) -> StagingAction:
    """Judge a complete set by the tables that are visible: the publish came, or it did not."""
    if seen.staged is None or seen.live is None:
        return StagingAction.REFUSE
    if seen.staged.hash == seen.live.hash:
        return StagingAction.REMOVE
    before, after = seen.live.tables == seen.visible, seen.staged.tables == seen.visible
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


def has_files(objects: Objects) -> bool:
    """Whether any schema file has a staged form; one listing."""
    return not _STAGED_FILES.isdisjoint(objects.list(""))


def read_staging(objects: Objects, snapshot: Snapshot, *, is_covered: bool) -> Staging:
    """Read what lies there; `snapshot` is main's."""
    staged = {name: objects.read(staging_path(name)) for name in SCHEMA_FILES}
    present = frozenset(name for name, text in staged.items() if text is not None)
    live = {name: objects.read(name) for name in SCHEMA_FILES} if present else {}
    return Staging(
        files=present,
        staged=_face({name: staged[name] or live.get(name) for name in SCHEMA_FILES}),
        live=_face(live),
        visible=frozenset(snapshot.entries),
        is_covered=is_covered,
    )


def _face(texts: dict[str, str | None]) -> Face | None:
    source, ir, state = (texts.get(name) for name in SCHEMA_FILES)
    if source is None:
        return None
    try:
        contract: Contract = open_contract(Source(source, SCHEMA_PG), ir, state)
    except SchemaContractError:
        return None
    return Face(contract.ir_hash, frozenset(contract.catalog.tables))


def promote(objects: Objects) -> None:
    """Put the staged files in place, the text first; what is in place already is skipped."""
    for name in SCHEMA_FILES:
        if objects.exists(staging_path(name)):
            objects.rename(staging_path(name), name)
            if name in _PLACED:
                fail(_PLACED[name])
    _log.info("schema.promoted")


def remove(objects: Objects) -> None:
    """Remove the staged files, the text last, so that what is left of them is never taken for a finished change."""
    for name in reversed(SCHEMA_FILES):
        objects.delete(staging_path(name))
        fail(Failpoint.STAGING_REMOVED)
    _log.info("schema.staging_removed")


def reconcile(objects: Objects, snapshot: Snapshot) -> StagingAction:
    """Settle staged files that no pending schema change names."""
    seen = read_staging(objects, snapshot, is_covered=False)
    action = judge_staging(seen)
    match action:
        case StagingAction.PROMOTE:
            promote(objects)
        case StagingAction.REMOVE:
            remove(objects)
        case StagingAction.REFUSE:
            raise _undecidable(seen)
        case StagingAction.NOTHING | StagingAction.HOLD_BACK:
            pass
    return action


def is_readable(objects: Objects, snapshot: Snapshot) -> bool:
    """Whether a read-only look shows tables through their own schema; one listing when nothing is staged."""
    if not has_files(objects):
        return True
    seen = read_staging(objects, snapshot, is_covered=False)
    return judge_staging(seen) is not StagingAction.PROMOTE


def _undecidable(seen: Staging) -> SchemaContractError:
    names = ", ".join(f"'{staging_path(name)}'" for name in sorted(seen.files))
    return SchemaContractError(
        f"schema files are left of an interrupted schema change ({names}), and the visible tables do not tell "
        "whether it was published; nothing was changed",
        hint="remove these files to keep the schema that stands, or rename them without '.staging' to take the new one",
    )
