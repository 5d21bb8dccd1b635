"""The configuration of the command line: the user's file, and the project's file laid over it."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from omnigraphdb.errors import ConfigError, did_you_mean, suggestion
from omnigraphdb.values import dataclass

USER_FILE = "config.yaml"
PROJECT_FILE = "omnigraph.yaml"
_BOUND = ("server", "cluster", "store")
_TEXT: Mapping[str, Any] = {}
_Choice = TypeVar("_Choice", bound=StrEnum)

SHAPE: Mapping[str, Any] = {
    "operator": {"actor": _TEXT},
    "servers": {"*": {"url": _TEXT}},
    "clusters": {"*": {"root": _TEXT}},
    "profiles": {"*": {"server": _TEXT, "cluster": _TEXT, "store": _TEXT, "default_graph": _TEXT}},
    "defaults": {
        "output": _TEXT,
        "server": _TEXT,
        "store": _TEXT,
        "default_graph": _TEXT,
        "table_max_column_width": _TEXT,
        "table_cell_layout": _TEXT,
    },
    "aliases": {
        "*": {
            "server": _TEXT,
            "store": _TEXT,
            "graph": _TEXT,
            "query": _TEXT,
            "file": _TEXT,
            "args": _TEXT,
            "params": _TEXT,
            "format": _TEXT,
        }
    },
}
"""Every key that means something; `*` stands for names that users choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the files say, the project's over the user's, and what in them means nothing."""

    values: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def section(self, name: str) -> Mapping[str, Any]:
        """One section; a missing one is empty."""
        found = self.values.get(name) or {}
        assert isinstance(found, Mapping), "sections are checked when they are read"
        return found

    def default(self, name: str) -> Any:
        """A value of `defaults`, or None."""
        return self.section("defaults").get(name)

    def profile(self, name: str) -> Mapping[str, Any]:
        """What a profile binds: exactly one of server, cluster and store."""
        found = self.named("profiles", "profile", name)
        bound = [key for key in _BOUND if found.get(key) is not None]
        if len(bound) != 1:
            what = " and ".join(bound) if bound else "nothing"
            raise ConfigError(
                f"profile '{name}' binds {what}; a profile binds exactly one of {', '.join(_BOUND)}; nothing was done"
            )
        return found

    def named(self, section: str, noun: str, name: str) -> Mapping[str, Any]:
        """What a name of a section stands for."""
        known = self.section(section)
        if name not in known:
            near = suggestion(did_you_mean(name, known))
            listed = (
                f"; there are {', '.join(sorted(known))}"
                if known
                else f"; no {section} are defined"
            )
            raise ConfigError(f"unknown {noun} '{name}'{near or listed}; nothing was done")
        found = known[name]
        return found if isinstance(found, Mapping) else {}

    def choose(self, key: str, given: Any, choices: type[_Choice]) -> _Choice:
        """A value that is one of a few words."""
        try:
            return choices(str(given))
        except ValueError:
            known, near = (
                ", ".join(choices),
                suggestion(did_you_mean(str(given), map(str, choices))),
            )
            raise self.wrong(f"{key} takes {known}, not '{given}'{near}") from None

    def count(self, key: str, given: Any) -> int:
        """A value that is a number from 1."""
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise self.wrong(f"{key} takes a number from 1, not '{given}'")
        return given

    def wrong(self, what: str) -> ConfigError:
        """An error about what the files say."""
        files = " and ".join(f"'{path}'" for path in self.files)
        return ConfigError(f"the configuration in {files}: {what}; nothing was done")


def load_config(environment: Mapping[str, str], directory: Path | None = None) -> Config:
    """Read the user's file and the nearest project file in the working directory or above it."""
    user = config_folder(environment) / USER_FILE
    project = project_file(directory)
    layers = [read for path in (user, project) if path and (read := _read_file(path)) is not None]
    merged: Mapping[str, Any] = {}
    for _, values in layers:
        merged = _lay_over(merged, values)
    config = Config(
        values=merged,
        files=tuple(path for path, _ in layers),
        warnings=tuple(line for path, values in layers for line in _list_unknown(path, values)),
    )
    _require_one_default(config)
    return config


def config_folder(environment: Mapping[str, str]) -> Path:
    """Where the user's files are: `$OMNIGRAPH_HOME`, else `~/.omnigraphdb`."""
    named = environment.get("OMNIGRAPH_HOME")
    return Path(named).expanduser() if named else Path("~/.omnigraphdb").expanduser()


