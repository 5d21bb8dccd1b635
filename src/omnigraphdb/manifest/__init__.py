"""The visible state of a graph: the manifest, its snapshots, its lineage, its branches, and the only way to change it."""
