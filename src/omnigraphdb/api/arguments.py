"""Arguments of public methods: checked before anything is read."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from omnigraphdb.catalog.model import Catalog, NodeType, TableType
from omnigraphdb.engine.results import Commit
from omnigraphdb.errors import ConfigError, UserInputError, did_you_mean, shorten, suggestion
from omnigraphdb.ids import EntityKind, Op
from omnigraphdb.limits import FILE_BYTES_MAX, PATH_CHARS_MAX
from omnigraphdb.manifest.names import branch_name as branch_name
from omnigraphdb.manifest.names import is_utf8
from omnigraphdb.manifest.operations import idempotency_key
from omnigraphdb.manifest.travel import At

if TYPE_CHECKING:
    from omnigraphdb.engine.history.compare import ChangeFilter
    from omnigraphdb.policy import PolicyChecker

Reference = str | int | datetime | Commit
"""A point in history: commit or its id, manifest version, moment, also as text."""

_Word = TypeVar("_Word", bound=StrEnum)
_Called = TypeVar("_Called", bound=Callable[..., Any])


def location_of(uri: object) -> str:
    """Where a graph is: text or a path."""
    if not isinstance(uri, str | os.PathLike):
        raise _not_a("uri", "text or a path", uri)
    return _require_path("uri", text_of("uri", os.fspath(uri)))


def text_of(name: str, value: object) -> str:
    """An argument that is text."""
    if not isinstance(value, str):
        raise _not_a(name, "text", value)
    if not is_utf8(value):
        raise UserInputError(f"'{name}' is no UTF-8 text: '{shorten(value)}'; no changes were made")
    return value


def count_of(name: str, value: object, *, least: int = 0) -> int | None:
    """An argument that counts something; None is no bound."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _not_a(name, "a whole number", value)
    if value < least:
        raise UserInputError(
            f"'{name}' counts from {least}, it cannot be {value}; no changes were made"
        )
    # More than can be counted is no bound either.
    return min(value, sys.maxsize)


def whole_of(name: str, value: object, *, least: int = 0) -> int:
    """An argument that counts something and has to be given."""
    found = count_of(name, value, least=least)
    if found is None:
        raise _not_a(name, "a whole number", value)
    return found


def number_of(name: str, value: object) -> float:
    """An argument that is a number, with a fraction or without."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _not_a(name, "a number", value)
    return value


def flag_of(name: str, value: object) -> bool:
    """An argument that is True or False; None is False."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _not_a(name, "True or False", value)


def id_of(type_: TableType | None, value: object) -> str:
    """The id of an entity: text, or the value of its key; a key of several properties is a mapping of them."""
    keys = type_.key_columns if isinstance(type_, NodeType) else ()
    if isinstance(value, str) or not isinstance(type_, NodeType) or not keys:
        return text_of("id", value)
    from omnigraphdb.catalog.values import Misfit, composite_id, key_text
    from omnigraphdb.pipeline.input.columns import json_fit

    given = value if isinstance(value, Mapping) else {keys[0]: value}
    types = {name: type_.properties[name].type.required() for name in keys}
    texts: list[str] = []
    for name in keys:
        fitted = json_fit(given.get(name), types[name])
        text = None if isinstance(fitted, Misfit) else key_text(fitted, types[name])
        texts += [] if text is None else [text]
    if given.keys() != types.keys() or len(texts) != len(keys):
        wanted = ", ".join(f"{name}: {one}" for name, one in types.items())
        raise UserInputError(
            f"the id of {type_.name} is text or its key ({wanted}), not '{shorten(value)}'; nothing was read"
        )
    return texts[0] if len(texts) == 1 else composite_id(texts)


def names_of(name: str, value: object) -> tuple[str, ...] | None:
    """An argument that lists names; None names nothing. One text is not a list of its letters."""
    if value is None:
        return None
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _not_a(name, "a list of names", value)
    return tuple(text_of(name, one) for one in value)


def one_or_names(name: str, value: object) -> tuple[str, ...]:
    """An argument that is a name or a list of names."""
    return (value,) if isinstance(value, str) else names_of(name, value) or ()


def text_column(name: str, value: Iterable[str]) -> pa.Array:
    """An argument that is a column of texts: of Arrow, or a list."""
    return _column_of(name, value, pa.string())


def number_column(name: str, value: Iterable[Any]) -> pa.Array:
    """An argument that is a column of numbers: of Arrow, or a list."""
    return _column_of(name, value, None)


