"""The accepted schema of a graph: its catalog with identities, and the paths of its tables."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import count
from typing import Any

from omnigraphdb.catalog.diff.codes import Code
from omnigraphdb.catalog.diff.matching import (
    CatalogMatch,
    DeclaredType,
    list_declared,
    match_catalogs,
)
from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.ir.decode import (
    JsonObject,
    StoredTables,
    load_object,
    make_contract_error,
    read_catalog,
)
from omnigraphdb.catalog.ir.encode import canonical, digest, encode, shape_hash
from omnigraphdb.catalog.ir.rules import (
    IR_FILE,
    check_domain,
    check_identities,
    check_references,
    check_stored_tables,
)
from omnigraphdb.catalog.model import Catalog, Property
from omnigraphdb.catalog.names import StoredTable, table_path
from omnigraphdb.errors import InternalError, UnsupportedSchemaChange
from omnigraphdb.ids import TableKey
from omnigraphdb.values import dataclass

IR_VERSION = 2

_TypeRef = tuple[TypeKind, str]
_PropertyRef = tuple[TypeKind, str, str]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """An accepted schema: every type and property has an identity, every table a path.

    `retired` counts the incarnations of table keys that no type has now, so that a name that is used again gets a
    new path and differs from its predecessor.
    """

    domain: str
    next_identity_id: int
    catalog: Catalog
    stored_tables: Mapping[TableKey, StoredTable]
    retired: Mapping[TableKey, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_domain(self.domain)
        check_references(self.catalog)
        check_identities(self.catalog, self.next_identity_id)
        check_stored_tables(self.catalog.tables, self.stored_tables, self.retired)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The schema IR as a JSON document."""
        retired = {key: self.retired[key] for key in sorted(self.retired)}
        return {
            "ir_version": IR_VERSION,
            "identity_domain": self.domain,
            "next_identity_id": self.next_identity_id,
            **encode(self.catalog, self.stored_tables),
            **({"retired": retired} if retired else {}),
        }

    @cached_property
    def shape_hash(self) -> str:
        """The hash of the meaning of the schema."""
        return shape_hash(self.catalog)

    @cached_property
    def ir_hash(self) -> str:
        """The hash of the whole IR, identities included."""
        return digest(self.document)

    def to_json(self) -> str:
        """Write the text of the IR file."""
        return json.dumps(self.document, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Contract":
        """Read the text of an IR file; anything but a contract in canonical form is refused."""
        document = load_object(text, IR_FILE)
        version = document.whole("ir_version")
        if version != IR_VERSION:
            raise make_contract_error(
                IR_FILE, f"has version {version}, this release reads {IR_VERSION}"
            )
        stored_tables: StoredTables = {}
        contract = cls(
            domain=document.text("identity_domain"),
            next_identity_id=document.whole("next_identity_id"),
            catalog=read_catalog(document, stored_tables),
            stored_tables=stored_tables,
            retired=_read_retired(document),
        )
        document.done()
        if canonical(document.values) != canonical(contract.document):
            raise make_contract_error(
                IR_FILE, "is not in canonical form: something is unsorted or doubled"
            )
        return contract


def _read_retired(document: JsonObject) -> dict[TableKey, int]:
    counts = document.object("retired")
    return {TableKey(key): counts.whole(key) for key in counts.values} if counts else {}


# ---- from one contract to the next


def create_contract(desired: Catalog, domain: str) -> Contract:
    """Accept the first schema of a graph; its rename hints have nothing to continue."""
    empty = Contract(domain=domain, next_identity_id=1, catalog=Catalog(), stored_tables={})
    return advance(empty, without_hints(desired))


def match(accepted: Contract, desired: Catalog) -> CatalogMatch:
    """Say for each desired declaration which accepted one it continues, and which hints are unusable."""
    return match_catalogs(accepted.catalog, desired)


def advance(accepted: Contract, desired: Catalog) -> Contract:
    """Accept the next schema of a graph: a continued declaration keeps its identity, the rest gets new ones."""
    matched = match(accepted, desired)
    _refuse_hints(matched)
    numbers = count(accepted.next_identity_id)
    identities = _assign_identities(accepted.catalog, desired, matched, numbers)
    stored_tables = _assign_paths(accepted, desired, matched)
    return Contract(
        domain=accepted.domain,
        next_identity_id=next(numbers),
        catalog=without_hints(_fill_identities(desired, identities)),
        stored_tables=stored_tables,
        retired={
            key: n
            for key, n in _table_history(accepted, desired).items()
            if key not in stored_tables
        },
    )


def bind(catalog: Catalog, contract: Contract) -> Catalog:
    """Give a catalog the identities of the contract that accepted it."""
    if shape_hash(catalog) != contract.shape_hash:
        raise make_contract_error(
            "the catalog", "is not the one that was accepted, so it has no identities"
        )
    matched = match_catalogs(contract.catalog, without_hints(catalog))
    return _fill_identities(
        catalog, _assign_identities(contract.catalog, catalog, matched, iter(()))
    )


def _refuse_hints(matched: CatalogMatch) -> None:
    refused = [
        (f"{kind}:{name}", why)
        for kind, types in matched.types.items()
        for name, why in types.refused.items()
    ]
    refused += [
        (f"{kind}:{owner}.{name}", why)
        for (kind, owner), properties in matched.properties.items()
        for name, why in properties.refused.items()
    ]
    if refused:
        entity, why = refused[0]
        raise UnsupportedSchemaChange(
            f"[{Code.UNUSABLE_HINT}] {entity} {why}; no changes were made",
            details={"unsupported_changes": [{"entity": e, "reason": w} for e, w in refused]},
            hint="name a declaration of the accepted schema, or remove @rename_from",
            code=str(Code.UNUSABLE_HINT),
        )


# ---- identities


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identities:
    types: Mapping[_TypeRef, int]
    properties: Mapping[_PropertyRef, int]
    incarnations: Mapping[_TypeRef, int]


def _assign_identities(
    accepted: Catalog, desired: Catalog, matched: CatalogMatch, numbers: Iterator[int]
) -> _Identities:
    """Keep the identities of continued declarations; deal new ones to types, properties, then tables."""
    types = {
        (kind, name): _keep_identity(
            _find_continued(accepted, matched, kind, name), "type_id", numbers
        )
        for kind in TypeKind
        for name in sorted(list_declared(desired, kind))
    }
    by_id = sorted(types, key=types.__getitem__)
    properties: dict[_PropertyRef, int] = {}
    for kind, name in by_id:
        old = _find_continued(accepted, matched, kind, name)
        pairs = matched.properties[kind, name].continues
        for property_name in sorted(list_declared(desired, kind)[name].properties):
            before = (
                old.properties[pairs[property_name]]
                if old is not None and property_name in pairs
                else None
            )
            properties[kind, name, property_name] = _keep_identity(before, "property_id", numbers)
    incarnations: dict[_TypeRef, int] = {
        (kind, name): _keep_identity(
            _find_continued(accepted, matched, kind, name), "incarnation_id", numbers
        )
        for kind, name in by_id
        if kind is not TypeKind.INTERFACE
    }
    return _Identities(types=types, properties=properties, incarnations=incarnations)


def _find_continued(
    accepted: Catalog, matched: CatalogMatch, kind: TypeKind, name: str
) -> DeclaredType | None:
    before = matched.types[kind].continues.get(name)
    return None if before is None else list_declared(accepted, kind)[before]


def _keep_identity(
    before: DeclaredType | Property | None, attribute: str, numbers: Iterator[int]
) -> int:
    """Return the identity of a continued declaration, else the next number."""
    identity: int | None = next(numbers, None) if before is None else getattr(before, attribute)
    if identity is None:
        raise InternalError("an accepted declaration has no identity; no changes were made")
    return identity


def _fill_identities(catalog: Catalog, identities: _Identities) -> Catalog:
    """Return the catalog with its identities filled in."""

    def properties(
        kind: TypeKind, owner: str, members: Mapping[str, Property]
    ) -> dict[str, Property]:
        ids = identities.properties
        return {
            n: replace(property_, property_id=ids[kind, owner, n])
            for n, property_ in members.items()
        }

    def filled(kind: TypeKind, declaration: Any) -> Any:
        ids: dict[str, Any] = {"type_id": identities.types[kind, declaration.name]}
        if kind is not TypeKind.INTERFACE:
            ids["incarnation_id"] = identities.incarnations[kind, declaration.name]
        return replace(
            declaration,
            properties=properties(kind, declaration.name, declaration.properties),
            **ids,
        )

    return _change_declarations(catalog, filled)


def _change_declarations(catalog: Catalog, change: Callable[[TypeKind, Any], Any]) -> Catalog:
    """Return the catalog with every declaration changed."""

    def changed(kind: TypeKind) -> dict[str, Any]:
        return {
            name: change(kind, declaration)
            for name, declaration in list_declared(catalog, kind).items()
        }

    return Catalog(
        interfaces=changed(TypeKind.INTERFACE),
        nodes=changed(TypeKind.NODE),
        edges=changed(TypeKind.EDGE),
    )


def without_hints(catalog: Catalog) -> Catalog:
    """Return the catalog without rename hints, which are not part of the meaning of a schema."""

    def plain(kind: TypeKind, declaration: Any) -> Any:
        properties = {
            n: replace(property_, rename_from=None)
            for n, property_ in declaration.properties.items()
        }
        head = {} if kind is TypeKind.INTERFACE else {"rename_from": None}
        return replace(declaration, properties=properties, **head)

    return _change_declarations(catalog, plain)


# ---- paths


def _table_history(accepted: Contract, desired: Catalog) -> dict[TableKey, int]:
    """Count the incarnations of each table key that no type has any more."""
    ended = {
        key: stored for key, stored in accepted.stored_tables.items() if key not in desired.tables
    }
    return {**accepted.retired, **{key: stored.incarnation for key, stored in ended.items()}}


def _assign_paths(accepted: Contract, desired: Catalog, matched: CatalogMatch) -> StoredTables:
    """Assign a path to every table: its present one, or a path that no table of its name has had."""
    ended = _table_history(accepted, desired)
    used_paths = {stored.path for stored in accepted.stored_tables.values()}
    stored_tables: StoredTables = {}
    for kind in (TypeKind.NODE, TypeKind.EDGE):
        for name in sorted(list_declared(desired, kind)):
            key = TableKey(f"{kind}:{name}")
            before = matched.types[kind].continues.get(name)
            if before is None:
                stored_tables[key] = _make_stored_table(key, ended.get(key, 0) + 1, used_paths)
            else:
                stored = accepted.stored_tables[TableKey(f"{kind}:{before}")]
                # A name with earlier incarnations keeps counting them under its new owner.
                own = stored.incarnation if before == name else ended.get(key, 0) + 1
                stored_tables[key] = StoredTable(stored.path, max(stored.incarnation, own))
    return stored_tables


def _make_stored_table(key: TableKey, incarnation: int, used_paths: set[str]) -> StoredTable:
    while (path := table_path(key, incarnation)) in used_paths:
        incarnation += 1
    used_paths.add(path)
    return StoredTable(path, incarnation)
