"""Several frames in one commit: a transaction collects them, and all become visible together or not at all."""

from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame

from omnigraph.api.graph import Graph
from omnigraph.api.results import Commit, LoadResult
from omnigraph.errors import ReadOnlyError, UserInputError
from omnigraph.ids import MAIN, LoadMode
from omnigraph.spark_jobs.runner import spark_runner


class Transaction:
    """Collects frames while its block runs, and loads them in one commit when the block ends without an error.

    Each type is appended (ids must be new) or merged (rows replace those of the same id).
    """

    def __init__(
        self,
        graph: Graph,
        spark: Any = None,
        *,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        batch_id: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        if graph.read_only:
            raise ReadOnlyError("transaction")
        self._graph = graph
        self._spark = spark_runner(spark).spark
        self._branch = branch
        self._from_branch = from_branch
        self._actor = actor
        self._batch_id = batch_id
        self._message = message
        self._idempotency_key = idempotency_key
        self._frames: dict[str, Any] = {}
        self._modes: dict[str, LoadMode] = {}
        self.loaded: LoadResult | None = None
        """The result of the load, once the block has ended."""

    @property
    def commit(self) -> Commit | None:
        """The commit of the block; None before its end, and when there was nothing to write."""
        return None if self.loaded is None else self.loaded.commit

    def append(self, type_name: str, frame: Any) -> None:
        """Add rows whose ids are new."""
        self._add(type_name, frame, LoadMode.APPEND)

    def merge(self, type_name: str, frame: Any) -> None:
        """Add rows, or replace those that have the same id."""
        self._add(type_name, frame, LoadMode.MERGE)

    def _add(self, type_name: str, frame: Any, mode: LoadMode) -> None:
        # The catalog refuses an unknown type here, in the line that names it.
        name = str(self._graph.catalog.table(type_name).table_key)
        if self._modes.setdefault(name, mode) is not mode:
            raise UserInputError(
                f"{type_name} is both appended and merged in one transaction; nothing was written",
                hint="merge all of its rows",
            )
        earlier = self._frames.get(name)
        if earlier is None:
            self._frames[name] = frame
        elif isinstance(earlier, DataFrame) and isinstance(frame, DataFrame):
            self._frames[name] = earlier.unionByName(frame, allowMissingColumns=True)
        else:
            raise UserInputError(
                f"{type_name} is given twice, and only Spark frames can be put together; nothing was written"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._frames:
            self.loaded = self._load()

    def _load(self) -> LoadResult:
        appended = [name for name, mode in self._modes.items() if mode is LoadMode.APPEND]
        merges = len(appended) < len(self._modes)
        return self._graph.load(
            self._frames,
            mode=LoadMode.MERGE if merges else LoadMode.APPEND,
            append_only=appended if merges else (),
            branch=self._branch,
            from_branch=self._from_branch,
            actor=self._actor,
            batch_id=self._batch_id,
            message=self._message,
            idempotency_key=self._idempotency_key,
            spark=self._spark,
        )
