"""Tools that put a graph under stress; beside the surfaces, imported by nobody."""
