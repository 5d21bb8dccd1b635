"""Every path and reserved name of a graph root, and the root itself in one canonical spelling."""

import os
import posixpath
import re
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from omnigraphdb.catalog.names import fnv1a_64
from omnigraphdb.errors import ConfigError, shorten
from omnigraphdb.values import dataclass

SCHEMA_PG: Final = "_schema.pg"
SCHEMA_IR: Final = "_schema.ir.json"
SCHEMA_STATE: Final = "__schema_state.json"
SCHEMA_FILES: Final = (SCHEMA_PG, SCHEMA_IR, SCHEMA_STATE)
STAGING: Final = ".staging"
"""Suffix of a schema file between "tables rewritten" and "renamed" of a schema apply."""

MANIFEST: Final = "__manifest"
RECOVERY: Final = "__recovery"
LOCKS: Final = "__locks"
CONDITIONS: Final = "__locks/conditions.json"
"""Created once, and never again: the answer to a second try shows the meaning of conditions to the store."""
OBJECT_GUARD: Final = f"{LOCKS}/objects#0"
"""Kernel lock under which local texts are replaced; named like a temporary file, so that no listing shows it."""

RECLAIMED: Final = f"{LOCKS}/reclaimed.json"
"""Written before versions of the manifest or of a table are removed: a reader that knows a newest version by its
neighbours looks again, and an examination takes a missing version for damage only while there is no such mark."""

NEWEST: Final = f"{LOCKS}/newest.json"
"""A version of the manifest that was the newest when it was folded: on a disk an opening follows the versions since then."""

STAGING_DIR: Final = "__staging"
PAST_SCHEMAS: Final = "__schemas"
"""Directory of the schemas that were replaced, each under the operation that replaced it."""

JOBS: Final = "__jobs"
"""Directory of the records of long work, each renewed while its work runs."""

AUDIT: Final = "_graph_commit_recoveries.lance"
NODES: Final = "nodes"
EDGES: Final = "edges"
TREE: Final = "tree"
"""Directory inside a table that holds the files of its branches."""

REFS: Final = "_refs/branches"
"""Directory inside a table that holds the refs of its branches."""

MEMORY_NAME: Final = "default"
"""The name that `memory://` without a name stands for."""

LEGACY_COMMITS: Final = "_graph_commits.lance"
LEGACY_ACTORS: Final = "_graph_commit_actors.lance"

Scheme = Literal["file", "memory", "s3", "gs", "az"]

_SCHEMES: Final[dict[str, Scheme]] = {
    "file": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
}


# ---- names inside a root


def branch_path(table: str, branch: str | None) -> str:
    """Place the files of one branch of a table; None is main."""
    return table if branch is None else f"{table}/{TREE}/{branch}"


def staging_path(schema_file: str) -> str:
    """Name the staged form of a schema file."""
    return schema_file + STAGING


def past_schema_path(operation_id: str) -> str:
    """Place the schema that an operation replaced."""
    return f"{PAST_SCHEMAS}/{operation_id}.json"


def sidecar_path(operation_id: str) -> str:
    """Place the sidecar of an operation."""
    return f"{RECOVERY}/{operation_id}.json"


def heartbeat_path(operation_id: str) -> str:
    """Return the path of the heartbeat that a long load renews, so that cleanup spares its files."""
    return f"{STAGING_DIR}/{operation_id}.json"


def job_path(job_id: str) -> str:
    """Place the record of a job."""
    return f"{JOBS}/{job_id}.json"


STORE_TIME: Final = f"{LOCKS}/time.json"
"""The file that a process writes to learn the time of an object store: its contents mean nothing."""


