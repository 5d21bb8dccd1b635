"""What the server of child processes imports before it forks: everything that can be had without opening a table."""

import warnings

import omnigraphdb.api.graph  # noqa: F401 - imported for what it imports
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source
from tests.support import story

# Lance says so at every fork; here it has not been used yet.
warnings.filterwarnings("ignore", message="lance is not fork-safe")

# The grammars are built on first use, which costs a child more than its work does.
compile_schema(story.SCHEMA)
parse_queries(Source("query q() { match { $p: Person } return { $p } }"))
