"""Which accepted declaration each desired one continues, by name or by rename hint."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.model import Catalog, EdgeType, Interface, NodeType
from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.values import dataclass

DeclaredType = Interface | NodeType | EdgeType


@dataclass(frozen=True, kw_only=True)
class Matched:
    """The names of one namespace, paired; a declaration whose hint is refused continues nothing."""

    continues: Mapping[str, str]
    """Desired name to accepted name."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]

    refused: Mapping[str, str]
    """Desired names whose hint is unusable, and why it is: `cannot be renamed from …`."""

    stale: Mapping[str, str]
    """Desired names that exist already, and the hint that has nothing to do."""

    @cached_property
    def becomes(self) -> Mapping[str, str]:
        """Accepted name to desired name."""
        return {accepted: desired for desired, accepted in self.continues.items()}


@dataclass(frozen=True, slots=True)
class CatalogMatch:
    """Two catalogs, paired declaration by declaration; `properties` by kind and desired type name."""

    types: Mapping[TypeKind, Matched]
    properties: Mapping[tuple[TypeKind, str], Matched]


def list_declared(catalog: Catalog, kind: TypeKind) -> Mapping[str, DeclaredType]:
    """Return the declarations of one kind, by name."""
    match kind:
        case TypeKind.INTERFACE:
            return catalog.interfaces
        case TypeKind.NODE:
            return catalog.nodes
        case TypeKind.EDGE:
            return catalog.edges


def match_catalogs(accepted: Catalog, desired: Catalog) -> CatalogMatch:
    """Pair every type and property of the desired schema with the accepted one it continues."""
    types = {kind: _match_types(accepted, desired, kind) for kind in TypeKind}
    properties = {
        (kind, name): _match_properties(
            accepted, kind, types[kind].continues.get(name), declaration
        )
        for kind in TypeKind
        for name, declaration in list_declared(desired, kind).items()
    }
    return CatalogMatch(types, properties)


def list_stale_hints(match: CatalogMatch) -> Iterator[str]:
    """Say which hints of the desired schema are ignored because the name exists already."""
    for kind, types in match.types.items():
        yield from _list_ignored(types, f"{kind.noun} ", "")
    for (_, owner), properties in match.properties.items():
        yield from _list_ignored(properties, "property ", f"{owner}.")


def _list_ignored(matched: Matched, what: str, owner: str) -> Iterator[str]:
    for name, hint in matched.stale.items():
        text = f"@rename_from(\"{hint}\") is ignored: {what}'{owner}{name}' exists already"
        yield text + (f", and '{owner}{hint}' is dropped" if hint in matched.dropped else "")


def match_names(
    what: str,
    accepted: Collection[str],
    hints: Mapping[str, str | None],
    elsewhere: Callable[[str], str | None],
) -> Matched:
    """Pair desired names, each with its hint, with accepted ones; `elsewhere` explains a wrong place.

    Of two declarations that claim one accepted name the first by name continues it, the other is refused.
    """
    continues = {name: name for name in sorted(hints) if name in accepted}
    claimed = dict(continues)
    refused: dict[str, str] = {}
    for name in sorted(hints):
        hint = hints[name]
        if hint is None or name in accepted:
            continue
        if hint in claimed:
            refused[name] = f"cannot be renamed from '{hint}': {_claimed_by(hint, claimed[hint])}"
        elif hint not in accepted:
            cause = elsewhere(hint) or _unknown(what, hint, accepted)
            refused[name] = f"cannot be renamed from '{hint}': {cause}"
        else:
            continues[name], claimed[hint] = hint, name
    return Matched(
        continues=continues,
        added=tuple(sorted(hints.keys() - continues.keys() - refused.keys())),
        dropped=tuple(sorted(name for name in accepted if name not in claimed)),
        refused=refused,
        stale={name: hint for name in continues if name in accepted and (hint := hints[name])},
    )


def _claimed_by(hint: str, claimant: str) -> str:
    if claimant == hint:
        return f"the new schema still declares '{hint}'"
    return f"'{claimant}' is renamed from it already"


def _unknown(what: str, hint: str, accepted: Collection[str]) -> str:
    return f"no such {what} is accepted{suggestion(did_you_mean(hint, sorted(accepted)))}"


def _match_types(accepted: Catalog, desired: Catalog, kind: TypeKind) -> Matched:
    def other_kind(hint: str) -> str | None:
        for other in TypeKind:
            if other is not kind and hint in list_declared(accepted, other):
                return f"that is an accepted {other.noun}, and a rename keeps the kind"
        return None

    hints = {name: _hint(declaration) for name, declaration in list_declared(desired, kind).items()}
    return match_names(kind.noun, list_declared(accepted, kind), hints, other_kind)


def _hint(declaration: DeclaredType) -> str | None:
    """Return the rename hint of a type; an interface cannot carry one."""
    return None if isinstance(declaration, Interface) else declaration.rename_from


def _match_properties(
    accepted: Catalog, kind: TypeKind, old_name: str | None, declaration: DeclaredType
) -> Matched:
    """Pair the properties of a desired type with those of the accepted type it continues, if any."""
    if old_name is None:
        cause = f"{kind.noun} '{declaration.name}' is new, so that it had no properties before"
        return match_names("property", (), _property_hints(declaration, ()), lambda _: cause)
    old = list_declared(accepted, kind)[old_name].properties

    def other_owner(hint: str) -> str | None:
        for other in TypeKind:
            for owner, candidate in list_declared(accepted, other).items():
                if hint in candidate.properties:
                    return f"that is a property of {other.noun} '{owner}', and a rename keeps the owner"
        return None

    return match_names("property", old, _property_hints(declaration, old), other_owner)


def _property_hints(declaration: DeclaredType, old: Collection[str]) -> Mapping[str, str | None]:
    """Map each property of a type to the hint that concerns this type.

    An inherited hint speaks of its interface: it renames the column of a type that still has the old
    name, and says nothing about a type that never had it or has been renamed before.
    """
    return {
        name: property_.rename_from
        if not property_.inherited_from or (name not in old and property_.rename_from in old)
        else None
        for name, property_ in declaration.properties.items()
    }
