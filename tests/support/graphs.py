"""A small graph on disk, made through the first moments of a graph; also a program, for tests that kill it."""

import sys

from omnigraphdb.catalog.ir.contract import create_contract
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.manifest.accepted_schema import AcceptedSchema
from omnigraphdb.manifest.genesis import initialise
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.store import Store, open_store
from tests.support.manifests import StillRuntime

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
"""


def accepted(source: str = SCHEMA) -> AcceptedSchema:
    """Accept a schema as the first of a graph."""
    domain = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    return AcceptedSchema(source=source, contract=create_contract(compile_schema(source), domain))


def manifest_of(store: Store) -> Manifest:
    """A handle on the manifest of a root."""
    return Manifest(rows=store.manifest, runtime=StillRuntime())


def init(store: Store, source: str = SCHEMA, *, force: bool = False) -> BranchState:
    """Create a graph."""
    return initialise(
        store.objects,
        store.tables,
        manifest_of(store),
        lambda: accepted(source),
        uri=str(store.root),
        force=force,
    )


if __name__ == "__main__":
    init(open_store(sys.argv[1]))
