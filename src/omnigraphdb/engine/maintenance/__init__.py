"""Maintenance of a graph: indexes, compaction, cleanup, repair, examination."""
