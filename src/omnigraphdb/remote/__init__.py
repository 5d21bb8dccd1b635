"""A client of a server, with the methods of `Graph` where they make sense."""
