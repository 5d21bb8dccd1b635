"""A small harbour to read from."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.read_world import World

SCHEMA = """
node Port { code: String @key  name: String  lat: F64?  depth: I32? @index }
node Vessel {
  imo: String @key
  name: String @index
  kind: enum(bulk, tanker, roro)? @index
  built: Date?
  seen: DateTime? @index
  dwt: I64? @index
  serial: U64?
  draft: F32?
  active: Bool?
  tags: [String]?
}
edge Feeds: Port -> Port { weight: I32? }
edge CallsAt: Vessel -> Port { berth: String? }
"""

PORTS: list[dict[str, Any]] = [
    {"id": "BEANR", "code": "BEANR", "name": "Antwerp", "lat": 51.2, "depth": 16},
    {"id": "DEHAM", "code": "DEHAM", "name": "Hamburg", "lat": None, "depth": 15},
    {"id": "FRLEH", "code": "FRLEH", "name": "Le Havre", "lat": 49.5, "depth": None},
    {"id": "NLRTM", "code": "NLRTM", "name": "Rotterdam", "lat": 51.9, "depth": 24},
]
FEEDS = [
    {"id": "f1", "src": "NLRTM", "dst": "BEANR", "weight": 5},
    {"id": "f2", "src": "NLRTM", "dst": "DEHAM", "weight": 9},
    {"id": "f3", "src": "BEANR", "dst": "DEHAM", "weight": 2},
    {"id": "f4", "src": "DEHAM", "dst": "NLRTM", "weight": 1},
    {"id": "f5", "src": "FRLEH", "dst": "FRLEH", "weight": 7},
]


@pytest.fixture
def harbour() -> Iterator[World]:
    """Ports and their feeders; no vessel yet."""
    world = World.of(SCHEMA)
    world.append("Port", PORTS)
    world.append("Feeds", FEEDS)
    yield world
    world.close()


FEEDERS = (
    "query q() { match { $p: Port  $p feeds $q } return { $p, $q } order { $p.code, $q.code } }"
)
