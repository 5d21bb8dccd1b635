"""The smallest script in which the judge still complains: faults, operations and clients go while it does."""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.workloads import Crew, Script, Weather


def reduce(script: Script) -> Script:
    """Cut a script down that the judge complains about; its faults become part of it."""
    first = Weather(script)
    assert first.run_and_judge(), "there is nothing to reduce"
    script = replace(script, faults=dict(first.requests.faults_met))
    if not Weather(script).run_and_judge():
        # The faults that were drawn stood for more than their places: nothing can be taken away.
        return replace(script, faults=None)
    smaller: Script | None = script
    while smaller is not None:
        script = smaller
        smaller = next((one for one in _list_smaller(script) if Weather(one).run_and_judge()), None)
    return script


def _list_smaller(script: Script) -> Iterator[Script]:
    """List the scripts without one client, one fault or one operation."""
    assert script.faults is not None, "the faults of a script are known before it is reduced"
    for crew in script.crews:
        if len(script.crews) > 1:
            yield replace(script, crews=tuple(one for one in script.crews if one is not crew))
    for place in script.faults:
        left = {one: fault for one, fault in script.faults.items() if one != place}
        yield replace(script, faults=left)
    for number, crew in enumerate(script.crews):
        for smaller in _list_smaller_crews(crew):
            crews = (*script.crews[:number], smaller, *script.crews[number + 1 :])
            yield replace(script, crews=crews)


def _list_smaller_crews(crew: Crew) -> Iterator[Crew]:
    for number, operations in enumerate(crew.threads):
        for left_out in range(len(operations)):
            fewer = (*operations[:left_out], *operations[left_out + 1 :])
            threads = (*crew.threads[:number], fewer, *crew.threads[number + 1 :])
            yield replace(crew, threads=threads)
