"""The arms of the reading benchmark: this system, Ladybug and DuckDB, each with the same graph on disk."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from social import EDGES, NODES, schema

import omnigraphdb
from support.questions import Case

Rows = Sequence[tuple[Any, ...]]
Ask = Callable[[str], Rows]
NEVER = 1 << 60


class Rival(Protocol):
    """A system with the graph in it."""

    @property
    def name(self) -> str:
        """What the report calls it."""
        ...

    def open(self) -> Any:
        """Open what was written; nothing has been asked yet."""
        ...

    def asking(self, opened: Any, case: Case) -> Ask:
        """How a case is asked."""
        ...

    def close(self, opened: Any) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """This system, through `graph.query`."""

    home: Path
    name: str = "ours"

    @classmethod
    def loaded(cls, home: Path, tables: dict[str, pa.Table]) -> "Ours":
        """Load the graph, in this process whatever its size."""
        config = {"small_work_rows": NEVER, "small_work_bytes": NEVER}
        with omnigraphdb.init(home, schema(), config=config) as graph:
            graph.load({name: _frame(name, table) for name, table in tables.items()}, mode="append")
        return cls(home)

    def open(self) -> omnigraphdb.Graph:
        """Open for writing too: the last case inserts."""
        return omnigraphdb.open(self.home)

    def asking(self, opened: omnigraphdb.Graph, case: Case) -> Ask:
        """Ask through the public API; the text is compiled once by the handle."""
        text = f"query q({'$id: String' if case.personal else ''}) {{ {case.ours} }}"

        def ask(key: str) -> Rows:
            found = opened.query(text, {"id": key} if case.personal else {})
            return [tuple(row.values()) for row in found.rows]

        return ask

    def close(self, opened: omnigraphdb.Graph) -> None:
        """Let go of it."""
        opened.close()


def _frame(name: str, table: pa.Table) -> pa.Table:
    first = ["key"] if name in NODES else ["id", "from", "to"]
    return table.rename_columns([*first, *table.column_names[len(first) :]])


@dataclass(frozen=True, slots=True)
class Ladybug:
    """Ladybug, with prepared statements."""

    home: Path
    name: str = "ladybug"

    @classmethod
    def loaded(cls, home: Path, tables: dict[str, pa.Table]) -> "Ladybug | None":
        """Copy the graph, if Ladybug is there."""
        try:
            import ladybug
        except ImportError:
            return None
        files = home.with_suffix(".parquet")
        files.mkdir()
        database = ladybug.Database(str(home))
        connection = ladybug.Connection(database)
        for name, table in tables.items():
            plain = table if name in NODES else table.drop_columns(["id"])
            pq.write_table(plain, files / f"{name}.parquet")
            columns = table.schema if name in NODES else list(table.schema)[3:]
            declared = ", ".join(f"{f.name} {_ladybug_type(f.type)}" for f in columns)
            if name in NODES:
                connection.execute(f"CREATE NODE TABLE {name}({declared}, PRIMARY KEY(id))")
            else:
                source, target = EDGES[name]
                more = f", {declared}" if declared else ""
                connection.execute(f"CREATE REL TABLE {name}(FROM {source} TO {target}{more})")
        for name in tables:
            connection.execute(f"COPY {name} FROM '{files / f'{name}.parquet'}'")
        connection.close()
        database.close()
        return cls(home)

    def open(self) -> Any:
        """Open the database and a connection to it."""
        import ladybug

        database = ladybug.Database(str(self.home))
        return database, ladybug.Connection(database)

    def asking(self, opened: Any, case: Case) -> Ask:
        """Ask a statement that was prepared once."""
        _, connection = opened
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            prepared = connection.prepare(case.ladybug)

        def ask(key: str) -> Rows:
            found = connection.execute(prepared, {"id": key} if case.personal else {})
            return [tuple(row) for row in found.get_all()]

        return ask

    def close(self, opened: Any) -> None:
        """Let go of it."""
        database, connection = opened
        connection.close()
        database.close()


def _ladybug_type(kind: pa.DataType) -> str:
    if pa.types.is_date32(kind):
        return "DATE"
    return "INT32" if pa.types.is_int32(kind) else "STRING"


@dataclass(frozen=True, slots=True)
class DuckDb:
    """DuckDB, with an index on the ids of nodes."""

    home: Path
    name: str = "duckdb"

    @classmethod
    def loaded(cls, home: Path, tables: dict[str, pa.Table]) -> "DuckDb | None":
        """Copy the graph, if DuckDB is there."""
        try:
            import duckdb
        except ImportError:
            return None
        connection = duckdb.connect(str(home))
        for name, table in tables.items():
            connection.register("incoming", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
            connection.unregister("incoming")
            if name in NODES:
                connection.execute(f"CREATE UNIQUE INDEX {name}_id ON {name}(id)")
        connection.close()
        return cls(home)

    def open(self) -> Any:
        """Open the database."""
        import duckdb

        return duckdb.connect(str(self.home))

    def asking(self, opened: Any, case: Case) -> Ask:
        """Ask; DuckDB keeps the plans of texts itself."""

        def ask(key: str) -> Rows:
            found = opened.execute(case.duckdb, {"id": key} if case.personal else {})
            return [tuple(row) for row in found.fetchall()]

        return ask

    def close(self, opened: Any) -> None:
        """Let go of it."""
        opened.close()
