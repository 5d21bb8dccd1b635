"""The beacon of a long load: while it shines, cleanup spares files that nobody refers to yet."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from omnigraph.engine.engine import Engine
from omnigraph.errors import StorageError
from omnigraph.ids import OperationId
from omnigraph.limits import BEACON_RENEW_SECONDS, BEACON_SECONDS
from omnigraph.logs import get_logger
from omnigraph.storage.layout import STAGING_DIR, beacon_path

_log = get_logger(__name__)


def scratch_area(operation: OperationId) -> str:
    """The directory of a load's scratch files."""
    return f"{STAGING_DIR}/{operation}"


@contextmanager
def shining(engine: Engine, operation: OperationId) -> Iterator[str]:
    """Keep a beacon and a directory for scratch files, given here, while a load runs; both go at its end."""
    area = scratch_area(operation)
    stop = threading.Event()
    _renew(engine, operation)
    keeper = threading.Thread(
        target=_keep, args=(engine, operation, stop), name="omnigraph-beacon", daemon=True
    )
    keeper.start()
    try:
        yield area
    finally:
        stop.set()
        keeper.join()
        # What cannot be removed now expires; the outcome of the load is decided.
        with suppress(StorageError):
            engine.store.objects.delete_prefix(area)
            engine.store.objects.delete(beacon_path(operation))


def _renew(engine: Engine, operation: OperationId) -> None:
    expires = engine.runtime.now_us() + int(BEACON_SECONDS * 1_000_000)
    text = json.dumps({"operation_id": operation, "expires_us": expires})
    engine.store.objects.put(beacon_path(operation), text)


def _keep(engine: Engine, operation: OperationId, stop: threading.Event) -> None:
    while not stop.wait(BEACON_RENEW_SECONDS):
        try:
            _renew(engine, operation)
        except StorageError as error:
            _log.warning("load.beacon_not_renewed", operation_id=operation, error=str(error))
