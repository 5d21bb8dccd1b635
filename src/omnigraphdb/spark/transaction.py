"""Several frames in one commit: a transaction collects them, and all become visible together or not at all."""

import json
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self

from pyspark.sql import DataFrame

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit, LoadResult, MutationResult
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.catalog.model import NodeType, TableType
from omnigraphdb.catalog.types import Scalar
from omnigraphdb.errors import NotFound, OmniError, ReadOnlyError, UserInputError
from omnigraphdb.ids import MAIN, LoadMode
from omnigraphdb.spark_jobs.filters import translate_sql
from omnigraphdb.spark_jobs.runner import spark_runner
from omnigraphdb.spark_jobs.tables import read_table

DELETED_KEYS_MAX: Final = 1_000
"""Keys that one transaction deletes: each is a statement of one mutation."""


class Change(StrEnum):
    """The change that a transaction makes to a type."""

    APPEND = "appended"
    MERGE = "merged"
    UPDATE = "updated"
    OVERWRITE = "overwritten"
    DELETE = "deleted"


class Transaction:
    """Collects changes while its block runs, and writes them in one commit when the block ends without an error.

    Types may be appended (ids must be new), merged (rows replace those of the same id) and updated (only the columns of
    the frame change) together. Overwrites replace whole types and stand alone, and so do deletes.
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
        if_commit: str | Commit | None = None,
        dry_run: bool = False,
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
        self._if_commit = None if if_commit is None else str(if_commit)
        self._dry_run = dry_run
        self._frames: dict[str, Any] = {}
        self._changes: dict[str, Change] = {}
        self._deletes: list[str] = []
        self.loaded: LoadResult | None = None
        """The result of the load, once the block has ended."""
        self.deleted: MutationResult | None = None
        """The result of the deletes, once the block has ended."""

    @property
    def commit(self) -> Commit | None:
        """The commit of the block; None before its end, after a dry run, and when there was nothing to write."""
        done = self.loaded or self.deleted
        return None if done is None else done.commit

    # ---- the changes that the block asks for

    def append(self, type_name: str, frame: Any) -> None:
        """Add rows whose ids are new."""
        self._add(type_name, frame, Change.APPEND)

    def merge(self, type_name: str, frame: Any) -> None:
        """Add rows, or replace the rows that have the same id."""
        self._add(type_name, frame, Change.MERGE)

    def overwrite(self, type_name: str, frame: Any) -> None:
        """Replace all rows of the type; a frame without rows empties it."""
        self._add(type_name, frame, Change.OVERWRITE)

    def update(self, type_name: str, frame: DataFrame) -> None:
        """Change the columns of the frame in rows that exist; the frame names the rows by id or key.

        The other columns are read now, and the commit is refused when the branch moved meanwhile.
        """
        type_ = self._graph.catalog.table(type_name)
        self._add(type_name, self._complete_rows(type_, frame), Change.UPDATE)

    def delete(self, type_name: str, keys: Any = None, *, where: str | None = None) -> None:
        """Delete rows by key (a frame with the column, or values) or by one comparison, as `age > 90`; edges of a node go with it."""
        type_ = self._graph.catalog.table(type_name)
        if (keys is None) == (where is None):
            raise UserInputError(
                f"delete of {type_name} takes keys or where=, and one of them; nothing was written"
            )
        self._note_change(type_name, str(type_.table_key), Change.DELETE)
        if where is not None:
            conditions = [translate_sql(where, type_).replace("$row.", "")]
        else:
            texts = (json.dumps(key, ensure_ascii=False) for key in _collect_keys(type_, keys))
            conditions = [f"{_name_key(type_)} = {text}" for text in texts]
        self._deletes += (f"delete {type_.name} where {condition}" for condition in conditions)

    def _add(self, type_name: str, frame: Any, change: Change) -> None:
        # The catalog refuses an unknown type here, in the line that names it.
        name = str(self._graph.catalog.table(type_name).table_key)
        self._note_change(type_name, name, change)
        earlier = self._frames.get(name)
        if earlier is None:
            self._frames[name] = frame
        elif isinstance(earlier, DataFrame) and isinstance(frame, DataFrame):
            self._frames[name] = earlier.unionByName(frame, allowMissingColumns=True)
        else:
            raise UserInputError(
                f"{type_name} is given twice, and only Spark frames can be put together; nothing was written"
            )

    def _note_change(self, type_name: str, name: str, change: Change) -> None:
        earlier_change = self._changes.setdefault(name, change)
        if earlier_change is not change:
            raise UserInputError(
                f"{type_name} is both {earlier_change} and {change} in one transaction; nothing was written",
                hint="merge all of its rows, or use two transactions",
            )
        exclusive = {Change.OVERWRITE, Change.DELETE}
        kinds = set(self._changes.values())
        if len(kinds) > 1 and kinds & exclusive:
            self._changes.pop(name)
            raise UserInputError(
                f"{type_name} is {change} in a transaction that does something else too; nothing was written",
                hint="types that are overwritten or deleted need a transaction of their own",
            )

    # ---- rows that exist

    def _complete_rows(self, type_: TableType, frame: DataFrame) -> DataFrame:
        """Join the frame with the columns that it does not name, as they are committed."""
        key = _list_keys(type_)
        missing = [name for name in key if name not in frame.columns]
        if missing:
            raise UserInputError(
                f"an update of {type_.name} names its rows by {', '.join(key)}, and the frame has no column "
                f"'{missing[0]}'; nothing was written"
            )
        rest = [name for name in type_.schema.names if name not in {*frame.columns, "id"}]
        blobs = {
            name
            for name, property_ in type_.properties.items()
            if property_.type.scalar is Scalar.BLOB
        }
        blob = next((name for name in rest if name in blobs), None)
        if blob is not None:
            raise UserInputError(
                f"{type_.name}.{blob} is a Blob, which does not pass through Spark; nothing was written",
                hint="update rows of this type with graph.mutate(...)",
            )
        snapshot = self._pin_base()
        committed = read_table(self._spark, snapshot.pin(type_.name), [*key, *rest])
        lost = frame.join(committed, key, "left_anti").select(*key).first()
        if lost is not None:
            text = ", ".join(str(value) for value in lost)
            raise NotFound(type_.name, text)
        return frame.join(committed, key, "inner")

    def _pin_base(self) -> Snapshot:
        """Pin the rows that the commit builds upon: it is refused when the branch has another head by then."""
        try:
            snapshot = self._graph.snapshot(branch=self._branch)
        except NotFound:
            if self._from_branch is None:
                raise
            return self._graph.snapshot(branch=self._from_branch)
        self._if_commit = self._if_commit or snapshot.commit
        return snapshot

    # ---- the end of the block

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
        elif kind is None and self._deletes:
            self.deleted = self._delete()

    def _load(self) -> LoadResult:
        kinds = set(self._changes.values())
        appended = [name for name, change in self._changes.items() if change is Change.APPEND]
        mode = _choose_mode(kinds)
        return self._graph.load(
            self._frames,
            mode=mode,
            append_only=appended if mode is LoadMode.MERGE else (),
            branch=self._branch,
            from_branch=self._from_branch,
            actor=self._actor,
            batch_id=self._batch_id,
            message=self._message,
            idempotency_key=self._idempotency_key,
            if_commit=self._if_commit,
            dry_run=self._dry_run,
            allow_empty=True,
            spark=self._spark,
        )

    def _delete(self) -> MutationResult:
        names = {branch.name for branch in self._graph.branches()}
        if self._from_branch is None or self._branch in names:
            return self._delete_rows(self._branch)
        if self._dry_run:
            # A dry run creates no branch; the new one would hold the rows of this one.
            return self._delete_rows(self._from_branch)
        self._graph.branch_create(self._branch, from_branch=self._from_branch, actor=self._actor)
        try:
            return self._delete_rows(self._branch)
        except OmniError:
            self._graph.branch_delete(self._branch, actor=self._actor)
            raise

    def _delete_rows(self, branch: str) -> MutationResult:
        return self._graph.mutate(
            "query delete_rows() {\n" + "\n".join(self._deletes) + "\n}",
            branch=branch,
            actor=self._actor,
            message=self._message,
            if_commit=self._if_commit,
            idempotency_key=self._idempotency_key or self._batch_id,
            dry_run=self._dry_run,
        )


# ---- how rows are named


def _choose_mode(kinds: set[Change]) -> LoadMode:
    if Change.OVERWRITE in kinds:
        return LoadMode.OVERWRITE
    return LoadMode.APPEND if kinds == {Change.APPEND} else LoadMode.MERGE


def _list_keys(type_: TableType) -> list[str]:
    """List the columns that name a row: those of the key, or the id."""
    keys = type_.key_columns if isinstance(type_, NodeType) else ()
    return list(keys) or ["id"]


def _name_key(type_: TableType) -> str:
    keys = _list_keys(type_)
    if len(keys) > 1:
        raise UserInputError(
            f"{type_.name} has a key of several properties; nothing was written",
            hint="delete its rows by a condition",
        )
    return keys[0]


def _collect_keys(type_: TableType, keys: Any) -> list[Any]:
    """Bring the keys to this process; refuse more than a mutation takes."""
    name = _name_key(type_)
    if isinstance(keys, DataFrame):
        if name not in keys.columns:
            raise UserInputError(
                f"a delete of {type_.name} names its rows by '{name}', and the frame has no such column; "
                "nothing was written"
            )
        keys = [row[0] for row in keys.select(name).limit(DELETED_KEYS_MAX + 1).collect()]
    key_list = list(keys)
    if len(key_list) > DELETED_KEYS_MAX:
        raise UserInputError(
            f"more than {DELETED_KEYS_MAX} keys of {type_.name} are to be deleted; nothing was written",
            hint="delete by a condition, or overwrite the type with the rows that stay",
        )
    return key_list
