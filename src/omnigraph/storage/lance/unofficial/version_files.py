"""The names of manifest files: each names its version, so that two look-ups tell whether a version is the newest."""

import os
from typing import Final

from omnigraph.ids import Version
from omnigraph.values import dataclass

_VERSIONS: Final = "_versions"
_LAST: Final = 2**64 - 1
"""Lance names a manifest by the difference between this number and its version, so that the newest is listed first."""


@dataclass(frozen=True, slots=True)
class NewestVersion:
    """A version that was the newest of its branch on a local disk, its manifest file and the next one's."""

    version: Version
    file: str
    following: str

    @classmethod
    def at(cls, directory: str, version: Version) -> "NewestVersion":
        """Name the files of a version whose branch has its files in a directory."""
        names = (
            f"{directory}/{_VERSIONS}/{_LAST - n:020d}.manifest" for n in (version, version + 1)
        )
        return cls(version, *names)

    @property
    def is_newest(self) -> bool:
        """Whether its file exists and the next one's does not.

        That proves it the newest where no version in between was removed: in a table without gaps, and past a pin.
        """
        return not os.access(self.following, os.F_OK) and os.access(self.file, os.F_OK)
