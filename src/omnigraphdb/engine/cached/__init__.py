"""What a handle caches between calls: compiled queries, columns, ids, fragment counts."""
