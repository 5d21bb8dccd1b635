"""Runs universes and tells which of them the judge complains about; one of a random plan is printed request by request.

`python -m tests.simulation --level protocol --plan weather --seed 7`
`python -m tests.simulation --level engine --seeds 0:20` (its options: `engine_runs`)
`python -m tests.simulation --plan pairs --line main --step 2 [--mutant NAME]`
"""

import argparse
import hashlib
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from tests.simulation import threads

threads.install()

from tests.simulation import encounters, engine_runs, enumerations, grouped, rivals  # noqa: E402 - the engine is imported with other locks
from tests.simulation.mutants import MUTANTS  # noqa: E402
from tests.simulation.reduce import reduce  # noqa: E402
from tests.simulation.requested import Fault  # noqa: E402
from tests.simulation.scenarios import Line, make_start  # noqa: E402
from tests.simulation.traces import Traced, list_traced  # noqa: E402
from tests.simulation.workloads import Script, Weather, Work, draw_script  # noqa: E402

_SHOWN_MAX = 5
Judged = Weather | enumerations.Staged | Traced


def main() -> int:
    """Run what was asked for; 1 when the judge complained."""
    if _is_of_engine():
        return engine_runs.main()
    options = _read_options()
    logging.disable(logging.CRITICAL)
    for line in Line:
        # Made by the code as it is, also where a mutant is tried.
        make_start(line)
    for name in options.mutant:
        MUTANTS[name].apply()
    began, count, requests, broken, groups = time.process_time(), 0, 0, 0, 0
    digest = hashlib.sha256()
    for universe in _list_universes(options):
        problems = universe.run_and_judge()
        count += 1
        groups += universe.groups
        requests += len(universe.requests.trace)
        digest.update("\n".join(universe.requests.trace).encode())
        if options.seed is not None:
            print("\n".join(universe.requests.trace))
        if problems:
            broken += 1
            _print_broken(universe, problems, is_shown=broken <= _SHOWN_MAX)
            if options.stop:
                break
    seconds = time.process_time() - began
    print(
        f"{count} universes, {broken} broken, {requests} requests, {groups} groups, {seconds:.1f} s, "
        f"{digest.hexdigest()[:16]}"
    )
    return 1 if broken else 0


def _is_of_engine() -> bool:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--level")
    return bool(parser.parse_known_args()[0].level == "engine")


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--level", choices=["protocol"], default="protocol")
    parser.add_argument(
        "--plan",
        choices=["weather", "single", "pair", "lone", "traces", *_PLANS],
        nargs="+",
        default=["weather"],
        help="one after the other",
    )
    parser.add_argument("--seed", type=int, help="one universe of weather, printed whole")
    parser.add_argument("--seeds", default="0:100", help="the first, and the one after the last")
    parser.add_argument("--work", type=Work, choices=list(Work), default=Work.INSERTS)
    parser.add_argument("--part", default="1/1", help="of the seeds: every so manieth")
    parser.add_argument("--line", type=Line, choices=list(Line), help="the branch that is written")
    parser.add_argument("--step", type=int, default=1, help="every so manieth place")
    parser.add_argument("--places", default="1:0", help="of one pair")
    parser.add_argument("--traces", default="", help="files of `traces/`, or all of whole models")
    parser.add_argument("--mutant", action="append", default=[], choices=list(MUTANTS))
    parser.add_argument("--stop", action="store_true", help="stop at the first complaint")
    parser.add_argument("--reduce", action="store_true", help="cut a script of weather down")
    return parser.parse_args()


def _list_universes(options: argparse.Namespace) -> Iterator[Judged]:
    for plan in options.plan:
        yield from _list_planned(plan, options)


def _list_planned(chosen: str, options: argparse.Namespace) -> Iterator[Judged]:
    line = options.line or Line.MAIN
    match chosen:
        case "single":
            for fault in enumerations.SINGLE_FAULTS:
                yield from enumerations.list_singles(line, Fault(fault))
        case "pair":
            i, j = map(int, options.places.split(":"))
            yield enumerations.Pair(line, i, j)
        case "weather":
            for seed in _list_seeds(options):
                script = draw_script(seed, options.line, options.work)
                yield _reduced(script) if options.reduce else Weather(script)

        case "traces":
            yield from list_traced(options.traces)
        case "lone":
            for seed in _list_seeds(options):
                yield encounters.Lone(line, seed)
        case plan:
            yield from _PLANS[plan](line, options.step)


def _list_seeds(options: argparse.Namespace) -> Iterable[int]:
    """List the seeds, or a part of them that no other part has."""
    if options.seed is not None:
        return (options.seed,)
    first, last = map(int, options.seeds.split(":"))
    number, parts = map(int, options.part.split("/"))
    return range(first + number - 1, last, parts)


_PLANS: Final[Mapping[str, Callable[[Line, int], Iterator[Judged]]]] = {
    "pairs": enumerations.list_pairs,
    "trios": enumerations.list_trios,
    "orphans": enumerations.list_orphans,
    "orphans-again": partial(enumerations.list_orphans, is_made_again=True),
    "remade": partial(encounters.list_encounters, encounters.Remade),
    "deleted": partial(encounters.list_encounters, encounters.Deleted),
    "refused": lambda _, __: iter([encounters.Refused()]),
    "adoptions": partial(encounters.list_standstills, encounters.Adopting),
    "lost": lambda line, _: enumerations.list_singles(line, Fault.LOST_AFTER),
    "passed": partial(encounters.list_standstills, encounters.Passed),
    "cleaned": encounters.list_cleaned,
    "recoverers": encounters.list_recoverers,
    "adopted": lambda line, _: encounters.list_adopted(line),
    "reading": rivals.list_readings,
    "expecting": partial(encounters.list_standstills, rivals.Expecting),
    "reclaiming": partial(encounters.list_encounters, rivals.Reclaiming),
    "folding": partial(encounters.list_standstills, rivals.Folding),
    "dropping": partial(encounters.list_standstills, rivals.Dropping),
    "same-key": rivals.list_same_keys,
    "grouped": grouped.list_grouped,
}


def _reduced(script: Script) -> Weather:
    return Weather(reduce(script))


def _print_broken(universe: Judged, problems: list[str], *, is_shown: bool) -> None:
    if not is_shown:
        return
    print(f"{universe}:")
    for problem in problems:
        print(f"    {problem}")
    if isinstance(universe, Weather):
        print(f"    {universe.script}")


if __name__ == "__main__":
    sys.exit(main())
