"""What a stored contract must keep: identities used once, references that lead somewhere, safe paths."""

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
            IR_FILE, f"has the identity domain '{shorten(domain)}', which is no ULID"
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
    for where, found in _types(catalog):
        yield where, found.type_id
        if not isinstance(found, Interface):
            yield f"the table of {where}", found.incarnation_id
        for name, one in found.properties.items():
            yield f"'{found.name}.{name}'", one.property_id


def _types(catalog: Catalog) -> Iterator[tuple[str, Interface | NodeType | EdgeType]]:
    yield from ((f"interface '{name}'", found) for name, found in catalog.interfaces.items())
    yield from ((f"node '{name}'", found) for name, found in catalog.nodes.items())
    yield from ((f"edge '{name}'", found) for name, found in catalog.edges.items())


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
                IR_FILE, f"places {key} at '{shorten(stored.path)}', which is no table path"
            )
        if stored.path in paths:
            raise make_contract_error(IR_FILE, f"places two tables at '{stored.path}'")
        if stored.incarnation < 1:
            raise make_contract_error(
                IR_FILE, f"counts incarnation {stored.incarnation} of {key}, which is not positive"
            )
        paths.add(stored.path)
    for key, lives in retired.items():
        if not _TABLE_KEY.fullmatch(key) or key in stored_tables or lives < 1:
            raise make_contract_error(
                IR_FILE, f"counts {lives} past lives of '{shorten(key)}', which cannot be"
            )


def check_references(catalog: Catalog) -> None:
    """Refuse names that are none, columns that are taken, and references that lead nowhere."""
    for where, found in _types(catalog):
        _check_names(where, found)
        _check_columns(where, found)
        if isinstance(found, EdgeType):
            for end in (found.source, found.target):
                if end not in catalog.nodes:
                    raise make_contract_error(
                        IR_FILE, f"lets {where} name '{shorten(end)}', which is no node"
                    )
        if isinstance(found, NodeType):
            _check_interfaces(where, found, catalog)


def _check_names(where: str, found: Interface | NodeType | EdgeType) -> None:
    if not _TYPE_NAME.fullmatch(found.name):
        raise make_contract_error(IR_FILE, f"declares {where}, which is no type name")
    taken = list_taken_columns(on_edge=isinstance(found, EdgeType))
    for name in found.properties:
        if name in taken:
            raise make_contract_error(
                IR_FILE, f"gives {where} the property '{name}', a reserved column"
            )
        if not _PROPERTY_NAME.fullmatch(name):
            raise make_contract_error(
                IR_FILE, f"gives {where} the property '{shorten(name)}', which is no name"
            )


def _check_columns(where: str, found: Interface | NodeType | EdgeType) -> None:
    ends = EDGE_ENDS if isinstance(found, EdgeType) else ()
    for column in _columns(found):
        if column not in found.properties and column not in ends:
            raise make_contract_error(
                IR_FILE, f"lets {where} refer to '{shorten(column)}', which it lacks"
            )


def _columns(found: Interface | NodeType | EdgeType) -> Iterable[str]:
    groups = [*found.unique, *found.indices]
    if not isinstance(found, EdgeType) and found.key:
        groups.append(found.key)
    columns = [column for group in groups for column in group.columns]
    if isinstance(found, NodeType):
        columns += [bounds.property for bounds in found.ranges]
        columns += [check.property for check in found.checks]
    columns += [one.embed.source for one in found.properties.values() if one.embed]
    return columns


def _check_interfaces(where: str, node: NodeType, catalog: Catalog) -> None:
    for name in node.implements:
        interface = catalog.interfaces.get(name)
        if interface is None:
            raise make_contract_error(
                IR_FILE, f"lets {where} implement '{shorten(name)}', which it lacks"
            )
        for asked in interface.properties.values():
            own = node.properties.get(asked.name)
            if own is None or own.type != asked.type:
                raise make_contract_error(
                    IR_FILE, f"does not link '{name}.{asked.name}' to a property of {where}"
                )
            if own.inherited_from and name not in own.inherited_from:
                raise make_contract_error(
                    IR_FILE, f"does not link '{node.name}.{asked.name}' to interface '{name}'"
                )
