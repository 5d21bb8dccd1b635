"""What a handle holds between calls: compiled queries, cached tables, known ids, fragment counts."""
