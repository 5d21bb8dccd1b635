"""`readStream.format("omnigraph-changes")`: the change feed of a branch as a stream, whole commits at a time."""

import json
from collections.abc import Iterator, MutableMapping
from itertools import islice
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from omnigraph.engine.history.diff import EntityChange, Wanted
from omnigraph.engine.history.feed import Chapter, stream
from omnigraph.engine.session.engine import Engine
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.limits import CHANGES_PAGE
from omnigraph.manifest.names import branch_name
from omnigraph.pipeline.location import StoreLocation
from omnigraph.runtime import datetime_of
from omnigraph.spark.places import engine_at, home_of, require_known
from omnigraph.spark.workers import settle
from omnigraph.values import dataclass

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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader that goes on after a commit."""
        return FeedReader(self.feed)


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Which changes a stream shows."""

    home: StoreLocation
    branch: BranchName
    types: tuple[str, ...] | None
    since: str
    images: bool
    limit: int

    def told(self, after: str) -> Iterator[Chapter]:
        """The commits after one, each with its changes; nothing is read before it is asked for."""
        engine = engine_at(self.home, read_only=True)
        try:
            yield from stream(engine, self.branch, after or None, self._wanted(engine))
        finally:
            engine.stop()

    def _wanted(self, engine: Engine) -> Wanted:
        catalog = engine.contracts.current().catalog
        tables: set[TableKey] | None = None
        if self.types is not None:
            tables = {catalog.table(name).table_key for name in self.types}
        return Wanted(tables=tables, images=self.images)


@dataclass
class FeedPart(InputPartition):
    """A batch: the commits after one, up to another."""

    after: str
    end: str


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the feed batch by batch, in order; a batch read again holds the same commits.

    A batch is one partition, whose rows are told one after the other wherever the task runs: no commit is held whole.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.last: str | None = None

    def initialOffset(self) -> dict[str, str]:
        """Where a new stream begins."""
        return {AFTER: self.feed.since}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many changes as make a batch."""
        return ReadMaxRows(self.feed.limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take the head as it is for the end."""
        self.last = ""
        for chapter in self.feed.told(self.feed.since):
            self.last = str(chapter.commit.id)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Where the next batch ends: with the commit that brings it to its limit, or with the last."""
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = start[AFTER]
        for chapter in self.feed.told(end):
            if end == self.last:
                break
            end = str(chapter.commit.id)
            if room is not None:
                # A commit past the limit is not counted further.
                room -= sum(1 for _ in islice(chapter.changes, room))
                if room <= 0:
                    break
        return {AFTER: end}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """One: the order of commits is kept."""
        return [FeedPart(start[AFTER], end[AFTER])]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """The rows of a batch, as they are asked for."""
        assert isinstance(partition, FeedPart), "Spark gives back what `partitions` made"
        if partition.after == partition.end:
            return
        for chapter in self.feed.told(partition.after):
            yield from _rows(chapter)
            if str(chapter.commit.id) == partition.end:
                break
        settle()


def _rows(chapter: Chapter) -> Iterator[Row]:
    commit = chapter.commit
    moment = datetime_of(commit.created_at)
    for change in chapter.changes:
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
