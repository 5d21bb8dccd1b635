"""Several frames in one commit: a transaction gathers them, and all of them become visible together or not at all."""

from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame

from omnigraph.engine.write.verbs import Loaded
from omnigraph.errors import UserInputError
from omnigraph.ids import MAIN
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.records import GraphCommit
from omnigraph.spark.batches import Batch
from omnigraph.spark.runner import spark_runner
from omnigraph.spark.writes import Handle, write_frames


class Transaction:
    """Gathers frames while its block runs, and loads them in one commit when it ends well.

    Each type is appended (ids must be new) or merged (rows replace those of the same id).
    """

    def __init__(
        self,
        graph: Handle,
        spark: Any = None,
        *,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        batch_id: str | None = None,
    ) -> None:
        self._engine = graph._engine
        self._engine.require_writable("transaction")
        self._runner = spark_runner(spark)
        self._branch = branch_name(branch, "transaction")
        self._from_branch = from_branch
        self._actor = actor
        self._batch_id = batch_id
        self._frames: dict[str, Any] = {}
        self._modes: dict[str, str] = {}
        self.loaded: Loaded | None = None
        """What was written, once the block has ended."""

    @property
    def commit(self) -> GraphCommit | None:
        """The commit that was made; None before it, and when there was nothing to write."""
        return None if self.loaded is None else self.loaded.commit

    def append(self, type_name: str, frame: Any) -> None:
        """Add rows whose ids are new."""
        self._add(type_name, frame, "append")

    def merge(self, type_name: str, frame: Any) -> None:
        """Add rows, or replace those that have the same id."""
        self._add(type_name, frame, "merge")

    def _add(self, type_name: str, frame: Any, mode: str) -> None:
        # A name that is unknown is refused here, where the mistake is.
        name = str(self._engine.contracts.current().catalog.table(type_name).table_key)
        if self._modes.setdefault(name, mode) != mode:
            raise UserInputError(
                f"{type_name} is both appended and merged in one transaction; nothing was written",
                hint="merge all of its rows",
            )
        known = self._frames.get(name)
        if known is None:
            self._frames[name] = frame
        elif isinstance(known, DataFrame) and isinstance(frame, DataFrame):
            self._frames[name] = known.unionByName(frame, allowMissingColumns=True)
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
            self.loaded = self._write()

    def holds(self, batch: Batch) -> bool:
        """Whether an earlier version wrote a micro-batch, under the name of its stream alone."""
        return batch.was_written_by_name(self._engine, self._branch)

    def release(self) -> None:
        """Close what was opened for this transaction alone."""
        self._engine.stop()

    def _write(self) -> Loaded:
        merges = "merge" in self._modes.values()
        strict = [name for name, mode in self._modes.items() if mode == "append"]
        return write_frames(
            self._engine,
            self._frames,
            self._runner,
            mode="merge" if merges else "append",
            branch=self._branch,
            from_branch=self._from_branch,
            actor=self._actor,
            batch_id=self._batch_id,
            strict=strict if merges else (),
        )
