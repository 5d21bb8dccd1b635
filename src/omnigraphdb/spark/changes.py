"""`readStream.format("omnigraph-changes")`: the change feed of a branch as a stream of whole commits."""

from collections.abc import Iterator, MutableMapping
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from omnigraphdb.api.arguments import branch_name
from omnigraphdb.api.comparisons import ChangeStream
from omnigraphdb.api.pinned_feed import pin_feed
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.limits import CHANGES_PAGE
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.spark.options import (
    open_at,
    parse_count,
    parse_location,
    parse_names,
    parse_switch,
    refuse_advised,
    require_options,
    shorten_traceback,
    yield_from_task,
)
from omnigraphdb.spark_jobs.change_frames import FeedPart, cut_feed, make_feed_schema
from omnigraphdb.spark_jobs.versions import Sealed
from omnigraphdb.values import dataclass

NAME: Final = "omnigraph-changes"
OPTIONS: Final = ("path", "branch", "types", "since", "images", "max_changes", "checkpointlocation")
ADVICE: Final = {
    "startingversion": "name the commit after which the stream begins as option 'since'",
    "startingtimestamp": "name the commit after which the stream begins as option 'since'",
    "start-snapshot-id": "name the commit after which the stream begins as option 'since'",
    "type": "name the types, separated by commas, as option 'types'",
    "maxfilespertrigger": "bound a batch by option 'max_changes'",
    "maxbytespertrigger": "bound a batch by option 'max_changes'",
}
"""Options of other formats that this format does not take, each with the option to use instead."""

AFTER: Final = "after"
"""The key of an offset: the commit that was read last; empty before the first."""


class ChangeSource(Sealed, DataSource):
    """A data source of the changes of each commit of a branch, oldest first."""

    @shorten_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options
        refuse_advised(options, ADVICE, NAME)
        require_options(options, OPTIONS, NAME)
        self.feed = Feed(
            location=parse_location(options, NAME),
            branch=branch_name(options.get("branch", MAIN), NAME),
            types=parse_names(options.get("types")),
            since=options.get("since") or "",
            images=parse_switch(options, "images"),
            limit=parse_count(options, "max_changes", CHANGES_PAGE),
        )

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return NAME

    def schema(self) -> StructType:
        """Return the schema: one row for each entity that a commit changed."""
        return make_feed_schema()

    @shorten_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """Name the ways to read changes at once: this format streams."""
        raise UserInputError(
            "format('omnigraph-changes') is a stream; nothing was read",
            hint="use readStream with trigger(availableNow=True), or graph.changes()",
        )

    @shorten_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Name the format that writes."""
        raise _refuse_write()

    @shorten_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Name the format that writes."""
        raise _refuse_write()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a reader that goes on after a commit."""
        return FeedReader(self.feed)


def _refuse_write() -> UserInputError:
    return UserInputError(
        "format('omnigraph-changes') is read only; nothing was written",
        hint="write rows of a type with format('omnigraph')",
    )


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Which changes a stream shows."""

    location: StoreLocation
    branch: str
    types: tuple[str, ...] | None
    since: str
    images: bool
    limit: int

    def read(self, after: str) -> Iterator[ChangeStream]:
        """Read the commits after one, each with its changes; nothing is read before it is asked for."""
        with open_at(self.location, read_only=True) as graph:
            yield from graph.changes_stream(
                branch=self.branch,
                since=after or None,
                types=self.types,
                images=self.images,
                spark=False,
            )

    def cut(self, after: str, end: str) -> list[FeedPart]:
        """Cut the commits after one commit, up to another, into the parts that tasks read."""
        if after == end:
            return []
        with open_at(self.location, read_only=True) as graph:
            location, steps, change_filter = pin_feed(
                graph,
                branch=self.branch,
                since=after or None,
                until=end,
                types=self.types,
                images=self.images,
            )
            return cut_feed(location, steps, change_filter, self.limit)


@dataclass
class FeedPartition(Sealed, InputPartition):
    """The part of a batch that one task reads."""

    part: FeedPart


class FeedReader(Sealed, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the feed batch by batch, in order; a batch that is read again holds the same commits.

    One task reads small commits together; a commit that changed much is spread over several. No commit is in memory as a whole.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.last: str | None = None

    def initialOffset(self) -> dict[str, str]:
        """Return the offset at which a new stream begins."""
        return {AFTER: self.feed.since}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the number of changes that fill a batch."""
        return ReadMaxRows(self.feed.limit)

    @shorten_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """End the stream at the commit that is the head now."""
        self.last = ""
        for block in self.feed.read(self.feed.since):
            self.last = block.commit.id

    @shorten_traceback
    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """End the next batch with the commit that brings it to its limit, or with the last commit."""
        rows_left = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = start[AFTER]
        for block in self.feed.read(end):
            if end == self.last:
                break
            end = block.commit.id
            if rows_left is not None:
                # Counting stops at the limit: a large commit is not read to its end for this.
                rows_left -= sum(1 for _ in islice(block.changes, rows_left))
                if rows_left <= 0:
                    break
        return {AFTER: end}

    @shorten_traceback
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Cut a batch into partitions, the commits in their order."""
        return [FeedPartition(part) for part in self.feed.cut(start[AFTER], end[AFTER])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition as Spark asks for them."""
        assert isinstance(partition, FeedPartition), "Spark gives back what `partitions` made"
        yield from yield_from_task(partition.part.read())
