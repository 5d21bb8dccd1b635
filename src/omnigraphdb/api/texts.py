"""Schemas and queries as texts: what can be said about them without a graph."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.compile import lint as linting
from omnigraphdb.errors import SchemaError, UserInputError
from omnigraphdb.language.diagnostics import Diagnostic, Severity, Stage, diagnostics_of
from omnigraphdb.language.schema.parse import decode_schema
from omnigraphdb.language.source import Position, Source, SourceText, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraphdb.api.types import Frame
    from omnigraphdb.engine.schema.infer import SchemaProposal
    from omnigraphdb.pipeline.input.samples import Sample

_FILE_NAME = re.compile(r"[^\s{}]+\.(gq|pg)")
"""What no query and no schema looks like."""


def source_of(given: str | Path, name: str = "<text>") -> Source:
    """A text argument: a `str` is the text itself, a `Path` is a file."""
    if isinstance(given, Path):
        return read_source(given)
    if not isinstance(given, str):
        raise UserInputError(
            f"expected text or a pathlib.Path, got {type(given).__name__}; no changes were made"
        )
    if _FILE_NAME.fullmatch(given):
        raise UserInputError(
            f"'{given}' looks like a file name, and a str is the text itself; nothing was run",
            hint=f"pass pathlib.Path('{given}') to read the file",
        )
    if isinstance(given, SourceText):
        return given.source
    return Source(given, name)


def schema_of(given: str | Path) -> Source:
    """A schema argument: a `str` is the text itself, a `Path` is a file."""
    return read_schema(given) if isinstance(given, Path) else source_of(given, "<schema>")


def read_schema(path: Path) -> Source:
    """Read a schema file; bytes that are no UTF-8 text are an error of the schema."""
    return decode_schema(_read(path), str(path))


def read_source(path: Path) -> Source:
    """Read a file; one that cannot be read or is no UTF-8 text is refused by name."""
    try:
        return Source(_read(path).decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise UserInputError(
            f"'{path}' is no UTF-8 text (byte {error.start}); no changes were made"
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserInputError(f"'{path}' cannot be read: {reason}; no changes were made") from error


def parse_schema(text: str | Path) -> Catalog:
    """Compile a schema; `SchemaError` lists what is wrong with it.

    Example:
        >>> catalog = omnigraphdb.parse_schema("node Pet { name: String @key } edge Likes: Pet -> Pet")
        >>> list(catalog.nodes), list(catalog.edges)
        (['Pet'], ['Likes'])
    """
    return compile_schema(read_schema(text) if isinstance(text, Path) else source_of(text))


def lint(schema: str | Path | Catalog, query: str | Path | None = None) -> list[Diagnostic]:
    """List what is wrong or doubtful in a schema, or in a query file against it.

    Example:
        >>> schema = "node Pet { name: String @key }"
        >>> for found in omnigraphdb.lint(schema, "query q() { match { $p: Pet } return { $p.nmae } }"):
        ...     print(found.severity, found.code, found.position.line, found.message)
        error T6 1 ...
    """
    if isinstance(schema, Catalog):
        catalog = schema
    else:
        try:
            catalog = parse_schema(schema)
        except SchemaError as error:
            return [_diagnostic(found) for found in diagnostics_of(error)]
    return [] if query is None else linting.lint(catalog, source_of(query))


def infer_schema(
    source: "str | Path | Iterable[str | Path] | Mapping[str, Frame]", *, rows_max: int = 10_000
) -> "SchemaProposal":
    """Propose a schema for data, with the evidence beside each choice, for review.

    `source` names files after their types (`person.csv`), a file of records, or maps type names to frames. At most
    `rows_max` rows of each are read; what later rows could refute is listed as a risk.

    Example:
        >>> import pyarrow as pa
        >>> ports = pa.table({"code": ["rtm", "ham"], "depth": [24.0, 15.1]})
        >>> feeds = pa.table({"from": ["rtm"], "to": ["ham"], "load": [5]})
        >>> print(omnigraphdb.infer_schema({"Port": ports, "Feeds": feeds}))
        node Port {
          code: String @key
          depth: F64
        }
        edge Feeds: Port -> Port {
          load: I64
        }
    """
    from omnigraphdb.engine.schema.infer import infer_schema as infer

    return infer(_read_samples(source, rows_max))


def propose_schema(
    source: Any,
    rows_max: int,
    *,
    schema: str,
    known: Catalog,
    read_ids: "Callable[[str], pa.ChunkedArray]",
) -> "SchemaProposal":
    """Propose types of data that a schema does not have, after the text of that schema."""
    from omnigraphdb.engine.schema.infer import extend_schema
    from omnigraphdb.engine.schema.infer import infer_schema as infer

    types = {*known.nodes, *known.edges}
    samples = {
        name: one for name, one in _read_samples(source, rows_max).items() if name not in types
    }
    if not samples:
        raise UserInputError(
            "the graph has a type for each of the frames; there is nothing to propose"
        )
    ids = {name: read_ids(name).combine_chunks() for name in known.nodes}
    return extend_schema(schema, infer(samples, ids))


def _read_samples(source: Any, rows_max: int) -> "dict[str, Sample]":
    from omnigraphdb.api.arguments import whole_of
    from omnigraphdb.pipeline.input.samples import read_samples

    return read_samples(source, whole_of("rows_max", rows_max, least=1))


def _diagnostic(found: dict[str, object]) -> Diagnostic:
    position, span = found["position"], found["span"]
    assert isinstance(position, dict)
    assert isinstance(span, dict)
    return Diagnostic(
        message=str(found["message"]),
        code=str(found["code"]) if found.get("code") else None,
        severity=Severity(str(found["severity"])),
        stage=Stage(str(found["stage"])),
        position=Position(**position),
        span=Span(**span),
        fix=str(found["fix"]) if found.get("fix") else None,
        source_name=str(found.get("source_name", "<text>")),
    )
