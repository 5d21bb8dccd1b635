"""From an accepted and a desired catalog to the ordered steps between them: the walk over types."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from omnigraphdb.catalog.diff.codes import Code
from omnigraphdb.catalog.diff.matching import (
    CatalogMatch,
    DeclaredType,
    list_declared,
    list_stale_hints,
    match_catalogs,
)
from omnigraphdb.catalog.diff.properties import (
    Owner,
    plan_annotations,
    plan_properties,
    refuse_unclassified,
)
from omnigraphdb.catalog.diff.steps import DropMode, SchemaPlan, Step, StepKind, Subject, TypeKind
from omnigraphdb.catalog.model import Cardinality, Catalog, EdgeType, Interface, NodeType
from omnigraphdb.values import dataclass

_CLASSIFIED = frozenset(
    {
        *("name", "properties", "implements", "key", "unique", "indices", "ranges", "checks"),
        *("source", "target", "cardinality", "description", "instruction", "annotations"),
        *("rename_from", "type_id", "incarnation_id", "declared"),
    }
)


def plan(accepted: Catalog, desired: Catalog, *, allow_data_loss: bool = False) -> SchemaPlan:
    """Plan the change from one schema to the next; reads no data and changes nothing."""
    match = match_catalogs(accepted, desired)
    change = _Change(
        accepted=accepted,
        desired=desired,
        match=match,
        mode=DropMode.HARD if allow_data_loss else DropMode.SOFT,
        interfaces_become=_find_renamed_interfaces(accepted, desired, match),
    )
    steps = tuple(step for kind in TypeKind for step in _plan_kind(change, kind))
    return SchemaPlan(steps, tuple(list_stale_hints(match)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The subject of the whole walk; `interfaces_become` are renames, which are refused."""

    accepted: Catalog
    desired: Catalog
    match: CatalogMatch
    mode: DropMode
    interfaces_become: Mapping[str, str]

    def implemented(self, old: DeclaredType) -> set[str]:
        """Return the interfaces that an accepted type implements, by their new names."""
        return {self.interfaces_become.get(name, name) for name in _implements(old)}


def _plan_kind(change: _Change, kind: TypeKind) -> Iterator[Step]:
    """Yield the steps of all interfaces, all nodes or all edges: present types by name, then dropped ones."""
    before, after = list_declared(change.accepted, kind), list_declared(change.desired, kind)
    matched = change.match.types[kind]
    for name in sorted(after):
        subject = Subject(kind, name)
        if name in matched.refused:
            yield subject.refuse(Code.UNUSABLE_HINT, matched.refused[name])
        elif name in matched.continues:
            yield from _plan_kept_type(
                change, subject, before[matched.continues[name]], after[name]
            )
        else:
            yield from _plan_new_type(change, subject)
    for name in matched.dropped:
        yield from _plan_drop(change, Subject(kind, name))


def _plan_new_type(change: _Change, subject: Subject) -> Iterator[Step]:
    renamed = {new: old for old, new in change.interfaces_become.items()}
    if subject.kind is TypeKind.INTERFACE and subject.name in renamed:
        old = renamed[subject.name]
        why = f"has the properties of '{old}', which is gone: an interface cannot be renamed"
        yield subject.refuse(Code.INTERFACE_RENAMED, why, from_=old, to=subject.name)
        return
    yield subject.step(StepKind.ADD_TYPE)
    hints = change.match.properties[subject.kind, subject.name].refused
    yield from (subject.refuse(Code.UNUSABLE_HINT, why, name) for name, why in hints.items())


def _plan_drop(change: _Change, subject: Subject) -> Iterator[Step]:
    mode = change.mode
    match subject.kind:
        case TypeKind.INTERFACE:
            if subject.name not in change.interfaces_become:
                yield subject.refuse(
                    Code.INTERFACE_REMOVED, "is gone: an interface cannot be removed"
                )
        case TypeKind.NODE:
            yield subject.step(
                StepKind.DROP_TYPE, mode=mode, code=Code.DROP_NODE_TYPE, tier=mode.tier
            )
        case TypeKind.EDGE:
            yield subject.step(
                StepKind.DROP_TYPE, mode=mode, code=Code.DROP_EDGE_TYPE, tier=mode.tier
            )


