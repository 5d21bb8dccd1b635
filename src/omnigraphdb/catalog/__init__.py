"""The meaning of a schema: types, tables, constraints, identities, and the steps from one schema to the next."""
