"""Which request meets which fault."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.simulation.requested import DELAYING, Fault, Request, Verb, fits

_CHANCE_OF_WRITES: Final = 0.06
_CHANCE_OF_READS: Final = 0.01
_NO_CLIENT: Final = ("judge", "keeper", "init")


def is_unconditional(request: Request) -> bool:
    """Whether a request is one by which Lance makes or removes a branch: nothing refuses it when it comes too late.

    A branch of the name that was made meanwhile has files of the same names; no request of a store could tell. The ref
    of a branch that is gone comes back by a late PUT, without its files.
    """
    is_of_branch = "/tree/" in request.key or "/_refs/" in request.key
    return is_of_branch and request.verb is not Verb.CONDITIONAL


class Drawn:
    """Faults at any request, so many at most, of a drawn half of the kinds.

    `is_exempt` tells requests that nothing delays.
    """

    def __init__(
        self, seed: int, faults_max: int, is_exempt: Callable[[Request], bool] = lambda _: False
    ) -> None:
        self._chance = Random(f"{seed}/plan")
        self._is_exempt = is_exempt
        self._left = self._chance.randint(0, faults_max)
        kinds = [fault for fault in Fault if fault not in (Fault.CUT, Fault.HELD)]
        self._kinds = self._chance.sample(kinds, len(kinds) // 2)

    def __call__(self, request: Request) -> Fault | None:
        if request.client.name in _NO_CLIENT or self._left <= 0:
            return None
        has_effect = request.verb.has_effect
        fitting = [kind for kind in self._kinds if fits(kind, request.verb)]
        chance = _CHANCE_OF_WRITES if has_effect else _CHANCE_OF_READS
        if not fitting or self._chance.random() > chance:
            return None
        fault = self._chance.choice(fitting)
        if fault in DELAYING and self._is_exempt(request):
            return None
        self._left -= 1
        return fault


class Scripted:
    """Faults at the requests that are named: the client, and the number of its request."""

    def __init__(self, faults: Mapping[tuple[str, int], Fault]) -> None:
        self._faults = faults

    def __call__(self, request: Request) -> Fault | None:
        return self._faults.get((request.client.name, request.number))
