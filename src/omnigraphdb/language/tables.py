"""The file with the parser tables of a grammar: computing them takes ten times as long as reading them."""

import sys
from importlib.util import cache_from_source
from pathlib import Path


def tables_file(grammar: Path) -> str | bool:
    """Name the file for Lark, beside the bytecode and trusted as that is; False where no bytecode is written.

    Lark recomputes the tables when the grammar, its options, Lark or Python changed, and when the file is damaged.
    """
    file = Path(cache_from_source(f"{grammar}.tables"))
    return str(file) if file.parent.is_dir() and not sys.dont_write_bytecode else False
