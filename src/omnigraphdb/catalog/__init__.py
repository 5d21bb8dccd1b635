"""What a schema means: types, tables, constraints, identities, and how one becomes the next."""
