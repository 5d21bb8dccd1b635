"""Bearer tokens: read once, kept as digests, compared in constant time over all of them."""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnigraphdb.errors import ConfigError, Unauthenticated
from omnigraphdb.values import dataclass

_SINGLE: Final = "OMNIGRAPH_SERVER_BEARER_TOKEN"
_FILE: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
_JSON: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
_SECRET: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"
DEFAULT_ACTOR: Final = "default"
"""The actor of the single token."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Actors by the digest of their token; `source` names where they came from, never what they are."""

    source: str
    digests: tuple[tuple[bytes, str], ...] = ()

    def find_actor(self, authorization: str | None) -> str:
        """Give the actor of an `Authorization` header, or refuse it."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("missing bearer token")
        digest = _digest(token.strip())
        found = None
        # Every entry is compared: the time it takes tells nothing about which one matched.
        for known, actor in self.digests:
            if hmac.compare_digest(known, digest):
                found = actor
        if found is None:
            raise Unauthenticated("invalid bearer token")
        return found


def read_tokens(environment: Mapping[str, str]) -> Tokens | None:
    """Read the tokens that the environment names; None when it names none."""
    if environment.get(_SECRET):
        raise ConfigError(
            f"{_SECRET} is set, and this release reads no secrets of AWS; the server was not started",
            hint=f"use {_FILE}",
        )
    pairs: list[tuple[str, str]] = []
    sources: list[str] = []
    file, text = environment.get(_FILE), environment.get(_JSON)
    if file:
        pairs += _parse_map(_read_file(file), _FILE)
        sources.append("file")
    if text:
        pairs += _parse_map(text, _JSON)
        sources.append("json")
    single = environment.get(_SINGLE)
    if single and single.strip():
        pairs.append((DEFAULT_ACTOR, single))
        sources.append("single")
    return _make_tokens(pairs, "+".join(sources)) if sources else None


def _make_tokens(pairs: list[tuple[str, str]], source: str) -> Tokens:
    actors: set[str] = set()
    digests: dict[bytes, str] = {}
    for actor, token in pairs:
        if not actor.strip() or not token.strip():
            raise ConfigError(
                "a token, or the actor of a token, is blank; the server was not started"
            )
        if actor in actors:
            raise ConfigError(f"actor '{actor}' has two tokens; the server was not started")
        digest = _digest(token.strip())
        if digest in digests:
            raise ConfigError(
                f"actors '{digests[digest]}' and '{actor}' share one token; the server was not started"
            )
        actors.add(actor)
        digests[digest] = actor
    return Tokens(source, tuple(digests.items()))


def _read_file(path: str) -> str:
    try:
        return Path(os.path.expanduser(path)).read_text("utf-8")
    except UnicodeDecodeError as error:
        # The text of the error would repeat bytes of the file.
        raise _refuse_file(path, "it is no UTF-8 text") from error
    except OSError as error:
        raise _refuse_file(path, error.strerror or "it is no file") from error


def _refuse_file(path: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the token file '{path}' cannot be read: {reason}; the server was not started"
    )


def _parse_map(text: str, name: str) -> list[tuple[str, str]]:
    """Parse `{"actor": "token", …}`; an actor that comes twice is kept twice, and refused later."""
    try:
        found: Any = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        # The text of the error would repeat what stands in the file.
        raise ConfigError(f"{name} holds no JSON; the server was not started") from error
    pairs = found if isinstance(found, list) else None
    if not pairs or not all(_is_pair(one) for one in pairs):
        raise ConfigError(
            f'{name} holds no object of tokens by actor, as in {{"actor": "token"}}; the server was not started'
        )
    return [(actor, token) for actor, token in pairs]


def _is_pair(found: object) -> bool:
    return isinstance(found, tuple) and isinstance(found[1], str)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
