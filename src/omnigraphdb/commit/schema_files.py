"""The schema files of a change: staged beside the accepted ones before the publish, put in their place after it."""

from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.accepted_schema import AcceptedSchema
from omnigraphdb.storage.layout import SCHEMA_FILES, SCHEMA_IR, SCHEMA_PG, staging_path
from omnigraphdb.storage.locks.table import RequireLocks
from omnigraphdb.storage.objects.protocol import Objects

_log = get_logger(__name__)

_PLACED = {SCHEMA_PG: Failpoint.SCHEMA_SOURCE_PLACED, SCHEMA_IR: Failpoint.SCHEMA_IR_PLACED}


def stage_files(objects: Objects, accepted: AcceptedSchema) -> None:
    """Write the three texts beside the accepted ones; nobody reads them yet."""
    fail(Failpoint.SCHEMA_UNSTAGED)
    for name, text in accepted.texts.items():
        objects.put(staging_path(name), text)
        fail(Failpoint.SCHEMA_HALF_STAGED)
    fail(Failpoint.SCHEMA_STAGED)


def install_staged_files(objects: Objects, require_locks: RequireLocks) -> None:
    """Put the staged files in place, the source text first; a file that is in place already is skipped."""
    for name in SCHEMA_FILES:
        if objects.exists(staging_path(name)):
            require_locks()
            objects.rename(staging_path(name), name)
            if name in _PLACED:
                fail(_PLACED[name])
    _log.info("schema.promoted")