def lock_name(key: str) -> str:
    """Name the lock of a key: readable, and unlike every other key's on any file system."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", key)[:80]
    return f"{readable}-{fnv1a_64(key):016x}"


# ---- the root


@dataclass(frozen=True, slots=True)
class Root:
    """The root of one graph: an absolute local path, or `scheme://bucket/prefix` without a final slash.

    A memory root is shared by all handles of one process under its name; Lance keeps tables in a memory of its
    own, which obstore cannot see, so texts and tables of such a root do not meet on one store.
    """

    uri: str
    scheme: Scheme

    @property
    def is_local(self) -> bool:
        """Whether the root is a directory of this machine's file system."""
        return self.scheme == "file"

    @property
    def is_memory(self) -> bool:
        """Whether the root lives and dies with this process."""
        return self.scheme == "memory"

    @property
    def is_distant(self) -> bool:
        """Whether every question is a request over a network."""
        return not (self.is_local or self.is_memory)

    @property
    def display(self) -> str:
        """The root as a message may show it: without credentials."""
        return redact(self.uri)

    @property
    def container(self) -> str:
        """The bucket of an object store, the name of a memory store, nothing on a disk."""
        return "" if self.is_local else self.uri.partition("://")[2].partition("/")[0]

    @property
    def prefix(self) -> str:
        """The path under the container; on a disk the directory itself."""
        return self.uri if self.is_local else self.uri.partition("://")[2].partition("/")[2]

    def at(self, path: str) -> str:
        """Return the full URI of a path inside the root, as Lance takes it."""
        return f"{self.uri.rstrip('/')}/{path}" if path else self.uri

    def __str__(self) -> str:
        return self.display


def root_of(uri: str | os.PathLike[str]) -> Root:
    """Bring a path or URI into its canonical spelling, looking at nothing but the text."""
    text = os.fspath(uri)
    if not text.strip():
        raise ConfigError(
            "the graph URI is empty; give a directory or a URI such as s3://bucket/prefix"
        )
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if match is None:
        return _local(text.removeprefix("file:") if text.startswith("file:") else text)
    scheme = _SCHEMES.get(match[1].lower())
    if scheme is None:
        raise ConfigError(
            f"'{redact(text)}' has the scheme '{match[1]}', which no store serves",
            hint="use a local path, file://, memory://, s3://, gs:// or az://",
        )
    rest = text[match.end() :]
    return _from_file_uri(rest) if scheme == "file" else _remote(scheme, rest, text)


def _local(path: str) -> Root:
    if "\0" in path:
        raise ConfigError(f"the graph path '{shorten(path)}' holds a NUL character")
    absolute = os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))
    # POSIX lets normpath keep two leading slashes; one directory must have one spelling.
    return Root("/" + absolute.lstrip("/") if absolute.startswith("//") else absolute, "file")


def _from_file_uri(rest: str) -> Root:
    host, slash, path = rest.partition("/")
    if host in ("", "localhost"):
        return _local(unquote(slash + path) or "/")
    if host in (".", "..", "~"):
        return _local(unquote(rest))
    raise ConfigError(
        f"'file://{rest}' names the host '{host}'; only files of this machine can be opened",
        hint=f"an absolute path needs three slashes: file:///{rest}",
    )


def _remote(scheme: Scheme, rest: str, uri: str) -> Root:
    _refuse_unusable(scheme, rest, uri)
    container, _, path = rest.partition("/")
    # Joined to "/" first, so that dotted segments cannot climb out of the container.
    prefix = posixpath.normpath("/" + path).lstrip("/")
    name = container or MEMORY_NAME
    return Root(f"{scheme}://{name}" + (f"/{prefix}" if prefix else ""), scheme)


def _refuse_unusable(scheme: Scheme, rest: str, uri: str) -> None:
    container = rest.partition("/")[0]
    if "@" in container:
        raise ConfigError(
            f"'{redact(uri)}' carries credentials, which no store reads from a URI",
            hint="pass them as storage_options or through the environment",
        )
    if not container and scheme != "memory":
        raise ConfigError(f"'{uri}' names no bucket; write {scheme}://bucket/prefix")
    # Lance reads the text as a URL and the object store as a key: these characters mean two things.
    odd = sorted(set(re.findall(r"[?#%\\\x00-\x1f]", rest)))
    if odd:
        raise ConfigError(
            f"'{redact(uri)}' holds {' and '.join(repr(c) for c in odd)}, which a bucket path "
            "cannot carry safely; choose another prefix"
        )


def redact(uri: str) -> str:
    """Show a URI without its user information and without the values of its query."""
    if "://" not in uri:
        return uri
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        authority = "***@" + authority.rpartition("@")[2]
    text = f"{scheme}://{authority}{slash}{path}"
    query = urlsplit(text).query
    return text.replace(f"?{query}", "?***") if query else text
