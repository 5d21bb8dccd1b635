"""What the server of child processes imports before it forks: everything that can be had without opening a table."""

import warnings

import omnigraph.api.graph  # noqa: F401 - imported for what it imports
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.language.query.parse import parse_queries
from omnigraph.language.source import Source

# Lance says so at every fork; here it has not been used yet.
warnings.filterwarnings("ignore", message="lance is not fork-safe")

# The grammars are built on first use, which costs a child more than its work does.
compile_schema("node Person { k: String @key }")
parse_queries(Source("query q() { match { $p: Person } return { $p } }"))
