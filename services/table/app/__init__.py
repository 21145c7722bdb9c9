"""The use cases: games that run in this replica, and what callers may do with any game."""
