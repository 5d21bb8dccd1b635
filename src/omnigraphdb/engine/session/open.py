"""Creating a graph, and opening one: migrate, recover interrupted writes, check the contract."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from omnigraphdb.catalog.ir.contract import create_contract
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.commit.locks import INIT
from omnigraphdb.engine.session.engine import Engine, assemble
from omnigraphdb.engine.session.settings import settings_of
from omnigraphdb.errors import NotFound, OmniError, SchemaContractError, UserInputError, warn_caller
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.language.source import Source
from omnigraphdb.limits import STRAYED_LOOKED_AT
from omnigraphdb.manifest.accepted_schema import AcceptedSchema, bootstrap_contract
from omnigraphdb.manifest.genesis import initialise
from omnigraphdb.manifest.migrate import load_migrated
from omnigraphdb.manifest.view import View, may_be_amid_change
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.lance.faults import make_moved_error
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.objects.cloud import prove_conditional_puts
from omnigraphdb.values import dataclass


def init_graph(
    uri: str,
    schema: Source,
    *,
    force: bool = False,
    storage_options: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    runtime: Runtime = SYSTEM,
) -> Engine:
    """Create a graph with a schema; a bad schema leaves nothing behind."""
    engine = assemble(uri, settings_of(config), runtime, storage_options)
    _refuse_file(engine, "created")
    _require_conditions(engine, runtime)

    def accept() -> AcceptedSchema:
        catalog = compile_schema(schema)
        return AcceptedSchema(
            source=schema.text, contract=create_contract(catalog, runtime.new_id())
        )

    distant = engine.store.root.is_distant
    # Where a response can be lost, the lock distinguishes our own files from those of another writer.
    with engine.committer.locks.acquire([INIT], Activity("init")) if distant else nullcontext():
        initialise(
            engine.store.objects,
            engine.store.tables,
            engine.manifest,
            accept,
            uri=engine.uri,
            force=force,
            is_alone=distant,
        )
    return engine.start()


def _require_conditions(engine: Engine, runtime: Runtime) -> None:
    """Check once that an object store honours the conditions that all safety rests on; a disk does."""
    root = engine.store.root
    if not root.is_local and not root.is_memory:
        prove_conditional_puts(engine.store.objects, root, runtime)


def open_graph(
    uri: str,
    *,
    read_only: bool = False,
    storage_options: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    runtime: Runtime = SYSTEM,
) -> Engine:
    """Open a graph. Read-write recovers every interrupted write first; read-only changes nothing at all."""
    return _recover_and_check(
        assemble(uri, settings_of(config), runtime, storage_options, read_only=read_only)
    )


def reopen_graph(engine: Engine) -> Engine:
    """Close a graph and open it again as it was opened, with nothing cached."""
    engine.stop()
    options = dict(engine.location.options)
    return _recover_and_check(
        assemble(
            engine.location.uri,
            engine.settings,
            engine.runtime,
            options,
            read_only=engine.read_only,
        )
    )


def _recover_and_check(engine: Engine) -> Engine:
    with _reading_ahead(engine) as ahead:
        if engine.read_only:
            _require_readable(engine, ahead)
        else:
            _require_graph(engine)
            load_migrated(engine.manifest, MAIN)
            _refuse_strayed_recovery(engine)
            engine.recovery.sweep()
            if ahead is not None:
                # Two threads that ask for a schema that is not cached yet would both read its files.
                wait((ahead.schema,))
            _require_contract(engine)
        _warn_if_moved(engine, ahead)
    return engine.start()


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The reads of a distant store beside the manifest: the schema, and the branches with files elsewhere."""

    schema: Future[AcceptedSchema]
    strayed: Future[Mapping[str, str]]


@contextmanager
def _reading_ahead(engine: Engine) -> Iterator[_Ahead | None]:
    """Read ahead, from a distant store, the parts that do not wait for the manifest.

    For a disk, starting threads would take longer than the reads.
    """
    if not engine.store.root.is_distant:
        yield None
        return
    with ThreadPoolExecutor(2, "omnigraph-open") as threads:
        yield _Ahead(
            threads.submit(carry_context(engine.contracts.current)),
            threads.submit(carry_context(_find_strayed), engine),
        )


def _require_readable(engine: Engine, ahead: _Ahead | None) -> None:
    """Refuse to read a folder that is not a graph, or a graph that shows new tables through the old schema."""
    if ahead is not None and _is_readable(engine, ahead):
        return
    _require_graph(engine)
    engine.recovery.require_readable()
    _require_contract(engine)


def _is_readable(engine: Engine, ahead: _Ahead) -> bool:
    """Whether the manifest and the schema, read at the same time, belong together.

    If not, or if one of them cannot be read, both are read again.
    """
    try:
        view = View(
            branch=MAIN, state=engine.manifest.current(MAIN), accepted=ahead.schema.result()
        )
    except OmniError:
        return False
    return not may_be_amid_change(view) and not view.accepted.is_staged


def open_unsettled(
    uri: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    runtime: Runtime = SYSTEM,
) -> Engine:
    """Open a graph without recovery, to mend the damage that prevents a normal opening."""
    engine = assemble(uri, settings_of(None), runtime, storage_options)
    _require_graph(engine)
    return engine


def _require_contract(engine: Engine) -> None:
    """Check the schema files; a graph of an early release without a contract gets one."""
    try:
        engine.contracts.current()
    except SchemaContractError:
        objects, write = engine.store.objects, not engine.read_only
        bootstrapped = bootstrap_contract(objects, engine.manifest, write=write)
        if bootstrapped is None:
            raise
        engine.contracts.adopt(bootstrapped)


def _refuse_strayed_recovery(engine: Engine) -> None:
    """Refuse to recover interrupted writes on a branch that refers to files in another root."""
    for sidecar in engine.committer.sidecars.pending():
        branch = BranchName(sidecar.branch or MAIN)
        engine.require_here(branch, f"recovery of {sidecar.operation_id}")


def _find_strayed(engine: Engine) -> Mapping[str, str]:
    return engine.manifest.rows.branches_outside(STRAYED_LOOKED_AT)


def _warn_if_moved(engine: Engine, ahead: _Ahead | None) -> None:
    """Warn when branches look for their files at the former address of the graph; main is not affected."""
    moved_branches = _find_strayed(engine) if ahead is None else ahead.strayed.result()
    if moved_branches:
        names = ", ".join(f"'{name}'" for name in moved_branches)
        other_root = next(iter(moved_branches.values()))
        error = make_moved_error(f"{names} cannot be trusted here", other_root, engine.store.root)
        warn_caller(f"{error}; {error.hint}")


def _refuse_file(engine: Engine, verb: str) -> None:
    root = engine.store.root
    if root.is_local and Path(root.uri).is_file():
        raise UserInputError(
            f"'{engine.uri}' is a file, and a graph is a folder; nothing was {verb}",
            hint="name a folder that is a graph, or one that does not exist yet for a new graph",
        )


def _require_graph(engine: Engine) -> None:
    _refuse_file(engine, "read")
    if not engine.manifest.rows.exists():
        raise NotFound(
            "graph",
            engine.uri,
            hint=f"there is no '{MANIFEST}' in it; make a graph with `omnigraphdb init`",
        )
