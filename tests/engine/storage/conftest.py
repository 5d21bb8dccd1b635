"""A place of each kind of store."""

from pathlib import Path

import pytest

from omnigraph.storage.objects.protocol import Objects
from tests.support.places import Place
from tests.support.s3 import Bucket

KINDS = ("local", "fsync", "fault", "memory", pytest.param("s3", marks=pytest.mark.s3))


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty root."""
    if request.param == "memory":
        return Place(kind="memory", uri=f"memory://{tmp_path.name}/graph")
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return Place(kind="s3", uri=f"{bucket.uri}/team/graph", options=bucket.storage_options)
    return Place(kind=request.param, uri=str(tmp_path / "graph"))


@pytest.fixture
def objects(place: Place) -> Objects:
    """The texts of the place."""
    return place.open()
