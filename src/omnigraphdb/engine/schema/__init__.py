"""Schema changes: planned, then applied as one commit."""