def _column_of(name: str, value: Any, wanted: pa.DataType | None) -> pa.Array:
    if isinstance(value, str | bytes):
        raise _not_a(name, "a list or a column", value)
    try:
        if isinstance(value, pa.ChunkedArray):
            value = pa.concat_arrays(value.chunks) if value.num_chunks else pa.array([], value.type)
        found = value if isinstance(value, pa.Array) else pa.array(value, wanted)
        return found if wanted is None else found.cast(wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UserInputError(f"'{name}' is no column: {error}; no changes were made") from error


def age_of(name: str, value: object) -> timedelta | None:
    """An argument that is a length of time."""
    if value is None or isinstance(value, timedelta):
        return value
    raise _not_a(name, "a timedelta", value)


def file_of(name: str, value: object) -> str:
    """An argument that names a file."""
    text = text_of(name, value)
    if "\0" in text:
        raise UserInputError(
            f"'{name}' holds a NUL character, which no file name has; nothing was read"
        )
    return _require_path(name, text)


def path_of(name: str, value: object) -> str:
    """An argument that names a file or a folder: text or a path."""
    if not isinstance(value, str | os.PathLike):
        raise _not_a(name, "text or a path", value)
    return file_of(name, os.fspath(value))


def listener_of(name: str, value: _Called | None) -> _Called | None:
    """An argument that is called, or nothing."""
    if value is None or callable(value):
        return value
    raise _not_a(name, "something to call", value)


def shows_of(name: str, value: Callable[[str], bool] | None) -> Callable[[str], bool]:
    """An argument that says of a branch whether it is shown; None shows all."""
    return listener_of(name, value) or _show_all


def _show_all(_branch: str) -> bool:
    return True


def name_and_params(
    name: str | Mapping[str, Any] | None, params: Mapping[str, Any] | None
) -> tuple[str | None, Mapping[str, Any] | None]:
    """A mapping in the place of the name is the parameters."""
    if type(name) is dict or isinstance(name, Mapping):
        if params is not None:
            raise UserInputError("parameters were given twice; no changes were made")
        return None, name
    return None if name is None else text_of("name", name), params


def key_of(value: str | None) -> str | None:
    """An argument that is an idempotency key; None is no key."""
    return None if value is None else idempotency_key(value)


def name_of(given: object) -> object:
    """The name of a branch, or the id of a commit, that is given itself; anything else as it is."""
    return getattr(given, "name", getattr(given, "id", given))


def options_of(name: str, value: object) -> Mapping[str, str] | None:
    """Options of a store: texts by name."""
    if value is None or isinstance(value, Mapping):
        return value
    raise _not_a(name, "a mapping of texts by name", value)


def config_of(config: object) -> Mapping[str, Any] | None:
    """Settings by name."""
    if config is None or isinstance(config, Mapping):
        return config
    raise ConfigError(
        f"'config' is a mapping of settings by name, not {type(config).__name__}; no changes were made"
    )


def read_policy(policy: "PolicyChecker | str | Path | None") -> "PolicyChecker | None":
    """A policy argument: its text, its file, or what decides."""
    if policy is None or hasattr(policy, "check"):
        return policy
    if isinstance(policy, str | Path):
        from omnigraphdb.policy import PolicyEngine

        return PolicyEngine.load_graph(policy)
    raise _not_a("policy", "text, a path or a checker", policy)


def rules_of(policy: object) -> str | Path | None:
    """A policy to be kept: its text, its file, or none."""
    if policy is None or isinstance(policy, str | Path):
        return policy
    raise _not_a("policy", "text or a path", policy)


def _require_path(name: str, path: str) -> str:
    """Refuse an empty path, which would mean the working directory, and one that no system takes."""
    if not path:
        raise UserInputError(f"'{name}' is empty, it names no file; no changes were made")
    parts = [] if "://" in path else path.split("/")
    if len(path) > PATH_CHARS_MAX or any(len(os.fsencode(one)) > FILE_BYTES_MAX for one in parts):
        raise UserInputError(
            f"'{name}' is longer than the name of a file can be: '{shorten(path)}'; no changes were made"
        )
    return path


def _not_a(name: str, wanted: str, value: object) -> UserInputError:
    return UserInputError(f"'{name}' is {wanted}, not {type(value).__name__}; no changes were made")


# ---- points in history


def point_of(at: Reference | None) -> At | None:
    """A point in history; None is now."""
    match at:
        case Commit(id=commit):
            return commit
        case bool():
            pass
        case None | str() | int() | datetime():
            return at
    raise UserInputError(
        f"'at' is a commit, a manifest version or a moment, not {type(at).__name__}; nothing was read"
    )


def reference_of(reference: Reference) -> At:
    """One side of a comparison: a branch or a point in history."""
    found = point_of(reference)
    if found is None:
        raise UserInputError("a diff compares two states; name a branch, a commit or a version")
    return found


def wanted_of(
    catalog: Catalog,
    types: Sequence[str] | None,
    kinds: Sequence[str] | None,
    ops: Sequence[str] | None,
    *,
    images: bool,
    properties: Sequence[str] | None = None,
    actors: Sequence[str] | None = None,
) -> "ChangeFilter":
    """Which changes a diff or a feed shows."""
    from omnigraphdb.engine.history.compare import ChangeFilter

    named = names_of("types", types)
    chosen, done = names_of("kinds", kinds), names_of("ops", ops)
    return ChangeFilter(
        tables=None if named is None else {catalog.table(t).table_key for t in named},
        kinds=None if chosen is None else {word_of("kinds", EntityKind, kind) for kind in chosen},
        ops=None if done is None else {word_of("ops", Op, op) for op in done},
        properties=names_of("properties", properties),
        actors=names_of("actors", actors),
        images=flag_of("images", images),
    )


def word_of(name: str, words: type[_Word], text: str) -> _Word:
    """One of a few words; any other text is refused with the words there are."""
    try:
        return words(text)
    except ValueError as error:
        text = str(text)
        near = suggestion(did_you_mean(text, map(str, words)))
        raise UserInputError(
            f"'{name}' takes {', '.join(words)}, not '{shorten(text)}'{near}; nothing was read"
        ) from error