def _plan_kept_type(
    change: _Change, subject: Subject, old: DeclaredType, new: DeclaredType
) -> Iterator[Step]:
    """Yield the steps of one type that stays, perhaps under another name."""
    if old.name != new.name:
        yield subject.step(StepKind.RENAME_TYPE, from_=old.name, to=new.name)
    yield from _plan_structure(change, subject, old, new)
    yield from refuse_unclassified(subject, old, new, _CLASSIFIED)
    yield from _plan_metadata(subject, old, new)
    shared_interfaces = change.implemented(old) & set(_implements(new))
    owner = Owner(
        about=subject,
        old=old,
        new=new,
        matched=change.match.properties[subject.kind, subject.name],
        mode=change.mode,
        asked_before=_map_demands(
            change.accepted, old, shared_interfaces, change.interfaces_become
        ),
        asked_after=_map_demands(change.desired, new, shared_interfaces, {}),
    )
    yield from plan_properties(owner)


def _plan_structure(
    change: _Change, subject: Subject, old: DeclaredType, new: DeclaredType
) -> Iterator[Step]:
    """Refuse changes of a type beside its properties: the interfaces of a node, the ends and counts of an edge."""
    if isinstance(old, NodeType) and isinstance(new, NodeType):
        before, after = change.implemented(old), set(new.implements)
        if before != after:
            yield subject.refuse(Code.IMPLEMENTS_CHANGED, _implements_why(before, after))
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        becomes = change.match.types[TypeKind.NODE].becomes
        if (becomes.get(old.source), becomes.get(old.target)) != (new.source, new.target):
            why = f"ran from {old.source} to {old.target} and would run from {new.source} to {new.target}"
            yield subject.refuse(Code.ENDPOINTS_CHANGED, why)
        if old.cardinality != new.cardinality:
            why = f"changes {_card(old.cardinality)} to {_card(new.cardinality)}"
            yield subject.refuse(Code.CARDINALITY_CHANGED, why)


def _implements_why(before: set[str], after: set[str]) -> str:
    losses = [f"no longer implements {', '.join(sorted(before - after))}"] if before - after else []
    additions = [f"newly implements {', '.join(sorted(after - before))}"] if after - before else []
    return " and ".join(losses + additions)


def _card(cardinality: Cardinality) -> str:
    high = "" if cardinality.high is None else cardinality.high
    return f"@card({cardinality.low}..{high})"


def _plan_metadata(subject: Subject, old: DeclaredType, new: DeclaredType) -> Iterator[Step]:
    if isinstance(old, Interface) or isinstance(new, Interface):
        return
    if (old.description, old.instruction) != (new.description, new.instruction):
        yield subject.step(StepKind.UPDATE_TYPE_METADATA)
    yield from plan_annotations(subject, old.annotations, new.annotations)


def _implements(declared_type: DeclaredType) -> tuple[str, ...]:
    return declared_type.implements if isinstance(declared_type, NodeType) else ()


def _map_demands(
    catalog: Catalog, owner: DeclaredType, shared_interfaces: set[str], become: Mapping[str, str]
) -> Mapping[str, frozenset[str]]:
    """Map each property to the shared interfaces that ask for it, by their new names."""
    asking = {
        become.get(name, name): catalog.interfaces[name].properties for name in _implements(owner)
    }
    return {
        name: frozenset(
            i for i, properties in asking.items() if i in shared_interfaces and name in properties
        )
        for name in owner.properties
    }


def _find_renamed_interfaces(
    accepted: Catalog, desired: Catalog, match: CatalogMatch
) -> Mapping[str, str]:
    """Find interfaces that came back under another name with the same contract.

    An interface cannot carry a hint, so that a rename shows as a lost interface and an equal new one.
    """
    matched = match.types[TypeKind.INTERFACE]
    new = list(matched.added)
    renames: dict[str, str] = {}
    for old in matched.dropped:
        contract = _contract(accepted.interfaces[old])
        equal = next((n for n in new if _contract(desired.interfaces[n]) == contract), None)
        if equal is not None:
            renames[old] = equal
            new.remove(equal)
    return renames


def _contract(interface: Interface) -> tuple[Any, ...]:
    properties = {
        name: replace(property_, property_id=None, rename_from=None)
        for name, property_ in interface.properties.items()
    }
    return properties, interface.key, interface.unique, interface.indices
