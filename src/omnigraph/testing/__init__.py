"""Tools that put a graph under stress; no other package imports them."""
