"""What the doctor finds: something that should not be, where, and what to do about it."""

from collections.abc import Iterable
from typing import Any

from omnigraph.ids import TableKey
from omnigraph.values import dataclass


class Examination(list["Issue"]):
    """What an examination found; an empty one is a settled graph.

    A deep one says as well how many files it compared with the digests that were noted when they were written, and
    how many files of the newest versions nobody noted one of.
    """

    def __init__(
        self,
        found: Iterable["Issue"] = (),
        *,
        files_compared: int | None = None,
        files_without_digest: int | None = None,
    ) -> None:
        super().__init__(found)
        self.files_compared = files_compared
        self.files_without_digest = files_without_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Something that should not be: what, where, and what to do about it."""

    check: str
    message: str
    remedy: str
    branch: str | None = None
    table_key: TableKey | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}

    def __str__(self) -> str:
        where = "".join(f" [{one}]" for one in (self.branch, self.table_key) if one)
        return f"{self.check}{where}: {self.message}; {self.remedy}"
