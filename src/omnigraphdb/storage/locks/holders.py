"""Holder of a lock: its process writes it beside the lock, and waiting processes read it."""

import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Self

from omnigraphdb.runtime import datetime_of
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """The purpose of a lock: the kind of operation, and its id where it has one."""

    kind: str
    operation_id: str | None = None


UNNAMED = Activity("an operation")
"""The activity of a holder that did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds a lock, with the start and the purpose of the hold."""

    process: int
    host: str
    since_us: int
    activity: Activity = UNNAMED

    @classmethod
    def of_this_process(cls, activity: Activity, since_us: int) -> Self:
        """Describe this process as the holder."""
        return cls(
            process=os.getpid(), host=socket.gethostname(), since_us=since_us, activity=activity
        )

    @property
    def since(self) -> str:
        """When the lock was taken, in RFC 3339."""
        return datetime_of(self.since_us).isoformat(timespec="seconds").replace("+00:00", "Z")

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that an error shows; unknown facts are left out."""
        facts = {
            "process": self.process,
            "host": self.host,
            "operation": self.activity.kind,
            "operation_id": self.activity.operation_id,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return self.to_dict() | {"since": self.since_us}


def encode_holder(holder: Holder) -> bytes:
    """Write a holder as one line; the rest of an earlier, longer line behind it does not matter."""
    return json.dumps(holder.to_json()).encode() + b"\n"


def decode_holder(line: bytes) -> Holder | None:
    """Read a holder; None when the line is empty or torn."""
    try:
        return holder_of(json.loads(line.partition(b"\n")[0]))
    except ValueError:
        return None


def holder_of(body: Any) -> Holder | None:
    """Read the stored form; None when it is something else."""
    if not isinstance(body, Mapping):
        return None
    try:
        return Holder(
            process=int(body["process"]),
            host=str(body["host"]),
            since_us=int(body["since"]),
            activity=Activity(str(body["operation"]), body.get("operation_id")),
        )
    except (KeyError, TypeError, ValueError):
        return None
