"""`readStream.format("omnigraph-changes")`: the change feed of a branch as a stream, whole commits at a time."""

import json
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from omnigraph.engine.engine import Engine
from omnigraph.engine.history.diff import EntityChange, Wanted
from omnigraph.engine.history.feed import Block, page
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.limits import CHANGES_PAGE
from omnigraph.manifest.names import branch_name
from omnigraph.pipeline.home import Home
from omnigraph.runtime import datetime_of
from omnigraph.spark.places import engine_at, home_of, require_known

NAME: Final = "omnigraph-changes"
SCHEMA: Final = (
    "op string, kind string, table_key string, type_name string, id string, src string, dst string, "
    "properties array<string>, before string, after string, commit_id string, actor string, "
    "committed_at timestamp, manifest_version long"
)
OPTIONS: Final = ("path", "branch", "types", "since", "images", "max_changes", "checkpointlocation")
AFTER: Final = "after"
"""What an offset holds: the commit that was read last; empty before the first."""

Row = tuple[Any, ...]


class ChangeSource(DataSource):
    """Reads what each commit of a branch changed, oldest first."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options
        require_known(options, OPTIONS, NAME)
        types = options.get("types")
        self.feed = Feed(
            home=home_of(options, NAME),
            branch=branch_name(options.get("branch") or MAIN, "spark"),
            types=None if types is None else tuple(one.strip() for one in types.split(",")),
            since=options.get("since") or "",
            images=options.get("images", "false").lower() == "true",
            limit=int(options.get("max_changes", CHANGES_PAGE)),
        )

    @classmethod
    def name(cls) -> str:
        """What `format()` is given."""
        return NAME

    def schema(self) -> str:
        """One row for each entity a commit changed."""
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        """A reader that goes on after a commit."""
        return FeedReader(self.feed)


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Which changes a stream shows."""

    home: Home
    branch: BranchName
    types: tuple[str, ...] | None
    since: str
    images: bool
    limit: int

    def after(self, commit: str) -> list[Block]:
        """The next commits after one, as many as make a batch."""
        engine = engine_at(self.home, read_only=True)
        try:
            found = page(engine, self.branch, commit or None, self.limit, self._wanted(engine))
            return list(found.blocks)
        finally:
            engine.stop()

    def _wanted(self, engine: Engine) -> Wanted:
        catalog = engine.contracts.current().catalog
        tables: set[TableKey] | None = None
        if self.types is not None:
            tables = {catalog.table(name).table_key for name in self.types}
        return Wanted(tables=tables, images=catalog if self.images else None)


class FeedReader(SimpleDataSourceStreamReader):
    """Reads the feed batch by batch; a batch read again holds the same commits."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed

    def initialOffset(self) -> dict[str, str]:
        """Where a new stream begins."""
        return {AFTER: self.feed.since}

    def read(self, start: dict[str, str]) -> tuple[Iterator[Row], dict[str, str]]:
        """The next commits, and where they end."""
        blocks = self.feed.after(start[AFTER])
        end = str(blocks[-1].commit.id) if blocks else start[AFTER]
        # Spark copies the iterator, and generators cannot be copied.
        return iter(list(_rows(blocks))), {AFTER: end}

    def readBetweenOffsets(self, start: dict[str, str], end: dict[str, str]) -> Iterator[Row]:
        """The commits of a batch that was read before."""
        last = start[AFTER]
        while last != end[AFTER]:
            blocks = self.feed.after(last)
            if not blocks:
                return
            ids = [str(block.commit.id) for block in blocks]
            if end[AFTER] in ids:
                blocks = blocks[: ids.index(end[AFTER]) + 1]
            yield from _rows(blocks)
            last = str(blocks[-1].commit.id)


def _rows(blocks: list[Block]) -> Iterator[Row]:
    for block in blocks:
        commit = block.commit
        moment = datetime_of(commit.created_at)
        for change in block.changes:
            yield (*_facts(change), commit.id, commit.actor, moment, change.manifest_version)


def _facts(change: EntityChange) -> Row:
    ends = change.endpoints
    images = [
        None if row is None else json.dumps(row, ensure_ascii=False, default=str)
        for row in (change.before, change.after)
    ]
    return (
        str(change.op),
        str(change.kind),
        str(change.table_key),
        change.type_name,
        change.id,
        None if ends is None else ends.src,
        None if ends is None else ends.dst,
        list(change.properties),
        *images,
    )
