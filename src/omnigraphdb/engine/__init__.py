"""The verbs: opening, reading, writing, history."""
