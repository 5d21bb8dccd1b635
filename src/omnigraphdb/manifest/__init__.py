"""What is visible: the manifest, its snapshots, its lineage, its branches, and the one way to change it."""
