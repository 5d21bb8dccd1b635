"""A root on each kind of store."""

from pathlib import Path

import pytest

from omnigraphdb.storage.objects.protocol import Objects
from tests.support.s3 import Bucket
from tests.support.store_roots import StoreRoot

KINDS = ("local", "fsync", "fault", "memory", pytest.param("s3", marks=pytest.mark.s3))


def make_root(request: pytest.FixtureRequest, tmp_path: Path) -> StoreRoot:
    """Make an empty root of the kind that a fixture is parametrised with."""
    if request.param == "simulated":
        return StoreRoot(kind="simulated", uri=f"s3://{tmp_path.name}/graph")
    if request.param == "memory":
        return StoreRoot(kind="memory", uri=f"memory://{tmp_path.name}/graph")
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return StoreRoot(kind="s3", uri=f"{bucket.uri}/team/graph", options=bucket.storage_options)
    return StoreRoot(kind=request.param, uri=str(tmp_path / "graph"))


@pytest.fixture(params=KINDS)
def store_root(request: pytest.FixtureRequest, tmp_path: Path) -> StoreRoot:
    """An empty root."""
    return make_root(request, tmp_path)


@pytest.fixture
def objects(store_root: StoreRoot) -> Objects:
    """The texts of the root."""
    return store_root.open()
