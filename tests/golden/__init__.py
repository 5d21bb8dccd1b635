"""A record of everything that users, programs and stored data see, and the comparison of the code with it."""
