"""The files of the page, and the headers that keep it from asking anyone but its own server."""

import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from omnigraphdb.values import dataclass

ROOT: Final = Path(__file__).parent / "dist"
PAGE: Final = "index.html"

_MEDIA: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
POLICY: Final = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
FRAMED_POLICY: Final = POLICY.replace(
    "frame-ancestors 'self'",
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:* https://localhost:* vscode-webview:",
)
"""The policy of a page that a notebook on this machine shows in a frame."""
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "vary": "accept-encoding",
}
FOREVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """One file as it is sent."""

    body: bytes
    media: str
    headers: Mapping[str, str]


@cache
def list_files() -> frozenset[str]:
    """The names of all files; nothing else of the disk can be asked for."""
    found = (one.relative_to(ROOT).as_posix() for one in ROOT.rglob("*") if one.is_file())
    return frozenset(found)


def find_file(path: tuple[str, ...], *, packed: bool) -> PageFile | None:
    """Find the file of a path below `/ui`; every address of a view is the page itself."""
    name = "/".join(path)
    try:
        if name in list_files():
            return _read(name, packed=packed)
        if path[:1] == ("assets",) or not list_files():
            return None
        return _read(PAGE, packed=packed)
    except FileNotFoundError:
        forget_files()
        return None


def forget_files() -> None:
    """Look at the disk anew: an upgrade put other files in the place of those that were known."""
    list_files.cache_clear()
    _read.cache_clear()


@cache
def _read(name: str, *, packed: bool) -> PageFile:
    body = (ROOT / name).read_bytes()
    # Names below assets/ carry a digest of what they hold: another content has another name.
    keeps = FOREVER if name.startswith("assets/") else "no-cache"
    headers = {**_HEADERS, "cache-control": keeps}
    if packed:
        body, headers["content-encoding"] = gzip.compress(body, mtime=0), "gzip"
    return PageFile(body=body, media=_MEDIA[Path(name).suffix], headers=headers)
