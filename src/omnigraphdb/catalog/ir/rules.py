"""Rules of a stored contract: identities used once, references that lead somewhere, safe paths."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from omnigraphdb.catalog.ir.decode import make_contract_error
from omnigraphdb.catalog.model import Catalog, EdgeType, Interface, NodeType
from omnigraphdb.catalog.names import EDGE_ENDS, StoredTable, list_taken_columns
from omnigraphdb.errors import shorten
from omnigraphdb.ids import TableKey

IR_FILE = "the schema contract"

_DOMAIN = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_PATH = re.compile(r"(nodes|edges)/[0-9a-f]{16}(-([2-9]|[1-9][0-9]{1,8}))?")
_TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
_PROPERTY_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_TABLE_KEY = re.compile(r"(node|edge):[A-Z][A-Za-z0-9_]*")


def check_domain(domain: str) -> None:
    """Refuse an identity domain that is not a ULID in its canonical spelling."""
    if not _DOMAIN.fullmatch(domain):
        raise make_contract_error(
            IR_FILE, f"has the identity domain '{shorten(domain)}', which is not a ULID"
        )


def check_identities(catalog: Catalog, next_identity_id: int) -> None:
    """Refuse identities that are not positive, not unique, or not below the next one."""
    seen: set[int] = set()
    for where, identity in _identities(catalog):
        if identity is None or identity < 1:
            raise make_contract_error(
                IR_FILE, f"gives {where} the identity {identity}, which is not positive"
            )
        if identity in seen:
            raise make_contract_error(
                IR_FILE, f"gives {where} the identity {identity}, which is in use already"
            )
        seen.add(identity)
    if next_identity_id <= max(seen, default=0):
        raise make_contract_error(
            IR_FILE, f"would deal {next_identity_id} next, and {max(seen, default=0)} is in use"
        )


def _identities(catalog: Catalog) -> Iterator[tuple[str, int | None]]:
    for where, type_ in _types(catalog):
        yield where, type_.type_id
        if not isinstance(type_, Interface):
            yield f"the table of {where}", type_.incarnation_id
        for name, property_ in type_.properties.items():
            yield f"'{type_.name}.{name}'", property_.property_id


def _types(catalog: Catalog) -> Iterator[tuple[str, Interface | NodeType | EdgeType]]:
    yield from (
        (f"interface '{name}'", interface) for name, interface in catalog.interfaces.items()
    )
    yield from ((f"node '{name}'", node) for name, node in catalog.nodes.items())
    yield from ((f"edge '{name}'", edge) for name, edge in catalog.edges.items())


def check_stored_tables(
    tables: Collection[TableKey],
    stored_tables: Mapping[TableKey, StoredTable],
    retired: Mapping[TableKey, int],
) -> None:
    """Refuse paths that no table can have, and incarnations that contradict one another."""
    if set(tables) != stored_tables.keys():
        raise make_contract_error(IR_FILE, "does not give every table, and nothing else, a path")
    paths: set[str] = set()
    for key, stored in stored_tables.items():
        directory = "nodes" if key.startswith("node:") else "edges"
        if not _PATH.fullmatch(stored.path) or not stored.path.startswith(f"{directory}/"):
            raise make_contract_error(
                IR_FILE, f"places {key} at '{shorten(stored.path)}', which is not a table path"
            )
        if stored.path in paths:
            raise make_contract_error(IR_FILE, f"places two tables at '{stored.path}'")
        if stored.incarnation < 1:
            raise make_contract_error(
                IR_FILE, f"counts incarnation {stored.incarnation} of {key}, which is not positive"
            )
        paths.add(stored.path)
    for key, incarnations in retired.items():
        if not _TABLE_KEY.fullmatch(key) or key in stored_tables or incarnations < 1:
            raise make_contract_error(
                IR_FILE, f"counts {incarnations} past lives of '{shorten(key)}', which cannot be"
            )


def check_references(catalog: Catalog) -> None:
    """Refuse malformed names, reserved columns, and references that lead nowhere."""
    for where, type_ in _types(catalog):
        _check_names(where, type_)
        _check_columns(where, type_)
        if isinstance(type_, EdgeType):
            for end in (type_.source, type_.target):
                if end not in catalog.nodes:
                    raise make_contract_error(
                        IR_FILE, f"lets {where} name '{shorten(end)}', which is not a node"
                    )
        if isinstance(type_, NodeType):
            _check_interfaces(where, type_, catalog)


def _check_names(where: str, type_: Interface | NodeType | EdgeType) -> None:
    if not _TYPE_NAME.fullmatch(type_.name):
        raise make_contract_error(IR_FILE, f"declares {where}, which is not a type name")
    reserved_columns = list_taken_columns(on_edge=isinstance(type_, EdgeType))
    for name in type_.properties:
        if name in reserved_columns:
            raise make_contract_error(
                IR_FILE, f"gives {where} the property '{name}', a reserved column"
            )
        if not _PROPERTY_NAME.fullmatch(name):
            raise make_contract_error(
                IR_FILE, f"gives {where} the property '{shorten(name)}', which is not a name"
            )


def _check_columns(where: str, type_: Interface | NodeType | EdgeType) -> None:
    ends = EDGE_ENDS if isinstance(type_, EdgeType) else ()
    for column in _columns(type_):
        if column not in type_.properties and column not in ends:
            raise make_contract_error(
                IR_FILE, f"lets {where} refer to '{shorten(column)}', which it lacks"
            )


def _columns(type_: Interface | NodeType | EdgeType) -> Iterable[str]:
    groups = [*type_.unique, *type_.indices]
    if not isinstance(type_, EdgeType) and type_.key:
        groups.append(type_.key)
    columns = [column for group in groups for column in group.columns]
    if isinstance(type_, NodeType):
        columns += [bounds.property for bounds in type_.ranges]
        columns += [check.property for check in type_.checks]
    columns += [
        property_.embed.source for property_ in type_.properties.values() if property_.embed
    ]
    return columns


def _check_interfaces(where: str, node: NodeType, catalog: Catalog) -> None:
    for name in node.implements:
        interface = catalog.interfaces.get(name)
        if interface is None:
            raise make_contract_error(
                IR_FILE, f"lets {where} implement '{shorten(name)}', which it lacks"
            )
        for promised in interface.properties.values():
            own = node.properties.get(promised.name)
            if own is None or own.type != promised.type:
                raise make_contract_error(
                    IR_FILE, f"does not link '{name}.{promised.name}' to a property of {where}"
                )
            if own.inherited_from and name not in own.inherited_from:
                raise make_contract_error(
                    IR_FILE, f"does not link '{node.name}.{promised.name}' to interface '{name}'"
                )
