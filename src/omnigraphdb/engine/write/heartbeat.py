"""The heartbeat of a long load: while it is renewed, cleanup spares files that nothing refers to yet."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import EngineError, OmniError, StorageError
from omnigraphdb.ids import OperationId
from omnigraphdb.limits import HEARTBEAT_RENEW_SECONDS, HEARTBEAT_SECONDS
from omnigraphdb.logs import get_logger
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.layout import STAGING_DIR, heartbeat_path
from omnigraphdb.storage.objects.protocol import Objects

_log = get_logger(__name__)


def scratch_area(operation: OperationId) -> str:
    """Return the directory of a load's scratch files."""
    return f"{STAGING_DIR}/{operation}"


@contextmanager
def keep_heartbeat(
    engine: Engine, operation: OperationId, *, lingers: bool = False
) -> Iterator[str]:
    """Keep a heartbeat and a directory for scratch files while a load runs; yield the directory, remove both at the end.

    Tasks elsewhere may go on for a while after a load was interrupted: then the heartbeat `lingers` until it expires, so
    that cleanup spares the files that they write.
    """
    area = scratch_area(operation)
    stop = threading.Event()
    _renew(engine, operation)
    thread = threading.Thread(
        target=_keep, args=(engine, operation, stop), name="omnigraph-heartbeat", daemon=True
    )
    thread.start()
    interrupted = False
    try:
        yield area
    except BaseException as error:
        # A load refuses its input between two steps, when no task runs.
        interrupted = isinstance(error, EngineError) or not isinstance(error, OmniError)
        raise
    finally:
        stop.set()
        thread.join()
        # A heartbeat that cannot be removed now expires later; the outcome of the load is decided.
        with suppress(StorageError):
            if interrupted and lingers:
                engine.store.objects.delete_prefix(area)
            else:
                remove_heartbeat(engine.store.objects, operation)


def _renew(engine: Engine, operation: OperationId) -> None:
    write_heartbeat(engine.store.objects, operation, engine.runtime)


def write_heartbeat(objects: Objects, operation: OperationId, runtime: Runtime) -> None:
    """Renew a heartbeat, from any process that writes for the load."""
    expires = runtime.now_us() + int(HEARTBEAT_SECONDS * 1_000_000)
    text = json.dumps({"operation_id": operation, "expires_us": expires})
    objects.put(heartbeat_path(operation), text)


def remove_heartbeat(objects: Objects, operation: OperationId) -> None:
    """Remove a heartbeat and the scratch files of its load."""
    objects.delete_prefix(scratch_area(operation))
    objects.delete(heartbeat_path(operation))


def _keep(engine: Engine, operation: OperationId, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_RENEW_SECONDS):
        try:
            _renew(engine, operation)
        except StorageError as error:
            _log.warning("load.heartbeat_not_renewed", operation_id=operation, error=str(error))
