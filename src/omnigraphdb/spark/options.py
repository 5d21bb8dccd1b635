"""The options of the data sources: which graph, branch, type and columns a read or write names."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from omnigraphdb.api.arguments import Reference, branch_name
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.opening import open
from omnigraphdb.errors import OmniError, UserInputError, did_you_mean, suggestion
from omnigraphdb.ids import MAIN
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.spark_jobs.bridge import Forms, parse_forms
from omnigraphdb.spark_jobs.faults import find_host, name_host
from omnigraphdb.values import dataclass

STORE: Final = "store."
"""Options with this prefix are storage options, as in `store.aws_region`."""

OPTIONS: Final = (
    "path", "type", "branch", "columns", "filter", "vectors", "blobs", "partition_rows", "load_mode", "actor",
    "from_branch", "batch", "stream", "checkpointlocation",
)  # fmt: skip

MOMENTS: Final = ("at", "versionasof", "timestampasof", "snapshot-id")
"""Options that say which moment is read: ours, and those of Delta and Iceberg with the same meaning."""

_CHANGES: Final = "stream what changes with readStream.format('omnigraph-changes'), option 'since'"

_RANGE: Final = (
    "read what changed between commits with graph.changes_frame(since=...) or graph.diff_frame(...)"
)

ADVICE: Final = {
    "mode": "name it 'load_mode': append or merge; .mode('overwrite') replaces the type",
    "pushdown": "give conditions as option 'filter' and names as option 'columns'",
    "startingversion": _CHANGES,
    "startingtimestamp": _CHANGES,
    "endingversion": _RANGE,
    "endingtimestamp": _RANGE,
    "end-snapshot-id": _RANGE,
    "tag": "name the commit of the tag as option 'at'",
    "usermetadata": "write in a Transaction with message=",
    "readchangefeed": _CHANGES,
    "readchangedata": _CHANGES,
    "start-snapshot-id": _CHANGES,
    "as-of-timestamp": "give the moment in RFC 3339 as option 'timestampAsOf'",
    "mergeschema": "change the schema with graph.schema_apply(...) first",
    "overwriteschema": "change the schema with graph.schema_apply(...) first",
    "replacewhere": "delete the rows in a Transaction, or overwrite the whole type",
    "table": "name the node or edge type as option 'type'",
    "dbtable": "name the node or edge type as option 'type'",
    "url": "pass the uri of the graph to load() or save()",
}
"""Options of other formats and of earlier versions that this format does not take, each with advice."""


READ_ONLY: Final = ("columns", "filter", "vectors", "blobs", "partition_rows")
"""Options of reads; a write refuses them, since they would not affect it."""

WRITE_ONLY: Final = ("load_mode", "actor", "from_branch", "batch", "stream")
"""Options of writes."""

CATALOG: Final = "option."
"""The prefix that Spark gives the options of a table of its catalog."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def shorten_traceback(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let an error of ours leave a method with its hint and without our frames: Spark shows the whole traceback."""

    @wraps(method)
    def act(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except OmniError as error:
            raise _shorten(error) from None

    return act


def tell_from_task(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method that runs on an executor as `shorten_traceback` does; an error that may be due to its host names it."""

    @shorten_traceback
    @wraps(method)
    def act(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except OmniError as error:
            raise name_host(error, find_host(error)) from error.__cause__

    return act


def yield_from_task(rows: Iterator[_R]) -> Iterator[_R]:
    """Yield the rows that a task reads; an error leaves in the form that `tell_from_task` gives it."""
    try:
        yield from rows
    except OmniError as error:
        raise _shorten(name_host(error, find_host(error))) from None


def _shorten(error: OmniError) -> OmniError:
    if error.hint and not getattr(error, "__notes__", None):
        error.add_note(f"hint: {error.hint}")
    return error.with_traceback(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one use of `format("omnigraph")`."""

    location: StoreLocation
    branch: str
    type_name: str
    at: Reference | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    forms: Forms = field(default_factory=Forms)


def open_at(location: StoreLocation, *, read_only: bool) -> Graph:
    """Open the graph at a location; the caller closes it."""
    return open(location.uri, read_only=read_only, storage_options=dict(location.options))


def _refuse_catalog(options: Mapping[str, str]) -> None:
    """Refuse a table of Spark's catalog when it is created: Spark does not pass its options on to reads."""
    if any(name.lower() == "location" or name.lower().startswith(CATALOG) for name in options):
        raise UserInputError(
            "CREATE TABLE ... USING omnigraph is not possible: Spark passes no options of its tables on; "
            "nothing was created",
            hint="use CREATE TEMPORARY VIEW ... USING omnigraph OPTIONS (path '...', type '...')",
        )


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of `format("omnigraph")`; refuse unknown ones by name."""
    _refuse_catalog(options)
    refuse_advised(options, ADVICE, "omnigraph")
    require_options(options, (*OPTIONS, *MOMENTS), "omnigraph")
    location = parse_location(options, "omnigraph")
    if not options.get("type"):
        raise UserInputError(
            "format('omnigraph') needs a node or edge type; nothing was read or written",
            hint="add .option('type', 'Person')",
        )
    return SourceOptions(
        location=location,
        branch=branch_name(options.get("branch", MAIN), "read"),
        type_name=options["type"],
        at=_parse_moment(options),
        columns=parse_names(options.get("columns")),
        filter=options.get("filter"),
        forms=parse_forms(options.get("vectors"), options.get("blobs")),
    )


def parse_names(text: str | None) -> tuple[str, ...] | None:
    """Split names at their commas; refuse a repeated name."""
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        raise UserInputError(f"'{repeated}' is named twice in '{text}'; nothing was read")
    return names if text is not None else None


def parse_switch(options: Mapping[str, str], name: str) -> bool:
    """Parse an option that is true or false; an option that is not given is false."""
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise UserInputError(f"option '{name}' is true or false, not '{text}'; nothing was read")
    return text == "true"


def parse_location(options: Mapping[str, str], format: str) -> StoreLocation:
    """Read which graph the options name, and its storage options."""
    uri = options.get("path")
    if not uri:
        raise UserInputError(
            f"format('{format}') needs the graph: pass its uri to load() or save(); nothing was read or written",
            hint=f"in SQL: CREATE TEMPORARY VIEW ... USING {format} OPTIONS (path '...', type '...'); Spark passes no "
            "options of CREATE TABLE on",
        )
    store = {key[len(STORE) :]: value for key, value in options.items() if key.startswith(STORE)}
    return StoreLocation.of(make_absolute(uri), store)


def make_absolute(uri: str) -> str:
    """Spell a uri so that every process understands it: tasks run in directories of their own."""
    if "://" in uri:
        return uri
    # Spark writes a path of this machine as file:/path.
    return os.path.abspath(os.path.expanduser(uri.removeprefix("file:")))


def require_options(options: Mapping[str, str], allowed: Sequence[str], format: str) -> None:
    """Refuse an option that the format does not have."""
    unknown = next(
        (name for name in options if name.lower() not in allowed and not name.startswith(STORE)),
        None,
    )
    if unknown is not None:
        near = suggestion(did_you_mean(unknown, allowed))
        raise UserInputError(
            f"format('{format}') has no option '{unknown}'{near}; nothing was read or written"
        )


def refuse_advised(options: Mapping[str, str], advice: Mapping[str, str], format: str) -> None:
    """Refuse an option of another format, and say what to do instead."""
    for name in options:
        instead = advice.get(name.lower())
        if instead is not None:
            raise UserInputError(
                f"format('{format}') has no option '{name}'; nothing was read or written",
                hint=instead,
            )


def refuse_others(options: Mapping[str, str], others: Sequence[str], work: str) -> None:
    """Refuse the options that only the opposite of a read or a write takes."""
    for name in options:
        if name.lower() in others:
            raise UserInputError(
                f"a {work} of format('omnigraph') has no use for option '{name}'; nothing was read or written"
            )


def parse_count(options: Mapping[str, str], name: str, default: int) -> int:
    """Parse a number of at least one."""
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise UserInputError(
            f"option '{name}' is a number of at least 1, not '{text}'; nothing was read"
        )
    return int(text)


def _parse_moment(options: Mapping[str, str]) -> Reference | None:
    """Read the requested moment: from our option, or from an option that people know from other formats."""
    moment_options = {name: value for name, value in options.items() if name.lower() in MOMENTS}
    if len(moment_options) > 1:
        raise UserInputError(
            f"options {' and '.join(moment_options)} both name a moment; nothing was read",
            hint="keep one",
        )
    for name, value in moment_options.items():
        moment = _parse_reference(value)
        if name.lower() == "timestampasof" and not isinstance(moment, datetime):
            raise UserInputError(
                f"option '{name}' is a moment in RFC 3339, as 2026-01-31T12:00:00Z, not '{value}'; nothing was read"
            )
        return moment
    return None


def _parse_reference(text: str | None) -> Reference | None:
    """Parse a manifest version or a moment in RFC 3339; any other text is a commit id."""
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
