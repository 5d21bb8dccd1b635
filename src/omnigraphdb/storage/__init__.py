"""The only code that imports Lance or the object store: texts, tables, keyed rows and locks."""
