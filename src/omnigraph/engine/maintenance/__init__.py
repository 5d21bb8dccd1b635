"""Maintenance: looking after a graph that is in use."""
