"""Runs universes of the whole engine, and tells which of them the judge complains about.

`python -m tests.simulation --level engine --seeds 0:20 [--work bank] [--mutant NAME]`
"""

import argparse
import hashlib
import logging
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from omnigraphdb.ids import MAIN
from tests.simulation.appends import list_transactions, write_history
from tests.simulation.engine_histories import list_histories
from tests.simulation.engine_mutants import ENGINE_MUTANTS
from tests.simulation.engine_pairs import EnginePair, list_pairs
from tests.simulation.engine_workloads import (
    FORKED,
    EngineWeather,
    Work,
    draw_script,
    make_start,
)

_SHOWN_MAX: Final = 5
_MADE_UP: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|[01]{24}[0-9a-f]{26}|[0-9A-HJKMNP-TV-Z]{26}"
    r"|127\.0\.0\.1:\d+|in [\d.]+(?:ns|µs|ms|s)\b"
)
"""Names that Lance makes up, ids, which hold the day, and ports and durations in errors of the store."""


def main() -> int:
    """Run what was asked for; 1 when the judge complained."""
    options = _read_options()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    make_start()
    for name in options.mutant:
        ENGINE_MUTANTS[name]()
    began, count, requests, broken = time.process_time(), 0, 0, 0
    acknowledged = 0
    digest = hashlib.sha256()
    for universe in _list_universes(options):
        problems = universe.run_and_judge()
        count += 1
        requests += len(universe.requests.trace)
        acknowledged += sum(call.fate == "acknowledged" for call in universe.calls)
        digest.update(_MADE_UP.sub("*", "\n".join(universe.requests.trace)).encode())
        if options.seed is not None:
            print("\n".join(universe.requests.trace))
        if options.history is not None:
            write_history(list_transactions(universe), options.history / f"{count:05}.jsonl")
        if problems:
            broken += 1
            if broken <= _SHOWN_MAX:
                _print_broken(universe, problems)
            if options.stop:
                break
    print(
        f"{count} universes, {broken} broken, {acknowledged} calls acknowledged, {requests} requests, "
        f"{time.process_time() - began:.1f} s, {digest.hexdigest()[:16]}"
    )
    return 1 if broken else 0


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation --level engine")
    parser.add_argument("--level", choices=["engine"], required=True)
    parser.add_argument("--plan", choices=["weather", "pairs", "histories"], default="weather")
    parser.add_argument("--seed", type=int, help="one universe of weather, printed whole")
    parser.add_argument("--seeds", default="0:20", help="the first, and the one after the last")
    parser.add_argument("--work", type=Work, choices=list(Work), help="what all clients do")
    parser.add_argument("--line", choices=[MAIN, FORKED], default=MAIN, help="the branch of pairs")
    parser.add_argument("--step", type=int, default=1, help="every so manieth pair")
    parser.add_argument("--mutant", action="append", default=[], choices=list(ENGINE_MUTANTS))
    parser.add_argument("--stop", action="store_true", help="stop at the first complaint")
    parser.add_argument("--history", type=Path, help="the folder for histories of appends")
    return parser.parse_args()


def _list_universes(options: argparse.Namespace) -> Iterator[EngineWeather | EnginePair]:
    if options.plan == "pairs":
        yield from list_pairs(options.line, options.step)
        return
    if options.plan == "histories":
        yield from list_histories()
        return
    first, last = map(int, options.seeds.split(":"))
    for seed in range(first, last) if options.seed is None else (options.seed,):
        yield EngineWeather(draw_script(seed, options.work))


def _print_broken(universe: EngineWeather | EnginePair, problems: list[str]) -> None:
    print(f"{universe}:", flush=True)
    for problem in problems:
        print(f"    {problem[:1000]}", flush=True)
    if isinstance(universe, EngineWeather):
        print(f"    {universe.script}")
