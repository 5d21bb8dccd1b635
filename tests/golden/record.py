"""The record of everything that users, programs and stored data see; run as a module to write it anew.

    python -m tests.golden.record [--only PART]

The test beside it records again and compares: additions are allowed, anything else fails. Who changes on purpose what the
record says runs this command, reads what git shows of `recorded/`, and commits it with the change.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.golden.comparison import Comparison
from tests.golden.forms import Entries, format_record, parse_record
from tests.golden.masks import Mask, name_places
from tests.golden.world import NOWHERE

RECORDED: Final = Path(__file__).parent / "recorded"
PARTS: Final = (
    "openapi",
    "help",
    "python",
    "pages",
    "graph",
    "remote",
    "http",
    "tools",
    "commands",
    "stored",
)
TOKENS: Final = ("cursor", "page_token")
MEASURES: Final = frozenset({"milliseconds", "bytes_removed", "bytes_before", "bytes_after"})

Record = Callable[[Path], Entries]


def record_part(part: str, *, parent: Path | None = None) -> Entries:
    """Record one part in a folder of its own, which is gone afterwards."""
    record: Record = import_module(f"tests.golden.{part}_part").record
    with _clean_environment(), tempfile.TemporaryDirectory(dir=parent, prefix="golden-") as name:
        folder = Path(name)
        mask = Mask(name_places(folder) | {NOWHERE: "<no id>"}, TOKENS, MEASURES)
        return {entry: mask.mask(value) for entry, value in record(folder).items()}


@contextmanager
def _clean_environment() -> Iterator[None]:
    """What somebody set for their own graphs does not decide about the record."""
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("OMNIGRAPH", "AWS_"))]:
        del os.environ[name]
    os.environ |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    os.environ |= {"TZ": "UTC", "COLUMNS": "100", "NO_COLOR": "1"}
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
        time.tzset()


def place_of(part: str) -> Path:
    """The file of a part."""
    return RECORDED / f"{part}.txt"


def compare_part(part: str, now: Entries) -> Comparison:
    """Compare a new record of a part with the recorded one."""
    comparison = Comparison()
    comparison.compare(parse_record(place_of(part).read_text(encoding="utf-8")), now)
    return comparison


def main() -> None:
    """Write the files of all parts, or of those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record")
    parser.add_argument("--only", choices=PARTS, action="append", help="record only this part")
    parser.add_argument("--into", type=Path, default=RECORDED, help="the folder of the files")
    parts = parser.parse_args()
    parts.into.mkdir(exist_ok=True, parents=True)
    for part in parts.only or PARTS:
        began = time.monotonic()
        text = format_record(record_part(part))
        (parts.into / f"{part}.txt").write_text(text, encoding="utf-8")
        print(f"{part}: {len(text):,} characters, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
