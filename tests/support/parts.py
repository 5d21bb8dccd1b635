"""Parts of the soak: each takes every so-manieth of the long tests, so that several runs go through all of them."""

import re
from collections.abc import Sequence
from typing import Final, TypeVar

SOAK_PART: Final = "SOAK_PART"
"""The environment variable that names a part, as in `1/8`."""

Item = TypeVar("Item")


def pick_part(items: Sequence[Item], part: str) -> list[Item]:
    """Pick every so-manieth item: `2/8` picks the second of each eight."""
    spelled = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", part)
    if spelled is None or int(spelled[1]) > int(spelled[2]):
        raise ValueError(f"'{part}' is not a part; write it as 1/8, 2/8 and so on to 8/8")
    return list(items[int(spelled[1]) - 1 :: int(spelled[2])])
