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
    """What the whole walk is about; `interfaces_become` are renames, which are refused."""

    accepted: Catalog
    desired: Catalog
    match: CatalogMatch
    mode: DropMode
    interfaces_become: Mapping[str, str]

    def implemented(self, old: DeclaredType) -> set[str]:
        """The interfaces an accepted type implements, by their new names."""
        return {self.interfaces_become.get(name, name) for name in _implements(old)}


def _plan_kind(change: _Change, kind: TypeKind) -> Iterator[Step]:
    """The steps of all interfaces, all nodes or all edges: present types by name, then dropped ones."""
    before, after = list_declared(change.accepted, kind), list_declared(change.desired, kind)
    matched = change.match.types[kind]
    for name in sorted(after):
        about = Subject(kind, name)
        if name in matched.refused:
            yield about.refuse(Code.UNUSABLE_HINT, matched.refused[name])
        elif name in matched.continues:
            yield from _plan_kept_type(change, about, before[matched.continues[name]], after[name])
        else:
            yield from _plan_new_type(change, about)
    for name in matched.dropped:
        yield from _plan_drop(change, Subject(kind, name))


def _plan_new_type(change: _Change, about: Subject) -> Iterator[Step]:
    renamed = {new: old for old, new in change.interfaces_become.items()}
    if about.kind is TypeKind.INTERFACE and about.name in renamed:
        old = renamed[about.name]
        why = f"has the properties of '{old}', which is gone: an interface cannot be renamed"
        yield about.refuse(Code.INTERFACE_RENAMED, why, from_=old, to=about.name)
        return
    yield about.step(StepKind.ADD_TYPE)
    hints = change.match.properties[about.kind, about.name].refused
    yield from (about.refuse(Code.UNUSABLE_HINT, why, name) for name, why in hints.items())


def _plan_drop(change: _Change, about: Subject) -> Iterator[Step]:
    mode = change.mode
    match about.kind:
        case TypeKind.INTERFACE:
            if about.name not in change.interfaces_become:
                yield about.refuse(
                    Code.INTERFACE_REMOVED, "is gone: an interface cannot be removed"
                )
        case TypeKind.NODE:
            yield about.step(
                StepKind.DROP_TYPE, mode=mode, code=Code.DROP_NODE_TYPE, tier=mode.tier
            )
        case TypeKind.EDGE:
            yield about.step(
                StepKind.DROP_TYPE, mode=mode, code=Code.DROP_EDGE_TYPE, tier=mode.tier
            )


def _plan_kept_type(
    change: _Change, about: Subject, old: DeclaredType, new: DeclaredType
) -> Iterator[Step]:
    """The steps of one type that stays, perhaps under another name."""
    if old.name != new.name:
        yield about.step(StepKind.RENAME_TYPE, from_=old.name, to=new.name)
    yield from _plan_structure(change, about, old, new)
    yield from refuse_unclassified(about, old, new, _CLASSIFIED)
    yield from _plan_metadata(about, old, new)
    kept = change.implemented(old) & set(_implements(new))
    owner = Owner(
        about=about,
        old=old,
        new=new,
        matched=change.match.properties[about.kind, about.name],
        mode=change.mode,
        asked_before=_map_demands(change.accepted, old, kept, change.interfaces_become),
        asked_after=_map_demands(change.desired, new, kept, {}),
    )
    yield from plan_properties(owner)


def _plan_structure(
    change: _Change, about: Subject, old: DeclaredType, new: DeclaredType
) -> Iterator[Step]:
    """What a type is, beside its properties: the interfaces of a node, the ends and counts of an edge."""
    if isinstance(old, NodeType) and isinstance(new, NodeType):
        before, after = change.implemented(old), set(new.implements)
        if before != after:
            yield about.refuse(Code.IMPLEMENTS_CHANGED, _implements_why(before, after))
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        becomes = change.match.types[TypeKind.NODE].becomes
        if (becomes.get(old.source), becomes.get(old.target)) != (new.source, new.target):
            why = f"ran from {old.source} to {old.target} and would run from {new.source} to {new.target}"
            yield about.refuse(Code.ENDPOINTS_CHANGED, why)
        if old.cardinality != new.cardinality:
            why = f"changes {_card(old.cardinality)} to {_card(new.cardinality)}"
            yield about.refuse(Code.CARDINALITY_CHANGED, why)


def _implements_why(before: set[str], after: set[str]) -> str:
    lost = [f"no longer implements {', '.join(sorted(before - after))}"] if before - after else []
    won = [f"newly implements {', '.join(sorted(after - before))}"] if after - before else []
    return " and ".join(lost + won)


def _card(cardinality: Cardinality) -> str:
    high = "" if cardinality.high is None else cardinality.high
    return f"@card({cardinality.low}..{high})"


def _plan_metadata(about: Subject, old: DeclaredType, new: DeclaredType) -> Iterator[Step]:
    if isinstance(old, Interface) or isinstance(new, Interface):
        return
    if (old.description, old.instruction) != (new.description, new.instruction):
        yield about.step(StepKind.UPDATE_TYPE_METADATA)
    yield from plan_annotations(about, old.annotations, new.annotations)


def _implements(declared_type: DeclaredType) -> tuple[str, ...]:
    return declared_type.implements if isinstance(declared_type, NodeType) else ()


def _map_demands(
    catalog: Catalog, owner: DeclaredType, kept: set[str], become: Mapping[str, str]
) -> Mapping[str, frozenset[str]]:
    """For each property the kept interfaces that ask for it, by their new names."""
    asking = {
        become.get(name, name): catalog.interfaces[name].properties for name in _implements(owner)
    }
    return {
        name: frozenset(i for i, wanted in asking.items() if i in kept and name in wanted)
        for name in owner.properties
    }


def _find_renamed_interfaces(
    accepted: Catalog, desired: Catalog, match: CatalogMatch
) -> Mapping[str, str]:
    """Interfaces that came back under another name with the same contract.

    An interface cannot carry a hint, so a rename shows as one gone and an equal one new.
    """
    matched = match.types[TypeKind.INTERFACE]
    new = list(matched.added)
    found: dict[str, str] = {}
    for old in matched.dropped:
        wanted = _contract(accepted.interfaces[old])
        equal = next((n for n in new if _contract(desired.interfaces[n]) == wanted), None)
        if equal is not None:
            found[old] = equal
            new.remove(equal)
    return found


def _contract(interface: Interface) -> tuple[Any, ...]:
    properties = {
        name: replace(found, property_id=None, rename_from=None)
        for name, found in interface.properties.items()
    }
    return properties, interface.key, interface.unique, interface.indices
