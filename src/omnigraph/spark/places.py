"""What a read of the data source is pinned to: one table version of one commit, told so that any process can open it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final, TypeVar

import pyarrow as pa

from omnigraph.catalog.model import TableType
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.session.open import open_graph
from omnigraph.errors import NotFound, UserInputError, did_you_mean, suggestion
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.travel import At
from omnigraph.manifest.view import View
from omnigraph.pipeline.location import StoreLocation
from omnigraph.spark.bridge import Forms, VectorForm
from omnigraph.spark.filters import chosen
from omnigraph.storage.blobs import BlobForm
from omnigraph.storage.tables import Table, TableAt
from omnigraph.values import dataclass

STORE: Final = "store."
"""Options with this prefix are storage options, as in `store.aws_region`."""

OPTIONS: Final = (
    "path", "type", "branch", "at", "columns", "filter", "vectors", "blobs", "partition_rows", "load_mode", "actor",
    "from_branch", "batch", "stream", "checkpointlocation",
)  # fmt: skip

RETIRED: Final = {
    "mode": "name it 'load_mode': append or merge; .mode('overwrite') replaces the type",
    "pushdown": "give conditions as option 'filter' and names as option 'columns'",
}
"""Options of earlier versions, and what to say instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one use of the data source."""

    home: StoreLocation
    branch: BranchName
    type_name: str
    at: At | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    forms: Forms = field(default_factory=Forms)

    def engine(self, *, read_only: bool = True) -> Engine:
        """Open the graph."""
        return engine_at(self.home, read_only=read_only)


def engine_at(home: StoreLocation, *, read_only: bool) -> Engine:
    """Open the graph that a task or another process was told of."""
    return open_graph(home.uri, read_only=read_only, storage_options=dict(home.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One version of one table, and the commit that shows it."""

    home: StoreLocation
    table_key: TableKey
    at: TableAt
    commit: str | None
    type: TableType
    schema: pa.Schema
    """What the table holds at this version, whatever its type holds now."""
    filter: str | None = None
    """Rows that do not pass are not read."""

    def open(self) -> Table:
        """Open exactly this version."""
        return self.home.store().tables.open(self.at)


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read the options of a use of the data source; unknown ones are refused by name."""
    _refuse_retired(options)
    require_known(options, OPTIONS, "omnigraph")
    home = home_of(options, "omnigraph")
    if not options.get("type"):
        raise UserInputError(
            "format('omnigraph') needs a node or edge type; nothing was read or written",
            hint="add .option('type', 'Person')",
        )
    columns = options.get("columns")
    return ReadOptions(
        home=home,
        branch=branch_name(options.get("branch") or MAIN, "spark"),
        type_name=options["type"],
        at=_parse_moment(options.get("at")),
        columns=None if columns is None else tuple(one.strip() for one in columns.split(",")),
        filter=options.get("filter"),
        forms=Forms(
            _parse_word(options.get("vectors", VectorForm.ARRAY), VectorForm, "vectors"),
            _parse_word(options.get("blobs", BlobForm.DESCRIPTOR), BlobForm, "blobs"),
        ),
    )


def absolute(uri: str) -> str:
    """A uri that means the same in every process: tasks run in directories of their own."""
    return uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))


def home_of(options: Mapping[str, str], name: str) -> StoreLocation:
    """The graph that options name, and how to reach it."""
    uri = options.get("path")
    if not uri:
        raise UserInputError(
            f"format('{name}') needs the graph: pass its uri to load() or save(); nothing was read or written"
        )
    store = {key[len(STORE) :]: value for key, value in options.items() if key.startswith(STORE)}
    return StoreLocation.of(absolute(uri), store)


def _refuse_retired(options: Mapping[str, str]) -> None:
    """Refuse an option of earlier versions with the word that replaces it."""
    for name in options:
        hint = RETIRED.get(name.lower())
        if hint is not None:
            raise UserInputError(
                f"format('omnigraph') has no option '{name}' any more: {hint}; nothing was read or written"
            )


def require_known(options: Mapping[str, str], known: Sequence[str], name: str) -> None:
    """Refuse an option that nobody reads."""
    unknown = next(
        (one for one in options if one.lower() not in known and not one.startswith(STORE)), None
    )
    if unknown is not None:
        near = suggestion(did_you_mean(unknown, known))
        raise UserInputError(
            f"format('{name}') has no option '{unknown}'{near}; nothing was read or written"
        )


_Word = TypeVar("_Word", VectorForm, BlobForm)


def _parse_word(text: str, words: type[_Word], name: str) -> _Word:
    try:
        return words(text)
    except ValueError as error:
        known = ", ".join(words)
        raise UserInputError(
            f"option '{name}' is one of {known}, not '{text}'; nothing was read"
        ) from error


def _parse_moment(text: str | None) -> At | None:
    """A commit id, a manifest version, or a moment in RFC 3339."""
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def pin_graph(asked: ReadOptions) -> Pin:
    """Look at the graph once: everything that is read later is read of what is seen now."""
    engine = asked.engine()
    try:
        return pin_of(engine, engine.view(asked.branch, asked.at), asked)
    finally:
        engine.stop()


def pin_of(engine: Engine, view: View, asked: ReadOptions) -> Pin:
    """The version of a type's table that a view shows."""
    type_ = view.catalog.table(asked.type_name)
    key = type_.table_key
    entry = view.snapshot.entries.get(key)
    if entry is None:
        raise NotFound("table", key, hint="the type did not exist yet at that point of history")
    return Pin(
        home=asked.home,
        table_key=key,
        at=entry.at,
        commit=view.commit,
        type=type_,
        schema=engine.store.tables.open(entry.at).schema,
        filter=None if asked.filter is None else chosen(asked.filter, type_),
    )
