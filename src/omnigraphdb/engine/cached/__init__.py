"""The caches of a handle between calls: compiled queries, columns, ids, fragment counts."""
