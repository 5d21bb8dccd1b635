"""A root on each kind of store."""

from pathlib import Path

import pytest

from omnigraph.storage.objects.protocol import Objects
from tests.support.s3 import Bucket
from tests.support.store_roots import StoreRoot

KINDS = ("local", "fsync", "fault", "memory", pytest.param("s3", marks=pytest.mark.s3))


@pytest.fixture(params=KINDS)
def store_root(request: pytest.FixtureRequest, tmp_path: Path) -> StoreRoot:
    """An empty root."""
    if request.param == "memory":
        return StoreRoot(kind="memory", uri=f"memory://{tmp_path.name}/graph")
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return StoreRoot(kind="s3", uri=f"{bucket.uri}/team/graph", options=bucket.storage_options)
    return StoreRoot(kind=request.param, uri=str(tmp_path / "graph"))


@pytest.fixture
def objects(store_root: StoreRoot) -> Objects:
    """The texts of the root."""
    return store_root.open()
