"""Opaque places to go on from: a prefix that names the kind, and facts nobody is to rely on."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import CursorRejected


def pack(prefix: str, body: Mapping[str, Any]) -> str:
    """Spell facts as one word."""
    packed = base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode())
    return prefix + packed.decode().rstrip("=")


def unpack(prefix: str, token: str, names: set[str]) -> dict[str, Any]:
    """Read the facts back; what is not of this kind, or lacks one of the names, is refused."""
    text = token.removeprefix(prefix)
    if not token.startswith(prefix):
        raise CursorRejected("it is damaged")
    try:
        body = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error) as error:
        raise CursorRejected("it is damaged") from error
    if not isinstance(body, dict) or not names <= body.keys():
        raise CursorRejected("it is damaged")
    return body
