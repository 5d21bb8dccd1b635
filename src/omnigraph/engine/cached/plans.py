"""Compiled queries, kept while their text and schema stay the same: parsing costs more than most reads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from omnigraph.catalog.ir.contract import Contract
from omnigraph.compile.checked import CheckedMutation, CheckedRead
from omnigraph.compile.lower import lower
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.query import check_mutation, check_read
from omnigraph.compile.rules import optimize
from omnigraph.language.source import Source
from omnigraph.limits import PLANS_MAX
from omnigraph.manifest.accepted_schema import AcceptedSchema

T = TypeVar("T")


class Plans:
    """A bounded cache of compiled queries; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, Any] = OrderedDict()

    def read(
        self, contract: Contract, source: Source, name: str | None
    ) -> tuple[CheckedRead, Plan]:
        """The checked query and its plan."""

        def compiled() -> tuple[CheckedRead, Plan]:
            checked = check_read(source, contract.catalog, name)
            return checked, optimize(lower(checked, contract.catalog))

        return self._get(("read", contract.ir_hash, source.text, name), compiled)

    def mutation(
        self, accepted: AcceptedSchema, source: Source, name: str | None
    ) -> CheckedMutation:
        """The checked mutation."""
        key = ("mutation", accepted.contract.ir_hash, source.text, name)
        return self._get(key, lambda: check_mutation(source, accepted.catalog, name))

    def _get(self, key: Hashable, compiled: Callable[[], T]) -> T:
        with self._lock:
            found: T | None = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found
        found = compiled()
        with self._lock:
            self._held[key] = found
            while len(self._held) > PLANS_MAX:
                self._held.popitem(last=False)
        return found
