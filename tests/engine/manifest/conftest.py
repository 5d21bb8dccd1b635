"""A manifest on every implementation of keyed rows."""

from pathlib import Path

import pytest

from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import KEY
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.rows import Rows
from omnigraphdb.storage.store import Store, open_store
from tests.simulation.rows import make_lone_rows
from tests.support.manifests import FakeForks, new_manifest
from tests.support.old_graphs import MakeRows


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty graph root on disk."""
    return open_store(tmp_path / "graph")


@pytest.fixture(params=["memory", "lance"])
def make_rows(request: pytest.FixtureRequest, store: Store) -> MakeRows:
    """Makes rows that do not exist yet."""
    return make_lone_rows if request.param == "memory" else store.keyed_rows


@pytest.fixture
def rows(make_rows: MakeRows) -> Rows:
    """The rows of a manifest that does not exist yet."""
    return make_rows(MANIFEST, KEY)


@pytest.fixture
def manifest(rows: Rows) -> Manifest:
    """A graph of two empty tables."""
    return new_manifest(rows)


@pytest.fixture
def tables() -> FakeForks:
    """The Lance branches of tables that are nothing but names."""
    return FakeForks()
