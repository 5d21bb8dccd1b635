"""What the doctor finds: something that should not be, where, and what to do about it."""

from typing import Any

from omnigraph.ids import TableKey
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
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
