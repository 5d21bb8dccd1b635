"""The names of manifest files: each names its version, so that two look-ups tell whether a version is the newest."""

import os
from typing import Final

from omnigraphdb.ids import Version
from omnigraphdb.limits import VERSION_STEPS_MAX
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import VersionInfo
from omnigraphdb.values import dataclass

_VERSIONS: Final = "_versions"
HINT: Final = f"{_VERSIONS}/latest_version_hint.json"
"""The file in which Lance notes the newest version of a branch."""
_LAST: Final = 2**64 - 1
"""Lance names a manifest by the difference between this number and its version, so that the newest is listed first."""
_SUFFIX: Final = ".manifest"
_DIGITS: Final = 20
"""Digits of such a name; earlier releases of Lance wrote the version itself, which has fewer."""


def list_versions(objects: Objects, directory: str) -> tuple[VersionInfo, ...]:
    """List the versions of a branch, oldest first, by the names of their files, without reading the files."""
    dated = objects.times(f"{directory}/{_VERSIONS}").items()
    numbered = ((_parse(file.rpartition("/")[2]), time) for file, time in dated)
    infos = (
        VersionInfo(version=version, created_us=time)
        for version, time in numbered
        if version is not None
    )
    return tuple(sorted(infos, key=lambda info: info.version))


def _parse(name: str) -> Version | None:
    """Read the version from the name of a manifest file; None for the other files beside them."""
    stem = name.removesuffix(_SUFFIX)
    if stem == name or not (stem.isascii() and stem.isdigit()):
        return None
    return Version(_LAST - int(stem) if len(stem) == _DIGITS else int(stem))


def version_file(directory: str, version: Version) -> str:
    """Name the manifest file of a version of the table, or of the branch, that has its files in a directory."""
    return f"{directory}/{_VERSIONS}/{_LAST - version:0{_DIGITS}d}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class NewestVersion:
    """A version that was the newest of its branch on a local disk, where the branch has its files, its manifest file and the next one's."""

    version: Version
    directory: str
    file: str
    following: str

    @classmethod
    def at(cls, directory: str, version: Version) -> "NewestVersion":
        """Name the files of a version whose branch has its files in a directory."""
        following = version_file(directory, Version(version + 1))
        return cls(version, directory, version_file(directory, version), following)

    @property
    def is_newest(self) -> bool:
        """Whether its file exists and the next one's does not.

        That proves it the newest where no version in between was removed: in a table without gaps, and past a pin.
        """
        return not os.access(self.following, os.F_OK) and os.access(self.file, os.F_OK)

    def follow(self) -> "NewestVersion | None":
        """Follow the versions that came since, where none was removed; None when there are many, or the branch is gone."""
        newest = self
        for _ in range(VERSION_STEPS_MAX):
            if not os.access(newest.following, os.F_OK):
                return newest if os.access(newest.file, os.F_OK) else None
            newest = NewestVersion.at(self.directory, Version(newest.version + 1))
        return None