def project_file(directory: Path | None = None) -> Path | None:
    """The project's file: the nearest in a folder (the working directory by default) or above it."""
    return _nearest(Path.cwd() if directory is None else directory)


def _nearest(directory: Path) -> Path | None:
    folders = (directory, *directory.parents)
    return next((one / PROJECT_FILE for one in folders if (one / PROJECT_FILE).is_file()), None)


def _read_file(path: Path) -> tuple[Path, Mapping[str, Any]] | None:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ConfigError(f"'{path}' cannot be read: {reason}; nothing was done") from error
    return path, _absolute(path, _require_shape(path, _parse(path, text)))


def _parse(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(
            f"'{path}'{where}: {error.problem or 'no YAML'}; nothing was done"
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"'{path}' is no YAML: {error}; nothing was done") from error


def _require_shape(path: Path, found: Any) -> Mapping[str, Any]:
    """A file is a mapping of sections, and every section that means something is a mapping."""
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError(f"'{path}' holds no mapping of keys; nothing was done")
    wrong = [
        name
        for name, value in found.items()
        if name in SHAPE and value is not None and not isinstance(value, Mapping)
    ]
    if wrong:
        raise ConfigError(f"'{path}': {wrong[0]} holds no mapping of keys; nothing was done")
    return found


def _lay_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lay one mapping over another, key by key; a scope in the upper one takes the place of the lower one's."""
    joined = dict(below)
    if any(key in above for key in _BOUND):
        joined = {key: value for key, value in joined.items() if key not in _BOUND}
    for key, value in above.items():
        under = joined.get(key)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        joined[key] = _lay_over(under, value) if both and isinstance(under, Mapping) else value
    return joined


def _absolute(path: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same with relative paths made absolute: they are relative to their file."""

    def walk(value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {name: walk(inner, str(name)) for name, inner in value.items()}
        if key in ("store", "root", "file") and isinstance(value, str) and "://" not in value:
            return str(path.parent.absolute() / Path(value).expanduser())
        return value

    return {key: walk(value, str(key)) for key, value in values.items()}


def _list_unknown(path: Path, values: Mapping[str, Any]) -> Iterator[str]:
    for dotted, known in _unknown_keys(values, SHAPE):
        near = suggestion(did_you_mean(dotted.rpartition(".")[2], known))
        yield f"'{path}': the key {dotted} means nothing and is ignored{near}"


def _unknown_keys(
    values: Mapping[str, Any], shape: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Iterable[str]]]:
    for key, value in values.items():
        inner = shape.get(key, shape.get("*"))
        if inner is None:
            yield f"{above}{key}", shape
        elif inner and isinstance(value, Mapping):
            yield from _unknown_keys(value, inner, f"{above}{key}.")


def _require_one_default(config: Config) -> None:
    server, store = config.default("server"), config.default("store")
    if server and store:
        raise ConfigError(
            "defaults name both a server and a store; keep one of them; nothing was done"
        )
    if store and config.default("default_graph"):
        raise ConfigError(
            "defaults.default_graph chooses a graph of a server; a store holds one graph already; nothing was done"
        )


# ---- which graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a profile or the defaults bind: a store, or a server and one graph of it."""

    named_by: str = ""
    store: str | None = None
    server: str | None = None
    graph: str | None = None


def choose_scope(environment: Mapping[str, str]) -> tuple[Scope, tuple[str, ...]]:
    """The graph of a command that names none: the profile's, else `$OMNIGRAPH_STORE`, else the default; and warnings.

    The files are read only when they decide.
    """
    named, store = environment.get("OMNIGRAPH_PROFILE"), environment.get("OMNIGRAPH_STORE")
    if store and not named:
        return Scope(store=store), ()
    config = load_config(environment)
    if named:
        return _read_scope(config.profile(named), f"profile '{named}'"), config.warnings
    return _read_scope(config.section("defaults"), "defaults"), config.warnings


def _read_scope(bound: Mapping[str, Any], what: str) -> Scope:
    if bound.get("cluster"):
        raise ConfigError(
            f"{what} names a cluster, and this command needs the storage of a graph; nothing was done",
            hint="give the path or URI of the graph, or --store",
        )
    store, server, graph = (bound.get(key) for key in ("store", "server", "default_graph"))
    return Scope(
        named_by=what,
        store=None if store is None else str(store),
        server=None if server is None else str(server),
        graph=None if graph is None else str(graph),
    )
