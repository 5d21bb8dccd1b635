"""Tables of the reference pages that are made from code which no other part records.

`tests/surfaces/test_reference.py` compares every page with the code, so their text is not recorded here.
"""

from pathlib import Path
from typing import Final

from tests.golden.forms import IN_ORDER, Entries
from tests.support.reference import REFERENCE, REGION, made

_RECORDED_ELSEWHERE: Final = ("commands", "routes", "functions", "members ", "results")
"""Regions whose facts the parts `help`, `openapi` and `python` record; their sentences may change."""


def record(_: Path) -> Entries:
    """Record the lines of each region."""
    regions = [
        match[2]
        for page in sorted(REFERENCE.glob("*.md"))
        for match in REGION.finditer(page.read_text(encoding="utf-8"))
    ]
    return {
        name: {IN_ORDER: [line.rstrip() for line in made(name).splitlines()]}
        for name in regions
        if not name.startswith(_RECORDED_ELSEWHERE)
    }
