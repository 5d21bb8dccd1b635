"""Micro-batches of streams: a batch is known by the query of its checkpoint, so that it is written once."""

import json
from pathlib import Path
from typing import Any, Final

from omnigraph.engine.session.engine import Engine
from omnigraph.errors import ConfigError, NotFound, UserInputError
from omnigraph.ids import BranchName
from omnigraph.logs import get_logger
from omnigraph.manifest.records import GraphCommit
from omnigraph.spark.sessions import is_connect
from omnigraph.values import dataclass

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property under which Spark gives the id that it keeps in the checkpoint."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch: its stream, its number, and what earlier versions called the stream."""

    stream: str
    """Holds the id of the query; a stream that begins anew has another one."""
    number: int
    former: str | None = None
    planned_at: int | None = None
    """When Spark planned the batch, in microseconds, where the checkpoint can be read."""

    @property
    def id(self) -> str:
        """What the commit of the batch keeps."""
        return f"{self.stream}#{self.number}"

    def was_written_by_name(self, engine: Engine, branch: BranchName) -> bool:
        """Whether an earlier version wrote this batch: its commits name the stream, not the query."""
        commits = _commits(engine, branch)
        found = next(
            (one for one in commits if one.batch_id == f"{self.former}#{self.number}"), None
        )
        if self.former is None or found is None or not self._is_of(found, commits):
            return False
        _log.warning("batch.skipped", batch_id=self.id, commit=str(found.id))
        return True

    def _is_of(self, found: GraphCommit, commits: tuple[GraphCommit, ...]) -> bool:
        """Whether a commit of the same name and number holds this batch, and not one of a checkpoint that is gone."""
        if self.planned_at is not None:
            return self.planned_at <= found.created_at
        if any(_number(one, self.stream) is not None for one in commits):
            return False
        # Spark runs only its last batch again.
        if self.number != max(_number(one, str(self.former)) or 0 for one in commits):
            return False
        if self.number == 0:
            raise UserInputError(
                f"stream '{self.former}' has a first batch in commit {found.id}, and its checkpoint does not tell "
                "whether this is the same one; nothing was written",
                hint="give the stream another name to write the batch; where it merges, that changes nothing twice",
            )
        return True


def _commits(engine: Engine, branch: BranchName) -> tuple[GraphCommit, ...]:
    try:
        return tuple(engine.view(branch).lineage.commits)
    except NotFound:
        # The first batch of a stream may make its branch.
        return ()


def _number(commit: GraphCommit, stream: str) -> int | None:
    """The number of a commit's batch when it is one of a stream."""
    name, _, number = (commit.batch_id or "").rpartition("#")
    return int(number) if name == stream and number.isdigit() else None


def planned_at(checkpoint: str | None, number: int) -> int | None:
    """When Spark planned a batch, in microseconds; None where the checkpoint is no directory of this machine."""
    if checkpoint is None:
        return None
    path = Path(checkpoint.removeprefix("file://").removeprefix("file:")) / "offsets" / str(number)
    try:
        facts = json.loads(path.read_text().splitlines()[1])
        return int(facts["batchTimestampMs"]) * 1000
    except (OSError, ValueError, LookupError, TypeError):
        return None


def query_of(session: Any, starter: Any, name: str) -> str | None:
    """The id of the query whose batch is run now; None when no query runs it.

    Under Connect a batch does not tell its query: it is the only one of the session that started it, or the one with
    the name of the stream.
    """
    if not is_connect(session):
        found: str | None = session.sparkContext.getLocalProperty(QUERY_ID)
        return found
    active = [] if starter is None else list(starter.streams.active)
    if len(active) > 1:
        active = [query for query in active if query.name == name]
        if not active:
            raise ConfigError(
                f"several streams run in this session, and none has the name '{name}'; nothing was written",
                hint=f"start the stream with .queryName('{name}')",
            )
    return str(active[0].id) if active else None
