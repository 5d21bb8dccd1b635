"""The root of the exception tree: the parts that every error has."""

import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from omnigraphdb.errors.wording import printable

if TYPE_CHECKING:
    import pyarrow as pa


class OmniWarning(UserWarning):
    """Deprecations, pending work and lints; never an error."""


def warn_caller(text: str) -> None:
    """Warn the caller of the package: the warning points at a line of the caller, never at one of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, OmniWarning, stacklevel=level)


def _is_ours(module: object) -> bool:
    return str(module).partition(".")[0] == "omnigraphdb"


class OmniError(Exception):
    """The base of everything the package raises on purpose."""

    kind: ClassVar[str] = "error"
    http_code: ClassVar[str | None] = "internal"
    hint: str | None = None
    code: str | None = None
    rejects: "pa.Table | None" = None
    """An Arrow table of every problem of a load, when the load was asked for it."""

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        self.message = printable(message)
        super().__init__(self.message)
        self.details: dict[str, Any] = dict(details or {})
        if hint is not None:
            self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        if self.code is None or self.code in self.message:
            return self.message
        return f"[{self.code}] {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return the wire body."""
        body: dict[str, Any] = {"error": str(self)}
        if self.http_code is not None:
            body["code"] = self.http_code
        body["kind"] = self.kind
        if self.hint is not None:
            body["hint"] = self.hint
        return body | self.details

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take facts, not messages; rebuilding from state lets each keep its own signature.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[OmniError], args: tuple[Any, ...], state: dict[str, Any]) -> OmniError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
