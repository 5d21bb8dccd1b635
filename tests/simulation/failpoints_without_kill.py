"""The failpoints at which no test kills a process, with the reason of each; `test_failpoint_kills.py` holds the list."""

from collections.abc import Mapping
from typing import Final

from omnigraphdb.failpoints import Failpoint

_BY_ENVIRONMENT: Final = "tests/engine/manifest/test_genesis.py kills a command here, which is not a child that is counted"
_NOTHING_WRITTEN: Final = "only locks, the note of a key and files that no table shows are written before it: a death here is one before the operation"
_READ: Final = "it lies in a read, which writes nothing"
_AS_FORK_CREATED: Final = "nothing is written since the fork of another writer was met: a death here is one at fork.post_create_pre_open"
WITHOUT_KILL: Final[Mapping[Failpoint, str]] = {
    Failpoint.INIT_SCHEMA_WRITTEN: _BY_ENVIRONMENT,
    Failpoint.INIT_CONTRACT_WRITTEN: _BY_ENVIRONMENT,
    Failpoint.INIT_TABLES_CREATED: _BY_ENVIRONMENT,
    Failpoint.PREPARED: _NOTHING_WRITTEN,
    Failpoint.BRANCH_CAPTURED: _NOTHING_WRITTEN,
    Failpoint.BRANCH_PAST: _NOTHING_WRITTEN,
    Failpoint.CLEANUP_SEEN: _NOTHING_WRITTEN,
    Failpoint.FORK_CLASSIFY: _AS_FORK_CREATED,
    Failpoint.FORK_RECLAIM: _AS_FORK_CREATED,
    Failpoint.FEED_CAPTURED: _READ,
    Failpoint.FEED_OPENING: _READ,
    Failpoint.CONTRACT_READ: _READ,
    Failpoint.MIGRATE_LEGACY_OPEN: _READ,
    Failpoint.MIGRATE_MERGED: (
        "the next step of a migration begins here, and looks at what is there: tests/engine/manifest/test_migrate.py "
        "fails here and goes on"
    ),
}
