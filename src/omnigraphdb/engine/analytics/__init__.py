"""Algorithms over one projection of a snapshot: integer arrays in, one value per node out; loading this loads scipy."""

from omnigraphdb.packages import load_package

load_package("scipy", "a graph algorithm", state="nothing was computed")
