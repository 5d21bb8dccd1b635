"""The entry: which requests are let in at all, by their headers alone, before anything else looks at them."""

import ipaddress
import re
from functools import lru_cache
from typing import Final

from omnigraphdb.errors import AmbiguousHeader, HostRefused, OriginRefused, UnsupportedMedia
from omnigraphdb.surfaces.http.cors import ANY
from omnigraphdb.surfaces.http.requests import Headers
from omnigraphdb.values import dataclass

READING: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing, and whose answers a browser shows to no other page."""
_ONCE: Final = ("host", "origin", "sec-fetch-site", "content-type")
"""Headers that decide here, so that nobody else may read another one of two."""
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://(.+)")
_PORTS: Final = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRules:
    """Where a server listens, and whom it lets in."""

    loopback: bool = True
    """Whether the server listens to this machine alone."""
    hosts: frozenset[str] = frozenset()
    """Names beside those of this machine that `Host` may have then."""
    origins: frozenset[str] = frozenset()
    """Origins whose pages may send everything."""


def check_entry(rules: EntryRules, method: str, headers: Headers) -> None:
    """Refuse a request by its host, its origin or its unnamed body; the rules are a table in the reference of HTTP."""
    if headers.has_repeated:
        _require_single(headers)
    host = headers.get("host")
    if host is None:
        raise AmbiguousHeader("Host", 0)
    if rules.loopback and not _is_served_host(host, rules.hosts):
        raise HostRefused(host)
    if method not in READING:
        _require_origin(rules.origins, headers, host)
    if has_body(headers) and not headers.get("content-type"):
        raise UnsupportedMedia(None, "application/json")


def has_body(headers: Headers) -> bool:
    """Whether a request announces a body that may have bytes."""
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def _require_single(headers: Headers) -> None:
    for name in _ONCE:
        count = len(headers.list_all(name))
        if count > 1:
            raise AmbiguousHeader(name.title(), count)


# ---- hosts


@lru_cache(maxsize=1024)
def _is_served_host(host: str, allowed: frozenset[str]) -> bool:
    """Whether a `Host`, with any port, is this machine or one of the names that are allowed beside it."""
    parts = _AUTHORITY.fullmatch(host)
    if parts is None:
        return False
    name = parts[1].lower()
    return name in allowed or is_loopback(name.removeprefix("[").removesuffix("]"))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ---- origins


def _require_origin(origins: frozenset[str], headers: Headers, host: str) -> None:
    """Refuse what a page of another origin has sent; who sends neither header is no browser."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and (origin in origins or ANY in origins):
        return
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        is_own = origin is None or _is_origin_of(origin, host)
    if not is_own:
        raise OriginRefused(origin)


def _is_origin_of(origin: str, host: str) -> bool:
    """Whether an origin has the host and the port of a `Host`."""
    parts = _ORIGIN.fullmatch(origin)
    if parts is None:
        return False
    port = _PORTS[parts[1]]
    named = _split_authority(parts[2], port)
    return named is not None and named == _split_authority(host, port)


def _split_authority(text: str, port: str) -> tuple[str, str] | None:
    parts = _AUTHORITY.fullmatch(text)
    return None if parts is None else (parts[1].lower(), parts[2] or port)
