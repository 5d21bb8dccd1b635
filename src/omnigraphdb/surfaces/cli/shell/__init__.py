"""The shell: queries, mutations and commands typed one after the other, on a terminal or from a pipe."""
