"""Cached plans: compiled queries by text and schema; parsing costs more than most reads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.ir.past import rename_as_now
from omnigraphdb.compile.check import check_mutation, check_read
from omnigraphdb.compile.checked import CheckedMutation, CheckedRead
from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.rules import optimize
from omnigraphdb.language.source import Source
from omnigraphdb.limits import PLANS_MAX
from omnigraphdb.manifest.accepted_schema import AcceptedSchema

T = TypeVar("T")


class Plans:
    """A bounded cache of compiled queries; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiled: OrderedDict[Hashable, Any] = OrderedDict()

    def read(
        self, contract: Contract, source: Source, name: str | None
    ) -> tuple[CheckedRead, Plan]:
        """Return the checked query and its plan."""

        def compile_query() -> tuple[CheckedRead, Plan]:
            checked = check_read(source, contract.catalog, name)
            return checked, optimize(lower(checked, contract.catalog))

        return self._get(("read", contract.ir_hash, source.text, name), compile_query)

    def past_schema(self, current: Contract, earlier: Contract) -> Contract | None:
        """Return the past schema under present names, if it has one name for everything."""
        return self._get(
            ("past", current.ir_hash, earlier.ir_hash), lambda: rename_as_now(earlier, current)
        )

    def mutation(
        self, accepted: AcceptedSchema, source: Source, name: str | None
    ) -> CheckedMutation:
        """Return the checked mutation."""
        key = ("mutation", accepted.contract.ir_hash, source.text, name)
        return self._get(key, lambda: check_mutation(source, accepted.catalog, name))

    def match(self, accepted: AcceptedSchema, read: CheckedRead) -> Plan:
        """Return the plan of a match of a mutation that is cached itself."""

        def compile_match() -> tuple[CheckedRead, Plan]:
            return read, optimize(lower(read, accepted.catalog))

        # The entry holds the match, so that no other one has its identity while the entry is there.
        return self._get(("match", accepted.contract.ir_hash, id(read)), compile_match)[1]

    def _get(self, key: Hashable, compile_query: Callable[[], T]) -> T:
        with self._lock:
            compiled: T | None = self._compiled.get(key)
            if compiled is not None:
                self._compiled.move_to_end(key)
                return compiled
        compiled = compile_query()
        with self._lock:
            self._compiled[key] = compiled
            while len(self._compiled) > PLANS_MAX:
                self._compiled.popitem(last=False)
        return compiled
