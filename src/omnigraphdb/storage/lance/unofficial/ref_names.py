"""Names of the files in which Lance keeps the refs of branches; imports nothing heavy, because shells complete branches by it."""

import os
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote

from omnigraphdb.storage.layout import MANIFEST, REFS, Root

_SUFFIX: Final = ".json"


def ref_file(branch: str) -> str:
    """Name the file of a branch's ref."""
    return f"{quote(branch, safe='')}{_SUFFIX}"


def branches_of(files: Iterable[str]) -> frozenset[str]:
    """List the branches whose refs some files are."""
    return frozenset(unquote(file[: -len(_SUFFIX)]) for file in files if file.endswith(_SUFFIX))


def list_local_branches(root: Root) -> frozenset[str]:
    """List the branches of a graph on this machine without opening it; main, which has no ref, is not among them."""
    try:
        return branches_of(os.listdir(root.at(f"{MANIFEST}/{REFS}")))
    except FileNotFoundError:
        # The folder is made with the first branch.
        return frozenset()
